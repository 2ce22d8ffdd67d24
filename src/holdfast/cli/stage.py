"""The demonstration's stage: it runs real commands, shows them and what they answer, and checks.

Every command is a process of its own. On a terminal with colour it runs in a terminal of its own as
well, so that it answers exactly as it would to a person.
"""

from __future__ import annotations

import os
import subprocess
import sys

from holdfast.cli.screen import Screen
from holdfast.cli.terminal_text import clean, shortened, wrapped
from holdfast.core.refusal import word as quote
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from holdfast.cli.screen import Tone

_WIDEST = 100
_MARGIN = "    "
_LONGEST_VALUE = 400
_STRANGERS = ("GIT_", "HOLDFAST_", "CLAUDE_", "COLUMNS")
"""What the user's own environment says about other repositories, sessions and terminals."""
_PERSON = {"NAME": "Ada", "EMAIL": "ada@example.com"}


class CheckFailed(Exception):
    """A fact that the demonstration relies on did not hold."""

    def __init__(self, fact: str, expected: object, found: object) -> None:
        super().__init__(fact)
        self.fact = fact
        self.expected = expected
        self.found = found


class Stage:
    """A repository to play in, an audience (``out``), and a count of what was checked."""

    def __init__(self, out: TextIO, root: str, git: str) -> None:
        self.root = root
        self.facts = 0
        self._out: TextIO | None = out
        self._git = git
        self._screen = Screen.of(out)
        self._width = min(self._screen.width or _WIDEST, _WIDEST)
        self._encoding = out.encoding or "ascii"
        self.environment = _environment(self._encoding)
        self._steps = 0

    # Telling

    def say(self, text: str = "", tone: Tone | None = None, margin: str = _MARGIN) -> None:
        """A paragraph of the story's own text."""
        for line in wrapped(text, self._width - len(margin)):
            self._print(margin + (self._screen.paint(line, tone) if tone else line))

    def line(self, text: str) -> None:
        """A line that stays whole, for what somebody may want to copy."""
        self._print(clean(text))

    def heading(self, title: str) -> None:
        self._steps += 1
        self._print()
        self._print(self._screen.paint(f"{self._steps:>2}  {title}", "strong"))

    def why(self, text: str) -> None:
        mark = "→ " if self._screen.fancy else "-> "
        self.say(mark + text, "dim")

    def typed(self, line: str) -> None:
        """What a user would type."""
        prompt = "$"
        for shown in _continued(line, self._width - len(_MARGIN) - 2):
            self._print(f"{_MARGIN}{prompt} {self._screen.paint(clean(shown), 'active')}")
            prompt = " "

    def answered(self, line: str) -> None:
        """A line of a command's answer, with a bar at its side. Its colour may go on below."""
        bar = self._screen.paint("│ " if self._screen.fancy else "| ", "dim")
        colour = ""
        for piece in wrapped(line, self._width - len(_MARGIN) - 2):
            _, begun, last = piece.rpartition("\x1b[")
            shown = colour + piece
            if begun:
                colour = "" if last.startswith("0m") else f"\x1b[{last.partition('m')[0]}m"
            self._print(_MARGIN + bar + shown + ("\x1b[0m" if colour else ""))

    def changed(self, before: str, after: str) -> None:
        """A line of a file, before and after somebody edited it."""
        room = self._width - len(_MARGIN) - 2
        was, now = (shortened(clean(line.strip()), room) for line in (before, after))
        self._print(_MARGIN + self._screen.paint(f"- {was}", "bad"))
        self._print(_MARGIN + self._screen.paint(f"+ {now}", "good"))

    def _print(self, line: str = "") -> None:
        """That nobody listens any more does not end the checks."""
        if self._out is None:
            return
        try:
            self._out.write(self._screen.encoded(line.rstrip()) + "\n")
            self._out.flush()
        except BrokenPipeError:
            self._out = None

    # Doing

    def holdfast(
        self, *words: str, code: int = 0, lines: int | None = None, by_agent: bool = False
    ) -> str:
        """Runs a command line as a user would, and shows it; ``lines`` of its answer, or all.

        An agent has no terminal.
        """
        self.typed(" ".join(["holdfast", *map(quote, words)]))
        found, answer = self._run([sys.executable, "-m", "holdfast", *words], piped=by_agent)
        shown = answer.splitlines()
        for line in shown if found != code else shown[:lines]:
            self.answered(line)
        if found != code:
            raise CheckFailed(f"holdfast {words[0]} ends with {code}", code, found)
        return answer

    def git(self, *words: str, shown: bool = False) -> str:
        if shown:
            self.typed(" ".join(["git", *map(quote, words)]))
        code, answer = self._run([self._git, *words], piped=True)
        if code:
            raise Fault(
                "git",
                f"git {words[0]} failed in {self.root}: {answer.strip()}",
                "see that git works here: git --version, git init in an empty folder",
            )
        return answer.strip()

    def child(self, *words: str) -> subprocess.Popen[bytes]:
        """A process that the story talks to through its pipes."""
        return subprocess.Popen(  # noqa: S603 - the words are the story's own
            [sys.executable, *words],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _run(self, words: list[str], *, piped: bool = False) -> tuple[int, str]:
        if self._screen.colour and not piped:
            try:
                code, answer = self._run_in_terminal(words)
            except OSError:  # a place without pseudo-terminals: the answer comes without colour
                return self._run(words, piped=True)
        else:
            done = subprocess.run(  # noqa: S603 - the words are the story's own
                words,
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            code, answer = done.returncode, done.stdout
        return code, answer.decode(self._encoding, "replace").replace("\r\n", "\n")

    def _run_in_terminal(self, words: list[str]) -> tuple[int, bytes]:
        import termios

        ours, theirs = os.openpty()
        try:
            termios.tcsetwinsize(theirs, (40, self._width - len(_MARGIN) - 2))
            with subprocess.Popen(  # noqa: S603 - the words are the story's own
                words,
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
            ) as process:
                os.close(theirs)
                theirs = -1
                answer = b"".join(_pieces(ours))
        finally:
            os.close(ours)
            if theirs >= 0:
                os.close(theirs)
        return process.returncode, answer

    # Checking

    def check(self, fact: str, expected: object, found: object) -> None:
        """A fact is shown only when it holds."""
        if expected != found:
            raise CheckFailed(fact, expected, found)
        self.facts += 1
        self.say(f"{self._screen.mark('completed')} {fact}")

    def failed(self, failure: CheckFailed) -> None:
        self.say(f"{self._screen.mark('blocked')} {clean(failure.fact)}")
        for label, value in (("expected:", failure.expected), ("found:   ", failure.found)):
            self.say(f"{label} {shortened(clean(value), _LONGEST_VALUE)}", margin=_MARGIN * 2)


def _environment(encoding: str) -> dict[str, str]:
    """The user's environment, without what would lead a command somewhere else."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_STRANGERS)}
    # A relative PYTHONPATH means nothing in another folder.
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [package, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]
    person = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in _PERSON.items()}
    return {
        **kept,
        **person,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOLDFAST_MEMORY": "off",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONIOENCODING": encoding,
    }


def _pieces(fd: int) -> Iterator[bytes]:
    """What comes out of a terminal until its other side is closed, which reads as an error."""
    while True:
        try:
            piece = os.read(fd, 1 << 16)
        except OSError:
            return
        if not piece:
            return
        yield piece


def _continued(line: str, width: int) -> Iterator[str]:
    """A long command over several lines, broken before options, as a shell takes it."""
    parts = line.split(" --")
    shown = parts[0]
    for part in parts[1:]:
        if len(shown) + len(part) + 5 > width:
            yield shown + " \\"
            shown = f"  --{part}"
        else:
            shown += f" --{part}"
    yield shown
