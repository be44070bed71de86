"""Plans with one rule broken each: a change to a good plan, and what the error must say."""

from dataclasses import dataclass

GOOD = """\
version: 1
cards:
  a100: {memory: 40GiB, reserve: 1GiB, sms: 108}
  t4: {memory: 16GiB, sms: 40}
types:
  a100-4g: {memory: 4GiB, sms: 15, max_sms: 30, slice: 10ms, policy: share}
  a100-2g: {memory: 2GiB, sms: 10}
  t4-2g: {memory: 2GiB, sms: 5, max_sms: 40}
defaults:
  card: a100
  reserve: 512MiB
  slice: 20ms
  policy: cap
  features: [ib]
nodes:
  - names: n[01-04]
    slurm: {CPUs: 32, Sockets: 2, CoresPerSocket: 16}
    nvlink: {0-1: 12, 2-3: 12}
    gpus:
      - {gpu: 0-1, cores: 0-15, vgpus: {a100-4g: 4, a100-2g: 2}}
      - {gpu: 2, cores: 16-31, mig: {1g.5gb: [7, 8], 3g.20gb: [1]}}
      - {gpu: 3, cores: 16-31, whole: true}
  - names: [t01, "t[03-04]"]
    features: [cheap, old]
    nvlink: none
    gpus:
      - {gpu: 0, card: t4, vgpus: {t4-2g: 7}}
      - {gpu: 1, card: t4, shards: 4}
  - names: x1
    nvlink: switch
    gpus:
      - gpu: 0
        uuid: GPU-01234567-89ab-cdef-0123-456789abcdef
        vgpus: {a100-2g: 3}
workloads: {cnn: 15ms, llm: 8ms}
bursts:
  urgent: {time: 50ms, qos: [high], partitions: [inference, live]}
cluster:
  slurm: 22.05
  slices: 5ms-100ms
  plugin_dir: [/usr/lib/slurm, /opt/slurm/lib]
  runtime_dir: /run/vgpu
  gres_types: [nic]
  accounting: true
  accounting_tres: [gres/nic]
  job_submit_plugins: [throttle]
  submit_bridge: true
  billing: 100
  backstop: {mode: end, tolerance: 64MiB, time: 1000ms}
"""


@dataclass(frozen=True)
class Malformed:
    """Replace ``old`` by ``new`` in the good plan: the error is at ``path`` and has all ``words``.

    ``at`` is on the line of the error where that is not the first line that changed.
    """

    old: str
    new: str
    path: str
    words: tuple[str, ...]
    at: str = ""

    @property
    def text(self) -> str:
        assert GOOD.count(self.old) == 1, (
            f"{self.old!r} is {GOOD.count(self.old)} times in the plan"
        )
        return GOOD.replace(self.old, self.new)


def _m(old: str, new: str, path: str, *words: str, at: str = "") -> Malformed:
    return Malformed(old, new, path, words, at)


def _each(old: str, path: str, *cases: tuple[str, ...]) -> list[Malformed]:
    """Several wrong values in one place."""
    return [_m(old, new, path, *words) for new, *words in cases]


_CARD = "a100: {memory: 40GiB, reserve: 1GiB, sms: 108}"
_TYPE = "a100-4g: {memory: 4GiB, sms: 15, max_sms: 30, slice: 10ms, policy: share}"
_VGPUS = "vgpus: {a100-4g: 4, a100-2g: 2}"
_UNITS = ("KiB", "MiB", "GiB", "TiB")

