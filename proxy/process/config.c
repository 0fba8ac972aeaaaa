#include "proxy/process/config.h"

#include <stdio.h>
#include <string.h>

#include "base/ulid.h"

void config_init(struct config *c) {
    c->workers = 1;
    c->push_memory = (size_t)CONFIG_PUSH_MIB << 20;
    c->verbosity = IPC_DENIALS;
}

static bool name_char(char c, bool first) {
    char low = ascii_lower(c);
    if ((low >= 'a' && low <= 'z') || ascii_digit(c))
        return true;
    return !first && (c == '.' || c == '_' || c == '-');
}

bool config_is_name(struct slice name) {
    bool ok = name.n > 0 && name.n <= CONFIG_NAME_MAX;
    for (size_t i = 0; ok && i < name.n; i++)
        ok = name_char(name.p[i], i == 0);
    return ok;
}

int config_set_name(struct config_sandbox *s, const char *name, struct errmsg *msg) {
    struct slice text = slice_str(name);
    if (!config_is_name(text))
        return errmsg_set(msg, ERR_USAGE,
                          "'%s' is no name for a sandbox: 1 to %d letters, digits, '.', '_' and '-', "
                          "beginning with a letter "
                          "or digit",
                          name, CONFIG_NAME_MAX);
    memcpy(s->name, name, text.n + 1);
    return 0;
}

void config_make_name(struct config_sandbox *s) {
    const char *command = s->argv && s->argv[0] ? s->argv[0] : "";
    const char *slash = strrchr(command, '/');
    if (slash)
        command = slash + 1;
    char stem[25];
    size_t n = 0;
    for (; *command && n < sizeof stem - 1; command++)
        if (name_char(*command, n == 0))
            stem[n++] = *command;
    stem[n] = 0;
    struct ulid id = ulid_new();
    char tail[7];
    for (size_t i = 0; i < 6; i++)
        tail[i] = ascii_lower(id.text[ULID_LEN - 6 + i]);
    tail[6] = 0;
    snprintf(s->name, sizeof s->name, "%s-%s", n ? stem : "sandbox", tail);
}
