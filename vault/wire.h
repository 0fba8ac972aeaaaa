/*
 * The messages between keeper, worker and supervisor. Each question has a number of the asker's choosing; its
 * answer carries it. Fields in order; `str` is a length and bytes (base/msg.h).
 *
 *   to the keeper, from the supervisor:
 *     VAULT_GRANT     u64 sandbox, u32 n, n × str credential    what it may be lent from now on
 *     VAULT_REVOKE    u64 sandbox                                the sandbox has ended
 *   to the keeper, from a worker:
 *     VAULT_MINT      u32 number, str name, str spki
 *     VAULT_RENDER    u32 number, u64 sandbox, str credential,
 *                         u8 scheme (0 http, 1 https), str host, u16 port, str path
 *     VAULT_ASK_BINDINGS  (nothing)
 *     VAULT_KEEP      u32 number, u64 sandbox, u32 n, n × (str key, u32 seconds, str value)    vault/kept.h
 *     VAULT_RECALL    u32 number, u64 sandbox, str key
 *     VAULT_ASK_MARKS u32 the first that is wanted
 *     VAULT_SPOT      u32 number, u64 sandbox, u32 mark, str digest    vault/marks.h: is the secret there?
 *   from the keeper, to a worker:
 *     VAULT_MINTED    u32 number, u8 ok, str DER; or, not ok, u8 err (-enum err), str why
 *     VAULT_RENDERED  u32 number, u8 ok, str header, str value,
 *                         u32 for how many ms it is good for this sandbox and origin, whatever the path; or as above
 *     VAULT_KEPT      u32 number, u8 ok; or as above: then none of them is kept for certain
 *     VAULT_RECALLED  u32 number, u8 ok, str value; or as above
 *     VAULT_MARKS     u64 factor, str key, u32 how many there are,
 *                         u32 n, n × (u64 print, u32 after, u32 length, u8 part)    base/watchmark.h
 *     VAULT_SPOTTED   u32 number, u8 ok, u8 form, str credential; or as above: ERR_NOTFOUND, it is something else
 *     VAULT_BINDINGS  u32 n, n × (str host, u32 m, m × str field)
 *
 * What was kept before a sandbox was granted something else stays kept; REVOKE wipes it.
 *
 * GRANT and REVOKE have no answer; the keeper handles what comes on one socket in order. A grant whose
 * credential the vault does not have is kept: RENDER then says ERR_NOTFOUND.
 */
#ifndef VAULT_WIRE_H
#define VAULT_WIRE_H

enum vault_message {
    VAULT_GRANT = 0x0200,
    VAULT_REVOKE = 0x0201,
    VAULT_MINT = 0x0210,
    VAULT_RENDER = 0x0211,
    VAULT_ASK_BINDINGS = 0x0212,
    VAULT_KEEP = 0x0213,
    VAULT_RECALL = 0x0214,
    VAULT_ASK_MARKS = 0x0215,
    VAULT_SPOT = 0x0216,
    VAULT_MINTED = 0x0220,
    VAULT_RENDERED = 0x0221,
    VAULT_BINDINGS = 0x0222,
    VAULT_KEPT = 0x0223,
    VAULT_RECALLED = 0x0224,
    VAULT_MARKS = 0x0225,
    VAULT_SPOTTED = 0x0226,
};

/* How long a worker may go on using what was rendered, without asking again. */
#define VAULT_LEASE_MS 1000

/* What a sandbox's worker may be wrong about in an hour: places that look like one of the secrets and are not. One that
 * guesses has no more. */
#define VAULT_MISSES_MAX 1024
#define VAULT_MISSES_MS  3600000

#define VAULT_GRANT_MAX   512 /* credentials of one sandbox */
#define VAULT_SANDBOX_MAX 65536

#endif
