/* stat_main.c - gpusim-stat: what the processes of a simulated machine really hold and used. */
#include "stat.h"

#include "fault.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: gpusim-stat [--dir DIR] [--json]\n"
    "       gpusim-stat [--dir DIR] [--json] --watch-max PIDS [--sample HZ] [--seconds S]\n"
    "       gpusim-stat topo\n"
    "\n"
    "Show what each process holds and used on each simulated GPU, as the simulator counts it.\n"
    "\n"
    "  --dir DIR         folder of the simulated machine's state (default " GPUSIM_DIR ")\n"
    "  --json            as JSON; sizes in bytes, times in nanoseconds\n"
    "  --watch-max PIDS  watch these processes (PID,PID,... or all) and show the most that\n"
    "                    they held together, for each GPU\n"
    "  --sample HZ       look so many times a second (default 1000)\n"
    "  --seconds S       watch for so long (default 1)\n"
    "  topo              how the GPUs are linked, as nvidia-smi topo -m shows it (simulated)\n";

struct options {
    const char *dir;
    bool json, topology, help;
    struct stat_watch watch;
};

enum { DIR_OPTION = 1, JSON_OPTION, WATCH_OPTION, SAMPLE_OPTION, SECONDS_OPTION, HELP_OPTION };

static const struct option names[] = {
    {"dir", required_argument, NULL, DIR_OPTION},
    {"json", no_argument, NULL, JSON_OPTION},
    {"watch-max", required_argument, NULL, WATCH_OPTION},
    {"sample", required_argument, NULL, SAMPLE_OPTION},
    {"seconds", required_argument, NULL, SECONDS_OPTION},
    {"help", no_argument, NULL, HELP_OPTION},
    {0},
};

static int bad_number(struct gpusim_error *err, const char *option, const char *range)
{
    return gpusim_errorf(err, "--%s=%s: a number from %s is needed", option, optarg, range);
}

static int take(int option, struct options *options, struct gpusim_error *err)
{
    char *end = NULL;
    switch (option) {
    case DIR_OPTION:
        options->dir = optarg;
        return 0;
    case JSON_OPTION:
        options->json = options->watch.json = true;
        return 0;
    case WATCH_OPTION:
        options->watch.pids = optarg;
        return 0;
    case SAMPLE_OPTION:
        options->watch.hz = (unsigned)strtoul(optarg, &end, 10);
        if (*end || !options->watch.hz || options->watch.hz > 100000)
            return bad_number(err, "sample", "1 to 100000");
        return 0;
    case SECONDS_OPTION:
        options->watch.seconds = strtod(optarg, &end);
        if (*end || !(options->watch.seconds > 0 && options->watch.seconds <= 86400))
            return bad_number(err, "seconds", "above 0 to 86400");
        return 0;
    case HELP_OPTION:
        options->help = true;
        return 0;
    default:
        return gpusim_errorf(err, "unknown option; --help shows those that there are");
    }
}

static int read_options(int argc, char **argv, struct options *options, struct gpusim_error *err)
{
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;)
        if (take(c, options, err))
            return -1;
    options->topology = optind < argc && strcmp(argv[optind], "topo") == 0;
    if (optind + options->topology < argc)
        return gpusim_errorf(err, "unexpected \"%s\"; --help shows what can be asked",
                             argv[optind + options->topology]);
    return 0;
}

static int print(struct gpusim_state *state, bool json, struct gpusim_error *err)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return gpusim_errorf(err, "out of memory");
    (json ? stat_json : stat_table)(state, out);
    fclose(out);
    fwrite(text, 1, length, stdout);
    free(text);
    return 0;
}

static int report(const struct options *options, struct gpusim_error *err)
{
    struct gpusim_state *state = gpusim_open(options->dir, err);
    if (!state)
        return -1;
    struct gpusim_faults faults = {0};
    gpusim_faults_open(&faults, options->dir);
    gpusim_faults_refresh(&faults, state);
    int rc = options->watch.pids ? stat_watch(state, &options->watch, stdout, err)
                                 : print(state, options->json, err);
    gpusim_close(state);
    return rc;
}

int main(int argc, char **argv)
{
    struct gpusim_error err = {""};
    struct options options = {.dir = GPUSIM_DIR, .watch = {.hz = 1000, .seconds = 1}};
    int rc = read_options(argc, argv, &options, &err);
    if (rc == 0 && options.help)
        fputs(usage, stdout);
    else if (rc == 0)
        rc = options.topology ? stat_topology(stdout, &err) : report(&options, &err);
    if (rc)
        fprintf(stderr, "gpusim-stat: %s\n", err.text);
    return rc ? 2 : 0;
}
