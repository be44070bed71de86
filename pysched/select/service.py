"""The running service: answers requests from the newest snapshot, which is renewed beside it."""

import gc
import logging
from pathlib import Path

from pysched import vgpuconf
from pysched.select import protocol
from pysched.select.cluster import Builder, Snapshot
from pysched.select.decide import decide
from pysched.select.protocol import Accept, ProtocolError
from pysched.slurm import SlurmError
from pysched.slurm.readers import Reader
from pysched.vgpuconf import VgpuConf, VgpuConfError

_log = logging.getLogger("vgpu-select")


class Service:
    """``snapshot`` is None until Slurm has answered once: then everything is accepted."""

    def __init__(self, reader: Reader, conf: Path) -> None:
        self.reader, self.conf_path = reader, conf
        self.builder = Builder()
        self.snapshot: Snapshot | None = None
        self._conf: VgpuConf | None = None
        self._conf_stamp: tuple[int, int] | None = None
        self._said: set[str] = set()

    def answer(self, line: bytes) -> bytes:
        """The answer to a line of the bridge; empty, which is none, to anything else."""
        try:
            request = protocol.read_request(line.decode())
        except (ProtocolError, UnicodeDecodeError) as error:
            _log.error("a request that is none: %s", error)
            return b""
        if self.snapshot is None:
            return protocol.write_answer(Accept({}))
        return protocol.write_answer(decide(request, self.snapshot))

    def renew(self) -> None:
        """Read the cluster, and take over what was found."""
        try:
            self.snapshot = self.read()
            problems = set(self.builder.problems)
        except SlurmError as error:
            problems = {str(error)}
        except Exception as error:
            # Answers from what was known before are better than none.
            _log.exception("the nodes could not be taken in")
            problems = {f"the nodes could not be taken in: {error}"}
        for problem in sorted(problems - self._said):
            _log.warning("%s", problem)
        self._said = problems

    def read(self) -> Snapshot:
        """A new snapshot, with what has been asked for worked out on it."""
        nodes = self.reader()
        snapshot = self.builder.build(nodes, self.conf())
        snapshot.prepare(list(self.snapshot.unsolved) if self.snapshot else [])
        # What lives as long as the cluster stays as it is need not be looked through for garbage.
        gc.freeze()
        return snapshot

    def conf(self) -> VgpuConf | None:
        """vgpu.conf, read again when it has changed; None, and a word in the log, without it."""
        try:
            status = self.conf_path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
        except OSError:
            stamp = None
        if stamp != self._conf_stamp or (stamp is None and not self._said):
            self._conf_stamp = stamp
            try:
                self._conf = vgpuconf.read(self.conf_path)
            except VgpuConfError as error:
                self._conf = None
                _log.warning("types and their memory are not known: %s", error)
        return self._conf
