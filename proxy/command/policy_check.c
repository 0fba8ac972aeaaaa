#include <stdlib.h>

#include "base/log.h"
#include "proxy/command/tool.h"
#include "vault/vault.h"

static int take_vault(void *target, char *value, struct errmsg *msg) {
    if (!*value)
        return errmsg_set(msg, ERR_USAGE, "the value is empty");
    ((struct tool *)target)->vault = value;
    return 0;
}

static const struct option_row rows[] = {
    TOOL_ROW_SET,
    {0, "vault", "FILE", take_vault, "also say which credentials this file does not define"},
    TOOL_ROW_JSON,
    TOOL_ROW_HELP,
};
#define ROWS (sizeof rows / sizeof rows[0])

static bool has_credential(void *arg, struct slice name) {
    return vault_has(arg, name);
}

static struct vault *read_vault(const char *path) {
    struct buf text, diags;
    struct errmsg msg;
    struct vault *v = NULL;
    buf_init(&diags, TOOL_OUTPUT_MAX);
    if (tool_read_file(path, 1 << 20, &text, &msg) < 0)
        log_error("policy check: %s", msg.text);
    else if (vault_parse(path, ".", buf_slice(&text), &v, &diags) < 0)
        fwrite(buf_slice(&diags).p, 1, buf_len(&diags), stderr);
    buf_release(&text);
    buf_release(&diags);
    return v;
}

static int check(struct tool *t, const struct policy *p, struct vault *vault) {
    size_t findings = 0;
    if (t->json)
        buf_puts(&t->out, "{\"findings\":");
    int r = policy_check(p, vault ? has_credential : NULL, vault, &t->print, &findings);
    if (t->json)
        buf_puts(&t->out, "}\n");
    else if (findings == 0)
        buf_printf(&t->out, "good: %zu rule%s\n", policy_rule_count(p), tool_s(policy_rule_count(p)));
    if (r < 0) {
        log_error("policy check: %s", err_text(r));
        return TOOL_TROUBLE;
    }
    return findings ? EXIT_FINDINGS : EXIT_SUCCESS;
}

int command_policy_check(int argc, char **argv) {
    static struct tool t;
    int first;
    int status = tool_begin(&t, "policy check",
                            "usage: exeat policy check [OPTION]... FILE...\n"
                            "\n"
                            "Loads a policy (several files add up), proves its `expect` lines, and says what "
                            "looks wrong though it loads.\n",
                            rows, ROWS, 1, argc, argv, &first);
    if (status >= 0)
        return status;
    struct vault *vault = t.vault ? read_vault(t.vault) : NULL;
    if (t.vault && !vault)
        return TOOL_TROUBLE;
    struct policy *p = tool_load(&t, (const char *const *)argv + first, (size_t)(argc - first));
    status = p ? check(&t, p, vault) : t.unproved ? EXIT_FINDINGS : TOOL_TROUBLE;
    policy_free(p);
    vault_free(vault);
    return tool_end(&t, status);
}
