"""A program in a pseudo-terminal, and the screen that a person would see."""

import errno
import os
import select

import pexpect
import pyte
from waiting import attempts


class Terminal:
    """Runs a command in a terminal of `columns` x `rows`. The screen is updated while a test waits."""

    def __init__(self, command, columns=80, rows=24, environment=None, cwd=None):
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "XDG_STATE_HOME")}
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""  # everything that was received
        self.process = pexpect.spawn(command[0], [str(argument) for argument in command[1:]], dimensions=(rows, columns),
                                     env={**inherited, "TERM": "xterm-256color", **(environment or {})}, cwd=cwd)
        self.process.delaybeforesend = None

    def send(self, text):
        self.process.send(text)

    def resize(self, columns, rows):
        self.process.setwinsize(rows, columns)
        self.screen.resize(rows, columns)

    def update(self, seconds=0.02):
        """Reads what has arrived; returns False at the end of the output."""
        # pexpect's own reading ends when the program does, which can be before the kernel has passed on its last output.
        terminal = self.process.child_fd
        if not select.select([terminal], [], [], seconds)[0]:
            return True
        try:
            received = os.read(terminal, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # the program has ended, and everything was read
                return False
            raise
        self.output += received
        self.stream.feed(received)
        return True

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines()).rstrip()

    def wait_until(self, condition, what):
        for _ in attempts(lambda: f"no {what}:\n{self.text()}", pause_s=0):  # update() waits
            if condition():
                return
            more = self.update()
            assert more or condition(), f"the program ended before {what}:\n{self.text()}"

    def wait_for(self, text):
        self.wait_until(lambda: text in self.text(), f"{text!r} on the screen")

    def wait_for_line(self, line):
        """Waits until the line of the cursor, without trailing spaces, is `line`."""
        self.wait_until(lambda: self.lines()[self.screen.cursor.y] == line, f"{line!r} at the cursor")

    def wait_for_end(self):
        """Waits until the program ends and returns its exit code, or the negated number of the signal."""
        for _ in attempts(lambda: f"the program still runs:\n{self.text()}", pause_s=0):
            if not self.update():
                break
        self.process.wait()
        self.process.close()
        return self.process.exitstatus if self.process.exitstatus is not None else -self.process.signalstatus

    def close(self):
        if not self.process.isalive():
            return
        try:
            self.process.close(force=True)
        except pexpect.ExceptionPexpect:  # killed, but it still ran 0.1 s later
            for _ in attempts(lambda: "the killed program still runs"):
                if not self.process.isalive():
                    return
