"""Claims about the bridge in slurmctld: what leaves Lua, and what becomes of every kind of answer.

The bridge runs in Lua 5.1 as in Slurm, with a few functions of slurmctld's; vgpu-select is played
by the test.
"""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pysched.select import protocol
from pysched.select.protocol import Accept, Answer, JobRequest, Refuse

BRIDGE = Path(__file__).parents[2] / "slurm_plugins" / "job_submit_vgpu.lua"

SLURM = """\
slurm = {SUCCESS = 0, ERROR = -1}
function slurm.log_user(format, ...) print("user " .. string.format(format, ...)) end
function slurm.log_info(format, ...) print("log " .. string.format(format, ...)) end
local vgpu = dofile("%s")
vgpu.socket = "%s"
for name, value in pairs(%s) do vgpu[name] = value end
"""
CALL = """\
local job = %s
print("rc " .. string.format("%%d", vgpu.%s))
for name, value in pairs(job) do print("job " .. name .. "=" .. tostring(value)) end
print("end")
"""
PARTITIONS = "{main = {flag_default = 1}, other = {flag_default = 0}}"

Conversation = Callable[[socket.socket, bytes], None]


def lua(value: object) -> str:
    """A value as Lua source."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{lua(key)}] = {lua(each)}" for key, each in value.items()) + "}"
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte}" for byte in value.encode()) + '"'
    return {True: "true", False: "false", None: "nil"}.get(value, str(value))  # type: ignore[call-overload]


@dataclass
class Outcome:
    """What one call to the bridge came to."""

    code: int = 0
    said: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    job: dict[str, str] = field(default_factory=dict)


@dataclass
class Service:
    """Listens where the bridge asks; ``lines`` are the questions that came."""

    path: Path
    talk: Conversation
    lines: list[bytes] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        done = threading.Event()
        thread = threading.Thread(target=self._serve, args=(listener, done))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(10)
            listener.close()

    def _serve(self, listener: socket.socket, done: threading.Event) -> None:
        listener.settimeout(0.02)
        kept = []
        while not done.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            client.settimeout(5)
            kept.append(client)
            line = client.makefile("rb").readline()
            self.lines.append(line)
            try:
                self.talk(client, line)
            except OSError:
                continue
        for client in kept:
            client.close()

    def requests(self) -> list[JobRequest]:
        return [protocol.read_request(line.decode().rstrip("\n")) for line in self.lines]


def answering(answer: Answer) -> Conversation:
    def talk(client: socket.socket, _: bytes) -> None:
        client.sendall(protocol.write_answer(answer))
        client.close()

    return talk


def sending(data: bytes, close: bool = True) -> Conversation:
    def talk(client: socket.socket, _: bytes) -> None:
        client.sendall(data)
        if close:
            client.close()

    return talk


class Bridge:
    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, folder / "select.sock"

    def calls(
        self, *calls: tuple[str, Mapping[object, object]], **settings: object
    ) -> list[Outcome]:
        """Call functions of the bridge one after the other, in one Lua state as slurmctld does."""
        script = SLURM % (BRIDGE, self.socket, lua(settings))
        script += "".join("do\n" + CALL % (lua(job), call) + "end\n" for call, job in calls)
        path = self.folder / "calls.lua"
        path.write_text(script)
        done = subprocess.run(
            ["lua5.1", str(path)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        outcomes = [Outcome()]
        for line in done.stdout.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "end":
                outcomes.append(Outcome())
            elif kind == "rc":
                outcomes[-1].code = int(rest)
            elif kind == "job":
                name, _, value = rest.partition("=")
                outcomes[-1].job[name] = value
            else:
                (outcomes[-1].said if kind == "user" else outcomes[-1].logged).append(rest)
        return outcomes[:-1]

    def submit(
        self, job: Mapping[object, object], times: int = 1, **settings: object
    ) -> list[Outcome]:
        call = f"submit(job, {PARTITIONS}, 1000)"
        return self.calls(*[(call, job)] * times, **settings)

    def asked(self, talk: Conversation) -> Service:
        return Service(self.socket, talk)


@pytest.fixture
def bridge(tmp_path: Path) -> Bridge:
    return Bridge(tmp_path)


JOB: dict[object, object] = {"tres_per_node": "gres:vgpu:2"}
UNSET = {
    "min_nodes": 4294967294,
    "num_tasks": 4294967294,
    "cpus_per_task": 65534,
    "sockets_per_node": 65534,
    "threads_per_core": 65534,
}


# --- what leaves Lua ------------------------------------------------------------------------------


def test_that_a_request_arrives_with_all_its_fields(bridge: Bridge) -> None:
    service = bridge.asked(answering(Accept({})))
    options = ["comm=tp2xdp2", "affinity=require_nvlink", "mem=7GiB", "colocate="]
    words = [f"_SLURM_SPANK_OPTION_vgpu_vgpu_{option}" for option in options]
    words += ["_SLURM_SPANK_OPTION_other_vgpu_mem=9", "PATH=/bin"]
    job: dict[object, object] = {
        "tres_per_node": "gres:gpu:1,gres:vgpu:a:2",
        "features": "(a|b)&c",
        "prefer": "a",
        "partition": "main,other",
        "admin_comment": "100%\tsure\n",
        "min_nodes": 2,
        "num_tasks": 4,
        "cpus_per_task": 8,
        "min_mem_per_node": 64000,
        "req_nodes": "n[1-2]",
        "exc_nodes": "n3",
        "reservation": "maintenance",
        "threads_per_core": 65534,
        "spank_job_env": dict(enumerate(words)),
    }
    with service.running():
        (outcome,) = bridge.submit(job)
    assert outcome.code == 0
    assert service.requests() == [
        JobRequest(
            tres_per_node="gres:gpu:1,gres:vgpu:a:2", features="(a|b)&c", prefer="a",
            partition="main,other", admin_comment="100%\tsure\n", comm="tp2xdp2",
            affinity="require_nvlink", mem="7GiB", colocate="yes", nodes=2, tasks=4,
            cpus_per_task=8, mem_per_node=64000, req_nodes="n[1-2]", exc_nodes="n3",
            picky="reservation",
        )
    ]  # fmt: skip


def test_that_what_is_not_set_is_not_sent_and_the_default_partition_is(bridge: Bridge) -> None:
    service = bridge.asked(answering(Accept({})))
    with service.running():
        bridge.submit({**JOB, **UNSET, "features": ""})
    assert service.requests() == [JobRequest(tres_per_node="gres:vgpu:2", partition="main")]


@pytest.mark.parametrize(
    "name", ["tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"]
)
@pytest.mark.parametrize(
    "gres", ["gres:vgpu", "gres/vgpu:a:1", "gres:gpu:2,gres:vgpu:1", "gres/vgpu=2"]
)
def test_that_it_asks_for(bridge: Bridge, name: str, gres: str) -> None:
    service = bridge.asked(answering(Refuse("asked")))
    with service.running():
        assert bridge.submit({name: gres})[0].said == ["vgpu: asked"]


@pytest.mark.parametrize("gres", ["gres:gpu:2", "gres:xvgpu:1", "gres:vgpus:1", ""])
def test_that_it_never_asks_for(bridge: Bridge, gres: str) -> None:
    service = bridge.asked(answering(Refuse("asked")))
    with service.running():
        outcomes = bridge.submit({"tres_per_node": gres}) + bridge.submit({})
    assert [outcome.code for outcome in outcomes] == [0, 0] and not service.lines


# --- answers --------------------------------------------------------------------------------------


def test_that_accepted_fields_are_set(bridge: Bridge) -> None:
    changes = {"features": "(a)&vgpu-nvlink4", "admin_comment": "50%\tvgpu{x=1}", "user_id": "0"}
    with bridge.asked(answering(Accept(changes))).running():
        (outcome,) = bridge.submit(JOB)
    assert outcome.code == 0 and not outcome.said
    assert outcome.job == {
        "tres_per_node": "gres:vgpu:2",
        "features": "(a)&vgpu-nvlink4",
        "admin_comment": "50%\tvgpu{x=1}",
    }


def test_that_a_refusal_reaches_the_user(bridge: Bridge) -> None:
    with bridge.asked(answering(Refuse("no node has 100% of that"))).running():
        (outcome,) = bridge.submit(JOB)
    assert outcome.code == 2072
    assert outcome.said == ["vgpu: no node has 100% of that"]


FAILURES: dict[str, Conversation] = {
    "no answer": lambda client, line: None,
    "a closed connection": lambda client, line: client.close(),
    "half a length": sending(b"00"),
    "half an answer": sending(b"0010accept"),
    "half an answer that stays open": sending(b"0010accept", close=False),
    "garbage": sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "a wrong verb": sending(b"0006reject"),
    "a field that is none": sending(b"000daccept\tbroken"),
    "a refusal without a reason": sending(b"0006refuse"),
    "ten megabytes": sending(b"x" * 10_000_000),
    "ten megabytes behind a length": sending(b"ffff" + b"x" * 10_000_000),
}


@pytest.mark.parametrize("what", FAILURES)
def test_that_jobs_pass_and_nobody_is_asked_again_after(bridge: Bridge, what: str) -> None:
    service = bridge.asked(FAILURES[what])
    with service.running():
        outcomes = bridge.submit(JOB, times=5)
    assert [outcome.code for outcome in outcomes] == [0] * 5
    assert len(service.lines) == 1
    assert "nobody is asked for 10 s" in outcomes[0].logged[0]
    assert outcomes[4].job == {"tres_per_node": "gres:vgpu:2"}


@pytest.mark.parametrize("what", FAILURES)
def test_that_jobs_are_rejected_where_the_site_wants_that_after(bridge: Bridge, what: str) -> None:
    with bridge.asked(FAILURES[what]).running():
        outcomes = bridge.submit(JOB, times=2, on_failure="reject")
    assert [outcome.code for outcome in outcomes] == [-1, -1]
    assert all("the vGPU service does not answer" in outcome.said[0] for outcome in outcomes)


def test_that_a_service_which_is_not_there_is_tried_each_time(bridge: Bridge) -> None:
    outcomes = bridge.submit(JOB, times=2)
    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert not any(outcome.logged for outcome in outcomes)
    assert bridge.submit(JOB, on_failure="reject")[0].code == -1


def test_that_it_asks_again_after_the_pause(bridge: Bridge) -> None:
    service = bridge.asked(FAILURES["garbage"])
    with service.running():
        bridge.submit(JOB, times=3, pause=0)
    assert len(service.lines) == 3


def test_that_an_error_inside_is_no_error_of_slurm(bridge: Bridge) -> None:
    outcomes = bridge.calls(("submit(setmetatable({}, {__index = error}), nil, 1000)", {}))
    assert outcomes[0].code == 0 and "nobody is asked" in outcomes[0].logged[0]


# --- changes --------------------------------------------------------------------------------------


def modify(record: Mapping[object, object], uid: int = 1000) -> str:
    return f"modify(job, {lua(record)}, {PARTITIONS}, {uid})"


def test_that_a_change_of_features_carries_the_jobs_comment(bridge: Bridge) -> None:
    service = bridge.asked(answering(Accept({"features": "(big)&vgpu-nvlink4"})))
    record = {**JOB, "admin_comment": "vgpu{needs=vgpu-nvlink4}", "partition": "other"}
    with service.running():
        (outcome,) = bridge.calls((modify(record), {"features": "big"}))
    assert outcome.job == {"features": "(big)&vgpu-nvlink4"}
    assert service.requests() == [
        JobRequest(
            op="modify", features="big", admin_comment="vgpu{needs=vgpu-nvlink4}", partition="other"
        )
    ]


def test_that_root_changes_jobs_without_being_asked(bridge: Bridge) -> None:
    service = bridge.asked(answering(Refuse("asked")))
    with service.running():
        outcomes = bridge.calls(
            (modify(JOB, uid=0), {"features": "big", "tres_per_node": "gres:vgpu:99"}),
            (modify(JOB), {"comment": "x"}),
            (modify({"tres_per_node": "gres:gpu:1"}), {"features": "big"}),
        )
    assert [outcome.code for outcome in outcomes] == [0, 0, 0] and not service.lines


def test_that_a_change_of_vgpus_can_be_refused(bridge: Bridge) -> None:
    with bridge.asked(answering(Refuse("no"))).running():
        (outcome,) = bridge.calls((modify({}), {"tres_per_node": "gres:vgpu:99"}))
    assert (outcome.code, outcome.said) == (2072, ["vgpu: no"])
