#!/usr/bin/env python3
"""A terminal under `exeat run` is as without it: job control, keys, window size, exit status."""
import os
import signal
import time

import exeat
import tap
import term
import work

PROMPT = "PS> "
BASH = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


def terminal(t, args, **options):
    user = exeat.as_user()
    home = work.folder("home.", user=user, mode=0o700)
    env = exeat.environment(home, {"PS1": PROMPT, "TERM": "xterm", "HISTFILE": "", "EXEAT_PROGRAM": exeat.program()})
    return t.use(term.Terminal(args, user=user, env=env, cwd=home, **options))


def outside(t):
    """A shell that is not sandboxed, as a person has it."""
    shell = terminal(t, BASH)
    shell.until(PROMPT)
    return shell


def inside(t):
    shell = terminal(t, [exeat.program(), "run", "--"] + BASH)
    shell.until(PROMPT)
    return shell


def press(shell, key):
    """A key, when the program before it surely runs: a shell that is about to start one has races of its own."""
    time.sleep(0.4)
    shell.key(key)


@tap.test
def a_shell_inside_has_job_control_and_no_complaint(t):
    shell = inside(t)
    tap.lacks(shell.text.decode(), "job control")
    tap.lacks(shell.text.decode(), "cannot set terminal")
    shell.send("sleep 100\n")
    shell.until("sleep 100")
    press(shell, "c")
    shell.until(PROMPT)
    shell.send("echo status $?\n")
    shell.until("status 130")
    shell.until(PROMPT)
    shell.send("cat\n")
    shell.send("one\n")
    shell.until("one\r\none")
    press(shell, "z")
    shell.until("Stopped")
    shell.send("jobs; fg\n")
    shell.until("Stopped")
    shell.until("cat\r\n")
    shell.until("cat\r\n")
    shell.send("two\n")
    shell.until("two\r\ntwo")
    press(shell, "d")
    shell.until(PROMPT)
    shell.send("exit 6\n")
    tap.equal(shell.wait(), 6)


@tap.test
def keys_reach_the_command_and_not_exeat(t):
    """The command decides what Control-C and Control-\\ mean."""
    script = "trap 'echo INT' INT; trap 'echo QUIT' QUIT; echo go; while :; do read line && exit 3; done"
    shell = terminal(t, [exeat.program(), "run", "--", "bash", "-c", script])
    shell.until("go")
    for key, word in (("c", "INT"), ("\\", "QUIT"), ("c", "INT")):
        press(shell, key)
        shell.until(word)
    shell.send("x\n")
    tap.equal(shell.wait(), 3)


@tap.test
def control_c_ends_a_command_and_the_shell_outside_goes_on(t):
    shell = outside(t)
    shell.send('"$EXEAT_PROGRAM" run -- sh -c "echo started; sleep 100"\n')
    shell.until("\nstarted")
    press(shell, "c")
    shell.until(PROMPT)
    shell.send("echo status $?\n")
    shell.until("status 130")


@tap.test
def control_z_fg_and_bg_from_outside(t):
    shell = outside(t)
    shell.send('"$EXEAT_PROGRAM" run -- sh -c "echo started; while read x; do echo got \\$x; done; exit 4"\n')
    shell.until("\nstarted")
    for word in ("first", "second"):
        press(shell, "z")
        shell.until("Stopped")
        shell.until(PROMPT)
        shell.send("echo outside $((40+2))\n")
        shell.until("outside 42")
        shell.send("fg\n")
        shell.until("run --")
        shell.send(word + "\n")
        shell.until("\ngot " + word)
    press(shell, "d")
    shell.until(PROMPT)
    shell.send("echo status $?\n")
    shell.until("status 4")


@tap.test
def a_job_in_the_background_stops_when_it_reads(t):
    shell = outside(t)
    shell.send('"$EXEAT_PROGRAM" run -- sh -c "read x; echo got \\$x; exit 5" &\n')
    shell.until(PROMPT)
    shell.send("while ! jobs | grep -q Stopped; do sleep 0.05; done; fg\n")
    shell.until("run --")
    shell.send("word\n")
    shell.until("\ngot word")
    shell.until(PROMPT)
    shell.send("echo status $?\n")
    shell.until("status 5")


