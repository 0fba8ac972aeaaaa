/*
 * The terminal's foreground process group, before and after a shell inside has moved it.
 *
 * The command starts in exeat's own process group. An interactive shell makes groups of its own and sets the terminal's foreground
 * group; at its end, or when it is stopped, it can't set it back, since exeat's group has no number in its pid namespace. So exeat does.
 */
#ifndef PROXY_PROCESS_TERMINAL_H
#define PROXY_PROCESS_TERMINAL_H

/* At the start: remembers the terminal, if exeat is in its foreground. */
void terminal_note(void);

/* The command has stopped by `sig`: gives the terminal back, stops exeat, and when it runs again, in the foreground, gives
 * the terminal to the group that had it. An editor that stops itself stops its whole process group (SIGTSTP), to which a
 * script around exeat belongs: from inside that signal does not come out, so it is sent anew. */
void terminal_suspend(int sig);

/* The command has ended: makes exeat's group the foreground one again, if it was at the start and nobody outside has taken its place. */
void terminal_take_back(void);

#endif
