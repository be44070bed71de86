/* pages.c - the two pages of a vGPU. */
#include "pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTROL_SIZE 4096
#define SEALS        (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void *map(int fd, size_t size)
{
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

static const char *file_name(uint64_t id, char *name)
{
    snprintf(name, 24, "%" PRIu64, id);
    return name;
}

/* Map the file for writing and keep a descriptor that can only read. */
static int take_control(struct pages *pages, int dir, const char *name, int flags,
                        vgpu_error_t *err)
{
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    int error = fd < 0 ? errno : 0;
    if (!error && (flags & O_CREAT))
        error = posix_fallocate(fd, 0, CONTROL_SIZE);
    if (!error && !(pages->control = map(fd, CONTROL_SIZE)))
        error = errno;
    if (!error && (pages->control_fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (error)
        return vgpu_errorf(err, "control page %s: %s", name, strerror(error));
    return 0;
}

int pages_make_control(struct pages *pages, int dir, uint64_t id, vgpu_error_t *err)
{
    char name[24];
    unlinkat(dir, file_name(id, name), 0);
    if (take_control(pages, dir, name, O_CREAT | O_EXCL, err))
        return -1;
    pages->control->magic = VGPU_PAGE_MAGIC;
    pages->control->major = VGPU_PAGE_MAJOR;
    pages->control->minor = VGPU_PAGE_MINOR;
    pages->control->vgpu_id = id;
    return 0;
}

int pages_open_control(struct pages *pages, int dir, uint64_t id, vgpu_error_t *err)
{
    char name[24];
    if (take_control(pages, dir, file_name(id, name), 0, err))
        return -1;
    if (pages->control->magic != VGPU_PAGE_MAGIC || pages->control->vgpu_id != id)
        return vgpu_errorf(err, "control page %s is not one", name);
    return 0;
}

void pages_remove_control(int dir, uint64_t id)
{
    char name[24];
    unlinkat(dir, file_name(id, name), 0);
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) ? 0 : st.st_ino;
}

int pages_make_account(struct pages *pages, vgpu_error_t *err)
{
    struct vgpu_account *account = NULL;
    int fd = memfd_create("vgpu-account", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof *account) || fchmod(fd, 0600) ||
        fcntl(fd, F_ADD_SEALS, SEALS) || !(account = map(fd, sizeof *account))) {
        vgpu_errorf(err, "an account page cannot be made: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    account->magic = VGPU_PAGE_MAGIC;
    account->major = VGPU_PAGE_MAJOR;
    account->minor = VGPU_PAGE_MINOR;
    account->process_count = VGPU_MAX_PROCESSES;
    pages->account = account;
    pages->account_fd = fd;
    pages->account_inode = inode_of(fd);
    return 0;
}

/* Is this the account, whole and sealed as it was made? */
static bool is_account(int fd, uint64_t inode)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino == inode && st.st_uid == geteuid() &&
           st.st_size == sizeof(struct vgpu_account) && fcntl(fd, F_GET_SEALS) == SEALS;
}

/* Open /proc/PID/fd/N if its file has the inode number. */
static int open_descriptor(int dir, const char *name, uint64_t inode)
{
    struct stat st;
    if (fstatat(dir, name, &st, 0) || st.st_ino != inode || !S_ISREG(st.st_mode))
        return -1;
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && !is_account(fd, inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Search one folder of links to files: /proc/PID/fd, or /proc/PID/map_files. */
static int search_links(int pid, const char *folder, uint64_t inode)
{
    char path[40];
    int fd = -1;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, folder);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *entry; fd < 0 && (entry = readdir(dir));)
        fd = open_descriptor(dirfd(dir), entry->d_name, inode);
    closedir(dir);
    return fd;
}

int pages_find_account(struct pages *pages, int pid, uint64_t inode)
{
    int fd = search_links(pid, "fd", inode);
    if (fd < 0)
        fd = search_links(pid, "map_files", inode);
    if (fd < 0)
        return -1;
    pages->account = map(fd, sizeof *pages->account);
    if (!pages->account) {
        close(fd);
        return -1;
    }
    pages->account_fd = fd;
    pages->account_inode = inode;
    return 0;
}

void pages_close(struct pages *pages)
{
    if (pages->control)
        munmap(pages->control, CONTROL_SIZE);
    if (pages->account)
        munmap(pages->account, sizeof *pages->account);
    if (pages->control_fd >= 0)
        close(pages->control_fd);
    if (pages->account_fd >= 0)
        close(pages->account_fd);
    *pages = (struct pages){.control_fd = -1, .account_fd = -1};
}

/* --- the account ----------------------------------------------------------------------------- */

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t account_charged(const struct vgpu_account *account, uint32_t entry, uint64_t limit)
{
    uint64_t charged = account->processes[entry].charged;
    return charged < limit ? charged : limit;
}

bool account_is_quiet(const struct vgpu_account *account, const uint16_t *live, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (account->processes[live[i]].busy)
            return false;
    return true;
}

void account_clear(struct vgpu_account *account, uint32_t entry, struct account_counters *counters)
{
    struct vgpu_process *process = &account->processes[entry];
    /* Out of the page first: a vgpud that dies here loses some counts rather than doubling them. */
    counters->allocations =
        add_clamped(counters->allocations, atomic_exchange(&process->allocations, 0));
    counters->refusals = add_clamped(counters->refusals, atomic_exchange(&process->refusals, 0));
    counters->launches = add_clamped(counters->launches, atomic_exchange(&process->launches, 0));
    process->pid = 0;
    process->charged = 0;
    process->provisional = 0;
    for (int kind = 0; kind < VGPU_KIND_COUNT; kind++)
        process->kind[kind] = 0;
    process->busy = 0;
}

void account_recount(struct vgpu_account *account)
{
    uint64_t charged = 0;
    for (uint32_t i = 0; i < VGPU_MAX_PROCESSES; i++)
        charged = add_clamped(charged, account->processes[i].charged);
    account->charged = charged;
}

void account_subtract(struct vgpu_account *account, uint32_t entry)
{
    uint64_t bytes = account->processes[entry].charged, charged = account->charged;
    while (!atomic_compare_exchange_weak(&account->charged, &charged,
                                         charged > bytes ? charged - bytes : 0))
        ;
}
