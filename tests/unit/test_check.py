"""Findings of vgpu config check that need no cluster: files and hardware as they might be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gres import elf, layout, planfile, release, render
from gres.check import run, state
from gres.check.controller import Controller, ControllerError, Node
from gres.check.finding import Finding, merged
from gres.sources.machine import Gpu, Machine, SourceError
from pysched import paths

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
PLAN = f"""\
version: 1
cards:
  a100: {{memory: 40GiB, reserve: 1GiB, sms: 108}}
types:
  big: {{memory: 19GiB, sms: 54}}
nodes:
  - names: n1
    slurm: {{Sockets: 2, CoresPerSocket: 16}}
    nvlink: {{0-1: 12}}
    gpus:
      - {{gpu: 0, card: a100, uuid: {UUID}, vgpus: {{big: 2}}}}
      - {{gpu: 1, card: a100, vgpus: {{big: 2}}}}
cluster: {{accounting: true}}
"""
CARD = Gpu(0, "NVIDIA A100", UUID, 40 << 30, 0, 108, compute_mode="default", persistence=True)
MACHINE = Machine(
    "n1",
    "a test",
    (CARD, replace(CARD, minor=1, uuid="GPU-1")),
    driver="580.65.06",
)
MACHINE = replace(MACHINE, nvlink=planfile.parse(PLAN.encode()).nodes[0].nvlink)

Check = Callable[..., list[Finding]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Install what the plan says, spoil it, and check it as on n1 with this hardware."""
    etc, library, slots = tmp_path / "etc", tmp_path / "lib", tmp_path / "slots"
    for folder in (etc, library, slots):
        folder.mkdir()
    for name in ("gres_vgpu.so", "spank_vgpu.so", *map(str, range(4))):
        (slots / name).touch()
    monkeypatch.setattr(paths, "PKGLIBDIR", library)
    monkeypatch.setattr(paths, "SLOTS_DIR", slots)
    monkeypatch.setattr("gres.check.node._PLUGIN", slots / "gres_vgpu.so")
    monkeypatch.setattr("gres.check.node._SPANK", slots / "spank_vgpu.so")
    monkeypatch.setattr("gres.elf.plugin_version", lambda _: "22.05.8")
    monkeypatch.setattr("gres.release.installed_version", lambda: "22.05.8")
    text = PLAN.replace("accounting: true", f"accounting: true, plugin_dir: {library}")
    files = render.render(layout.build(planfile.parse(text.encode())), "22.05")
    for name, content in files.items():
        (etc / name).parent.mkdir(exist_ok=True)
        (etc / name).write_text(content)
    (etc / "slurm.conf").write_text("include slurm-vgpu.conf\n")
    (etc / "plugstack.conf").write_text("include plugstack.conf.d/*.conf\n")

    def checked(
        machine: Machine | SourceError = MACHINE,
        *,
        spoil: Callable[[Path], None] = lambda etc: None,
        plan: str = text,
        controller: Controller | ControllerError | None = None,
    ) -> list[Finding]:
        spoil(etc)
        monkeypatch.setattr("gres.sources.live.read", lambda node: _or_raise(machine))
        monkeypatch.setattr("gres.check.controller.ask", lambda: _or_raise(controller))
        built = layout.build(planfile.parse(plan.encode()))
        return run.run(state.gather(built, etc, "n1", ask_slurm=controller is not None))

    return checked


def _or_raise(value: object) -> object:
    if isinstance(value, Exception):
        raise value
    return value


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def with_gpu(index: int, **changes: object) -> Machine:
    gpus = list(MACHINE.gpus)
    gpus[index] = replace(gpus[index], **changes)
    return replace(MACHINE, gpus=tuple(gpus))


def test_that_what_is_as_planned_is_no_finding(check: Check) -> None:
    assert check() == []


