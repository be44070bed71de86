/* device.c - what a device is: attributes, identity, peers. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

CUresult sim_cuDriverGetVersion(int *version)
{
    NEED(version, CUDA_ERROR_INVALID_VALUE);
    struct gpusim_state *state = sim_state();
    *version = state ? state->machine.cuda : CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
    NEED(device, CUDA_ERROR_INVALID_VALUE);
    NEED(is_device(ordinal), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count)
{
    NEED(count, CUDA_ERROR_INVALID_VALUE);
    *count = sim.n_devices;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int length, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(name && length > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)length, "%s", sim.devices[device].spec->name);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(uuid, CUDA_ERROR_INVALID_VALUE);
    memcpy(uuid->bytes, sim.devices[device].spec->uuid_bytes, sizeof(uuid->bytes));
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return sim_cuDeviceGetUuid_v2(uuid, device);
}

/* LUIDs are a thing of Windows. */
CUresult sim_cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device)
{
    (void)luid;
    (void)mask;
    (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(bytes, CUDA_ERROR_INVALID_VALUE);
    *bytes = sim.devices[device].spec->memory;
    return CUDA_SUCCESS;
}

/* The first version had 32 bits. */
CUresult sim_cuDeviceTotalMem(unsigned *bytes, CUdevice device)
{
    size_t total;
    TRY(sim_cuDeviceTotalMem_v2(&total, device));
    NEED(bytes, CUDA_ERROR_INVALID_VALUE);
    *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(major && minor, CUDA_ERROR_INVALID_VALUE);
    *major = (int)sim.devices[device].spec->cc_major;
    *minor = (int)sim.devices[device].spec->cc_minor;
    return CUDA_SUCCESS;
}

/* --- attributes ----------------------------------------------------------------------------- */

/* The same on every simulated GPU; what is not listed is 0. */
static const int attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 2147483647,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 49152,
    [CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 65536,
    [CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
    [CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 2147483647,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
    [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1410000,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = 512,
    [CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH] = 131072,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT] = 65536,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH] = 16384,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT] = 32768,
    [CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS] = 2048,
    [CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT] = 512,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
    [CU_DEVICE_ATTRIBUTE_ECC_ENABLED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1215000,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 5120,
    [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 41943040,
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
    [CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 3,
    [CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
    [CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT] = 32,
    [CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 167936,
    [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
    [CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO] = 2,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] = 1,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] = 1,
    [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
    [CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH] = 1,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 166912,
    [CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
    [CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1024,
    [CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR] = 1,
    [CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT] = 1,
    [CU_DEVICE_ATTRIBUTE_NUMA_ID] = -1,
};

static int compute_mode(const struct device *d)
{
    static const int modes[] = {
        [GPUSIM_COMPUTE_DEFAULT] = CU_COMPUTEMODE_DEFAULT,
        [GPUSIM_COMPUTE_EXCLUSIVE] = CU_COMPUTEMODE_EXCLUSIVE_PROCESS,
        [GPUSIM_COMPUTE_PROHIBITED] = CU_COMPUTEMODE_PROHIBITED,
    };
    return modes[gpusim_mode(&sim.state->gpus[d->gpu].modes.compute, d->spec->compute)];
}

CUresult sim_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(value && attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    const struct gpusim_gpu_spec *spec = sim.devices[device].spec;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)spec->sms;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = (int)spec->cc_major;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = (int)spec->cc_minor;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        *value = (int)spec->pci_domain;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = (int)spec->pci_bus;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        *value = (int)spec->pci_device;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = compute_mode(&sim.devices[device]);
        break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        *value = spec->numa;
        break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
        *value = spec->cc_major >= 9;
        break;
    default:
        *value = attributes[attribute];
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetProperties(CUdevprop *prop, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(prop, CUDA_ERROR_INVALID_VALUE);
    const int *a = attributes;
    *prop = (CUdevprop){
        .maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X],
                          a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
                          a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
        .maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X],
                        a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
                        a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
        .sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
        .totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
        .SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
        .memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
        .regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
        .clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
        .textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
    };
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
                                                unsigned channels, CUdevice device)
{
    (void)format;
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(width && channels, CUDA_ERROR_INVALID_VALUE);
    *width = 1u << 28;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice device)
{
    (void)type;
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    *value = 0; /* only under MPS */
    return CUDA_SUCCESS;
}

/* --- PCI and peers -------------------------------------------------------------------------- */

CUresult sim_cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(text && length > 0, CUDA_ERROR_INVALID_VALUE);
    const struct gpusim_gpu_spec *spec = sim.devices[device].spec;
    snprintf(text, (size_t)length, "%04x:%02x:%02x.0", spec->pci_domain, spec->pci_bus,
             spec->pci_device);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    NEED(device && text, CUDA_ERROR_INVALID_VALUE);
    unsigned domain = 0, bus, slot;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        NEED(sscanf(text, "%x:%x", &bus, &slot) == 2, CUDA_ERROR_INVALID_VALUE);
    }
    for (int i = 0; i < sim.n_devices; i++) {
        const struct gpusim_gpu_spec *spec = sim.devices[i].spec;
        if (spec->pci_domain == domain && spec->pci_bus == bus && spec->pci_device == slot) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    NEED(is_device(device) && is_device(peer), CUDA_ERROR_INVALID_DEVICE);
    NEED(can, CUDA_ERROR_INVALID_VALUE);
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                     CUdevice to)
{
    NEED(is_device(from) && is_device(to) && from != to, CUDA_ERROR_INVALID_DEVICE);
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    unsigned a = (unsigned)sim.devices[from].gpu, b = (unsigned)sim.devices[to].gpu;
    bool linked = gpusim_machine_links(&sim.state->machine, a, b) > 0;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = !linked; /* 0 is the best */
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = linked;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
