/*
 * The limits of --time-limit: their names, and the times that suit people and machines without a word. Table, messages and
 * help are made of this list; what each is about is in engine.h for us and in exeat(1) for users.
 */
#ifndef PROXY_FLOW_TIME_LIMITS_H
#define PROXY_FLOW_TIME_LIMITS_H

/* X(NAME, name, number, unit), in the manual's order */
#define TIME_LIMITS(X)                                                                                       \
    X(HANDSHAKE, handshake, 30, s)                                                                           \
    X(HEAD, head, 30, s)                                                                                     \
    X(CONNECT, connect, 30, s)                                                                               \
    X(SILENCE, silence, 10, s)                                                                               \
    X(IDLE, idle, 5, m)                                                                                      \
    X(BODY, body, 10, m)                                                                                     \
    X(ANSWER, answer, 30, m)                                                                                 \
    X(RELAY, relay, 1, h)

#define TIME_LIMITS_ENUM(NAME, name, number, unit) TIME_LIMIT_##NAME,
enum time_limit { TIME_LIMITS(TIME_LIMITS_ENUM) TIME_LIMITS_COUNT };

/* " handshake=30s head=30s …": a literal */
#define TIME_LIMITS_HELP_ONE(NAME, name, number, unit) " " #name "=" #number #unit
#define TIME_LIMITS_HELP                               TIME_LIMITS(TIME_LIMITS_HELP_ONE)

#define TIME_LIMIT_TEXT 40

#endif
