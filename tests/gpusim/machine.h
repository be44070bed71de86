/* machine.h - the machine file: which GPUs a simulated machine has and how they are linked.
 *
 * One statement per line, a list of key=value separated by blanks; the first key says what the line
 * is. `#` starts a comment. A value with blanks is written in double quotes. Keys are lower case.
 * Sizes are whole numbers with KiB, MiB, GiB or TiB.
 *
 *   machine=pairs driver=580.65.06 cuda=13.0 timeslice=2ms context=256MiB
 *   gpu=0-3 name="NVIDIA A100-PCIE-40GB" memory=40GiB sms=108 cc=8.0 bandwidth=1555
 *   gpu=0,1 numa=0 cpus=0-31
 *   gpu=2,3 numa=1 cpus=32-63
 *   gpu=0 pci=0000:01:00.0
 *   link=0,1 count=12 version=3
 *   pcie=0,1 level=PIX
 *
 * machine=NAME
 *     The first statement, always. driver= text (580.65.06), cuda= MAJOR.MINOR (13.0), timeslice=
 *     (2ms), context= device memory that a context takes (256MiB).
 *
 * gpu=LIST
 *     One or more GPUs by index; what a later line says about a GPU adds to or replaces an earlier
 *     one. The indices used must be 0 to n-1. name=, memory= and sms= are required (on any line),
 *     the rest has defaults: cc= compute capability (8.0), bandwidth= GB/s of its memory (1500),
 *     pci= (0000:11:00.0 for GPU 0, 0000:12:00.0 for GPU 1 ...), uuid= and serial= (made from
 *     machine name and index), minor= N of /dev/nvidiaN (the index), numa= (0; -1: none), cpus= the
 *     nearest CPUs (empty: all), pciegen= (4), pciewidth= (16).
 *     pci=, uuid=, serial= and minor= belong to one GPU.
 *
 * link=PAIRS
 *     NVLinks between two GPUs: count= links of version= (NVLink generation 1 to 5).
 *
 * switch=LIST
 *     Each of these GPUs has count= links of version= to an NVSwitch.
 *
 * pcie=PAIRS
 *     level= how two GPUs reach each other over PCIe: PIX, PXB, PHB, NODE, SYS (default: NODE if
 *     both have the same numa=, else SYS).
 *
 * LIST is numbers and ranges: 0,2,4-7. PAIRS: a LIST stands for every pair in it, LIST:LIST for
 * every pair of one from each side.
 */
#ifndef GPUSIM_MACHINE_H
#define GPUSIM_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#define GPUSIM_MAX_GPUS  16
#define GPUSIM_MAX_LINKS 18 /* NVLinks of one GPU */

struct gpusim_error {
    char text[320];
};

enum gpusim_compute {
    GPUSIM_COMPUTE_DEFAULT,
    GPUSIM_COMPUTE_EXCLUSIVE, /* one process at a time may have contexts */
    GPUSIM_COMPUTE_PROHIBITED,
};

/* As nvmlGpuTopologyLevel_t counts them. */
enum gpusim_pcie {
    GPUSIM_PIX = 10,
    GPUSIM_PXB = 20,
    GPUSIM_PHB = 30,
    GPUSIM_NODE = 40,
    GPUSIM_SYS = 50,
};

struct gpusim_gpu_spec {
    char name[96];
    char uuid[48]; /* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
    char serial[24];
    char cpus[128]; /* "": all */
    uint8_t uuid_bytes[16];
    uint64_t memory;    /* bytes */
    uint64_t bandwidth; /* bytes a second */
    uint32_t pci_domain, pci_bus, pci_device;
    uint32_t sms, cc_major, cc_minor;
    uint32_t minor; /* /dev/nvidia<minor> */
    uint32_t pcie_gen, pcie_width;
    int32_t numa;                          /* -1: none */
    uint32_t switch_links, switch_version; /* to an NVSwitch */
    uint32_t persistence, mig;             /* at boot: 0 or 1 */
    uint32_t compute;                      /* at boot: enum gpusim_compute */
};

struct gpusim_pair {
    uint8_t links, version; /* direct NVLinks; version 0: none */
    uint8_t pcie;           /* enum gpusim_pcie */
};

struct gpusim_machine {
    char name[64];
    char driver[32];
    int32_t cuda; /* 13000 */
    uint32_t n_gpus;
    uint64_t timeslice_ns;
    uint64_t context_bytes;
    struct gpusim_gpu_spec gpus[GPUSIM_MAX_GPUS];
    struct gpusim_pair pairs[GPUSIM_MAX_GPUS][GPUSIM_MAX_GPUS]; /* symmetric */
};

/* Parse text; `name` stands for the file in errors ("NAME:LINE: ..."). Returns 0, or -1 with err.
 */
int gpusim_machine_parse(const char *text, size_t length, const char *name,
                         struct gpusim_machine *machine, struct gpusim_error *err);

int gpusim_machine_read(const char *path, struct gpusim_machine *machine, struct gpusim_error *err);

/* NVLinks over which two GPUs reach each other: direct ones, or through the switch the smaller
 * number of both. */
uint32_t gpusim_machine_links(const struct gpusim_machine *machine, uint32_t a, uint32_t b);

/* Format an error; returns -1. err may be NULL. */
int gpusim_errorf(struct gpusim_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
