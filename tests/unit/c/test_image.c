/* What an image of code says about its size. */
#include "claim.h"
#include "shim/image.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    Elf64_Ehdr head;
    Elf64_Shdr sections[3];
} cubin;

static void make_cubin(void)
{
    memcpy(cubin.head.e_ident, ELFMAG, SELFMAG);
    cubin.head.e_ident[EI_CLASS] = ELFCLASS64;
    cubin.head.e_shoff = sizeof cubin.head;
    cubin.head.e_shentsize = sizeof cubin.sections[0];
    cubin.head.e_shnum = 3;
    cubin.sections[0].sh_size = 111; /* debugging, notes: not loaded */
    cubin.sections[1] = (Elf64_Shdr){.sh_flags = SHF_ALLOC, .sh_size = 4096};
    cubin.sections[2] =
        (Elf64_Shdr){.sh_flags = SHF_ALLOC, .sh_type = SHT_NOBITS, .sh_size = 1 << 20};
}

static void test_that_text_is_as_long_as_it_is(void)
{
    CHECK(image_size(NULL) == 0);
    CHECK(image_size("") == 0);
    CHECK(image_size("ab") == 2);
    CHECK(image_size(".version 8.0\n") == 13);
}

static void test_that_a_cubin_takes_its_loaded_sections(void)
{
    CHECK(image_size(&cubin) == 4096 + (1 << 20));
}

static void test_that_a_fat_binary_says_nothing(void)
{
    const unsigned fatbin[4] = {0xba55ed50u, 0x00100001u, 100, 0},
                   wrapper[4] = {0x466243b1u, 1, 0, 0};
    CHECK(image_size(fatbin) == 0);
    CHECK(image_size(wrapper) == 0);
}

static void test_that_files_say_the_same_and_damaged_ones_nothing(void)
{
    char path[] = "/tmp/test_image.XXXXXX";
    int fd = mkstemp(path);
    CHECK(write(fd, &cubin, sizeof cubin) == (ssize_t)sizeof cubin);
    CHECK(image_file_size(path) == 4096 + (1 << 20));
    CHECK(ftruncate(fd, sizeof cubin.head + 8) == 0); /* the section table is cut */
    CHECK(image_file_size(path) == 0);
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(image_file_size(path) == 0);
    CHECK(pwrite(fd, "hello", 5, 0) == 5);
    CHECK(image_file_size(path) == 5);
    close(fd);
    unlink(path);
    CHECK(image_file_size(path) == 0);
    CHECK(image_file_size("/") == 0);
}

int main(void)
{
    make_cubin();
    test_that_text_is_as_long_as_it_is();
    test_that_a_cubin_takes_its_loaded_sections();
    test_that_a_fat_binary_says_nothing();
    test_that_files_say_the_same_and_damaged_ones_nothing();
    return claim_result();
}
