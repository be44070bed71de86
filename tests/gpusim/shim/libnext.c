/* libnext - a library behind the shim in the search order that looks up names from its own place.
 */
#include <dlfcn.h>

void *next_find(void *handle, const char *name);
void *next_find_version(void *handle, const char *name, const char *version);

void *next_find(void *handle, const char *name)
{
    void *volatile found = dlsym(handle, name); /* not as the last thing: the caller is to be us */
    return found;
}

void *next_find_version(void *handle, const char *name, const char *version)
{
    void *volatile found = dlvsym(handle, name, version);
    return found;
}
