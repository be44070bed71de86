/* names - prints where names that are not the driver's are found: object and offset, from the
 * program and from a library behind it, by every handle. The output is to be the same with and
 * without the shim. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *next_find(void *handle, const char *name);
void *next_find_version(void *handle, const char *name, const char *version);

static const char *const names[] = {
    "malloc",
    "free",
    "printf",
    "pthread_create",
    "cube",
    "curl_easy_init",
    "cublasCreate_v2",
    "cudaMalloc",
    "cuNothing",
    "nvml",
    "nvmlNothing",
    "dl",
    "dlopen",
    "c",
    "n",
    "d",
    "",
    "next_find",
    "main",
};

static void show(const char *way, const char *name, void *found)
{
    Dl_info info;
    if (!found || !dladdr(found, &info)) {
        const char *error = dlerror();
        const char *tail = error ? strrchr(error, ':') : NULL;
        printf("%s %s: nothing%s\n", way, name, tail ? tail : "");
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %s: %s+%lx\n", way, name, slash ? slash + 1 : info.dli_fname,
           (unsigned long)((char *)found - (char *)info.dli_fbase));
}

static void show_all(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW), *self = dlopen(NULL, RTLD_NOW);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i];
        show("program NEXT", name, dlsym(RTLD_NEXT, name));
        show("program DEFAULT", name, dlsym(RTLD_DEFAULT, name));
        show("program libc", name, dlsym(libc, name));
        show("program self", name, dlsym(self, name));
        show("library NEXT", name, next_find(RTLD_NEXT, name));
        show("library DEFAULT", name, next_find(RTLD_DEFAULT, name));
        show("library libc", name, next_find(libc, name));
        show("versioned NEXT", name, dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5"));
        show("versioned libc", name, dlvsym(libc, name, "GLIBC_2.2.5"));
        show("versioned library", name, next_find_version(RTLD_DEFAULT, name, "GLIBC_2.2.5"));
        show("versioned wrongly", name, dlvsym(libc, name, "GLIBC_9.9"));
    }
}

static void *many(void *arg)
{
    void *first = dlsym(RTLD_NEXT, "malloc");
    for (int i = 0; i < 20000; i++)
        if (dlsym(RTLD_NEXT, "malloc") != first || dlsym(RTLD_DEFAULT, "cuNothing"))
            return NULL;
    return arg;
}

int main(void)
{
    pthread_t threads[8];
    show_all();
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, many, "right");
    for (int i = 0; i < 8; i++) {
        void *right;
        pthread_join(threads[i], &right);
        printf("thread: %s\n", right ? (char *)right : "wrong");
    }
    return 0;
}
