#include "settings.h"

#include "proto/paths.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS     5000
#define DEADLINE_MAX_MS 60000

static const char *value_of(const char *argument, const char *key)
{
    size_t n = strlen(key);
    return strncmp(argument, key, n) == 0 ? argument + n : NULL;
}

static int path_set(char path[VGPU_PATH_MAX], const char *value, const char *argument,
                    vgpu_error_t *err)
{
    if (*value != '/' || strlen(value) >= VGPU_PATH_MAX)
        return vgpu_errorf(err,
                           "plugstack.conf: %.80s: an absolute path of at most %d bytes is wanted",
                           argument, VGPU_PATH_MAX - 1);
    strcpy(path, value);
    return 0;
}

static int deadline_set(uint32_t *deadline, const char *value, vgpu_error_t *err)
{
    char *end;
    unsigned long ms = isdigit((unsigned char)*value) ? strtoul(value, &end, 10) : 0;
    if (ms < 1 || ms > DEADLINE_MAX_MS || strcmp(end, "ms") != 0)
        return vgpu_errorf(err, "plugstack.conf: deadline=%.40s: 1ms to %dms is wanted", value,
                           DEADLINE_MAX_MS);
    *deadline = (uint32_t)ms;
    return 0;
}

static int argument_read(struct vgpu_settings *s, const char *argument, vgpu_error_t *err)
{
    const char *value;
    if ((value = value_of(argument, "runtime_dir=")))
        return path_set(s->runtime_dir, value, argument, err);
    if ((value = value_of(argument, "conf=")))
        return path_set(s->conf, value, argument, err);
    if ((value = value_of(argument, "datadir=")))
        return path_set(s->datadir, value, argument, err);
    if ((value = value_of(argument, "deadline=")))
        return deadline_set(&s->deadline_ms, value, err);
    return vgpu_errorf(
        err,
        "plugstack.conf: %.80s: known are runtime_dir=, conf=, datadir= and deadline=", argument);
}

/* %n becomes the node's name. */
static int node_expand(char path[VGPU_PATH_MAX], const char *node, vgpu_error_t *err)
{
    char out[VGPU_PATH_MAX];
    const char *mark = strstr(path, "%n");
    if (!mark)
        return 0;
    int n = snprintf(out, sizeof out, "%.*s%s%s", (int)(mark - path), path, node, mark + 2);
    if (n < 0 || (size_t)n >= sizeof out)
        return vgpu_errorf(
            err, "plugstack.conf: runtime_dir=%.80s is too long with the node's name", path);
    strcpy(path, out);
    return 0;
}

int settings_read(struct vgpu_settings *settings, int argc, char **argv, const char *node,
                  vgpu_error_t *err)
{
    int status = 0;
    *settings = (struct vgpu_settings){
        .runtime_dir = VGPU_RUNTIME_DIR,
        .conf = VGPU_CONF,
        .datadir = VGPU_DATADIR,
        .deadline_ms = DEADLINE_MS,
    };
    for (int i = 0; i < argc && status == 0; i++)
        status = argument_read(settings, argv[i], err);
    if (node_expand(settings->runtime_dir, node, status == 0 ? err : NULL) != 0)
        status = -1;
    return status;
}
