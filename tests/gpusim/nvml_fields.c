/* nvml_fields.c - nvmlDeviceGetFieldValues: figures by number, several in one call. */
#include "nvml_nvlink.h"

#include <stddef.h>

/* What a field's value is made of. `what` and `first` come from the table below. */
struct field_use {
    nvmlDevice_t device;
    unsigned int field, scope, first;
    const char *what;
};

typedef nvmlReturn_t field_function(const struct field_use *use, nvmlFieldValue_t *out);

static nvmlReturn_t count(nvmlFieldValue_t *out, uint64_t value)
{
    out->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    out->value.ullVal = value;
    return NVML_SUCCESS;
}

static nvmlReturn_t figure(nvmlFieldValue_t *out, unsigned int value)
{
    out->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    out->value.uiVal = value;
    return NVML_SUCCESS;
}

/* --- the kinds of fields ------------------------------------------------------------------------
 */

static nvmlReturn_t zero(const struct field_use *use, nvmlFieldValue_t *out)
{
    (void)use;
    return count(out, 0);
}

static nvmlReturn_t ecc_mode(const struct field_use *use, nvmlFieldValue_t *out)
{
    return nvml_model(use->device)->ecc ? figure(out, 1) : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t ecc_errors(const struct field_use *use, nvmlFieldValue_t *out)
{
    return nvml_model(use->device)->ecc ? count(out, 0) : NVML_ERROR_NOT_SUPPORTED;
}

/* Errors of the link that the field's number, less the group's first, stands for. */
static nvmlReturn_t lane_errors(const struct field_use *use, nvmlFieldValue_t *out)
{
    unsigned int link = use->field - use->first;
    if (link >= nvml_link_count(use->device))
        return NVML_ERROR_NOT_SUPPORTED;
    return count(out, nvml_link_errors(use->device, link, use->what));
}

static nvmlReturn_t all_errors(const struct field_use *use, nvmlFieldValue_t *out)
{
    uint64_t sum = 0;
    unsigned int n = nvml_link_count(use->device);
    for (unsigned int link = 0; link < n; link++)
        sum += nvml_link_errors(use->device, link, use->what);
    return n ? count(out, sum) : NVML_ERROR_NOT_SUPPORTED;
}

/* Errors of the link in the scope. */
static nvmlReturn_t scoped_errors(const struct field_use *use, nvmlFieldValue_t *out)
{
    if (use->scope >= nvml_link_count(use->device))
        return NVML_ERROR_INVALID_ARGUMENT;
    return count(out, nvml_link_errors(use->device, use->scope, use->what));
}

/* Nothing is sent over the simulated links that anybody counts. */
static nvmlReturn_t throughput(const struct field_use *use, nvmlFieldValue_t *out)
{
    unsigned int n = nvml_link_count(use->device);
    if (n == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return use->scope < n || use->scope == UINT32_MAX ? count(out, 0) : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t link_speed(nvmlDevice_t device, unsigned int link, nvmlFieldValue_t *out)
{
    if (link >= nvml_link_count(device))
        return NVML_ERROR_NOT_SUPPORTED;
    struct nvml_link found = nvml_link(device, link);
    return figure(out, found.active ? nvml_link_mbps(device, &found) : 0);
}

static nvmlReturn_t lane_speed(const struct field_use *use, nvmlFieldValue_t *out)
{
    return link_speed(use->device, use->field - use->first, out);
}

static nvmlReturn_t scoped_speed(const struct field_use *use, nvmlFieldValue_t *out)
{
    return link_speed(use->device, use->scope, out);
}

static nvmlReturn_t common_speed(const struct field_use *use, nvmlFieldValue_t *out)
{
    return link_speed(use->device, 0, out);
}

static nvmlReturn_t link_state(const struct field_use *use, nvmlFieldValue_t *out)
{
    if (use->scope >= nvml_link_count(use->device))
        return NVML_ERROR_NOT_SUPPORTED;
    return figure(out, nvml_link(use->device, use->scope).active);
}

static nvmlReturn_t link_version(const struct field_use *use, nvmlFieldValue_t *out)
{
    if (use->scope >= nvml_link_count(use->device))
        return NVML_ERROR_NOT_SUPPORTED;
    struct nvml_link found = nvml_link(use->device, use->scope);
    return found.active ? figure(out, nvml_link_version(&found)) : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t remote_link(const struct field_use *use, nvmlFieldValue_t *out)
{
    if (use->scope >= nvml_link_count(use->device))
        return NVML_ERROR_NOT_SUPPORTED;
    struct nvml_link found = nvml_link(use->device, use->scope);
    return found.active ? figure(out, found.remote) : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t link_count(const struct field_use *use, nvmlFieldValue_t *out)
{
    return figure(out, nvml_link_count(use->device));
}

static nvmlReturn_t switch_links(const struct field_use *use, nvmlFieldValue_t *out)
{
    return figure(out, nvml_spec(use->device)->switch_links);
}

static nvmlReturn_t energy(const struct field_use *use, nvmlFieldValue_t *out)
{
    unsigned long long mj;
    NVML_TRY(nvmlDeviceGetTotalEnergyConsumption(use->device, &mj));
    return count(out, mj);
}

static nvmlReturn_t power(const struct field_use *use, nvmlFieldValue_t *out)
{
    unsigned int mw;
    NVML_TRY(nvmlDeviceGetPowerUsage(use->device, &mw));
    return figure(out, mw);
}

static nvmlReturn_t power_limits(const struct field_use *use, nvmlFieldValue_t *out)
{
    unsigned int min, max, now;
    NVML_TRY(nvmlDeviceGetPowerManagementLimitConstraints(use->device, &min, &max));
    NVML_TRY(nvmlDeviceGetEnforcedPowerLimit(use->device, &now));
    switch (use->field) {
    case NVML_FI_DEV_POWER_MIN_LIMIT:
        return figure(out, min);
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
        return figure(out, now);
    default:
        return figure(out, max); /* also the default */
    }
}

/* --- which number is which ----------------------------------------------------------------------
 */

#define F(name) NVML_FI_DEV_##name

static const struct field {
    unsigned int first, last;
    field_function *value;
    unsigned int link_0; /* number that link 0 has, or would have, in this group */
    const char *what;
} fields[] = {
    {F(ECC_CURRENT), F(ECC_PENDING), ecc_mode, 0, NULL},
    {F(ECC_SBE_VOL_TOTAL), F(ECC_DBE_AGG_CBU), ecc_errors, 0, NULL},
    {F(RETIRED_SBE), F(RETIRED_PENDING), zero, 0, NULL},

#define LANES(NAME, KEY)                                                                           \
    {F(NVLINK_##NAME##_L0), F(NVLINK_##NAME##_L5), lane_errors, F(NVLINK_##NAME##_L0), KEY},       \
        {F(NVLINK_##NAME##_L6), F(NVLINK_##NAME##_L11), lane_errors, F(NVLINK_##NAME##_L6) - 6,    \
         KEY},                                                                                     \
    {                                                                                              \
        F(NVLINK_##NAME##_TOTAL), F(NVLINK_##NAME##_TOTAL), all_errors, 0, KEY                     \
    }
    LANES(CRC_FLIT_ERROR_COUNT, "crc-flit"),
    LANES(CRC_DATA_ERROR_COUNT, "crc-data"),
    LANES(REPLAY_ERROR_COUNT, "replay"),
    LANES(RECOVERY_ERROR_COUNT, "recovery"),
    LANES(ECC_DATA_ERROR_COUNT, "ecc"),
    {F(NVLINK_ERROR_DL_REPLAY), F(NVLINK_ERROR_DL_REPLAY), scoped_errors, 0, "replay"},
    {F(NVLINK_ERROR_DL_RECOVERY), F(NVLINK_ERROR_DL_RECOVERY), scoped_errors, 0, "recovery"},
    {F(NVLINK_ERROR_DL_CRC), F(NVLINK_ERROR_DL_CRC), scoped_errors, 0, "crc-flit"},

    {F(NVLINK_SPEED_MBPS_L0), F(NVLINK_SPEED_MBPS_L5), lane_speed, F(NVLINK_SPEED_MBPS_L0), NULL},
    {F(NVLINK_SPEED_MBPS_L6), F(NVLINK_SPEED_MBPS_L11), lane_speed, F(NVLINK_SPEED_MBPS_L6) - 6,
     NULL},
    {F(NVLINK_SPEED_MBPS_COMMON), F(NVLINK_SPEED_MBPS_COMMON), common_speed, 0, NULL},
    {F(NVLINK_LINK_COUNT), F(NVLINK_LINK_COUNT), link_count, 0, NULL},
    {F(NVLINK_THROUGHPUT_DATA_TX), F(NVLINK_THROUGHPUT_RAW_RX), throughput, 0, NULL},
    {F(NVLINK_REMOTE_NVLINK_ID), F(NVLINK_REMOTE_NVLINK_ID), remote_link, 0, NULL},
    {F(NVSWITCH_CONNECTED_LINK_COUNT), F(NVSWITCH_CONNECTED_LINK_COUNT), switch_links, 0, NULL},
    {F(NVLINK_GET_SPEED), F(NVLINK_GET_SPEED), scoped_speed, 0, NULL},
    {F(NVLINK_GET_STATE), F(NVLINK_GET_STATE), link_state, 0, NULL},
    {F(NVLINK_GET_VERSION), F(NVLINK_GET_VERSION), link_version, 0, NULL},

    {F(PERF_POLICY_POWER), F(PERF_POLICY_TOTAL_BASE_CLOCKS), zero, 0, NULL},
    {F(TOTAL_ENERGY_CONSUMPTION), F(TOTAL_ENERGY_CONSUMPTION), energy, 0, NULL},
    {F(RETIRED_PENDING_SBE), F(PCIE_REPLAY_ROLLOVER_COUNTER), zero, 0, NULL},
    {F(REMAPPED_COR), F(REMAPPED_FAILURE), zero, 0, NULL},
    {F(POWER_AVERAGE), F(POWER_INSTANT), power, 0, NULL},
    {F(POWER_MIN_LIMIT), F(POWER_CURRENT_LIMIT), power_limits, 0, NULL},
    {F(ENERGY), F(ENERGY), energy, 0, NULL},
    {F(POWER_REQUESTED_LIMIT), F(POWER_REQUESTED_LIMIT), power_limits, 0, NULL},
};

static nvmlReturn_t field_value(nvmlDevice_t device, nvmlFieldValue_t *out)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct field *f = &fields[i];
        if (out->fieldId < f->first || out->fieldId > f->last)
            continue;
        struct field_use use = {device, out->fieldId, out->scopeId, f->link_0, f->what};
        return f->value(&use, out);
    }
    return out->fieldId && out->fieldId < NVML_FI_MAX ? NVML_ERROR_NOT_SUPPORTED
                                                      : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, nvmlFieldValue_t *values)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(values && n > 0);
    nvml_refresh(device);
    for (int i = 0; i < n; i++) {
        uint64_t before = gpusim_now();
        values[i].nvmlReturn = field_value(device, &values[i]);
        values[i].timestamp = (long long)nvml_time_us(before);
        values[i].latencyUsec = (long long)((gpusim_now() - before) / 1000);
    }
    return NVML_SUCCESS;
}
