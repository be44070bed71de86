/* access.c - permission by device files (access.h). */
#include "access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int try_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno;
    struct stat st;
    int rc = fstat(fd, &st) ? errno : 0;
    if (rc == 0 && (st.st_mode & 0777) == 0)
        rc = EACCES;
    close(fd);
    return rc;
}

int gpusim_access_control(void)
{
    return try_open("/dev/nvidiactl");
}

int gpusim_access_gpu(uint32_t minor)
{
    char path[32];
    snprintf(path, sizeof(path), "/dev/nvidia%u", minor);
    return try_open(path);
}
