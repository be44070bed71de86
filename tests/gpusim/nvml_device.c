/* nvml_device.c - finding devices, and who they are. */
#include "nvml_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- count and handles --------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(count);
    *count = nvml.n_devices;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(device && index < nvml.n_devices);
    *device = &nvml.devices[nvml.order[index]];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The device whose spec satisfies the test. */
static nvmlReturn_t find(nvmlDevice_t *device,
                         bool (*test)(const struct gpusim_gpu_spec *, const void *),
                         const void *wanted)
{
    for (uint32_t i = 0; i < nvml.n_devices; i++) {
        nvmlDevice_t candidate = &nvml.devices[nvml.order[i]];
        if (test(nvml_spec(candidate), wanted)) {
            *device = candidate;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

static bool has_serial(const struct gpusim_gpu_spec *gpu, const void *serial)
{
    return strcmp(gpu->serial, serial) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(serial && device);
    return find(device, has_serial, serial);
}

static bool has_uuid(const struct gpusim_gpu_spec *gpu, const void *uuid)
{
    return strcasecmp(gpu->uuid, uuid) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(uuid && device);
    return find(device, has_uuid, uuid);
}

static bool has_uuid_bytes(const struct gpusim_gpu_spec *gpu, const void *bytes)
{
    return memcmp(gpu->uuid_bytes, bytes, sizeof(gpu->uuid_bytes)) == 0;
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(uuid && device);
    /* nvidia-ml-py leaves the version 0. */
    if (uuid->version != 0 && uuid->version != nvmlUUID_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    switch (uuid->type) {
    case NVML_UUID_TYPE_ASCII:
        NVML_NEED(memchr(uuid->value.str, 0, sizeof(uuid->value.str)));
        return find(device, has_uuid, uuid->value.str);
    case NVML_UUID_TYPE_BINARY:
        return find(device, has_uuid_bytes, uuid->value.bytes);
    default:
        return NVML_ERROR_INVALID_ARGUMENT;
    }
}

struct pci_address {
    unsigned int domain, bus, device;
};

static bool has_pci(const struct gpusim_gpu_spec *gpu, const void *wanted)
{
    const struct pci_address *pci = wanted;
    return gpu->pci_domain == pci->domain && gpu->pci_bus == pci->bus &&
           gpu->pci_device == pci->device;
}

/* domain:bus:device.function, domain:bus:device or bus:device.function. */
static bool parse_pci(const char *text, struct pci_address *pci)
{
    unsigned int function = 0;
    int end = 0;
    if (sscanf(text, "%x:%x:%x.%x%n", &pci->domain, &pci->bus, &pci->device, &function, &end) ==
            4 &&
        !text[end])
        return true;
    end = 0;
    if (sscanf(text, "%x:%x:%x%n", &pci->domain, &pci->bus, &pci->device, &end) == 3 && !text[end])
        return true;
    end = 0;
    pci->domain = 0;
    return sscanf(text, "%x:%x.%x%n", &pci->bus, &pci->device, &function, &end) == 3 && !text[end];
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci_bus_id, nvmlDevice_t *device)
{
    NVML_TRY(nvml_enter(__func__));
    struct pci_address pci;
    NVML_NEED(pci_bus_id && device && parse_pci(pci_bus_id, &pci));
    return find(device, has_pci, &pci);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pci_bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id, device);
}

/* --- names and numbers --------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    return nvml_text(name, length, nvml_spec(device)->name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    return nvml_text(uuid, length, nvml_spec(device)->uuid);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    return nvml_text(serial, length, nvml_spec(device)->serial);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    return nvml_text(version, length, "00.00.00.00.00");
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *number, unsigned int length)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    return nvml_text(number, length, "simulated");
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(index);
    for (*index = 0; &nvml.devices[nvml.order[*index]] != device;)
        ++*index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(minor);
    *minor = nvml_spec(device)->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned int *module)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(module);
    *module = device->gpu + 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(board);
    *board = nvml_spec(device)->pci_bus << 8;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multiple)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(multiple);
    *multiple = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *same)
{
    NVML_TRY(nvml_enter_device(__func__, device1));
    NVML_NEED(nvml_is_device(device2) && same);
    *same = device1 == device2;
    return NVML_SUCCESS;
}

/* --- PCI ----------------------------------------------------------------------------------------
 */

#define PCI_DEVICE_ID 0x100010deu /* a device of NVIDIA's; the simulator has no real number */

void nvml_fill_pci(const struct gpusim_gpu_spec *gpu, nvmlPciInfo_t *pci)
{
    *pci = (nvmlPciInfo_t){
        .domain = gpu->pci_domain,
        .bus = gpu->pci_bus,
        .device = gpu->pci_device,
        .pciDeviceId = PCI_DEVICE_ID,
        .pciSubSystemId = PCI_DEVICE_ID,
    };
    snprintf(pci->busId, sizeof(pci->busId), NVML_DEVICE_PCI_BUS_ID_FMT,
             NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pci));
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
             gpu->pci_domain & 0xffff, gpu->pci_bus & 0xff, gpu->pci_device & 0xff);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(pci);
    nvml_fill_pci(nvml_spec(device), pci);
    return NVML_SUCCESS;
}

static nvmlReturn_t old_pci(const char *call, nvmlDevice_t device, nvmlPciInfo_t *pci, size_t size)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(pci);
    nvmlPciInfo_t whole;
    nvml_fill_pci(nvml_spec(device), &whole);
    memset(whole.busId, 0, sizeof(whole.busId));
    memcpy(pci, &whole, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return old_pci(__func__, device, pci, NVML_PCI_V1_SIZE);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return old_pci(__func__, device, pci, NVML_PCI_V2_SIZE);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *ext)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(ext);
    if (ext->version != nvmlPciInfoExt_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlPciInfo_t pci;
    nvml_fill_pci(nvml_spec(device), &pci);
    *ext = (nvmlPciInfoExt_t){
        .version = nvmlPciInfoExt_v1,
        .domain = pci.domain,
        .bus = pci.bus,
        .device = pci.device,
        .pciDeviceId = pci.pciDeviceId,
        .pciSubSystemId = pci.pciSubSystemId,
        .baseClass = 0x03, /* display */
        .subClass = 0x02,  /* 3D controller */
    };
    memcpy(ext->busId, pci.busId, sizeof(ext->busId));
    return NVML_SUCCESS;
}

static nvmlReturn_t pcie_value(const char *call, nvmlDevice_t device, unsigned int *out,
                               size_t field)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(out);
    *out = *(const uint32_t *)((const char *)nvml_spec(device) + field);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return pcie_value(__func__, device, generation, offsetof(struct gpusim_gpu_spec, pcie_gen));
}

nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return pcie_value(__func__, device, generation, offsetof(struct gpusim_gpu_spec, pcie_gen));
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return pcie_value(__func__, device, generation, offsetof(struct gpusim_gpu_spec, pcie_gen));
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    return pcie_value(__func__, device, width, offsetof(struct gpusim_gpu_spec, pcie_width));
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    return pcie_value(__func__, device, width, offsetof(struct gpusim_gpu_spec, pcie_width));
}

/* An enumeration whose values count the generations. */
nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t device, unsigned int *speed)
{
    return pcie_value(__func__, device, speed, offsetof(struct gpusim_gpu_spec, pcie_gen));
}

nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned int *mbps)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mbps);
    static const unsigned int by_generation[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    *mbps = by_generation[nvml_spec(device)->pcie_gen];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t *type)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(type);
    *type = NVML_BUS_TYPE_PCIE;
    return NVML_SUCCESS;
}

/* --- kind ---------------------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(major && minor);
    *major = (int)nvml_spec(device)->cc_major;
    *minor = (int)nvml_spec(device)->cc_minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(cores);
    *cores = nvml_spec(device)->sms * nvml_model(device)->cores_per_sm;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(architecture);
    *architecture = nvml_model(device)->architecture;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(brand);
    *brand = nvml_model(device)->brand;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *bits)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(bits);
    *bits = nvml_model(device)->bus_bits;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mode);
    *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(is_mig);
    *is_mig = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(count);
    *count = nvml_model(device)->mig ? 7 : 0;
    return NVML_SUCCESS;
}

/* The simulator makes no MIG instances, so there is never one. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *mig)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mig && index < 7);
    return nvml_model(device)->mig ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}