@tap.test
def a_shell_inside_is_suspended_and_comes_back(t):
    """The shell inside has the terminal in a group of its own: it loses it, and gets it back."""
    shell = outside(t)
    shell.send('PS1="OUT> "\n')
    shell.until("\nOUT> ")
    shell.send('PS1="IN> " "$EXEAT_PROGRAM" run -- bash --norc --noprofile --noediting -i\n')
    shell.until("\nIN> ")
    shell.send("suspend -f\n")
    shell.until("Stopped")
    shell.until("OUT> ")
    shell.send("echo outside $((40+2))\n")
    shell.until("outside 42")
    shell.send("fg\n")
    shell.until("run --")
    shell.send("echo inside $((40+2))\n")
    shell.until("inside 42")
    shell.until("IN> ")
    shell.send("cat\n")
    shell.send("x\n")
    shell.until("x\r\nx")
    t_end_in(shell)
    shell.send("exit 8\n")
    shell.until("OUT> ")
    shell.send("echo status $?\n")
    shell.until("status 8")


def t_end_in(shell):
    press(shell, "c")
    shell.until("IN> ")


@tap.test
def the_terminal_is_given_back_to_a_script(t):
    """A script has no job control of its own: nobody else would do it."""
    script = '"$EXEAT_PROGRAM" run -- %s; echo back $?; read x; echo got $x' % " ".join(BASH)
    shell = terminal(t, ["sh", "-c", script])
    shell.until(PROMPT)
    shell.send("exit 3\n")
    shell.until("\nback 3")
    shell.send("word\n")
    shell.until("\ngot word")
    tap.equal(shell.wait(), 0)


@tap.test
def the_window_has_its_size_and_changes_it(t):
    shell = terminal(t, [exeat.program(), "run", "--", "bash", "-c",
                         "trap 'stty size' WINCH; stty size; while ! read -t 1 x; do :; done"], rows=33, columns=99)
    shell.until("33 99")
    shell.resize(44, 111)
    shell.until("44 111")
    shell.send("x\n")
    tap.equal(shell.wait(), 0)


@tap.test
def the_terminal_is_the_same_device(t):
    shell = terminal(t, [exeat.program(), "run", "--", "sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && echo all three; echo x > /dev/tty"])
    shell.until("/dev/pts/")
    shell.until("all three")
    shell.until("x")
    tap.equal(shell.wait(), 0)


@tap.test
def an_editor_is_not_disturbed(t):
    work.need("vi")
    shell = outside(t)
    shell.send('"$EXEAT_PROGRAM" run -- vi -u NONE file.txt\n')
    shell.until("file.txt")
    time.sleep(1)
    shell.send("ihello from inside\x1b")
    time.sleep(0.3)
    press(shell, "z")
    shell.until("Stopped")
    shell.until(PROMPT)
    shell.send("fg\n")
    shell.until("vi -u NONE")
    time.sleep(0.5)
    shell.send(":wq\r")
    shell.until(PROMPT)
    shell.send("cat file.txt; echo status $?\n")
    shell.until("\nhello from inside")
    shell.until("status 0")


@tap.test
def a_command_that_stops_its_group_stops_the_script_around_exeat(t):
    """As an editor does that is told to suspend: the shell outside must get its terminal back."""
    shell = outside(t)
    shell.send('sh -c \'"$EXEAT_PROGRAM" run -- sh -c "echo started; kill -TSTP 0; echo on"; echo script $?\'\n')
    shell.until("started")
    shell.until("Stopped")
    shell.until(PROMPT)
    shell.send("echo outside $((40+2)); fg\n")
    shell.until("outside 42")
    shell.until("on\r\n")
    shell.until("script 0")


@tap.test
def a_pipe_line_in_a_shell(t):
    shell = outside(t)
    shell.send('"$EXEAT_PROGRAM" run -- sh -c "seq 100000" | head -n 1; echo "${PIPESTATUS[*]}"\n')
    shell.until("\n1\r\n")
    shell.until(str(128 + signal.SIGPIPE) + " 0")


@tap.test
def hanging_up_ends_it(t):
    shell = terminal(t, [exeat.program(), "run", "--", "sh", "-c", "echo go; exec sleep 100"])
    shell.until("go")
    os.close(shell.master)
    shell.master = os.open("/dev/null", os.O_RDWR)
    tap.eventually(lambda: shell.process.poll() is not None, message="it has not ended")
    tap.equal(shell.process.returncode, 128 + signal.SIGHUP)


tap.main()
