"""The lines of gres.conf and vgpu.conf for one node, without its name."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from gres import links
from gres.layout import NodeLayout, Slot
from gres.plan import Gpus
from pysched import paths, sizes


class ReleaseNeeded(Exception):
    """The output depends on the release of Slurm, and none is known."""


# --- gres.conf ------------------------------------------------------------------------------------


def gres_conf(layout: NodeLayout, release: str | None) -> list[str]:
    """The lines of gres.conf for a node of this release of Slurm."""
    return [*_slot_lines(layout.slots), *_gpu_lines(layout, release), *_shard_lines(layout.gpus)]


def _slot_lines(slots: tuple[Slot, ...]) -> Iterator[str]:
    """Neighbours with the same type and cores share a line; each slot has a file of its own."""
    numbered = enumerate(slots)
    for (vgpu_type, cores), run in groupby(numbered, key=lambda n: (n[1].type, n[1].cores)):
        indices = [index for index, _ in run]
        yield (
            f"Name=vgpu Type={vgpu_type.name} File={paths.SLOTS_DIR}/{_bracket(indices)}"
            f"{_cores(cores)}"
        )


def gpu_devices(layout: NodeLayout) -> list[int | None]:
    """The GPU of each line of gres/gpu, None for a MIG instance."""
    devices: list[int | None] = []
    for gpu in layout.gpus:
        if gpu.whole or gpu.shards:
            devices.append(gpu.minor)
        devices += [None for _ in _instances(gpu)]
    return devices


def _gpu_lines(layout: NodeLayout, release: str | None) -> list[str]:
    """One line for each whole GPU and each MIG instance, with Links= where the choice matters."""
    lines = list(chain.from_iterable(map(_gpu_line, layout.gpus)))
    devices = gpu_devices(layout)
    if not links.matter(devices, layout.nvlink):
        return lines
    if release is None:
        raise ReleaseNeeded(
            "the order of Links= depends on the release of Slurm, and none is installed here: "
            "say which with --slurm or cluster.slurm"
        )
    values = links.values(devices, layout.nvlink, release)
    return [f"{line} Links={value}" for line, value in zip(lines, values, strict=True)]


def _gpu_line(gpu: Gpus) -> Iterator[str]:
    device = f"/dev/nvidia{gpu.minor}"
    if gpu.whole or gpu.shards:
        yield f"Name=gpu Type={gpu.card.name} File={device}{_cores(gpu.cores)}"
    for profile, instance in _instances(gpu):
        files = ",".join([device, *mig_devices(gpu.minor, instance)])
        yield f"Name=gpu Type={profile} MultipleFiles={files}{_cores(gpu.cores)}"


def _shard_lines(gpus: tuple[Gpus, ...]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.shards:
            file = f"/dev/nvidia{gpu.minor}"
            yield f"Name=shard Count={gpu.shards} File={file}{_cores(gpu.cores)}"


def _instances(gpu: Gpus) -> Iterator[tuple[str, int]]:
    for profile, instances in gpu.mig:
        for instance in instances:
            yield profile, instance


def mig_devices(minor: int, instance: int) -> list[str]:
    """Capability files of a GPU instance and of its compute instance 0.

    The driver numbers them in a fixed way (/proc/driver/nvidia-caps/mig-minors): two for all, then
    for each GPU 15 GPU instances with one file and 8 compute instances each.
    """
    first = 3 + minor * 15 * 9 + instance * 9
    return [f"/dev/nvidia-caps/nvidia-cap{number}" for number in (first, first + 1)]


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as Slurm writes them.

    >>> ranges([0, 1, 2, 8])
    '0-2,8'
    """
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        parts.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return ",".join(parts)


def _bracket(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"[{ranges(numbers)}]"


def _cores(cores: tuple[int, ...]) -> str:
    return f" Cores={ranges(cores)}" if cores else ""


# --- vgpu.conf ------------------------------------------------------------------------------------


def vgpu_conf(layout: NodeLayout) -> list[str]:
    """The lines of vgpu.conf for a node."""
    return [*_conf_gpus(layout.gpus), *_conf_slots(layout.slots)]


def _conf_gpus(gpus: tuple[Gpus, ...]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.vgpus:
            card = gpu.card
            reserve = f" Reserve={sizes.format_size(card.reserve)}" if card.reserve else ""
            uuid = f" UUID={gpu.uuid}" if gpu.uuid else ""
            yield (
                f"GPU={gpu.minor} Memory={sizes.format_size(card.memory)}{reserve} "
                f"SMs={card.sms}{uuid}"
            )


def _conf_slots(slots: tuple[Slot, ...]) -> Iterator[str]:
    for vgpu_type, run in groupby(enumerate(slots), key=lambda numbered: numbered[1].type):
        members = list(run)
        first = members[0][0]
        for start, length, turn in _turns([slot.gpu for _, slot in members]):
            last = first + start + length - 1
            span = f"{first + start}-{last}" if length > 1 else str(last)
            gpus = ",".join(map(str, turn))
            yield f"Slot={span} Type={vgpu_type.name} GPU={gpus}"


def _turns(gpus: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """Cut a sequence into (start, length, turn) such that each piece repeats its turn.

    >>> list(_turns([0, 1, 0, 1, 0, 2]))
    [(0, 5, [0, 1]), (5, 1, [2])]
    """
    start = 0
    while start < len(gpus):
        turn = [gpus[start]]
        while start + len(turn) < len(gpus) and gpus[start + len(turn)] not in turn:
            turn.append(gpus[start + len(turn)])
        end = start + len(turn)
        while end < len(gpus) and gpus[end] == turn[(end - start) % len(turn)]:
            end += 1
        yield start, end - start, turn
        start = end
