"""vgpud below systemd: what it logs can be found by job in the journal, which is a real one."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.vgpud_node import Node, eventually, running_node

BATCH = 0xFFFFFFFB
JOURNALD = "/lib/systemd/systemd-journald"
# In a /run of its own, with a machine-id; of the kernel's messages and audit it keeps away.
CONF = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n"
START = f"""
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal /run/upper /run/work
printf '{CONF}' >/run/systemd/journald.conf.d/test.conf
mount -t overlay -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work overlay /etc
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
exec {JOURNALD}
"""


class Journal:
    """A journald in a mount namespace of its own."""

    def __init__(self) -> None:
        command = ["unshare", "--mount", "sh", "-c", START]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        self.enter = ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt"]
        socket = Path(f"/proc/{self.process.pid}/root/run/systemd/journal/socket")
        eventually(socket.exists)

    def read(self, *matches: str) -> list[dict[str, str]]:
        command = [*self.enter, "journalctl", "--directory=/run/log/journal", "--output=json"]
        done = subprocess.run(
            [*command, *matches], capture_output=True, text=True, check=False, timeout=20
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)


@pytest.fixture
def journal() -> Iterator[Journal]:
    if not Path(JOURNALD).exists():
        pytest.fail("systemd is not installed: run `make` as root")
    journal = Journal()
    yield journal
    journal.stop()


class NodeOfJournal(Node):
    """Says in $JOURNAL_STREAM, as systemd does, that its stderr is the journal."""

    def environment(self) -> dict[str, str]:
        log = (self.folder / "log").stat()
        return {**super().environment(), "JOURNAL_STREAM": f"{log.st_dev}:{log.st_ino}"}


@pytest.fixture
def node(built: None, journal: Journal, short_folder: Path) -> Iterator[Node]:
    node = NodeOfJournal(short_folder, prefix=journal.enter)
    node.start()
    yield node
    node.stop()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Not below pytest's own folders: the path of a socket may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="vgpu-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_that_a_line_is_found_by_its_job_and_step(node: Node, journal: Journal) -> None:
    node.client.bind(7, 0, 1000, [0])
    node.client.bind(7, BATCH, 1000, [0])
    node.client.bind(8, 0, 1000, [1])
    eventually(lambda: len(journal.read("SLURM_JOB_ID=8")) == 1)
    found = journal.read("SLURM_JOB_ID=7")
    assert [line["SLURM_STEP_ID"] for line in found] == ["0", "batch"]
    assert found[0]["MESSAGE"].startswith("job 7.0: bound ")
    assert found[0]["PRIORITY"] == "6"
    assert found[0]["SYSLOG_IDENTIFIER"] == "vgpud"
    assert "bound" not in node.log  # nothing is said twice


def test_that_a_line_about_a_whole_job_has_no_step(node: Node, journal: Journal) -> None:
    node.client.bind(7, 0, 1000, [0])
    node.client.unbind_job(7)
    eventually(lambda: len(journal.read("SLURM_JOB_ID=7")) >= 2)
    assert "SLURM_STEP_ID" not in journal.read("SLURM_JOB_ID=7")[-1]


def test_that_a_journal_that_ends_loses_no_line(node: Node, journal: Journal) -> None:
    journal.stop()
    node.client.bind(7, 0, 1000, [0])
    assert "<6>job 7.0: bound " in node.log


def test_that_stderr_which_is_not_the_journal_is_written_to(
    built: None, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")  # inherited from a shell below systemd
    with running_node(prefix=journal.enter) as node:
        node.client.bind(7, 0, 1000, [0])
        assert "job 7.0: bound " in node.log
    assert journal.read("SLURM_JOB_ID=7") == []
