"""A terminal of the test's own, for what people type at `exeat run`.

    with Terminal(args, rows=24, columns=80) as term:
        term.send("stty size\\n")
        term.until("24 80")
        term.resize(40, 100)
        term.key("c")                 # Control-C
    term.status                       # exit status, -N for a signal
"""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import work


class Terminal:
    """The command is the leader of a session with the terminal as its controlling one."""

    def __init__(self, args, user=None, env=None, cwd="/", rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.text = b""
        self.seen = 0
        self.status = None
        self.resize(rows, columns)
        ids = work.account(user)
        if ids is not None:
            os.fchown(slave, *ids)
        self.process = work.popen(args, user=user, env=env, cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
                                  preexec_fn=_controlling, close_fds=True)
        os.close(slave)

    def resize(self, rows, columns):
        """The window's new size; the kernel sends SIGWINCH to the foreground."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def key(self, letter):
        """Control and a letter."""
        self.send(bytes([ord(letter.upper()) & 31]))

    def _read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            # EIO: nobody has the other end open any more.
            return False
        self.text += data
        return bool(data)

    def until(self, word, seconds=30):
        """Reads on until `word` comes that has not been waited for yet; what came before it too."""
        word = word.encode() if isinstance(word, str) else word
        end = time.monotonic() + seconds
        while word not in self.text[self.seen:]:
            left = end - time.monotonic()
            if left <= 0 or (not self._read(min(left, 0.2)) and self.process.poll() is not None):
                raise AssertionError("%r did not come: %r" % (word, self.text[-2000:]))
        at = self.text.index(word, self.seen) + len(word)
        part, self.seen = self.text[self.seen:at], at
        return part.decode("utf-8", "replace")

    def wait(self, seconds=30):
        """The exit status, once the command has ended; all that it wrote is in `text`."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError("has not ended: %r" % self.text[-2000:])
            self._read(0.05)
        while self._read(0.05):
            pass
        self.status = self.process.returncode
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.status = self.process.returncode
        os.close(self.master)


def _controlling():
    # A script that runs the tests in the background has keys' signals ignored.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