# --- hardware -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "code", "what"),
    [
        (with_gpu(0, uuid="GPU-other"), "gpu-uuid", f"is GPU-other where the plan has {UUID}"),
        (with_gpu(1, memory=38 << 30), "overcommit", "quotas of 38 GiB on a card of 38 GiB"),
        (with_gpu(1, sms=98), "overcommit", "guarantees of 108 SMs on a card of 98"),
        (with_gpu(1, mig=True), "gpu-mig", "in MIG mode where the plan has it as one card"),
        (with_gpu(0, compute_mode="prohibited"), "gpu-compute-mode", "compute mode prohibited"),
        (with_gpu(0, persistence=False), "gpu-persistence", "persistence mode is off"),
        (replace(MACHINE, mps="nvidia-cuda-mps-control (7)"), "mps", "MPS runs"),
        (replace(MACHINE, driver="515.65.00"), "driver", "driver 515.65.00"),
        (replace(MACHINE, gpus=MACHINE.gpus[:1]), "gpu-missing", "/dev/nvidia1"),
        (replace(MACHINE, gpus=(*MACHINE.gpus, replace(CARD, minor=9))), "gpu-unplanned", "A100"),
        (SourceError("NVML says nothing"), "driver", "NVML says nothing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_that_other_hardware_than_planned_is_found(
    check: Check, machine: Machine | SourceError, code: str, what: str
) -> None:
    findings = check(machine)
    assert codes(findings) == [code]
    assert what in findings[0].what
    assert findings[0].nodes == ("n1",)


@pytest.mark.parametrize(
    "machine",
    [
        replace(MACHINE, driver="515.65.01"),
        replace(MACHINE, driver="550.54"),
        replace(MACHINE, driver=""),
        with_gpu(0, persistence=None, sms=None, compute_mode=""),
    ],
    ids=["oldest driver", "new driver", "unknown driver", "not known"],
)
def test_that_what_does_not_matter_is_no_finding(check: Check, machine: Machine) -> None:
    assert check(machine) == []


def test_that_only_mig_matters_for_a_gpu_without_vgpus(check: Check) -> None:
    mig = PLAN.replace("vgpus: {big: 2}}\ncluster", "mig: {1g.5gb: [7]}}\ncluster")
    assert mig != PLAN
    modes = {"compute_mode": "prohibited", "persistence": False}
    for is_on, expected in ((True, []), (False, ["gpu-mig"])):
        findings = check(with_gpu(1, mig=is_on, **modes), plan=mig)
        assert codes([f for f in findings if f.where.startswith("GPU")]) == expected


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [("slurm.conf", "slurm-conf"), ("gres.conf", "gres-conf"), ("vgpu.conf", "vgpu-conf")],
)
def test_that_a_missing_file_is_found(check: Check, name: str, code: str) -> None:
    findings = check(spoil=lambda etc: (etc / name).unlink())
    assert codes(findings) == [code]
    assert findings[0].where.endswith(f"/{name}")


def test_that_a_damaged_vgpu_conf_is_found_with_its_line(check: Check) -> None:
    def spoil(etc: Path) -> None:
        path = etc / "vgpu.conf"
        path.write_text(path.read_text() + "Type=x\n")

    findings = check(spoil=spoil)
    assert codes(findings) == ["vgpu-conf"]
    line = len((Path(findings[0].where.rpartition(":")[0])).read_text().splitlines())
    assert findings[0].where.endswith(f"vgpu.conf:{line}")


def test_that_missing_accounting_is_found(check: Check) -> None:
    def spoil(etc: Path) -> None:
        path = etc / "slurm-vgpu.conf"
        path.write_text(path.read_text().replace(",gres/vgpu:big", ""))

    findings = check(spoil=spoil)
    assert codes(findings) == ["accounting"]
    assert findings[0].what == "AccountingStorageTRES lacks gres/vgpu:big"


