#include "namespace.h"

#include "preload.h"
#include "proto/paths.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

bool namespace_needed(const struct namespace_plan *plan)
{
    return plan->step_dir || plan->n_covered > 0;
}

static int bind_over(const char *source, const char *target, vgpu_error_t *err)
{
    if (mount(source, target, NULL, MS_BIND, NULL) == 0)
        return 0;
    return vgpu_errorf(err, "%s cannot be mounted over %s: %s", source, target, strerror(errno));
}

/* Root could open the cover, and whoever can read it would take it for the device. */
static int cover_check(const char *cover, vgpu_error_t *err)
{
    struct stat status;
    if (lstat(cover, &status) != 0)
        return vgpu_errorf(err, "%s: %s: it is part of the package", cover, strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_uid != 0 || (status.st_mode & 0777) != 0)
        return vgpu_errorf(err, "%s is not a file of root with mode 000", cover);
    return 0;
}

static int devices_cover(const struct namespace_plan *plan, vgpu_error_t *err)
{
    if (plan->n_covered > 0 && cover_check(plan->cover, err) != 0)
        return -1;
    for (uint32_t i = 0; i < plan->n_covered; i++) {
        char device[32];
        snprintf(device, sizeof device, "/dev/nvidia%u", plan->covered[i]);
        if (access(device, F_OK) != 0 && errno == ENOENT)
            continue; /* nothing there to be opened */
        if (bind_over(plan->cover, device, err) != 0)
            return -1;
    }
    return 0;
}

int namespace_enter(const struct namespace_plan *plan, vgpu_error_t *err)
{
    if (unshare(CLONE_NEWNS) != 0)
        return vgpu_errorf(err, "no mount namespace: %s", strerror(errno));
    /* Without this the binds below would be the node's. */
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) != 0)
        return vgpu_errorf(err, "/ cannot be made a slave mount: %s", strerror(errno));
    if (devices_cover(plan, err) != 0)
        return -1;
    if (!plan->step_dir)
        return 0;
    return bind_over(plan->step_dir, VGPU_STEP_DIR, err) == 0 &&
                   bind_over(plan->preload, PRELOAD_FILE, err) == 0
               ? 0
               : -1;
}
