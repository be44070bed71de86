"""Several vGPUs in one step, peers, sharing between processes, and stream capture."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.gpusim.step import GIB, MIB, Step

CONTEXT = 256 * MIB
VGPUS = ("1GiB", "2GiB")


def test_each_device_has_its_own_quota(step: Step) -> None:
    code = """
    answer = []
    for device, size in ((0, 600), (1, 1500)):
        start(device)
        answer += [ok(d.cuDeviceTotalMem(device)), code(d.cuMemAlloc(size * MIB)),
                   code(d.cuMemAlloc(size * MIB)), held(device) == used()]
    """
    assert step.run(code) == [GIB, 0, 2, True, 2 * GIB, 0, 2, True]


def test_the_quota_follows_the_device_through_CUDA_VISIBLE_DEVICES(step: Step) -> None:
    """And NVML may have been initialised before CUDA."""
    code = """
    visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    inner = '''
n.nvmlInit()
n.nvmlDeviceGetCount()
start(0)
say([ok(d.cuDeviceGetCount()), info()[1], len(fill(d.cuMemAlloc, 256 * MIB))])
'''
    answer = []
    for chosen in (visible[0], visible[1], ",".join(reversed(visible))):
        one = child(inner, env=os.environ | {"CUDA_VISIBLE_DEVICES": chosen})
        answer.append(one.hear())
        one.end()
    """
    assert step.run(_flat(code)) == [[1, GIB, 3], [1, 2 * GIB, 7], [2, 2 * GIB, 7]]


def test_vmm_memory_is_charged_to_its_location_not_to_the_current_device(step: Step) -> None:
    code = """
    start(1)
    context = start(0)
    before = used()
    handle = ok(vmm(100 * MIB, 1))
    here = used() - before
    start(1)
    answer = [here, used() - 256 * MIB, code(vmm(3 * GIB, 1)), code(vmm(900 * MIB, 0)),
              code(vmm(1500 * MIB, 1))]
    """
    assert step.run(code) == [0, 100 * MIB, 2, 2, 0]


def test_peers_are_as_natively(step: Step, native: Step) -> None:
    code = """
    first = start(0)
    second = start(1)
    answer = [ok(d.cuDeviceCanAccessPeer(0, 1)), code(d.cuCtxEnablePeerAccess(first, 0)),
              code(d.cuCtxEnablePeerAccess(first, 0)), code(d.cuCtxDisablePeerAccess(first))]
    """
    assert step.run(code) == native.run(code)


def test_memory_opened_from_another_process_is_charged_once(step: Step) -> None:
    code = """
    start()
    pointer = ok(d.cuMemAlloc(300 * MIB))
    handle = ok(d.cuIpcGetMemHandle(pointer))
    before = used()
    importer = child('''
    start()
    before = used()
    handle = d.CUipcMemHandle()
    handle.reserved = bytes.fromhex(sys.argv[1])
    pointer = ok(d.cuIpcOpenMemHandle(handle, 1))
    opened = used() - before
    say([opened, code(d.cuIpcCloseMemHandle(pointer)), used() - before])
    hear()
    ''', bytes(handle.reserved).hex())
    answer = [importer.hear(), used() - before - 256 * MIB, held() - used()]
    importer.kill()
    """
    assert step.run(code) == [[0, 0, 0], 0, 0]


def test_what_the_process_itself_did_not_allocate_is_freed_as_natively(
    step: Step, native: Step
) -> None:
    code = """
    start()
    handle = ok(d.cuIpcGetMemHandle(ok(d.cuMemAlloc(MIB))))
    answer = [code(d.cuIpcCloseMemHandle(0x1234)), code(d.cuMemFree(0x7f0000000000)),
              code(d.cuIpcOpenMemHandle(handle, 1)[:1])]
    """
    assert step.run(code) == native.run(code)


@pytest.mark.parametrize("mode", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def test_stream_capture_is_not_disturbed(step: Step, native: Step, mode: str) -> None:
    code = f"""
    start()
    module = ok(d.cuModuleLoadData(b"any text"))
    empty = ok(d.cuModuleGetFunction(module, b"empty"))
    source, target = ok(d.cuMemAlloc(MIB)), ok(d.cuMemAlloc(MIB))
    stream = ok(d.cuStreamCreate(1))
    answer = [code(d.cuStreamBeginCapture(stream,
        d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_{mode}))]
    for _ in range(20):
        answer.append(code(d.cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)))
        answer.append(code(d.cuMemcpyAsync(target, source, MIB, stream)))
        answer.append(code(d.cuMemsetD8Async(target, 0, MIB, stream)))
    pointer = d.cuMemAllocAsync(MIB, stream)
    answer += [code(pointer), code(d.cuMemFreeAsync(pointer[1], stream))]
    ended = d.cuStreamEndCapture(stream)
    exe = d.cuGraphInstantiate(ended[1], 0)
    answer += [code(ended), code(exe)]
    for _ in range(5):
        answer.append(code(d.cuGraphLaunch(exe[1], stream)))
    answer.append(code(d.cuStreamSynchronize(stream)))
    """
    assert step.run(code) == native.run(code)


def _flat(code: str) -> str:
    head, inner, tail = code.partition("inner = '''")
    body, end, rest = tail.partition("'''\n")
    return dedent(head) + inner + body + end + dedent(rest)
