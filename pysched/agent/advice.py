"""Advice for one step: the placement engine on this node's topology and free places."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pysched import occupancy
from pysched.agent.question import Question, parse
from pysched.occupancy import Occupancy
from pysched.placement import Placement, PlacementError, Policy, Request, place
from pysched.topology import Topology
from pysched.vgpuconf import Node
from pysched.vgpud_client import Binding


class AdviceError(Exception):
    """One sentence: why there is no advice."""


@dataclass(frozen=True)
class Advice:
    """Minor numbers in rank order."""

    gpus: list[int]
    why: str


@dataclass(frozen=True)
class Adviser:
    """What is known of the node. ``cpus`` are the CPUs of each of Slurm's abstract cores."""

    topology: Topology
    node: Node
    cpus: Sequence[frozenset[int]] = ()
    policy: Policy = Policy.SPREAD

    def warm_up(self) -> None:
        """Answer the simplest questions once, so that the first real one is no slower."""
        for count in range(1, min(len(self.node.slots), len(self.topology)) + 1):
            question = {"job": 0, "slots": list(range(count)), "n": count}
            with suppress(AdviceError, PlacementError):
                self.advise(parse(json.dumps(question)), ())

    def advise(self, question: Question, bindings: Iterable[Binding]) -> Advice:
        """The best GPUs for the step's slots. Raises AdviceError where there is nothing to say."""
        bound = list(bindings)
        mine = [binding for binding in bound if binding.job == question.job]
        step = {slot: self.gpu_of_slot(mine, slot) for slot in question.slots}
        free = occupancy.of(self.node, bound)
        held = {gpu for gpu in step.values() if gpu is not None}
        elsewhere = {binding.vgpu.gpu for binding in mine} - held
        try:
            return self.placed(question, step, free, avoid=elsewhere)
        except PlacementError:
            if not elsewhere:
                raise
        return self.placed(question, step, free, avoid=set())

    @staticmethod
    def gpu_of_slot(mine: list[Binding], slot: int) -> int | None:
        """Where the job's slot is bound already, if it is."""
        for binding in mine:
            if binding.vgpu.slot == slot:
                return binding.vgpu.gpu
        return None

    def placed(
        self, question: Question, step: dict[int, int | None], state: Occupancy, avoid: set[int]
    ) -> Advice:
        index = {
            gpu.minor: at for at, gpu in enumerate(self.topology.gpus) if gpu.minor is not None
        }
        free = {
            index[minor]: dict(kinds)
            for minor, kinds in state.free().items()
            if minor in index and minor not in avoid
        }
        types = [self.type_of(slot) for slot in question.slots]
        keep: set[int] = set()
        for rank, (slot, minor) in enumerate(step.items()):
            if minor is None:
                continue
            if minor not in index:
                raise AdviceError(f"NVML does not list GPU {minor}, where slot {slot} is bound")
            # A slot that is bound stays: the one place of a type of its own, unless all are alike.
            if len(set(types)) > 1:
                types[rank] = f"bound slot {slot}"
                free.setdefault(index[minor], {})[types[rank]] = 1
            keep.add(index[minor])
        request = Request(
            demand=question.demand,
            types=tuple(types),
            pattern=question.pattern,
            affinity=question.affinity,
            policy=self.policy,
            cpus=self.cpus_of(question.cores),
            keep=frozenset(keep),
        )
        load = {at: state.share_taken(minor) for minor, at in index.items()}
        return self.told(place(self.topology, free, request, load))

    def told(self, found: Placement) -> Advice:
        minors = [self.topology.gpus[gpu].minor for gpu in found.gpus]
        return Advice([minor for minor in minors if minor is not None], found.why)

    def type_of(self, slot: int) -> str:
        if slot >= len(self.node.slots):
            raise AdviceError(f"vgpu.conf gives node {self.node.name} no slot {slot}")
        return self.node.slots[slot].type.name

    def cpus_of(self, cores: frozenset[int]) -> frozenset[int]:
        """The CPUs of abstract cores; none where the node claims more than the machine has."""
        if any(core >= len(self.cpus) for core in cores):
            return frozenset()
        return frozenset[int]().union(*(self.cpus[core] for core in cores))
