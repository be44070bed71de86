"""What NVML says about simulated machines, asked with unmodified nvidia-ml-py."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.gpusim.inside import inside, shared
from tests.sandbox.gpus import MACHINES
from tests.sandbox.paths import SOURCE

GIB = 1 << 30

# What nvidia-smi topo -m shows on the real machine: one row a GPU, the diagonal left out as X.
MATRICES = {
    "a100-pcie-4": """
        X NV12 SYS SYS
        NV12 X SYS SYS
        SYS SYS X NV12
        SYS SYS NV12 X""",
    "dgx-1v": """
        X NV1 NV1 NV2 NV2 SYS SYS SYS
        NV1 X NV2 NV1 SYS NV2 SYS SYS
        NV1 NV2 X NV2 SYS SYS NV1 SYS
        NV2 NV1 NV2 X SYS SYS SYS NV1
        NV2 SYS SYS SYS X NV1 NV1 NV2
        SYS NV2 SYS SYS NV1 X NV2 NV1
        SYS SYS NV1 SYS NV1 NV2 X NV2
        SYS SYS SYS NV1 NV2 NV1 NV2 X""",
    "dgx-a100": "\n".join(
        " ".join("X" if row == column else "NV12" for column in range(8)) for row in range(8)
    ),
    "pcie-8": """
        X PIX PHB PHB SYS SYS SYS SYS
        PIX X PHB PHB SYS SYS SYS SYS
        PHB PHB X PIX SYS SYS SYS SYS
        PHB PHB PIX X SYS SYS SYS SYS
        SYS SYS SYS SYS X PIX PHB PHB
        SYS SYS SYS SYS PIX X PHB PHB
        SYS SYS SYS SYS PHB PHB X PIX
        SYS SYS SYS SYS PHB PHB PIX X""",
    "single-16g": "X",
    "h100-4": """
        X NV6 NV6 NV6
        NV6 X NV6 NV6
        NV6 NV6 X NV6
        NV6 NV6 NV6 X""",
    "dual-nv2": """
        X NV2
        NV2 X""",
}


def test_every_machine_file_has_a_picture_of_its_links() -> None:
    assert {path.stem for path in MACHINES.glob("*.machine")} == set(MATRICES)


@pytest.mark.parametrize("machine", MATRICES)
def test_topology_through_nvml_is_the_picture_of_the_machine(machine: str) -> None:
    text = shared('answer = subprocess.check_output([STAT, "topo"], text=True)', machine=machine)
    assert text.startswith("# simulated\n")
    rows = [line.split("\t") for line in text.splitlines() if line.startswith("GPU")]
    matrix = [[cell.strip() for cell in row[1 : len(rows) + 1]] for row in rows]
    assert matrix == [line.split() for line in MATRICES[machine].strip().splitlines()]


def test_a_dgx_a100_says_which_cpus_and_memory_are_near() -> None:
    code = """
        gpu = gpus()[4]
        cpus = n.nvmlDeviceGetCpuAffinity(gpu, 4)
        nodes = n.nvmlDeviceGetMemoryAffinity(gpu, 1, n.NVML_AFFINITY_SCOPE_NODE)
        answer = [[bit for bit in range(256) if cpus[bit // 64] >> bit % 64 & 1], nodes[0]]
    """
    cpus, nodes = shared(code, machine="dgx-a100")
    assert cpus == [*range(112, 128), *range(240, 256)]
    assert nodes == 1 << 7


def test_a_gpu_without_numa_node_has_no_memory_affinity() -> None:
    code = """
        gpu = gpus()[0]
        answer = error(n.nvmlDeviceGetMemoryAffinity, gpu, 1, 0) == n.NVML_ERROR_NOT_SUPPORTED
    """
    assert shared(code, machine="single-16g")


# --- initialisation -----------------------------------------------------------------------------


def test_calls_before_init_and_after_the_last_shutdown_are_refused() -> None:
    code = """
        before = error(n.nvmlDeviceGetCount) if n._LoadNvmlLibrary() is None else None
        n.nvmlInit()
        gpu = gpus()[0]
        n.nvmlShutdown()
        still = error(n.nvmlDeviceGetName, gpu)
        n.nvmlShutdown()
        after = [error(n.nvmlDeviceGetName, gpu), error(n.nvmlShutdown)]
        n.nvmlInit()
        again = error(n.nvmlDeviceGetName, gpu)
        answer = [before, still, after, again]
    """
    uninitialized = 1
    assert shared(code) == [uninitialized, 0, [uninitialized, uninitialized], 0]


def test_without_the_control_device_the_driver_is_not_loaded() -> None:
    code = """
        os.unlink("/dev/nvidiactl")
        absent = error(n.nvmlInit)
        Path("/dev/nvidiactl").touch(0)
        os.chmod("/dev/nvidiactl", 0)
        answer = [absent, error(n.nvmlInit)]
    """
    not_loaded, no_permission = 9, 4
    assert inside(code) == [not_loaded, no_permission]


def test_gpus_whose_device_files_cannot_be_opened_are_left_out_and_the_others_move_up() -> None:
    code = """
        os.chmod("/dev/nvidia0", 0)   # as a file of mode 000 bound over it, which root could open
        os.unlink("/dev/nvidia2")
        found = gpus()
        answer = [
            [n.nvmlDeviceGetMinorNumber(gpu) for gpu in found],
            [n.nvmlDeviceGetIndex(gpu) for gpu in found],
            error(n.nvmlDeviceGetHandleByIndex, 2) == n.NVML_ERROR_INVALID_ARGUMENT,
            error(n.nvmlDeviceGetHandleByPciBusId, "0000:01:00.0") == n.NVML_ERROR_NOT_FOUND,
        ]
    """
    assert inside(code) == [[1, 3], [0, 1], True, True]


def test_a_user_who_may_open_no_gpu_sees_none() -> None:
    code = """
        for i in range(4):
            os.chmod(f"/dev/nvidia{i}", 0o600)
        os.setuid(20001)
        n.nvmlInit()
        answer = n.nvmlDeviceGetCount()
    """
    assert inside(code) == 0


def test_cuda_visible_devices_does_not_matter_to_nvml() -> None:
    code = """
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
        answer = len(gpus())
    """
    assert shared(code) == 4


# --- identity -----------------------------------------------------------------------------------


def test_a_gpu_is_found_by_index_uuid_serial_and_pci_address() -> None:
    code = """
        n.nvmlInit()
        answer = []
        for gpu in gpus():
            pci = n.nvmlDeviceGetPciInfo(gpu)
            uuid = n.nvmlDeviceGetUUID(gpu)
            binary = bytes.fromhex(uuid[4:].replace("-", ""))
            found = [
                n.nvmlDeviceGetHandleByUUID(uuid),
                n.nvmlDeviceGetHandleByUUIDV(uuid.encode(), n.NVML_UUID_TYPE_ASCII),
                n.nvmlDeviceGetHandleByUUIDV(binary, n.NVML_UUID_TYPE_BINARY),
                n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(gpu)),
                n.nvmlDeviceGetHandleByPciBusId(pci.busId),
                n.nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy),
                n.nvmlDeviceGetHandleByPciBusId(pci.busId[9:].lower()),
            ]
            answer.append([n.nvmlDeviceGetIndex(handle) for handle in found])
    """
    assert shared(code) == [[i] * 7 for i in range(4)]


def test_lookups_of_what_is_not_there_or_malformed_say_so() -> None:
    code = """
        n.nvmlInit()
        answer = [
            error(n.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000"),
            error(n.nvmlDeviceGetHandleBySerial, "none"),
            error(n.nvmlDeviceGetHandleByPciBusId, "0000:77:00.0"),
            error(n.nvmlDeviceGetHandleByPciBusId, "slot 4"),
            error(n.nvmlDeviceGetHandleByIndex, 4),
            error(n.nvmlDeviceGetName, ctypes.cast(0x1234, n.c_nvmlDevice_t)),
        ]
    """
    not_found, invalid = 6, 2
    assert shared(code) == [not_found, not_found, not_found, invalid, invalid, invalid]


def test_pci_records_of_all_versions_say_the_same() -> None:
    code = """
        n.nvmlInit()
        gpu = n.nvmlDeviceGetHandleByIndex(1)
        old, new = n.nvmlPciInfo_v2_t(), n.nvmlPciInfo_t()
        library = n.nvmlLib
        assert library.nvmlDeviceGetPciInfo_v2(gpu, ctypes.byref(old)) == 0
        assert library.nvmlDeviceGetPciInfo_v3(gpu, ctypes.byref(new)) == 0
        answer = [old.busId, new.busIdLegacy, new.busId, old.bus == new.bus == 0x25]
    """
    assert shared(code) == ["0000:25:00.0", "0000:25:00.0", "00000000:25:00.0", True]


def test_system_and_device_facts_are_those_of_the_machine_file() -> None:
    code = """
        gpu = gpus()[0]
        answer = [
            n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetNVMLVersion(),
            n.nvmlSystemGetCudaDriverVersion(), n.nvmlDeviceGetName(gpu),
            list(n.nvmlDeviceGetCudaComputeCapability(gpu)), n.nvmlDeviceGetNumGpuCores(gpu),
            n.nvmlDeviceGetArchitecture(gpu) == n.NVML_DEVICE_ARCH_AMPERE,
            n.nvmlDeviceGetMemoryInfo(gpu).total, n.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
        ]
    """
    assert shared(code) == [
        "580.65.06",
        "13.580.65.06",
        13000,
        "NVIDIA A100-PCIE-40GB",
        [8, 0],
        108 * 64,
        True,
        40 * GIB,
        4,
    ]


# --- contracts ----------------------------------------------------------------------------------


# Every function that nvml.h declares: its name and its parameters.
PROTOTYPES = f"""
import re
header = Path({str(SOURCE)!r}, "build/venv/include-cuda/nvml.h").read_text()
header = re.sub(r"/[*].*?[*]/|//[^\\n]*", " ", header, flags=re.DOTALL)
prototypes = re.findall(r"nvmlReturn_t\\s+DECLDIR\\s+(nvml\\w+)\\s*\\(([^;]*)\\);", header)
n.nvmlInit()
"""


def test_every_function_of_the_header_is_exported() -> None:
    code = PROTOTYPES + dedent("""
        missing = [name for name, _ in prototypes if not hasattr(n.nvmlLib, name)]
        answer = [len(prototypes), missing]
    """)
    count, missing = shared(code)
    assert count > 390
    assert missing == []


def test_null_pointers_are_invalid_arguments_never_a_crash() -> None:
    code = PROTOTYPES + dedent("""
        gpu = n.nvmlDeviceGetHandleByIndex(0)
        answer = []
        for name, parameters in prototypes:
            parameters = parameters.split(",")
            if not any("*" in parameter for parameter in parameters):
                continue
            arguments = [ctypes.c_ulong(0)] * len(parameters)  # NULL, or the number 0
            if parameters[0].startswith("nvmlDevice_t") and "*" not in parameters[0]:
                arguments[0] = gpu
            rc = getattr(n.nvmlLib, name)(*arguments)
            if rc not in (n.NVML_ERROR_INVALID_ARGUMENT, n.NVML_ERROR_NOT_SUPPORTED):
                answer.append([name, rc])
    """)
    assert shared(code) == []


def test_a_wrong_version_tag_is_a_version_mismatch() -> None:
    code = """
        gpu = gpus()[0]
        memory = n.c_nvmlMemory_v2_t()
        memory.version = 0x01000028
        wrong = n.nvmlLib.nvmlDeviceGetMemoryInfo_v2(gpu, ctypes.byref(memory))
        memory.version = 0x02000028
        right = n.nvmlLib.nvmlDeviceGetMemoryInfo_v2(gpu, ctypes.byref(memory))
        answer = [wrong == n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, right, memory.total]
    """
    assert shared(code) == [True, 0, 40 * GIB]


def test_a_text_buffer_that_is_too_small_is_an_insufficient_size() -> None:
    code = """
        gpu = gpus()[0]
        size = len(n.nvmlDeviceGetName(gpu)) + 1
        buffer = ctypes.create_string_buffer(size)
        answer = [
            n.nvmlLib.nvmlDeviceGetName(gpu, buffer, size - 1) == n.NVML_ERROR_INSUFFICIENT_SIZE,
            n.nvmlLib.nvmlDeviceGetName(gpu, buffer, size),
        ]
    """
    assert shared(code) == [True, 0]


def test_error_codes_have_texts() -> None:
    code = """
        n._LoadNvmlLibrary()
        n.nvmlLib.nvmlErrorString.restype = ctypes.c_char_p
        answer = [n.nvmlLib.nvmlErrorString(code).decode() for code in (0, 3, 6, 15, 999, 12345)]
    """
    unknown = "Unknown Error"
    texts = ["Success", "Not Supported", "Not Found", "GPU is lost", unknown, unknown]
    assert shared(code) == texts


def test_what_the_simulator_does_not_model_is_not_supported() -> None:
    code = """
        gpu = gpus()[0]
        answer = [
            error(n.nvmlDeviceGetFBCStats, gpu) == n.NVML_ERROR_NOT_SUPPORTED,
            error(n.nvmlDeviceGetNumaNodeId, gpu) == n.NVML_ERROR_NOT_SUPPORTED,
        ]
    """
    assert shared(code) == [True, True]


# --- links --------------------------------------------------------------------------------------


def test_nvlinks_lead_to_peers_and_back() -> None:
    code = """
        all = gpus()
        bus = [n.nvmlDeviceGetPciInfo(gpu).busId for gpu in all]
        answer = []
        for i, gpu in enumerate(all):
            for link in range(6):
                peer = all[bus.index(n.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId)]
                field = (n.NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID, link)
                remote = n.nvmlDeviceGetFieldValues(gpu, [field])[0].value.uiVal
                back = n.nvmlDeviceGetNvLinkRemotePciInfo(peer, remote).busId
                answer.append(bus.index(back) == i)
    """
    assert shared(code, machine="dgx-1v") == [True] * 48


@pytest.mark.parametrize(
    ("machine", "version", "remote", "active"),
    [
        ("dgx-1v", 2, "GPU", 6),
        ("a100-pcie-4", 5, "GPU", 12),
        ("dgx-a100", 5, "SWITCH", 12),
        ("h100-4", 6, "GPU", 18),
    ],
)
def test_a_link_tells_version_as_nvml_counts_it_and_what_is_at_its_end(
    machine: str, version: int, remote: str, active: int
) -> None:
    code = f"""
        gpu = gpus()[0]
        links = [link for link in range(18) if not error(n.nvmlDeviceGetNvLinkVersion, gpu, link)]
        answer = [
            len(links),
            n.nvmlDeviceGetNvLinkVersion(gpu, 0),
            n.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 0) == n.NVML_NVLINK_DEVICE_TYPE_{remote},
            n.nvmlDeviceGetNvLinkCapability(gpu, 0, n.NVML_NVLINK_CAP_P2P_SUPPORTED),
        ]
    """
    assert shared(code, machine=machine) == [active, version, True, 1]


def test_a_gpu_without_nvlink_does_not_support_questions_about_it() -> None:
    code = """
        a, b, *_ = gpus()
        read, nvlink = ctypes.c_int(0), ctypes.c_int(2)
        answer = [
            error(n.nvmlDeviceGetNvLinkState, a, 0),
            error(n.nvmlDeviceGetNvLinkState, a, 18),
            n.nvmlDeviceGetP2PStatus(a, b, read) == n.NVML_P2P_STATUS_OK,
            n.nvmlDeviceGetP2PStatus(a, b, nvlink) == n.NVML_P2P_STATUS_OK,
        ]
    """
    not_supported, invalid = 3, 2
    assert shared(code, machine="pcie-8") == [not_supported, invalid, True, False]


def test_no_simulated_machine_is_part_of_a_fabric() -> None:
    code = """
        gpu = gpus()[0]
        info = n.c_nvmlGpuFabricInfo_v3_t()
        info.version = n.nvmlGpuFabricInfo_v3
        rc = n.nvmlLib.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
        answer = [rc, info.state == n.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED]
    """
    assert shared(code) == [0, True]


def test_injected_link_errors_show_in_counters_and_fields() -> None:
    code = """
        gpu = gpus()[0]
        replay = n.NVML_NVLINK_ERROR_DL_REPLAY
        fields = [
            n.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L7,
            n.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        ]
        answer = [
            [n.nvmlDeviceGetNvLinkErrorCounter(gpu, link, replay) for link in (6, 7)],
            [value.value.ullVal for value in n.nvmlDeviceGetFieldValues(gpu, fields)],
            n.nvmlDeviceGetNvLinkState(gpu, 3),
        ]
    """
    faults = "nvml replay.7 0 41\nnvml replay.2 0 1\nnvml link.3 0 0\n"
    assert shared(code, faults=faults) == [[0, 41], [41, 42], 0]


def test_field_values_have_their_own_return_codes() -> None:
    code = """
        gpu = gpus()[0]
        fields = [n.NVML_FI_DEV_NVLINK_LINK_COUNT, n.NVML_FI_DEV_MEMORY_TEMP, 0]
        values = n.nvmlDeviceGetFieldValues(gpu, fields)
        answer = [[value.nvmlReturn for value in values], values[0].value.uiVal]
    """
    success, not_supported, invalid = 0, 3, 2
    assert shared(code) == [[success, not_supported, invalid], 12]


# --- modes --------------------------------------------------------------------------------------


def test_root_sets_modes_that_others_see_but_may_not_set() -> None:
    code = """
        gpu = gpus()[0]

        def modes():
            return [
                n.nvmlDeviceGetPersistenceMode(gpu),
                n.nvmlDeviceGetComputeMode(gpu),
                n.nvmlDeviceGetMigMode(gpu)[0],
            ]

        before = modes()
        n.nvmlDeviceSetPersistenceMode(gpu, 0)
        n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
        n.nvmlDeviceSetMigMode(gpu, 1)
        if pid := os.fork():
            answer = [before, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
        else:
            os.setuid(20001)
            refused = error(n.nvmlDeviceSetPersistenceMode, gpu, 1) == n.NVML_ERROR_NO_PERMISSION
            os._exit(0 if modes() == [0, 3, 1] and refused else 1)
    """
    assert inside(code) == [[1, 0, 0], 0]


def test_the_machine_file_says_which_modes_a_machine_boots_in(tmp_path: Path) -> None:
    text = (MACHINES / "single-16g.machine").read_text()
    machine = tmp_path / "modes.machine"
    machine.write_text(text + "gpu=0 persistence=off compute=prohibited\n")
    code = """
        gpu = gpus()[0]
        answer = [n.nvmlDeviceGetPersistenceMode(gpu), n.nvmlDeviceGetComputeMode(gpu)]
    """
    prohibited = 2
    assert shared(code, machine=str(machine)) == [0, prohibited]


def test_a_card_without_mig_says_that_it_is_not_supported() -> None:
    code = """
        answer = error(n.nvmlDeviceGetMigMode, gpus()[0]) == n.NVML_ERROR_NOT_SUPPORTED
    """
    assert shared(code, machine="single-16g")


# --- faults and events --------------------------------------------------------------------------


def test_a_fault_makes_the_nth_call_fail_with_a_code() -> None:
    code = """
        gpu = gpus()[0]
        answer = [error(n.nvmlDeviceGetUtilizationRates, gpu) for _ in range(4)]
    """
    faults = "fail nvmlDeviceGetUtilizationRates at 3 with 999\n"
    assert shared(code, faults=faults) == [0, 0, 999, 0]


def test_a_hidden_function_is_not_in_the_library() -> None:
    code = """
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        device = gpus()[0]
        answer = [
            hasattr(n.nvmlLib, name),
            hasattr(n.nvmlLib, name[:-1] + "2"),
            error(n.nvmlDeviceGetComputeRunningProcesses_v3, device),
        ]
    """
    function_not_found = 13
    hide = "hide nvmlDeviceGetComputeRunningProcesses_v3\n"
    assert shared(code, faults=hide) == [False, True, function_not_found]


def test_a_fault_makes_utilisation_and_temperature_say_anything() -> None:
    code = """
        a, b, *_ = gpus()
        answer = [
            [n.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in (a, b)],
            n.nvmlDeviceGetTemperature(b, 0),
        ]
    """
    faults = "nvml utilization 0 4000000000\nnvml utilization 1 100\nnvml temperature 1 91\n"
    assert shared(code, faults=faults) == [[4000000000, 100], 91]


def test_an_xid_is_an_event_of_the_device_that_had_it() -> None:
    code = """
        devices = gpus()
        events = n.nvmlEventSetCreate()
        for gpu in devices:
            n.nvmlDeviceRegisterEvents(gpu, n.nvmlEventTypeXidCriticalError, events)
        nothing = error(n.nvmlEventSetWait_v2, events, 10) == n.NVML_ERROR_TIMEOUT
        faults("xid 2 79")
        event = n.nvmlEventSetWait_v2(events, 5000)
        once = error(n.nvmlEventSetWait_v2, events, 50) == n.NVML_ERROR_TIMEOUT
        answer = [nothing, n.nvmlDeviceGetIndex(event.device), event.eventData, once]
        n.nvmlEventSetFree(events)
    """
    assert inside(code) == [True, 2, 79, True]
