"""A terminal that somebody looks at: a program in tmux, and its screen as text.

tmux draws what the program sends, so a scenario sees what a person would see.
"""

import os
import select
import shutil
import subprocess
import time

DEADLINE_S = 60
LIMIT_S = 20


def is_there():
    return shutil.which("tmux") is not None


class Terminal:
    """A program in a terminal of this size; ``folder`` takes the socket and the pipe."""

    def __init__(self, words, cwd, environment, folder, columns=120, lines=40):
        self._socket = str(folder / f"tmux-{columns}")
        pipe = str(folder / f"output-{columns}")
        os.mkfifo(pipe)
        # Held open for writing, too, so that the end of one writer is not the end.
        self._output = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self._environment = {**environment, "TERM": "xterm-256color"}
        size = ("-x", str(columns), "-y", str(lines))
        self._tmux("-f", os.devnull, "new-session", "-d", *size, "-c", str(cwd), *words)
        self._tmux("pipe-pane", f"exec cat > '{pipe}'")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._tmux("kill-server", check=False)
        os.close(self._output)

    def _tmux(self, *words, check=True):
        done = subprocess.run(
            ["tmux", "-u", "-S", self._socket, *words], env=self._environment, timeout=LIMIT_S,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def screen(self):
        return self._tmux("capture-pane", "-p")

    def enter(self, text):
        """Type a line."""
        self._tmux("send-keys", "-l", text)
        self.wait_for(text.split()[0])
        self._tmux("send-keys", "Enter")

    def wait_for(self, *texts):
        """Return the screen as soon as it has all of these texts."""
        until = time.monotonic() + DEADLINE_S
        while not all(text in (screen := self.screen()) for text in texts):
            assert time.monotonic() < until, f"no {texts} on:\n{screen}"
            # Look again when there is something new to see, and once a second at the latest.
            if select.select([self._output], [], [], 1)[0]:
                os.read(self._output, 1 << 20)
        return screen
