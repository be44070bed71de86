/* main.c - vgpud's command line. */
#include "daemon.h"
#include "log.h"
#include "proto/paths.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_USAGE 2

static const char usage[] =
    "Usage: vgpud [--conf FILE] [--node NAME] [--runtime-dir DIR]\n"
    "Bind the vGPUs of this node to its GPUs, keep their accounts and share out their time.\n"
    "\n"
    "  --conf FILE        vgpu.conf (default: " VGPU_CONF ")\n"
    "  --node NAME        the node's name in slurm.conf (default: the host name up to its first "
    "dot)\n"
    "  --runtime-dir DIR  sockets and state; %n stands for the node's name "
    "(default: " VGPU_RUNTIME_DIR ")\n"
    "  --help, --version\n"
    "\n"
    "It stays in the foreground and logs to stderr. Running steps survive its restart.\n";

struct options {
    const char *conf, *runtime_dir;
    char node[VGPU_NAME_MAX];
};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"conf", required_argument, NULL, 'c'},        {"node", required_argument, NULL, 'n'},
        {"runtime-dir", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},           {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'c')
            options->conf = optarg;
        else if (option == 'n')
            snprintf(options->node, sizeof options->node, "%s", optarg);
        else if (option == 'r')
            options->runtime_dir = optarg;
        else if (option == 'h')
            return fputs(usage, stdout) < 0;
        else if (option == 'V')
            return printf("vgpud, protocol %d.%d\n", VGPU_WIRE_MAJOR, VGPU_WIRE_MINOR) < 0;
        else
            return EXIT_USAGE;
    }
    if (optind < argc) {
        fprintf(stderr, "vgpud: \"%s\" is not an option; see vgpud --help\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

static void default_node(char *node, size_t size)
{
    if (*node)
        return;
    gethostname(node, size - 1);
    node[strcspn(node, ".")] = '\0';
}

/* Replace %n by the node's name. Returns -1 if the path becomes too long. */
static int expand(const char *pattern, const char *node, char *path, size_t size)
{
    size_t used = 0;
    for (const char *p = pattern; *p && used < size; p++) {
        bool name = p[0] == '%' && p[1] == 'n';
        used += (size_t)snprintf(path + used, size - used, "%.*s", name ? VGPU_NAME_MAX : 1,
                                 name ? node : p);
        p += name;
    }
    return used < size ? 0 : -1;
}

static int serve(const struct vgpu_conf *conf, const char *runtime_dir, vgpu_error_t *err)
{
    static struct daemon daemon; /* large */
    int result = daemon_start(&daemon, conf, runtime_dir, err);
    if (result == 0)
        result = daemon_serve(&daemon, err);
    daemon_stop(&daemon);
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.conf = VGPU_CONF, .runtime_dir = VGPU_RUNTIME_DIR};
    char runtime_dir[VGPU_PATH_MAX / 2];
    vgpu_error_t err;

    log_init();
    int code = read_options(argc, argv, &options);
    if (code >= 0)
        return code;
    umask(022);
    default_node(options.node, sizeof options.node);
    if (expand(options.runtime_dir, options.node, runtime_dir, sizeof runtime_dir)) {
        log_error("--runtime-dir is longer than %zu bytes", sizeof runtime_dir - 1);
        return EXIT_USAGE;
    }
    struct vgpu_conf *conf = vgpu_conf_read(options.conf, options.node, &err);
    int result = conf ? serve(conf, runtime_dir, &err) : -1;
    if (result)
        log_error("%s", err.text);
    vgpu_conf_free(conf);
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
