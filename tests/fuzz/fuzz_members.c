/*
 * A service against who joins it: any messages, in any order, with any descriptors.
 *
 * The input is a row of messages, each behind three bytes: how many descriptors come with it (the low five bits; the next bit: they are
 * this process's user namespace, the one after it: the message begins as one that joins does, with the right build), and two of length
 * (little-endian). What is held to here beside "no crash": who does not show the namespace is granted nothing; keeper, workers and scribe
 * go on with the service (members_world.h); and when the socket has ended nothing of the sandbox is left, in the service or with any of
 * them.
 */
#include "base/log.h"
#include "tests/unit/members_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MANY = 31, NAMESPACE = 32, JOINS = 64 };

static struct members_world world;

static void say(int fd, unsigned flags, struct slice text) {
    static uint8_t memory[MSG_MAX];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, SERVICE_JOIN);
    if (flags & JOINS)
        msg_put_str(&m, version_build);
    else
        m.n = 0;
    if (text.n > m.cap - m.n)
        return;
    memcpy(m.p + m.n, text.p, text.n);
    m.n += text.n;
    for (unsigned i = 0; i < (flags & MANY) && i < MSG_FDS_MAX; i++)
        msg_put_fd(&m, flags & NAMESPACE ? world.namespace : world.nowhere);
    if (m.n) /* an empty one would be read as the end */
        (void)msg_send(fd, &m);
    world_turn(&world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!world.base) {
        log_setup(NULL, LOG_LEVEL_ERROR);
        world_open(&world);
    }
    int fd = world_connect(&world);
    unsigned before = world.grants;
    bool proved = false; /* whose it is */
    while (size >= 3) {
        size_t n = (size_t)data[1] | (size_t)data[2] << 8;
        unsigned flags = data[0];
        proved |= (flags & NAMESPACE) != 0;
        data += 3;
        size -= 3;
        if (n > size)
            n = size;
        say(fd, flags, slice_make(data, n));
        data += n;
        size -= n;
    }
    world_must(proved || world.grants == before, "one of another user namespace has joined");
    close(fd);
    world_turn(&world);
    world_must(world.all.n == 0, "a member is left");
    world_must(world.revokes == world.grants, "the keeper knows of a sandbox that is gone");
    world_must(world.ended == world.opened, "a worker has a sandbox that is gone");
    return 0;
}
