"""The vgpu command. Each subcommand is a module, imported only when it is needed."""

import importlib
from typing import Any

import click

from pysched import VERSION

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group that knows its commands' one-line help without importing them.

    ``lazy`` maps a name to (module, one-line help); the module has an attribute ``command``.
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _ = self.lazy[cmd_name]
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    context_settings=SETTINGS,
    lazy={
        "config": ("pysched.cli.config", "Generate and check the configuration of the cluster."),
        "place": ("pysched.cli.place", "Show which GPUs of a machine a step would get."),
        "policy": ("pysched.cli.policy", "Change how a running job shares GPU time."),
        "ps": ("pysched.cli.ps", "Show the vGPUs that are bound on this node."),
        "topo": ("pysched.cli.topo", "Show how the GPUs of a node are linked."),
    },
)
@click.version_option(VERSION, prog_name="vgpu")
def main() -> None:
    """Fractional GPUs for Slurm."""
