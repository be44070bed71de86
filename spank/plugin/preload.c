#include "preload.h"

#include "proto/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITE_MAX 65536

/* Does $LIB mean this folder? It does for lib64, and on Debian for lib/<architecture>-linux-gnu.
 * Returns where the part that $LIB stands for begins, or NULL. */
static const char *lib_part(const char *directory, size_t length)
{
    static const char wide[] = "/lib64", multiarch[] = "/lib/";
    if (length > strlen(wide) &&
        strncmp(directory + length - strlen(wide), wide, strlen(wide)) == 0)
        return directory + length - strlen(wide) + 1;
    size_t last = length;
    while (last > 0 && directory[last - 1] != '/')
        last--;
    if (last < strlen(multiarch) || !memmem(directory + last, length - last, "-linux-", 7) ||
        strncmp(directory + last - strlen(multiarch), multiarch, strlen(multiarch)) != 0)
        return NULL;
    return directory + last - strlen(multiarch) + 1;
}

int preload_shim(char *path, size_t room, const char *pkglibdir)
{
    const char *package = strrchr(pkglibdir, '/'); /* .../slurm-vgpu */
    const char *lib = package ? lib_part(pkglibdir, (size_t)(package - pkglibdir)) : NULL;
    int n = lib ? snprintf(path, room, "%.*s$LIB%s/%s", (int)(lib - pkglibdir), pkglibdir, package,
                           VGPU_SHIM_NAME)
                : snprintf(path, room, "%s/%s", pkglibdir, VGPU_SHIM_NAME);
    return n > 0 && (size_t)n < room ? 0 : -1;
}

static ssize_t site_read(const char *site, char *text, vgpu_error_t *err)
{
    int fd = open(site, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return vgpu_errorf(
            err, "%s cannot be read (%s): an empty one is needed as a place to mount over", site,
            strerror(errno));
    ssize_t n = read(fd, text, SITE_MAX + 1);
    int error = errno;
    close(fd);
    if (n < 0)
        return vgpu_errorf(err, "%s cannot be read: %s", site, strerror(error));
    if (n > SITE_MAX)
        return vgpu_errorf(err, "%s is larger than %d bytes", site, SITE_MAX);
    return n;
}

int preload_write(const char *path, const char *site, const char *shim, vgpu_error_t *err)
{
    char text[SITE_MAX + 1 + VGPU_PATH_MAX + 2];
    ssize_t n = site_read(site, text, err);
    if (n < 0)
        return -1;
    const char *newline = n > 0 && text[n - 1] != '\n' ? "\n" : "";
    n += snprintf(text + n, VGPU_PATH_MAX + 2, "%s%.*s\n", newline, VGPU_PATH_MAX - 1, shim);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && fchmod(fd, 0644) == 0 && write(fd, text, (size_t)n) == n;
    int error = errno;
    if (fd >= 0 && close(fd) != 0)
        ok = false;
    return ok ? 0 : vgpu_errorf(err, "%s cannot be written: %s", path, strerror(error));
}
