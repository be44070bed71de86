/* Claims about the machine file of the simulated GPU. */
#include "../../gpusim/machine.h"
#include "claim.h"

#include <string.h>

static struct gpusim_machine machine;
static struct gpusim_error err;

static int parse(const char *text)
{
    err.text[0] = 0;
    return gpusim_machine_parse(text, strlen(text), "m", &machine, &err);
}

static void a_full_file_says_what_it_says(void)
{
    CHECK_MSG(
        parse("# a machine\n"
              "machine=pairs driver=550.1 cuda=12.4 timeslice=500us context=64MiB\n"
              "gpu=0-2 name=\"NVIDIA A100 80GB\" memory=80GiB sms=108 cc=8.6 bandwidth=2039 # all\n"
              "gpu=1 pci=0001:c1:02.0 uuid=GPU-01234567-89ab-cdef-0123-456789abcdef serial=77 "
              "minor=5\n"
              "gpu=1,2 numa=1 cpus=32-63\n"
              "gpu=2 numa=-1 pciegen=5 pciewidth=8\n"
              "link=0,1 count=12 version=3\n"
              "pcie=0:1-2 level=PXB\n"
              "switch=2 count=6 version=4\n") == 0,
        "%s", err.text);
    CHECK(strcmp(machine.name, "pairs") == 0 && strcmp(machine.driver, "550.1") == 0);
    CHECK(machine.cuda == 12040 && machine.timeslice_ns == 500000 &&
          machine.context_bytes == 64u << 20);
    CHECK(machine.n_gpus == 3);
    const struct gpusim_gpu_spec *gpu = &machine.gpus[1];
    CHECK(strcmp(gpu->name, "NVIDIA A100 80GB") == 0 && gpu->memory == 80ull << 30 &&
          gpu->sms == 108);
    CHECK(gpu->cc_major == 8 && gpu->cc_minor == 6 && gpu->bandwidth == 2039000000000ull);
    CHECK(gpu->pci_domain == 1 && gpu->pci_bus == 0xc1 && gpu->pci_device == 2);
    CHECK(strcmp(gpu->uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef") == 0);
    CHECK(gpu->uuid_bytes[0] == 0x01 && gpu->uuid_bytes[15] == 0xef);
    CHECK(strcmp(gpu->serial, "77") == 0 && gpu->minor == 5 && gpu->numa == 1);
    CHECK(strcmp(gpu->cpus, "32-63") == 0);
    CHECK(machine.gpus[2].numa == -1 && machine.gpus[2].pcie_gen == 5 &&
          machine.gpus[2].pcie_width == 8);
    CHECK(machine.pairs[1][0].links == 12 && machine.pairs[0][1].version == 3);
    CHECK(machine.pairs[0][2].pcie == GPUSIM_PXB && machine.pairs[2][0].pcie == GPUSIM_PXB);
    CHECK(machine.pairs[1][2].pcie == GPUSIM_SYS);
}

static void what_is_not_said_has_defaults(void)
{
    CHECK_MSG(parse("machine=m\ngpu=0-1 name=g memory=1GiB sms=4") == 0, "%s", err.text);
    CHECK(machine.cuda == 13000 && machine.timeslice_ns == 2000000 &&
          machine.context_bytes == 256u << 20);
    CHECK(machine.gpus[0].cc_major == 8 && machine.gpus[0].cc_minor == 0);
    CHECK(machine.gpus[0].pci_bus == 0x11 && machine.gpus[1].pci_bus == 0x12);
    CHECK(machine.gpus[1].minor == 1 && machine.gpus[1].numa == 0 && machine.gpus[1].serial[0]);
    CHECK(strcmp(machine.gpus[0].uuid, machine.gpus[1].uuid) != 0 &&
          strlen(machine.gpus[0].uuid) == 40);
    CHECK(machine.pairs[0][1].pcie == GPUSIM_NODE && machine.pairs[0][1].links == 0);
}

static void through_a_switch_the_smaller_number_counts(void)
{
    CHECK_MSG(parse("machine=m\ngpu=0-2 name=g memory=1GiB sms=4\nswitch=0 count=12 version=3\n"
                    "switch=1 count=6 version=3\nlink=1,2 count=2 version=3\n") == 0,
              "%s", err.text);
    CHECK(gpusim_machine_links(&machine, 0, 1) == 6);
    CHECK(gpusim_machine_links(&machine, 0, 2) == 0);
    CHECK(gpusim_machine_links(&machine, 2, 1) == 2);
    CHECK(gpusim_machine_links(&machine, 1, 1) == 0);
}

#define GPU "machine=m\ngpu=0-1 name=g memory=1GiB sms=4\n"

static void every_error_names_its_line(void)
{
    static const struct {
        const char *text, *line, *words;
    } bad[] = {
        {"", "m:0:", "no machine="},
        {"gpu=0 name=g memory=1GiB sms=4\n", "m:1:", "first statement must be machine="},
        {"machine=m\n", "m:1:", "no gpu="},
        {"machine=m\nmachine=n\n", "m:2:", "only once"},
        {"machine=m colour=red\n", "m:1:", "unknown key colour="},
        {GPU "cpu=1\n", "m:3:", "cannot begin with cpu="},
        {GPU "gpu=0 memory=1GB\n", "m:3:", "KiB, MiB, GiB or TiB"},
        {GPU "gpu=0 memory=-1GiB\n", "m:3:", "whole number"},
        {GPU "gpu=0 memory=99999999999TiB\n", "m:3:", "whole number"},
        {GPU "gpu=0 sms=0\n", "m:3:", "from 1 to 1024"},
        {GPU "gpu=0 sms=4x\n", "m:3:", "from 1 to 1024"},
        {GPU "gpu=0 sms=4 sms=5\n", "m:3:", "twice"},
        {GPU "gpu=0 cc=8\n", "m:3:", "MAJOR.MINOR"},
        {GPU "gpu=0 pci=41:00.0\n", "m:3:", "DOMAIN:BUS:DEVICE.0"},
        {GPU "gpu=0 uuid=GPU-1\n", "m:3:", "hexadecimal"},
        {GPU "gpu=0-1 minor=1\n", "m:3:", "belongs to one GPU"},
        {GPU "gpu=1-0 sms=1\n", "m:3:", "ranges upwards"},
        {GPU "gpu=16 sms=1\n", "m:3:", "0 to 15"},
        {GPU "gpu=0;1 sms=1\n", "m:3:", "list of GPUs"},
        {GPU "gpu=0 name=\"x\n", "m:3:", "closing quote"},
        {GPU "gpu=0 Name=x\n", "m:3:", "lower-case key"},
        {GPU "gpu=0 name=\n", "m:3:", "needs a value"},
        {GPU "link=0,1 count=2\n", "m:3:", "count= and version="},
        {GPU "link=0 count=2 version=3\n", "m:3:", "two GPUs"},
        {GPU "link=0,1 count=19 version=3\n", "m:3:", "from 1 to 18"},
        {GPU "link=0,5 count=1 version=3\n", "m:3:", "GPU 5 has links"},
        {GPU "pcie=0,1 level=FAR\n", "m:3:", "PIX, PXB, PHB, NODE or SYS"},
        {GPU "gpu=0 compute=shared\n", "m:3:", "default, exclusive or prohibited"},
        {GPU "gpu=0 mig=maybe\n", "m:3:", "off or on is needed"},
        {GPU "gpu=3 name=g memory=1GiB sms=4\n", "m:3:", "GPU 3 is described but GPU 2 is not"},
        {GPU "gpu=2 name=g sms=4\n", "m:3:", "GPU 2 needs name=, memory= and sms="},
        {GPU "gpu=1 minor=0\n", "m:3:", "same minor="},
        {GPU "gpu=1 pci=0000:11:00.0\n", "m:3:", "same pci="},
        {"machine=m timeslice=2\n", "m:1:", "us or ms"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK_MSG(parse(bad[i].text) == -1, "%s", bad[i].text);
        CHECK_MSG(strncmp(err.text, bad[i].line, strlen(bad[i].line)) == 0, "%s -> %s", bad[i].text,
                  err.text);
        CHECK_MSG(strstr(err.text, bad[i].words), "%s -> %s", bad[i].text, err.text);
    }
    CHECK(gpusim_machine_parse("machine=m\n\0gpu", 14, "m", &machine, &err) == -1);
    CHECK_MSG(strstr(err.text, "m:2:"), "%s", err.text);
    CHECK(gpusim_machine_read("/nonexistent/machine", &machine, &err) == -1);
    CHECK_MSG(strstr(err.text, "/nonexistent/machine"), "%s", err.text);
}

int main(void)
{
    a_full_file_says_what_it_says();
    what_is_not_said_has_defaults();
    through_a_switch_the_smaller_number_counts();
    every_error_names_its_line();
    return claim_result();
}
