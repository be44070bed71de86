/* image.c - how much device memory an image of code is going to take. */
#include "shim/image.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FATBIN_MAGIC  0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

static uint64_t cubin_size(const unsigned char *image)
{
    Elf64_Ehdr head;
    uint64_t size = 0;

    memcpy(&head, image, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, image + head.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_flags & SHF_ALLOC)
            size += section.sh_size;
    }
    return size;
}

uint64_t image_size(const void *image)
{
    uint32_t magic;

    if (image == NULL)
        return 0;
    if (memcmp(image, ELFMAG, 1) == 0)
        return strncmp(image, ELFMAG, SELFMAG) == 0 ? cubin_size(image) : 0;
    size_t length = strnlen(image, sizeof magic);
    if (length < sizeof magic)
        return length;
    memcpy(&magic, image, sizeof magic);
    return magic == FATBIN_MAGIC || magic == WRAPPER_MAGIC ? 0 : strlen(image);
}

/* A file need not end in a zero byte: text is as long as the file. */
static uint64_t mapped_size(const void *image, uint64_t length)
{
    const Elf64_Ehdr *head = image;

    if (length < sizeof *head || memcmp(image, ELFMAG, SELFMAG) != 0)
        return length < sizeof(uint32_t) || (*(const uint32_t *)image != FATBIN_MAGIC) ? length : 0;
    uint64_t sections = (uint64_t)head->e_shnum * sizeof(Elf64_Shdr);
    return head->e_shoff > length || sections > length - head->e_shoff ? 0 : cubin_size(image);
}

uint64_t image_file_size(const char *path)
{
    struct stat st;
    uint64_t size = 0;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            size = mapped_size(image, (uint64_t)st.st_size);
            munmap(image, (size_t)st.st_size);
        }
    }
    close(fd);
    return size;
}
