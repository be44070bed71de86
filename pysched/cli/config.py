"""vgpu config: the commands around the plan."""

import click

from pysched.cli.main import SETTINGS, LazyGroup


@click.group(
    cls=LazyGroup,
    context_settings=SETTINGS,
    lazy={
        "check": ("pysched.cli.config_check", "Compare the plan with files, Slurm and hardware."),
        "diff": ("pysched.cli.config_diff", "Show what a new plan changes, and the steps to it."),
        "generate": ("pysched.cli.config_generate", "Write Slurm's configuration from a plan."),
        "init": ("pysched.cli.config_init", "Write a first plan from the GPUs that are there."),
    },
)
def command() -> None:
    """Generate and check the configuration of the cluster."""
