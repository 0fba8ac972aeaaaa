/*
 * The keeper's process: the CA's key and the secrets, and nobody else has them. What it answers is vault/keeper.h's table; this
 * file reads both before confinement and carries messages afterwards.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"
#include "ca/openssl.h"
#include "ca/root.h"
#include "proxy/process/config.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"
#include "proxy/process/sources.h"
#include "vault/keeper.h"

struct keeper_process {
    struct role_base role; /* first: the control channel's arg is this */
    struct channel peers[CONFIG_WORKERS_MAX];
    size_t npeers;
    struct vault *vault;
    struct ca_root *root;
    struct keeper *keeper;
};

static int mint(void *arg, struct slice name, struct slice spki, struct buf *der, struct errmsg *msg) {
    struct keeper_process *k = arg;
    return ca_mint(k->root, name, spki, (int64_t)time(NULL), der, msg);
}

/* One message, one answer at most. ERR_PEER ends that peer. */
static int handle(struct keeper_process *k, struct channel *c, enum keeper_peer kind, struct msg_in *in) {
    struct msg_out out = {0};
    struct errmsg msg = {""};
    int r = keeper_handle(k->keeper, kind, in, &out, msg_room.out, sizeof msg_room.out, &msg);
    if (r == 0 && out.n)
        r = channel_send(c, &out);
    keeper_wipe(&out);
    if (r == ERR_PEER)
        log_error("worker %u: %s", c->number, msg.text);
    return r;
}

static int on_peer(struct channel *c, struct msg_in *m) {
    return handle(c->arg, c, KEEPER_WORKER, m);
}

static void on_peer_closed(struct channel *c, int err) {
    struct keeper_process *k = c->arg;
    uint32_t number = c->number;
    channel_close(c);
    if (err == ERR_EOF)
        return; /* it has ended: the supervisor knows by itself whether that was its time */
    uint8_t memory[256];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, IPC_BROKEN);
    msg_put_u32(&m, number);
    msg_put_str(&m, err_text(err));
    (void)channel_send(&k->role.ctl, &m);
}

static const struct channel_ops peer_ops = {on_peer, on_peer_closed};

static int add_peer(struct keeper_process *k, struct msg_in *m) {
    uint32_t number = msg_get_u32(m);
    int fd = msg_get_fd(m);
    if (msg_end(m) < 0 || k->npeers == CONFIG_WORKERS_MAX) {
        if (fd >= 0)
            close(fd);
        return ERR_PEER;
    }
    struct channel *c = &k->peers[k->npeers];
    int r = channel_open(c, k->role.base, fd, true, &peer_ops, k);
    if (r < 0)
        return r;
    c->number = number;
    k->npeers++;
    return 0;
}

/* Reads the vault and its secrets; what is wrong with them goes into `diags`. */
static int load_vault(struct keeper_process *k, const char *path, int text_fd, struct buf *diags) {
    struct slice text;
    int r = memory_file_map(text_fd, VAULT_FILE_MAX, &text);
    if (r < 0)
        return r;
    r = vault_parse(path, NULL, text, &k->vault, diags);
    memory_file_unmap(&text);
    if (r == 0)
        r = vault_resolve(k->vault, VAULT_EXEC_MS, diags);
    if (r == 0)
        vault_wipe_env(k->vault);
    return r;
}

/* The messages of ca/ name files; where these are, the descriptor knows. */
static void name_folder(int fd, struct errmsg *msg) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    if (n > 0)
        errmsg_prefix(msg, "%.*s", (int)n, path);
}

static int load(struct keeper_process *k, int state_fd, const char *path, int text_fd, struct buf *diags) {
    struct errmsg msg = {""};
    int r = ca_root_open(state_fd, (int64_t)time(NULL), &k->root, &msg);
    if (r < 0)
        name_folder(state_fd, &msg);
    if (r == 0 && path)
        r = load_vault(k, path, text_fd, diags);
    if (r == 0)
        r = keeper_new(k->vault, mint, k, &k->keeper, &msg);
    if (r < 0 && msg.text[0])
        buf_printf(diags, "exeat: %s\n", msg.text);
    if (r < 0 && buf_len(diags) == 0)
        buf_printf(diags, "exeat: credentials: %s\n", err_text(r));
    return r;
}

/* Whose secrets can't be looked for, in words; as many as fit. */
static void put_unwatched(const struct vault *v, struct msg_out *m) {
    struct buf names;
    buf_init(&names, 4096);
    for (size_t i = 0; v && i < vault_count(v); i++)
        if (!vault_watched(v, i))
            buf_printf(&names, "%s'%s'", buf_len(&names) ? ", " : "", vault_name(v, i));
    msg_put_slice(m, buf_slice(&names));
    buf_release(&names);
}

static int start(struct keeper_process *k, struct msg_in *m) {
    int state_fd = msg_get_fd(m);
    struct slice name = msg_get_slice(m);
    int text_fd = name.n ? msg_get_fd(m) : -1;
    char *path = name.n ? slice_dup(name) : NULL;
    struct buf diags;
    buf_init(&diags, IPC_TEXT_MAX);
    int r = msg_end(m);
    if (r == 0 && name.n && !path)
        r = ERR_NOMEM;
    if (r == 0 && (r = load(k, state_fd, path, text_fd, &diags)) < 0)
        r = role_failed(&k->role, 0, buf_slice(&diags)); /* told; no protocol was broken */
    else if (r == 0) {
        struct msg_out ready;
        msg_begin(&ready, msg_room.out, sizeof msg_room.out, IPC_READY);
        msg_put_slice(&ready, ca_root_pem(k->root));
        msg_put_u32(&ready, ca_root_hash(k->root));
        msg_put_u8(&ready, secret_unlocked());
        put_unwatched(k->vault, &ready);
        r = role_ready(&k->role, CONFINE_KEEPER, &ready);
    }
    buf_release(&diags);
    free(path);
    if (state_fd >= 0)
        close(state_fd);
    if (text_fd >= 0)
        close(text_fd);
    return r;
}

static int on_supervisor(struct channel *c, struct msg_in *m) {
    struct keeper_process *k = c->arg;
    if (m->type == IPC_ADD_PEER && !k->keeper)
        return add_peer(k, m);
    if (m->type == IPC_START && !k->keeper)
        return start(k, m);
    if (m->type == IPC_DRAIN) {
        role_end(&k->role, 0);
        return 0;
    }
    return k->keeper ? handle(k, c, KEEPER_SUPERVISOR, m) : ERR_PEER;
}

static const struct channel_ops supervisor_ops = {on_supervisor, role_supervisor_gone};

static int keeper_run(void) {
    static struct keeper_process k;
    openssl_begin(false);
    if (role_open(&k.role, &supervisor_ops, &k) < 0)
        return 1;
    role_loop(&k.role);
    for (size_t i = 0; i < k.npeers; i++)
        channel_close(&k.peers[i]);
    keeper_free(k.keeper);
    vault_free(k.vault);
    ca_root_free(k.root);
    return role_close(&k.role);
}

int main(int argc, char **argv) {
    return role_main(argc, argv, "keeper", keeper_run);
}
