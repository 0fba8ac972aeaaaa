#include "netns/mountinfo.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/array.h"

/* Spaces, tabs, line ends and backslashes come as \ooo. In place. */
static void unescape(char *s) {
    char *to = s;
    for (const char *from = s; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
            from[3] >= '0' && from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue */
static int parse_line(char *line, struct mount *m) {
    char *dev = NULL, *root = NULL, *point = NULL;
    int id, parent;
    const char *dash = strstr(line, " - ");
    if (!dash || sscanf(line, "%d %d %ms %ms %ms", &id, &parent, &dev, &root, &point) != 5) {
        free(dev);
        free(root);
        free(point);
        return ERR_PARSE;
    }
    unescape(root);
    unescape(point);
    char *type = strndup(dash + 3, strcspn(dash + 3, " "));
    *m = (struct mount){.id = id, .dev = dev, .root = root, .point = point, .type = type};
    return type ? 0 : ERR_NOMEM;
}

int mountinfo_read(struct mountinfo *out, struct errmsg *msg) {
    char *line = NULL;
    size_t cap = 0, room = 0;
    int r = 0;
    *out = (struct mountinfo){0};
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        return errmsg_errno(msg, ERR_IO, "/proc/self/mountinfo");
    while (r == 0 && getline(&line, &cap, f) > 0) {
        struct mount *grown = array_room(out->list, out->n, &room, sizeof *grown);
        if (!grown) {
            r = ERR_NOMEM;
            break;
        }
        out->list = grown;
        r = parse_line(line, &out->list[out->n]);
        if (r != ERR_PARSE)
            out->n++;
    }
    free(line);
    fclose(f);
    if (r) {
        mountinfo_release(out);
        return errmsg_set(msg, r, "/proc/self/mountinfo: %s", err_text(r));
    }
    return 0;
}

void mountinfo_release(struct mountinfo *info) {
    for (size_t i = 0; i < info->n; i++) {
        free(info->list[i].dev);
        free(info->list[i].root);
        free(info->list[i].point);
        free(info->list[i].type);
    }
    free(info->list);
    *info = (struct mountinfo){0};
}

/* What remains of `path` below `dir` ("" or "/..."), or NULL. */
static const char *below(const char *path, const char *dir) {
    size_t n = strlen(dir);
    if (n == 1)
        return path[1] ? path : "";
    if (strncmp(path, dir, n) || (path[n] && path[n] != '/'))
        return NULL;
    return path + n;
}

static const struct mount *mount_of(const struct mountinfo *info, const char *path) {
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) < 0 || !(st.stx_mask & STATX_MNT_ID))
        return NULL;
    for (size_t i = 0; i < info->n; i++)
        if ((uint64_t)info->list[i].id == st.stx_mnt_id)
            return &info->list[i];
    return NULL;
}

bool mountinfo_below(const struct mountinfo *info, const char *path) {
    for (size_t i = 0; i < info->n; i++) {
        const char *rest = below(info->list[i].point, path);
        if (rest && rest[0])
            return true;
    }
    return false;
}

int mountinfo_aliases(const struct mountinfo *info, const char *path,
                      int (*each)(void *arg, const char *alias), void *arg) {
    char inner[PATH_MAX], alias[PATH_MAX];
    struct stat own, other;
    const struct mount *m = mount_of(info, path);
    const char *rest = m ? below(path, m->point) : NULL;
    if (!rest || stat(path, &own) < 0)
        return 0; /* a mount made since the list was read: laid over by us already */
    /* where it is in its file system */
    if (snprintf(inner, sizeof inner, "%s%s", m->root[1] ? m->root : "", rest) >= (int)sizeof inner)
        return ERR_LIMIT;
    for (size_t i = 0; i < info->n; i++) {
        const struct mount *k = &info->list[i];
        if (k == m || strcmp(k->dev, m->dev))
            continue;
        const char *tail = below(inner[0] ? inner : "/", k->root);
        if (!tail ||
            snprintf(alias, sizeof alias, "%s%s", k->point[1] ? k->point : "", tail) >= (int)sizeof alias)
            continue;
        if (strcmp(alias, path) == 0 || lstat(alias[0] ? alias : "/", &other) < 0 ||
            other.st_dev != own.st_dev || other.st_ino != own.st_ino)
            continue;
        int r = each(arg, alias);
        if (r)
            return r;
    }
    return 0;
}
