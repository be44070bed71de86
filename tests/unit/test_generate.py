"""From a plan to the files: what is generated, and that it is always the same."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from gres import layout, links, planfile, render
from gres.plan import Nvlink
from pysched import hosts, vgpuconf
from pysched.cli.main import main
from tests.unit.malformed_plans import GOOD

REFERENCE = """\
version: 1
cards:
  a100: {memory: 40GiB, sms: 108}
types:
  small: {memory: 2GiB, sms: 10, max_sms: 25}
  middle: {memory: 4GiB, sms: 15, max_sms: 30}
  large: {memory: 4GiB, sms: 15, max_sms: 45}
nodes:
  - names: n[1-2]
    gpus:
      - {gpu: 0-1, card: a100, cores: 0-3, vgpus: {small: 2, middle: 2, large: 2}}
      - {gpu: 2-3, card: a100, cores: 4-7, vgpus: {small: 2, middle: 2, large: 2}}
"""


def generate(text: str, release: str = "22.05") -> dict[str, str]:
    return render.render(layout.build(planfile.parse(text.encode())), release)


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


# --- slots ----------------------------------------------------------------------------------------


def slots(text: str, node: str) -> tuple[vgpuconf.Slot, ...]:
    return vgpuconf.parse(generate(text)["vgpu.conf"]).node(node).slots


def test_that_every_gpu_has_the_slots_of_the_plan() -> None:
    found = slots(REFERENCE, "n2")
    for minor in range(4):
        names = sorted(slot.type.name for slot in found if slot.gpu.minor == minor)
        assert names == ["large"] * 2 + ["middle"] * 2 + ["small"] * 2


def test_that_neighbouring_slots_are_on_different_gpus() -> None:
    assert all(a.gpu.minor != b.gpu.minor for a, b in pairwise(slots(REFERENCE, "n1")))


def test_that_the_first_slots_of_the_types_are_on_different_gpus() -> None:
    first = {slot.type.name: slot.gpu.minor for slot in reversed(slots(REFERENCE, "n1"))}
    assert len(set(first.values())) == 3


def test_that_gres_conf_and_vgpu_conf_mean_the_same_slots() -> None:
    files = generate(REFERENCE)
    from_gres: list[tuple[str, str]] = []
    for line in lines(files["gres.conf"], "NodeName="):
        found = re.fullmatch(r"NodeName=n\[1-2\] Name=vgpu Type=(\w+) File=(\S+) Cores=(\S+)", line)
        assert found
        from_gres += [(found[1], name) for name in hosts.expand(found[2].replace("/", "_")[1:])]
    indices = [int(name.rpartition("_")[2]) for _, name in from_gres]
    assert indices == list(range(24))
    assert [name for name, _ in from_gres] == [s.type.name for s in slots(REFERENCE, "n1")]


def test_that_cores_of_a_slot_are_those_of_its_home() -> None:
    cores = [
        line.rpartition("Cores=")[2]
        for line in lines(generate(REFERENCE)["gres.conf"], "NodeName=")
        for _ in hosts.expand(re.sub(r".*slots/(\S+) .*", r"x\1", line))
    ]
    homes = [slot.gpu.minor for slot in slots(REFERENCE, "n1")]
    assert cores == ["0-3" if home < 2 else "4-7" for home in homes]


def test_that_slurm_counts_what_the_plan_says() -> None:
    fragment = generate(REFERENCE)["slurm-vgpu.conf"]
    assert "Gres=vgpu:large:8,vgpu:middle:8,vgpu:small:8" in fragment


# --- the same plan, the same bytes ----------------------------------------------------------------


def as_blocks(text: str) -> str:
    return yaml.safe_dump(yaml.safe_load(text), default_flow_style=False)


def reversed_everywhere(text: str) -> str:
    def turn(value: object) -> object:
        if isinstance(value, dict):
            return {key: turn(value[key]) for key in reversed(value)}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [turn(item) for item in reversed(value)]
        return value

    return yaml.safe_dump(turn(yaml.safe_load(text)), sort_keys=False, default_flow_style=None)


def names_one_by_one(text: str) -> str:
    plan = yaml.safe_load(text)
    for node_set in plan["nodes"]:
        given = node_set["names"]
        names = [
            name
            for part in ([given] if isinstance(given, str) else given)
            for name in hosts.expand(part)
        ]
        node_set["names"] = names[::-1]
    return yaml.safe_dump(plan)


def node_sets_one_by_one(text: str) -> str:
    plan = yaml.safe_load(text)
    apart = []
    for node_set in plan["nodes"]:
        given = node_set["names"]
        for part in [given] if isinstance(given, str) else given:
            apart += [node_set | {"names": name} for name in hosts.expand(part)]
    return yaml.safe_dump(plan | {"nodes": apart[::-1]})


def with_anchors(text: str) -> str:
    return text.replace("nodes:\n", "# a comment\nnodes:\n\n").replace("[ib]", "&mine [ib]")


def gpus_one_by_one(text: str) -> str:
    plan = yaml.safe_load(text)
    for node_set in plan["nodes"]:
        node_set["gpus"] = [
            entry | {"gpu": minor}
            for entry in reversed(node_set["gpus"])
            for minor in range(*_bounds(str(entry["gpu"])))
        ]
    return yaml.safe_dump(plan)


def _bounds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first) + 1


@pytest.mark.parametrize(
    "style",
    [
        as_blocks,
        reversed_everywhere,
        names_one_by_one,
        node_sets_one_by_one,
        with_anchors,
        gpus_one_by_one,
    ],
    ids=lambda style: style.__name__,
)
@pytest.mark.parametrize("plan", [GOOD, REFERENCE], ids=["good", "reference"])
def test_that_the_style_of_a_plan_has_no_influence(plan: str, style: Callable[[str], str]) -> None:
    assert generate(style(plan)) == generate(plan)


def test_that_generating_again_changes_nothing(tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(GOOD)
    arguments = ["config", "generate", str(plan), "-o", str(out)]
    first = CliRunner().invoke(main, arguments)
    assert (first.exit_code, first.stdout.count("written")) == (0, 7)
    before = {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in out.rglob("*.*")
        if path.is_file()
    }
    second = CliRunner().invoke(main, arguments)
    assert (second.exit_code, second.stdout.count("unchanged")) == (0, 7)
    after = {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in out.rglob("*.*")
        if path.is_file()
    }
    assert after == before


def test_that_a_file_of_the_site_is_not_replaced(tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(GOOD)
    out.mkdir()
    (out / "gres.conf").write_text("Name=gpu File=/dev/nvidia0\n")
    arguments = ["config", "generate", str(plan), "-o", str(out)]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 2
    assert "gres.conf: was not written by vgpu config generate" in refused.stderr
    assert [path.name for path in out.iterdir()] == ["gres.conf"]
    assert CliRunner().invoke(main, [*arguments, "--force"]).exit_code == 0
    assert "Name=vgpu" in (out / "gres.conf").read_text()


def test_that_a_site_can_override_a_template(tmp_path: Path) -> None:
    (tmp_path / "plugstack.conf.j2").write_text("# ours\noptional {{ pkglibdir }}/spank_vgpu.so\n")
    built = layout.build(planfile.parse(GOOD.encode()))
    files = render.render(built, "22.05", tmp_path)
    assert files["plugstack.conf.d/vgpu.conf"].startswith("# ours\noptional /usr/lib/")
    assert files["gres.conf"] == generate(GOOD)["gres.conf"]


@pytest.mark.parametrize(
    ("template", "words"),
    [("{% if %}", "gres.conf.j2:1: "), ("{{ nothing }}", "'nothing' is undefined")],
)
def test_that_an_error_in_a_template_names_it(template: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "gres.conf.j2").write_text(template)
    built = layout.build(planfile.parse(GOOD.encode()))
    with pytest.raises(render.TemplateError) as caught:
        render.render(built, "22.05", tmp_path)
    assert words in str(caught.value)


# --- slurm.conf -----------------------------------------------------------------------------------


def test_that_the_fragment_has_what_slurm_needs() -> None:
    fragment = generate(GOOD)["slurm-vgpu.conf"]
    assert "\nGresTypes=nic,gpu,shard,vgpu\n" in fragment
    assert "\nJobSubmitPlugins=throttle,lua\n" in fragment
    assert re.search(r"\nPluginDir=/usr/lib/slurm:/opt/slurm/lib:\S+/slurm-vgpu\n", fragment)
    tres = lines(fragment, "AccountingStorageTRES=")[0].partition("=")[2].split(",")
    assert tres[:4] == ["gres/nic", "gres/gpu", "gres/shard", "gres/vgpu"]
    assert {"gres/vgpu:a100-4g", "gres/gpu:a100", "gres/gpu:1g.5gb"} <= set(tres)
    assert (
        "NodeName=n[01-04] CoresPerSocket=16 CPUs=32 Sockets=2 "
        "Gres=vgpu:a100-2g:4,vgpu:a100-4g:8,gpu:1g.5gb:2,gpu:3g.20gb:1,gpu:a100:1 "
        "Feature=ib,vgpu-nvlink2"
    ) in fragment


def test_that_a_machine_that_is_not_described_is_left_to_the_site() -> None:
    fragment = generate(GOOD)["slurm-vgpu.conf"]
    assert (
        "add to the NodeName line of t[01,03-04]:\n#   Gres=vgpu:t4-2g:7,gpu:t4:1,shard:4"
        in fragment
    )
    assert not lines(fragment, "NodeName=t")


def test_that_weights_are_shares_of_the_card() -> None:
    weights = lines(generate(GOOD)["slurm-vgpu.conf"], "PartitionName=DEFAULT")
    assert weights == [
        'PartitionName=DEFAULT TRESBillingWeights="GRES/gpu:a100=100,GRES/gpu:t4=100,'
        'GRES/vgpu:a100-2g=9.259,GRES/vgpu:a100-4g=13.89,GRES/vgpu:t4-2g=12.5"'
    ]
    assert "Weights" not in generate(REFERENCE)["slurm-vgpu.conf"]


def test_that_mig_instances_name_their_device_files() -> None:
    assert (
        "Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap336,"
        "/dev/nvidia-caps/nvidia-cap337 Cores=16-31"
    ) in generate(GOOD)["gres.conf"]


def test_that_shards_stand_beside_the_gpu_that_they_share() -> None:
    text = generate(GOOD)["gres.conf"]
    assert "NodeName=t[01,03-04] Name=gpu Type=t4 File=/dev/nvidia1\n" in text
    assert "NodeName=t[01,03-04] Name=shard Count=4 File=/dev/nvidia1\n" in text


# --- links ----------------------------------------------------------------------------------------

MESH = {  # DGX-1V
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
DGX1 = Nvlink(pairs=tuple((a, b, count) for (a, b), count in MESH.items()))
PAIRS = Nvlink(pairs=((0, 1, 12), (2, 3, 12)))


def test_that_links_are_counts_up_to_23_11() -> None:
    assert links.values([0, 1, 2, 3], PAIRS, "23.11") == [
        "-1,12,0,0",
        "12,-1,0,0",
        "0,0,-1,12",
        "0,0,12,-1",
    ]
    assert links.values(list(range(8)), DGX1, "22.05")[0] == "-1,1,1,2,2,0,0,0"


def test_that_links_are_distances_from_24_05_on() -> None:
    assert links.values([0, 1, 2, 3], PAIRS, "24.05") == [
        "-1,1,3,3",
        "1,-1,3,3",
        "3,3,-1,1",
        "3,3,1,-1",
    ]
    assert links.values(list(range(8)), DGX1, "26.05")[0] == "-1,2,2,1,1,6,6,6"


def test_that_mig_instances_have_no_links() -> None:
    assert links.values([0, 1, None], Nvlink(pairs=((0, 1, 4),)), "22.05") == [
        "-1,4,0",
        "4,-1,0",
        "0,0,-1",
    ]


@pytest.mark.parametrize("nvlink", [Nvlink(), Nvlink(switch=True)], ids=["none", "switch"])
def test_that_links_are_not_written_where_all_are_equal(nvlink: Nvlink) -> None:
    assert not links.matter([0, 1, 2, 3], nvlink)
    assert not links.matter([0], nvlink)
    assert links.matter([0, 1, 2, 3], PAIRS)


def whole_gpus(nvlink: str) -> str:
    return (
        "version: 1\ncards: {v100: {memory: 16GiB, sms: 80}}\ntypes: {}\n"
        f"nodes: [{{names: n, nvlink: {nvlink}, gpus: [{{gpu: 0-3, card: v100, whole: true}}]}}]\n"
    )


def test_that_links_stand_on_every_line_of_whole_gpus() -> None:
    text = generate(whole_gpus("{0-1: 12, 2-3: 12}"), "24.11")["gres.conf"]
    assert len(re.findall(r"Name=gpu Type=v100 File=/dev/nvidia\d Links=\S+", text)) == 4


def test_that_a_plan_whose_output_depends_on_the_release_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gres.release.installed", lambda: None)
    plan = tmp_path / "plan.yaml"
    plan.write_text(whole_gpus("{0-1: 12}"))
    arguments = ["config", "generate", str(plan), "-o", str(tmp_path / "out")]
    refused = CliRunner().invoke(main, arguments)
    assert (refused.exit_code, "say which with --slurm" in refused.stderr) == (2, True)
    assert CliRunner().invoke(main, [*arguments, "--slurm", "24.11.5"]).exit_code == 0
    plan.write_text(whole_gpus("none"))
    assert CliRunner().invoke(main, arguments).exit_code == 0


# --- features -------------------------------------------------------------------------------------


def features(nvlink: Nvlink, count: int) -> tuple[str, ...]:
    pairs = ", ".join(f"{a}-{b}: {n}" for a, b, n in nvlink.pairs)
    value = "switch" if nvlink.switch else f"{{{pairs}}}"
    plan = planfile.parse(
        f"""
        version: 1
        cards: {{c: {{memory: 8GiB, sms: 80}}}}
        types: {{t: {{memory: 1GiB, sms: 10}}}}
        nodes:
        - {{names: n, nvlink: {value}, gpus: [{{gpu: 0-{count - 1}, card: c, vgpus: {{t: 1}}}}]}}
        """.encode()
    )
    return layout.build(plan).groups[0].layout.features


@pytest.mark.parametrize(
    ("nvlink", "count", "expected"),
    [
        (PAIRS, 4, ("vgpu-nvlink2",)),
        (DGX1, 8, ("vgpu-nvlink2", "vgpu-nvlink4")),
        (Nvlink(), 4, ("vgpu-pcie",)),
        (Nvlink(), 1, ("vgpu-pcie",)),
        (Nvlink(switch=True), 8, ("vgpu-nvlink2", "vgpu-nvlink4", "vgpu-nvlink8", "vgpu-nvswitch")),
        (Nvlink(switch=True), 16, (*(f"vgpu-nvlink{n}" for n in (2, 4, 8, 16)), "vgpu-nvswitch")),
        (Nvlink(pairs=((0, 1, 1), (0, 2, 1), (1, 2, 1))), 3, ("vgpu-nvlink2",)),
    ],
)
def test_that_features_name_the_largest_linked_set(
    nvlink: Nvlink, count: int, expected: tuple[str, ...]
) -> None:
    assert features(nvlink, count) == expected
