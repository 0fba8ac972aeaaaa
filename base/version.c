#include "base/version.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

const char version_build[] __attribute__((weak)) = PACKAGE_VERSION;

int version_check(const char *exeat, struct errmsg *msg) {
    char self[PATH_MAX];
    if (strcmp(exeat, version_build) == 0)
        return 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    return errmsg_set(msg, ERR_UNSUPPORTED, "%.*s is of version %s, exeat itself of %s: install all of one",
                      n < 0 ? 0 : (int)n, self, version_build, exeat);
}
