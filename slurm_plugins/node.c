#include "node.h"

#include "proto/wire.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *vgpu_node_name(void)
{
    static char host[VGPU_NAME_MAX];
    const char *name = getenv("SLURMD_NODENAME");
    if (name)
        return name;
    if (gethostname(host, sizeof host - 1) != 0)
        return "localhost";
    host[strcspn(host, ".")] = '\0';
    return host;
}
