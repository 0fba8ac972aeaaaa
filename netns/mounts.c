#include "netns/mounts.h"

#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netns/cover.h"
#include "netns/devices.h"
#include "netns/overlay.h"
#include "netns/trust.h"

int mounts_proc(struct errmsg *msg) {
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return mount_error(msg, "mount namespace: propagation of", "/");
    /* refused where the host's own /proc is covered in part, as in a container */
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return mount_error(msg, "mount of", "/proc");
    return 0;
}

/* "." still means the directory below whatever was laid over it or one above it. */
static int enter_directory(const char *cwd, struct errmsg *msg) {
    struct stat before, after;
    if (stat(".", &before) < 0 || chdir(cwd) < 0 || stat(".", &after) < 0)
        return errmsg_errno(msg, ERR_USAGE, "the working directory %s can't be entered inside the sandbox",
                            cwd);
    if (before.st_dev != after.st_dev || before.st_ino != after.st_ino)
        return errmsg_set(msg, ERR_USAGE,
                          "the working directory %s is covered inside the sandbox: start elsewhere", cwd);
    return 0;
}

int mounts_cover(const struct wire_spec *spec, struct stage *stage, char dir[PATH_MAX], struct errmsg *msg) {
    if (!realpath(spec->state_dir, dir))
        return errmsg_errno(msg, ERR_USAGE, "state directory %s", spec->state_dir);
    if (spec->root && slice_starts(slice_str(dir), SLICE("/dev/")))
        return errmsg_set(
            msg, ERR_USAGE,
            "state directory %s: root's sandboxes have a /dev of their own, which would cover it: "
            "give another by --state DIR",
            dir);
    *stage = (struct stage){.dir = dir};
    int r = cover_aliases(spec, dir, msg);
    if (r == 0)
        r = mount_tmpfs(dir, "mode=755,size=256m", msg);
    if (r == 0)
        r = stage_scratch(stage, msg);
    return r ? r : cover_all(spec, stage, msg);
}

int mounts_finish(const struct wire_spec *spec, const struct wire_trust *trust, struct stage *stage,
                  struct errmsg *msg) {
    int r = trust_setup(trust, spec->root, stage, msg);
    if (r == 0 && spec->root)
        r = devices_setup(stage, msg);
    if (r == 0)
        r = stage_seal(stage, msg);
    if (r == 0)
        r = enter_directory(spec->cwd, msg);
    return r;
}