def test_that_a_node_without_a_line_is_found(check: Check) -> None:
    def spoil(etc: Path) -> None:
        path = etc / "slurm-vgpu.conf"
        path.write_text(path.read_text().replace("NodeName=n1", "NodeName=m1"))

    assert codes(check(spoil=spoil)) == ["node-name"]


# --- slurmctld ------------------------------------------------------------------------------------


def controller(**changes: object) -> Controller:
    node = Node("n1", {"vgpu:big": 4}, frozenset({"vgpu-nvlink2"}), "IDLE", "", 2, 16)
    nodes = {"n1": replace(node, **changes)}
    config = {
        "slurm_version": "22.05.8",
        "grestypes": "nic,vgpu",
        "plugindir": f"x:{paths.PKGLIBDIR}",
        "accountingstoragetres": "cpu,gres/vgpu,gres/vgpu:big",
    }
    return Controller(config, nodes)


def test_that_slurmctld_that_runs_with_the_plan_is_no_finding(check: Check) -> None:
    assert check(controller=controller()) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"gres": {"vgpu:big": 3}}, "node-gres"),
        ({"features": frozenset()}, "node-gres"),
        ({"state": "IDLE+DRAIN", "reason": "gres/vgpu count too low"}, "node-state"),
        ({"cores": 10}, ""),
    ],
)
def test_that_a_node_that_slurmctld_sees_otherwise_is_found(
    check: Check, changes: dict[str, object], code: str
) -> None:
    assert codes(check(controller=controller(**changes))) == ([code] if code else [])


def test_that_a_plugin_is_found_before_the_slurm_it_does_not_fit_is_started(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gres.release.installed_version", lambda: "22.05.9")
    (found,) = check(controller=controller())  # slurmctld, and slurmd here, still run 22.05.8
    assert found.code == "plugin-release"
    assert found.what == "built for Slurm 22.05.8 where 22.05.9 is installed"


def test_that_values_that_are_not_in_force_are_found(check: Check) -> None:
    old = controller()
    old = Controller({**old.config, "grestypes": "nic"}, old.nodes)
    findings = check(controller=old)
    assert findings[0].what == "slurmctld still runs with GresTypes=nic"


def test_that_a_node_of_slurmctld_that_is_not_planned_is_found(check: Check) -> None:
    known = controller()
    stranger = replace(known.nodes["n1"], name="n7")
    findings = check(controller=Controller(known.config, {**known.nodes, "n7": stranger}))
    assert [(finding.code, finding.nodes) for finding in findings] == [("unplanned", ("n7",))]


def test_that_a_silent_slurmctld_is_found(check: Check) -> None:
    findings = check(controller=ControllerError("scontrol show config: no answer"))
    assert codes(findings) == ["slurmctld"]


# --- findings and plugins -------------------------------------------------------------------------


def finding(where: str, code: str, *nodes: str) -> Finding:
    return Finding(code, where, "what", "why", "remedy", nodes)


def test_that_findings_alike_on_several_nodes_are_one() -> None:
    found = merged([finding("a", "x", "n2"), finding("a", "x", "n10"), finding("a", "x", "n1")])
    assert [(f.code, f.nodes) for f in found] == [("x", ("n1", "n2", "n10"))]


def test_that_of_two_findings_about_one_place_the_first_is_kept() -> None:
    found = merged([finding("a", "x", "n1"), finding("a", "y", "n1"), finding("a", "y", "n2")])
    assert [(f.code, f.nodes) for f in found] == [("x", ("n1",)), ("y", ("n2",))]


def test_that_the_version_of_a_plugin_is_read_without_loading_it() -> None:
    assert elf.plugin_version(paths.SLURM_PLUGINS / "gres_gpu.so") == release.installed_version()
    assert elf.plugin_version(Path("/bin/true")) is None


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 200]
)
def test_that_a_file_that_is_no_plugin_has_no_version(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(data)
    assert elf.plugin_version(tmp_path / "x.so") is None