MALFORMED = [
    # --- the document ----------------------------------------------------------------------------
    _m("version: 1\n", "version: [1\n", "", "YAML", at="cards:"),
    _m("version: 1\n", "version: 1\n\tcards: 2\n", "", "YAML"),
    _m("version: 1\n", "version: 1\nversion: 1\n", "version", "once", "line 1"),
    _m("version: 1\n", "version: 1\n- x\n", "", "YAML"),
    _m("version: 1\n", "version: *nowhere\n", "", "YAML", "alias"),
    _m("version: 1\n", "version: 1\n---\n", "", "another document"),
    _m(GOOD, "", "", "empty"),
    _m(GOOD, "- version: 1\n", "", "mapping", "a list"),
    _m(GOOD, "version\n", "", "mapping", '"version"'),
    _m(GOOD, "# nothing\n", "", "empty"),
    _m("  billing: 100\n", "  billing: 100\n  ? [a]\n  : 1\n", "cluster", "plain word", "a list"),
    _m("  billing: 100\n", "  billing: 100\n  ~: 1\n", "cluster", "plain word", "nothing"),
    # --- version and the top level ---------------------------------------------------------------
    *_each(
        "version: 1\n",
        "version",
        ("version: 2\n", "1", '"2"'),
        ("version: 0\n", '"0"'),
        ("version: '1'\n", "whole number", 'text "1"'),
        ("version:\n", "nothing"),
        ("version: 1.0\n", '"1.0"'),
        ("version: {}\n", "a mapping"),
        ("version: true\n", '"true"'),
    ),
    _m("version: 1\n", "", "", "version", "none"),
    _m("version: 1\n", "version: 1\nnode: []\n", "node", "nodes", "did you mean nodes"),
    _m("defaults:\n", "default:\n", "default", "did you mean defaults"),
    _m("cluster:\n", "Cluster:\n", "Cluster", "cluster"),
    _m("cards:\n", "card:\n", "card", "cards"),
    # --- cards -----------------------------------------------------------------------------------
    *_each(
        _CARD,
        "cards.a100",
        ("a100:", "mapping", "nothing"),
        ("a100: 40GiB", "mapping", '"40GiB"'),
        ("a100: [40GiB]", "mapping", "a list"),
        ("a100: {memory: 40GiB}", "sms", "none"),
        ("a100: {sms: 108}", "memory", "none"),
        ("a100: {}", "memory", "none"),
    ),
    *_each(
        _CARD,
        "cards.a100.memory",
        ("a100: {memory: 40GB, sms: 108}", *_UNITS, "write 40GiB"),
        ("a100: {memory: 40Gib, sms: 108}", "write 40GiB"),
        ("a100: {memory: 40Gi, sms: 108}", "write 40GiB"),
        ("a100: {memory: 40gib, sms: 108}", "write 40GiB"),
        ("a100: {memory: 40, sms: 108}", *_UNITS, '"40"'),
        ("a100: {memory: 40.5GiB, sms: 108}", "write 41472MiB"),
        ("a100: {memory: -40GiB, sms: 108}", '"-40GiB"'),
        ("a100: {memory: +40GiB, sms: 108}", '"+40GiB"'),
        ("a100: {memory: 40 GiB, sms: 108}", '"40 GiB"'),
        ("a100: {memory: , sms: 108}", "nothing"),
        ("a100: {memory: '', sms: 108}", *_UNITS, '""'),
        ("a100: {memory: GiB, sms: 108}", '"GiB"'),
        ("a100: {memory: 0GiB, sms: 108}", "above 0"),
        ("a100: {memory: 0x28GiB, sms: 108}", '"0x28GiB"'),
        ("a100: {memory: 99999999999999999999GiB, sms: 108}", "below"),
        ("a100: {memory: 16777216TiB, sms: 108}", "below"),
        ("a100: {memory: [40GiB], sms: 108}", "a list"),
        ("a100: {memory: 1e3GiB, sms: 108}", '"1e3GiB"'),
    ),
    *_each(
        _CARD,
        "cards.a100.sms",
        ("a100: {memory: 40GiB, sms: 0}", "1 to 65535", '"0"'),
        ("a100: {memory: 40GiB, sms: -1}", '"-1"'),
        ("a100: {memory: 40GiB, sms: 108.0}", '"108.0"'),
        ("a100: {memory: 40GiB, sms: 65536}", "65535"),
        ("a100: {memory: 40GiB, sms: 0o154}", "whole number"),
        ("a100: {memory: 40GiB, sms: 1_08}", "whole number"),
        ("a100: {memory: 40GiB, sms: '108'}", 'text "108"'),
        ("a100: {memory: 40GiB, sms: 999999999999999999999}", "65535"),
        ("a100: {memory: 40GiB, sms: }", "nothing"),
    ),
    _m(_CARD, "a100: {memory: 40GiB, reserve: 40GiB, sms: 108}", "cards.a100.reserve", "40GiB"),
    _m(_CARD, "a100: {memory: 40GiB, reserve: 512, sms: 108}", "cards.a100.reserve", '"512"'),
    _m(_CARD, "a100: {memory: 40GiB, sms: 108, cores: 1}", "cards.a100.cores", "memory, sms"),
    _m(_CARD, "a100: {memory: 40GiB, memory: 4GiB, sms: 108}", "cards.a100.memory", "once"),
    _m(_CARD, f"{_CARD}\n  a100: {{memory: 1GiB, sms: 1}}", "cards.a100", "once", "line 3"),
    _m(_CARD, f"{_CARD}\n  8gb: {{memory: 8GiB, sms: 1}}", "cards.8gb", "begins with a letter"),
    _m(_CARD, f"{_CARD}\n  'a b': {{memory: 8GiB, sms: 1}}", "cards.a b", "letters"),
    _m("cards:\n", "cards: []\nx: \n", "x", "one of", at="x:"),
    # --- types -----------------------------------------------------------------------------------
    *_each(
        _TYPE,
        "types.a100-4g",
        ("a100-4g: {}", "memory", "none"),
        ("a100-4g: {memory: 4GiB}", "sms", "none"),
        ("a100-4g: {sms: 4}", "memory", "none"),
        ("a100-4g: 4", "mapping", '"4"'),
        ("a100-4g: ", "mapping", "nothing"),
    ),
    *_each(
        _TYPE,
        "types.a100-4g.memory",
        ("a100-4g: {memory: 4Gib, sms: 15}", "write 4GiB"),
        ("a100-4g: {memory: 4GB, sms: 15}", "write 4GiB"),
        ("a100-4g: {memory: -1, sms: 15}", '"-1"'),
        ("a100-4g: {memory: '', sms: 15}", '""'),
        ("a100-4g: {memory: 1.5GiB, sms: 15}", "write 1536MiB"),
        ("a100-4g: {memory: 18446744073709551616K, sms: 15}", "below"),
        ("a100-4g: {memory: 0K, sms: 15}", "above 0"),
        ("a100-4g: {memory: 4g, sms: 15}", "write 4GiB"),
        ("a100-4g: {memory: 4B, sms: 15}", '"4B"'),
        ("a100-4g: {memory: 4PiB, sms: 15}", '"4PiB"'),
        ("a100-4g: {memory: four GiB, sms: 15}", '"four GiB"'),
        ("a100-4g: {memory: 1:30, sms: 15}", '"1:30"'),
        ("a100-4g: {memory: ４GiB, sms: 15}", "whole number"),
    ),
    *_each(
        _TYPE,
        "types.a100-4g.sms",
        ("a100-4g: {memory: 4GiB, sms: 0}", "1 to 65535"),
        ("a100-4g: {memory: 4GiB, sms: 15%}", '"15%"'),
        ("a100-4g: {memory: 4GiB, sms: 1.5}", '"1.5"'),
        ("a100-4g: {memory: 4GiB, sms: -15}", '"-15"'),
        ("a100-4g: {memory: 4GiB, sms: null}", "nothing"),
        ("a100-4g: {memory: 4GiB, sms: yes}", '"yes"'),
    ),
    *_each(
        _TYPE,
        "types.a100-4g.max_sms",
        ("a100-4g: {memory: 4GiB, sms: 15, max_sms: 14}", "15 to 65535", '"14"'),
        ("a100-4g: {memory: 4GiB, sms: 15, max_sms: 70000}", "65535"),
        ("a100-4g: {memory: 4GiB, sms: 15, max_sms: all}", '"all"'),
        ("a100-4g: {memory: 4GiB, sms: 15, max_sms: }", "nothing"),
    ),
    *_each(
        _TYPE,
        "types.a100-4g.slice",
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 4ms}", "5ms to 1000ms", '"4ms"'),
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 1001ms}", "5ms to 1000ms"),
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 10}", "10ms", '"10"'),
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 0.01s}", '"0.01s"'),
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 10 ms}", '"10 ms"'),
        ("a100-4g: {memory: 4GiB, sms: 15, slice: 9999999999ms}", '"9999999999ms"'),
    ),
    *_each(
        _TYPE,
        "types.a100-4g.policy",
        ("a100-4g: {memory: 4GiB, sms: 15, policy: hard}", "share or cap", '"hard"'),
        ("a100-4g: {memory: 4GiB, sms: 15, policy: Share}", '"Share"'),
        ("a100-4g: {memory: 4GiB, sms: 15, policy: }", "nothing"),
    ),
    _m(_TYPE, "a100-4g: {memory: 4GiB, sms: 1, maxsms: 2}", "types.a100-4g.maxsms", "max_sms?"),
    _m(_TYPE, "a100-4g: {memory: 4GiB, sms: 1, SMs: 2}", "types.a100-4g.SMs", "found SMs"),
    _m("  t4-2g: {", "  a100-2g: {memory: 1GiB, sms: 1}\n  t4-2g: {", "types.a100-2g", "once"),
    _m(
        "  t4-2g: {", "  2g: {memory: 1GiB, sms: 1}\n  t4-2g: {", "types.2g", "begins with a letter"
    ),
    _m("  t4-2g: {", "  a/b: {memory: 1GiB, sms: 1}\n  t4-2g: {", "types.a/b", "letters"),
    _m("  t4-2g: {", "  a:b: {memory: 1GiB, sms: 1}\n  t4-2g: {", "types.a:b", "letters"),
    _m(
        "  t4-2g: {",
        f"  {'x' * 64}: {{memory: 1GiB, sms: 1}}\n  t4-2g: {{",
        f"types.{'x' * 64}",
        "63",
    ),
    # --- defaults --------------------------------------------------------------------------------
    _m("  reserve: 512MiB\n", "  reserve: 512MB\n", "defaults.reserve", "write 512MiB"),
    _m("  reserve: 512MiB\n", "  reserve: 20GiB\n", "cards.t4", "16GiB", "20GiB", at="t4: "),
    _m("  slice: 20ms\n", "  slice: 2ms\n", "defaults.slice", "5ms"),
    _m("  policy: cap\n", "  policy: none\n", "defaults.policy", "share or cap"),
    _m("  card: a100\n", "  card: h100\n", "defaults.card", "a100, t4", '"h100"'),
    _m("  card: a100\n", "  card: 100\n", "defaults.card", "name of a card", '"100"'),
    _m("  card: a100\n", "  cards: a100\n", "defaults.cards", "did you mean card?"),
    _m("  card: a100\n", "", "nodes[0].gpus[0]", "card", "none", at="gpu: 0-1"),
    _m("  features: [ib]\n", "  features: [ib, ib]\n", "defaults.features[1]", "once"),
    _m("defaults:\n", "defaults: none\nx:\n", "x", "one of", at="x:"),
    # --- nodes -----------------------------------------------------------------------------------
    *_each(
        "names: n[01-04]",
        "nodes[0].names",
        ("names: n[01-04", "host list", '"n[01-04"'),
        ("names: n[04-01]", "host list", '"n[04-01]"'),
        ("names: n[]", "host list"),
        ("names: n[a-b]", "host list"),
        ("names: n[01-04],", "empty name"),
        ("names: n01,,n02", "empty name"),
        ("names: n[01-04] n05", "host list"),
        ("names: n[1-200000]", "host list"),
        ("names: -n1", "host name"),
        ("names: 'n*'", "host list", '"n*"'),
        ("names:", "nothing"),
        ("names: ''", "host list", '""'),
        ("names: []", "empty list"),
        ("names: {n: 1}", "host list", "a mapping"),
        ("names: n01,n[01-02]", "once", "n01"),
        ("names: n[01-04],x1" + "y" * 63, "host name"),
    ),
    _m("names: n[01-04]", "names: [n01, n02, n01]", "nodes[0].names[2]", "once", "n01"),
    _m("names: n[01-04]", "names: [n01, 'n[2']", "nodes[0].names[1]", "host list"),
    _m("names: n[01-04]", "names: [n01, [n02]]", "nodes[0].names[1]", "a list"),
    _m(
        "names: x1", "names: n[03-09]", "nodes[2].names", "once", "n03", "nodes[0].names", "line 16"
    ),
    _m("names: x1", "names: x[1-2]", "nodes[2].names", "uuid", "found 2"),
    _m("  - names: x1\n", "  - name: x1\n", "nodes[2].name", "did you mean names?"),
    _m("  - names: x1\n", "  - features: [a]\n", "nodes[2]", "names", "none"),
    _m("  - names: x1\n", "  - just text\n  - names: x1\n", "nodes[2]", "mapping", '"just text"'),
    _m("features: [cheap, old]", "features: cheap;old", "nodes[1].features", "feature"),
    _m("features: [cheap, old]", "features: [cheap, '']", "nodes[1].features[1]", "empty text"),
    _m("features: [cheap, old]", "features: [cheap, 1]", "nodes[1].features[1]", '"1"'),
    _m("features: [cheap, old]", "features: [a, 'b,c']", "nodes[1].features[1]", '"b,c"'),
    _m("features: [cheap, old]", "features: [vgpu-pcie]", "nodes[1].features", "vgpu-pcie"),
    _m("features: [cheap, old]", "features: {a: b}", "nodes[1].features", "a mapping"),
    *_each(
        "slurm: {CPUs: 32, Sockets: 2, CoresPerSocket: 16}",
        "nodes[0].slurm",
        ("slurm: [CPUs]", "mapping", "a list"),
        ("slurm: CPUs=32", "mapping", '"CPUs=32"'),
        ("slurm:", "mapping", "nothing"),
    ),
    *_each(
        "slurm: {CPUs: 32, Sockets: 2, CoresPerSocket: 16}",
        "nodes[0].slurm.Gres",
        ("slurm: {Gres: gpu:1}", "found Gres"),
        ("slurm: {CPUs: 1, Gres: ''}", "found Gres"),
    ),
    _m(
        "slurm: {CPUs: 32,", "slurm: {nodename: n, CPUs: 32,", "nodes[0].slurm.nodename", "nodename"
    ),
    _m(
        "slurm: {CPUs: 32,", "slurm: {Features: a, CPUs: 32,", "nodes[0].slurm.Features", "Features"
    ),
    _m("slurm: {CPUs: 32,", "slurm: {cpus: 1, CPUs: 32,", "nodes[0].slurm.CPUs", "once"),
    _m("slurm: {CPUs: 32,", "slurm: {CPUs: 32 64,", "nodes[0].slurm.CPUs", "blanks"),
    _m("slurm: {CPUs: 32,", "slurm: {CPUs: ,", "nodes[0].slurm.CPUs", "nothing"),
    _m("slurm: {CPUs: 32,", "slurm: {CPUs: [32],", "nodes[0].slurm.CPUs", "a list"),
    _m("slurm: {CPUs: 32,", "slurm: {'C PUs': 32,", "nodes[0].slurm.C PUs", "parameter"),
    _m("slurm: {CPUs: 32,", "slurm: {Port: 'a#b',", "nodes[0].slurm.Port", "#"),
    _m("PerSocket: 16}", "PerSocket: 8}", "nodes[0].gpus[1].cores", "0 to 15", "31", at="mig:"),
    # --- NVLink ----------------------------------------------------------------------------------
    *_each(
        "nvlink: {0-1: 12, 2-3: 12}",
        "nodes[0].nvlink.0-9",
        ("nvlink: {0-9: 12}", "pair", "0-9"),
    ),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-0: 12}", "nodes[0].nvlink.0-0", "pair"),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-1-2: 12}", "nodes[0].nvlink.0-1-2", "pair"),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {a-b: 12}", "nodes[0].nvlink.a-b", "pair"),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-1: 1, 1-0: 1}", "nodes[0].nvlink.1-0", "once"),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-1: 0}", "nodes[0].nvlink.0-1", "1 to 36"),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-1: NV12}", "nodes[0].nvlink.0-1", '"NV12"'),
    _m("nvlink: {0-1: 12, 2-3: 12}", "nvlink: {0-1: 37}", "nodes[0].nvlink.0-1", "1 to 36"),
    _m("nvlink: none", "nvlink: no", "nodes[1].nvlink", "none, switch", '"no"'),
    _m("nvlink: none", "nvlink: nvswitch", "nodes[1].nvlink", "none, switch", '"nvswitch"'),
    _m("nvlink: none", "nvlink: [0-1]", "nodes[1].nvlink", "a list"),
    _m("nvlink: none", "nvlink: ", "nodes[1].nvlink", "nothing"),
    # --- GPUs ------------------------------------------------------------------------------------
    *_each(
        "gpu: 0-1,",
        "nodes[0].gpus[0].gpu",
        ("gpu: 1-0,", "ascending"),
        ("gpu: 0-,", "minor numbers", '"0-"'),
        ("gpu: -1,", '"-1"'),
        ("gpu: '0,0-1',", "once"),
        ("gpu: 1024,", "1023"),
        ("gpu: all,", '"all"'),
        ("gpu: [0],", "a list"),
        ("gpu: ,", "nothing"),
        ("gpu: 0.5,", '"0.5"'),
        ("gpu: 0x1,", '"0x1"'),
        ("gpu: /dev/nvidia0,", '"/dev/nvidia0"'),
    ),
    _m("- {gpu: 2,", "- {gpu: 1-2,", "nodes[0].gpus[1]", "once", "GPU 1", "line 20"),
    _m("- {gpu: 2,", "- {", "nodes[0].gpus[1]", "gpu", "none"),
    _m("- {gpu: 2,", "- {gpu: 2, gpus: 3,", "nodes[0].gpus[1].gpus", "one of gpu, card"),
    _m("- {gpu: 2,", "- {gpu: 2, gpu: 3,", "nodes[0].gpus[1].gpu", "once"),
    _m("gpu: 2, cores: 16-31", "gpu: 2, cores: 31-16", "nodes[0].gpus[1].cores", "ascending"),
    _m("gpu: 2, cores: 16-31", "gpu: 2, cores: socket1", "nodes[0].gpus[1].cores", '"socket1"'),
    _m("gpu: 2, cores: 16-31", "gpu: 2, cores: 16-32", "nodes[0].gpus[1].cores", "0 to 31", "32"),
    _m("gpu: 2, cores: 16-31", "gpu: 2, cores: [16]", "nodes[0].gpus[1].cores", "a list"),
    _m("gpu: 0, card: t4", "gpu: 0, card: T4", "nodes[1].gpus[0].card", "a100, t4", '"T4"'),
    _m("gpu: 0, card: t4", "gpu: 0, card: []", "nodes[1].gpus[0].card", "a list"),
    _m("gpu: 0, card: t4", "gpu: 0, card: ''", "nodes[1].gpus[0].card", "empty text"),
    _m("whole: true", "whole: false", "nodes[0].gpus[2].whole", "true", "false"),
    _m("whole: true", "whole: yes", "nodes[0].gpus[2].whole", "true or false", '"yes"'),
    _m("whole: true", "whole: 1", "nodes[0].gpus[2].whole", "true or false", '"1"'),
    _m(
        "whole: true",
        "whole: true, shards: 2",
        "nodes[0].gpus[2]",
        "exactly one",
        "whole and shards",
    ),
    _m(", whole: true}", "}", "nodes[0].gpus[2]", "exactly one", "none"),
    _m("shards: 4", "shards: 0", "nodes[1].gpus[1].shards", "1 to 1024"),
    _m("shards: 4", "shards: 4, vgpus: {t4-2g: 1}", "nodes[1].gpus[1]", "exactly one"),
    _m("whole: true", "shards: 3", "nodes[0].gpus", "shards or mig", "both", at="    gpus:"),
    _m("uuid: GPU-01234567", "uuid: 01234567", "nodes[2].gpus[0].uuid", "UUID"),
    _m("uuid: GPU-01234567", "uuid: MIG-01234567", "nodes[2].gpus[0].uuid", "UUID"),
    _m(
        "      - gpu: 0\n",
        "      - gpu: 0-1\n",
        "nodes[2].gpus[0].uuid",
        "one GPU",
        "2",
        at="uuid:",
    ),
    _m(
        "    gpus:\n      - gpu: 0\n",
        "    gpus: []\n    x:\n      - gpu: 0\n",
        "nodes[2].x",
        at="x:",
    ),
    # --- MIG -------------------------------------------------------------------------------------
    *_each(
        "mig: {1g.5gb: [7, 8], 3g.20gb: [1]}",
        "nodes[0].gpus[1].mig",
        ("mig: {}", "empty mapping"),
        ("mig: [1g.5gb]", "a list"),
        ("mig: true", '"true"'),
        ("mig: ", "nothing"),
    ),
    _m("1g.5gb: [7, 8]", "1g.5gb: [7, 7]", "nodes[0].gpus[1].mig.1g.5gb[1]", "once", "7"),
    _m("1g.5gb: [7, 8]", "1g.5gb: [7, 1]", "nodes[0].gpus[1].mig.3g.20gb[0]", "once", "1"),
    _m("1g.5gb: [7, 8]", "1g.5gb: [7, 15]", "nodes[0].gpus[1].mig.1g.5gb[1]", "0 to 14"),
    _m("1g.5gb: [7, 8]", "1g.5gb: []", "nodes[0].gpus[1].mig.1g.5gb", "empty list"),
    _m("1g.5gb: [7, 8]", "1g.5gb: 2", "nodes[0].gpus[1].mig.1g.5gb", "a list", '"2"'),
    _m("1g.5gb: [7, 8]", "'1g 5gb': [7]", "nodes[0].gpus[1].mig.1g 5gb", "MIG profile"),
    # --- vGPUs on a card -------------------------------------------------------------------------
    *_each(
        _VGPUS,
        "nodes[0].gpus[0].vgpus",
        ("vgpus: {}", "empty mapping"),
        ("vgpus: [a100-4g]", "mapping", "a list"),
        ("vgpus: a100-4g", "mapping", '"a100-4g"'),
        ("vgpus: ", "nothing"),
        ("vgpus: {a100-4g: 7, a100-2g: 1}", "108 SMs", "115 = 7 x 15 (a100-4g) + 1 x 10"),
        ("vgpus: {a100-2g: 11}", "108 SMs", "found 110"),
        ("vgpus: {t4-2g: 20}", "40GiB of a100 less the reserve of 1GiB", "found 40GiB"),
    ),
    _m(_VGPUS, "vgpus: {a100-4g: 0}", "nodes[0].gpus[0].vgpus.a100-4g", "1 to 1024"),
    _m(_VGPUS, "vgpus: {a100-4g: 1025}", "nodes[0].gpus[0].vgpus.a100-4g", "1 to 1024"),
    _m(_VGPUS, "vgpus: {a100-4g: -1}", "nodes[0].gpus[0].vgpus.a100-4g", '"-1"'),
    _m(_VGPUS, "vgpus: {a100-4g: 1.0}", "nodes[0].gpus[0].vgpus.a100-4g", '"1.0"'),
    _m(_VGPUS, "vgpus: {a100-4g: }", "nodes[0].gpus[0].vgpus.a100-4g", "nothing"),
    _m(_VGPUS, "vgpus: {a100-8g: 1}", "nodes[0].gpus[0].vgpus.a100-8g", "a100-2g, a100-4g, t4-2g"),
    _m(_VGPUS, "vgpus: {a100-4g: 1, a100-4g: 1}", "nodes[0].gpus[0].vgpus.a100-4g", "once"),
    _m(
        "{t4-2g: 7}",
        "{t4-2g: 8}",
        "nodes[1].gpus[0].vgpus",
        "16GiB of t4 less",
        "512MiB",
        "16GiB = 8",
    ),
    _m("{t4-2g: 7}", "{t4-2g: 9}", "nodes[1].gpus[0].vgpus", "40 SMs of t4", "45"),
    _m("max_sms: 40", "max_sms: 41", "nodes[1].gpus[0].vgpus.t4-2g", "40 SMs", "41", at="t4-2g: 7"),
    # --- workloads and bursts ---------------------------------------------------------------------
    _m("{cnn: 15ms,", "{cnn: 2ms,", "workloads.cnn", "5ms to 1000ms", '"2ms"'),
    _m("{cnn: 15ms,", "{cnn: 15,", "workloads.cnn", "10ms", '"15"'),
    _m("{cnn: 15ms,", "{9: 15ms,", "workloads.9", "begins with a letter"),
    _m("workloads: {cnn: 15ms, llm: 8ms}", "workloads: [cnn]", "workloads", "a list"),
    _m("{time: 50ms, qos", "{qos", "bursts.urgent", "time", "none"),
    _m("time: 50ms,", "time: 0ms,", "bursts.urgent.time", "1ms to 10000ms"),
    _m("time: 50ms,", "time: 1m,", "bursts.urgent.time", '"1m"'),
    _m("qos: [high]", "qos: ['a,b']", "bursts.urgent.qos[0]", "QOS"),
    _m(", qos: [high], partitions: [inference, live]", "", "bursts.urgent", "qos or partitions"),
    _m("[inference, live]", "[inference, inference]", "bursts.urgent.partitions[1]", "once"),
    _m("slices: 5ms-100ms", "slices: 100ms-5ms", "cluster.slices", "within 5ms-1000ms"),
    _m("slices: 5ms-100ms", "slices: 100ms", "cluster.slices", "5ms-100ms", '"100ms"'),
    _m("slices: 5ms-100ms", "slices: 1ms-100ms", "cluster.slices", "within 5ms-1000ms"),
    # --- cluster ---------------------------------------------------------------------------------
    _m("slurm: 22.05\n", "slurm: 2205\n", "cluster.slurm", "22.05", '"2205"'),
    _m("slurm: 22.05\n", "slurm: 22\n", "cluster.slurm", '"22"'),
    _m("slurm: 22.05\n", "slurm: 22.13\n", "cluster.slurm", '"22.13"'),
    _m("slurm: 22.05\n", "slurm: latest\n", "cluster.slurm", '"latest"'),
    _m("slurm: 22.05\n", "slurm:\n", "cluster.slurm", "nothing"),
    _m("[/usr/lib/slurm, /opt", "[usr/lib/slurm, /opt", "cluster.plugin_dir[0]", "absolute path"),
    _m("[/usr/lib/slurm, /opt", "['/usr/lib/a b', /opt", "cluster.plugin_dir[0]", "blanks"),
    _m("runtime_dir: /run/vgpu", "runtime_dir: run", "cluster.runtime_dir", "absolute path"),
    _m("runtime_dir: /run/vgpu", "runtime_dir: [/run]", "cluster.runtime_dir", "a list"),
    _m("gres_types: [nic]", "gres_types: [nic, nic]", "cluster.gres_types[1]", "once"),
    _m("gres_types: [nic]", "gres_types: ['a b']", "cluster.gres_types[0]", "GRES name"),
    _m("gres_types: [nic]", "gres_types: {nic: 1}", "cluster.gres_types", "a mapping"),
    _m("[gres/nic]", "['gres nic']", "cluster.accounting_tres[0]", "TRES"),
    _m("[throttle]", "[7]", "cluster.job_submit_plugins[0]", '"7"'),
    _m(
        "submit_bridge: true", "submit_bridge: on", "cluster.submit_bridge", "true or false", '"on"'
    ),
    _m("accounting: true", "accounting: false", "cluster.accounting_tres", at="accounting_tres"),
    _m("accounting: true\n", "accounting: yes\n", "cluster.accounting", "true or false"),
    _m("billing: 100", "billing: 0", "cluster.billing", "1 to 1000000"),
    _m("billing: 100", "billing: 1.5", "cluster.billing", '"1.5"'),
    _m("billing: 100", "bill: 100", "cluster.bill", "did you mean billing?"),
    _m("{mode: end,", "{mode: kill,", "cluster.backstop.mode", "end or warn or off", '"kill"'),
    _m("tolerance: 64MiB", "tolerance: 64", "cluster.backstop.tolerance", '"64"'),
    _m("time: 1000ms", "time: 1s", "cluster.backstop.time", '"1s"'),
    _m("time: 1000ms", "time: 0ms", "cluster.backstop.time", "1ms to 3600000ms"),
    _m("backstop: {mode: end,", "backstop: {modus: end,", "cluster.backstop.modus", "mode?"),
]
