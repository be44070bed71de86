"""From the layout to the text of the files, through templates that a site may override."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import jinja2

from gres import lines
from gres.layout import Group, Layout
from pysched import hosts, paths, sizes

# file -> template
FILES = {
    "gres.conf": "gres.conf.j2",
    "slurm-vgpu.conf": "slurm.conf.j2",
    "vgpu.conf": "vgpu.conf.j2",
    "plugstack.conf.d/vgpu.conf": "plugstack.conf.j2",
    "vgpu-hints/tmpfiles.conf": "tmpfiles.conf.j2",
    "vgpu-hints/cgroup.conf": "cgroup.conf.j2",
    "vgpu-hints/job_submit.lua": "job_submit.lua.j2",
}
_SHIPPED = Path(__file__).with_name("templates")


class TemplateError(Exception):
    """A site's template cannot be used: which, where, why."""


def render(
    layout: Layout, release: str | None = None, templates: Path | None = None
) -> dict[str, str]:
    """File name -> text, for a release of Slurm.

    Templates in the site's folder come before ours.
    """
    folders = [str(folder) for folder in (templates, _SHIPPED) if folder]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["size"] = sizes.format_size
    values = context(layout, release)
    return {name: _render(environment, template, values) for name, template in FILES.items()}


def _render(environment: jinja2.Environment, template: str, values: Mapping[str, Any]) -> str:
    try:
        return environment.get_template(template).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{error.filename}:{error.lineno}: {error.message}") from None
    except jinja2.TemplateError as error:
        raise TemplateError(f"template {template}: {error.message}") from None


def context(layout: Layout, release: str | None) -> dict[str, Any]:
    """What templates may use. docs/plan.md lists it for sites."""
    cluster = layout.plan.cluster
    names = sorted({name for group in layout.groups for name in group.layout.gres_names()})
    bridge = ["lua"] if cluster.submit_bridge else []
    tres = [f"gres/{name}" for name in [*names, *layout.gres()]]
    return {
        "cluster": cluster,
        "types": layout.types(),
        "workloads": layout.plan.workloads,
        "bursts": layout.plan.bursts,
        "groups": [_group(group, release) for group in layout.groups],
        "gres_types": _union(cluster.gres_types, names),
        "accounting_tres": _union(cluster.accounting_tres, tres),
        "job_submit_plugins": _union(cluster.job_submit_plugins, bridge),
        "weights": billing_weights(layout),
        "pkglibdir": str(paths.PKGLIBDIR),
        "datadir": str(paths.DATADIR),
        "default_runtime_dir": str(paths.RUNTIME_DIR),
    }


def _group(group: Group, release: str | None) -> dict[str, Any]:
    layout = group.layout
    host_lines = hosts.collect_lines(group.names)
    return {
        "names": group.names,
        "hosts": ",".join(host_lines),
        "host_lines": host_lines,
        "summary": summary(group),
        "gres_lines": lines.gres_conf(layout, release),
        "vgpu_lines": lines.vgpu_conf(layout),
        "slurm": " ".join(f"{name}={value}" for name, value in layout.slurm),
        "gres": gres_string(group),
        "features": ",".join(layout.features),
    }


def gres_string(group: Group) -> str:
    """The value of ``Gres=`` on the group's NodeName line."""
    return ",".join(f"{name}:{count}" for name, count in group.layout.gres().items())


def summary(group: Group) -> str:
    """One line about the group: how many nodes, which GPUs."""
    cards: dict[str, int] = {}
    for gpu in group.layout.gpus:
        cards[gpu.card.name] = cards.get(gpu.card.name, 0) + 1
    nodes = len(group.names)
    gpus = " + ".join(f"{count} x {name}" for name, count in sorted(cards.items()))
    return f"{nodes} node{'s' if nodes > 1 else ''} with {gpus}"


def billing_weights(layout: Layout) -> list[str]:
    """``GRES/vgpu:TYPE=WEIGHT``: of cluster.billing, the share of a card's SMs that is guaranteed.

    A type on cards of different size has one weight in Slurm: that of its largest share.
    """
    billing = layout.plan.cluster.billing
    if not billing:
        return []
    shares: dict[str, Fraction] = {}
    for group in layout.groups:
        for gpu in group.layout.gpus:
            for vgpu_type, _ in gpu.vgpus:
                share = Fraction(vgpu_type.sms, gpu.card.sms)
                name = f"vgpu:{vgpu_type.name}"
                shares[name] = max(share, shares.get(name, share))
            if gpu.whole or gpu.shards:
                shares[f"gpu:{gpu.card.name}"] = Fraction(1)
    names = sorted(shares)
    return [f"GRES/{name}={float(billing * shares[name]):.4g}" for name in names]


def _union(first: tuple[str, ...], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))
