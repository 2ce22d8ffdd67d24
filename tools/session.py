"""Record the terminal session of the README: real commands, a real terminal, one SVG.

    python tools/session.py            writes docs/session.svg
    python tools/session.py --check    fails if docs/session.svg is out of date

Everything runs in a repository of its own. Names of folders, times and process ids, which
would differ from run to run, are fixed here, so the same commands give the same picture.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
from html import escape
from pathlib import Path
from unicodedata import east_asian_width

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "session.svg"
COLUMNS, ROWS = 88, 24
AGENT = f"""\
#!/bin/sh
holdfast task start 2
echo 'agent: the code is written, and I record it ...'
echo $$ >agent.pid
exec python {ROOT}/tools/half_disk.py dev-58d38a18 2 HEAD >half
"""
"""A coding agent that is killed half way through a write. It reports that point to the pipe
``half``."""
STEPS = [
    "holdfast start dev docs/login.md --task 'Check the password' --task 'Ask for a code'",
    "holdfast task done 1 --commit HEAD",
    "./agent.sh",
    "# Half the record was written when kill -9 came. A new session, its context empty:",
    "holdfast resume",
    "holdfast complete",
    "holdfast verify",
]
KILLED, KILL = "./agent.sh", "Killed"
SGR = re.compile(r"\x1b\[([0-9;]*)m")
TONES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}

Run = tuple[str, str]
"""Text, and the class of its colour."""


# What happens


def played() -> list[tuple[str, list[str]]]:
    """Return each step with the lines that it printed, with colours."""
    with tempfile.TemporaryDirectory() as folder:
        shop, tools = Path(folder, "shop"), Path(folder, "tools")
        environment = _prepared(shop, tools)
        return [(step, _answered(step, shop, environment)) for step in STEPS]


def _prepared(shop: Path, tools: Path) -> dict[str, str]:
    for path in (shop / "docs", tools, tools / "home"):
        path.mkdir(parents=True)
    (shop / "docs" / "login.md").write_text("# Login\n")
    for name, words in (("holdfast", "-m holdfast"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
    (shop / "agent.sh").write_text(AGENT)
    os.mkfifo(shop / "half")
    for path in (tools / "holdfast", tools / "python", shop / "agent.sh"):
        path.chmod(0o755)
    environment = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tools / "home"),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONPATH": str(ROOT / "src"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    for role in ("AUTHOR", "COMMITTER"):
        # The same commit in every run.
        environment |= {f"GIT_{role}_NAME": "Ada", f"GIT_{role}_EMAIL": "ada@example.com"}
        environment[f"GIT_{role}_DATE"] = "2026-01-02T03:04:05Z"
    for words in (["init", "-q", "-b", "login"], ["add", "docs"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", "-C", shop, *words], env=environment, check=True)  # noqa: S603
    return environment


def _answered(step: str, shop: Path, environment: dict[str, str]) -> list[str]:
    """Return the lines that a step writes to its terminal."""
    if step.startswith("#"):
        return []
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (ROWS, COLUMNS))
    # The second command keeps the shell running, to report how the first one ended.
    command = ["sh", "-c", f"{step}\n:"]
    ends = {"stdin": slave, "stdout": slave, "stderr": slave}
    running = subprocess.Popen(  # noqa: S603 - the steps above are all that is run
        command, cwd=shop, env=environment, start_new_session=True, **ends
    )
    os.close(slave)
    if step == KILLED:
        _first_line(shop / "half")
        os.kill(int((shop / "agent.pid").read_text()), signal.SIGKILL)
    written = b""
    while piece := _read(master):
        written += piece
    running.wait()
    os.close(master)
    # The name of a rejected file has a digest that depends on the time.
    text = re.sub(r"rejected-[0-9a-f]{8}", "rejected-5d0c7e21", written.decode())
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    # Some shells add the process id.
    return [KILL if KILL in line else line for line in lines]


def _first_line(pipe: Path) -> str:
    """Wait for the first line, and return it."""
    with pipe.open() as file:
        return file.readline()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # The other end is closed.
        return b""


# How it looks

CELL, LINE, SIZE, PAD, BAR = 8.4, 19, 14, 16, 34
TYPED_S, READ_S, PAUSE_S, END_S = 0.028, 0.32, 1.1, 5.0
STYLE = """\
svg{font:%(size)spx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
.w{fill:#fbfbfa;stroke:#d5d5d2}.t{fill:#24292f}.b{font-weight:700}.d{fill:#6b727a}
.r{fill:#b3261e}.g{fill:#1a7f37}.y{fill:#8a6100}.c{fill:#0b6e8a}.p{fill:#8250df}.o{fill:#d5d5d2}
@media (prefers-color-scheme:dark){
.w{fill:#14181d;stroke:#30363d}.t{fill:#dde3ea}.d{fill:#8b949e}
.r{fill:#ff8078}.g{fill:#56d364}.y{fill:#e3b341}.c{fill:#56c7e0}.p{fill:#c297ff}.o{fill:#30363d}}
@media (prefers-reduced-motion:reduce){*{animation:none!important}}
"""
"""Without animations, the picture shows the end of the session."""


class Film:
    """The lines of the session, each with the second in which it appears."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, list[Run]]] = []
        self.typed: list[tuple[int, float, float]] = []
        """Index, start and duration of each typed line."""
        self.now = 0.6

    def type(self, text: str) -> None:
        lasting = len(text) * TYPED_S
        self.typed.append((len(self.lines), self.now, lasting))
        tone = "d" if text.startswith("#") else "b"
        self.lines.append((self.now, [("$ ", "p"), (text, tone)]))
        self.now += lasting + 0.35

    def show(self, lines: list[str]) -> None:
        for line in lines:
            pieces = [(line, "r")] if line == KILL else runs(line)
            self.lines.append((self.now, pieces))
        self.now += PAUSE_S + READ_S * len(lines)


def runs(line: str) -> list[Run]:
    """Return the pieces of a line, each in one colour."""
    pieces: list[Run] = []
    tone, start = "", 0
    for match in SGR.finditer(line):
        pieces.append((line[start : match.start()], tone))
        tone = TONES.get(match.group(1), "")
        start = match.end()
    pieces.append((line[start:], tone))
    return [(text, tone) for text, tone in pieces if text]


def columns(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def drawn(session: list[tuple[str, list[str]]]) -> str:
    film = Film()
    for step, answer in session:
        film.type(step)
        film.show(answer)
    lasting = film.now + END_S
    width = round(COLUMNS * CELL + 2 * PAD)
    height = BAR + ROWS * LINE + PAD
    last = min(0, ROWS - len(film.lines)) * LINE
    body = [_line(number, film.lines[number][1]) for number in range(len(film.lines))]
    motion = [_appearing(number, at, lasting) for number, (at, _) in enumerate(film.lines)]
    motion += [_typing(film, *typed, lasting) for typed in film.typed]
    style = STYLE % {"size": SIZE} + "".join(motion) + _scrolling(film, lasting)
    dots = "".join(f'<circle class="o" cx="{20 + 18 * n}" cy="18" r="5.5"/>' for n in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="a">\n'
        f'<title id="a">A session that is killed, and the next one that goes on</title>\n'
        f"<style>\n{style}</style>\n"
        f'<rect class="w" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"/>{dots}\n'
        f'<clipPath id="v"><rect y="{BAR - 2}" width="{width}" height="{ROWS * LINE + 4}"/>'
        f'</clipPath>\n<g clip-path="url(#v)"><g id="s" transform="translate(0 {last})">\n'
        + "\n".join(body)
        + "\n</g></g>\n</svg>\n"
    )


def _line(number: int, pieces_of: list[Run]) -> str:
    """Render a line, with each piece at its terminal column, whatever the font."""
    y = BAR + number * LINE + SIZE
    pieces, column = [], 0
    for text, tone in pieces_of:
        bare = text.rstrip(" ")
        taken = columns(bare)
        if bare:
            x = PAD + (column + len(text) - len(text.lstrip(" "))) * CELL
            glyphs = bare.lstrip(" ")
            stretch = f'textLength="{columns(glyphs) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            pieces.append(f'<tspan class="t {tone}" x="{x:.1f}" {stretch}>{escape(glyphs)}</tspan>')
        column += columns(text) if taken else len(text)
    return f'<text id="l{number}" y="{y}" xml:space="preserve">{"".join(pieces)}</text>'


def _share(at: float, lasting: float) -> str:
    return f"{100 * at / lasting:.2f}%"


def _appearing(number: int, at: float, lasting: float) -> str:
    return (
        f"@keyframes l{number}{{0%{{opacity:0}}{_share(at, lasting)}{{opacity:1}}}}"
        f"#l{number}{{animation:l{number} {lasting:.1f}s step-end infinite}}\n"
    )


def _typing(film: Film, number: int, at: float, taking: float, lasting: float) -> str:
    """Return the animation that uncovers a typed line column by column."""
    taken = sum(columns(text) for text, _ in film.lines[number][1])
    end = _share(at + taking, lasting)
    begin = _share(at, lasting)
    hidden = f"inset(-4px {(taken - 2) * CELL:.1f}px -4px -9px)"
    return (
        f"@keyframes k{number}{{0%,{begin}{{clip-path:{hidden};"
        f"animation-timing-function:steps({taken - 2})}}"
        f"{end},100%{{clip-path:inset(-4px 0px -4px -9px)}}}}"
        f"#l{number}{{animation:l{number} {lasting:.1f}s step-end infinite,"
        f"k{number} {lasting:.1f}s linear infinite}}\n"
    )


def _scrolling(film: Film, lasting: float) -> str:
    """Return the animation that scrolls up when a line would be below the window."""
    steps = ["0%{transform:translateY(0)}"]
    for number, (at, _) in enumerate(film.lines):
        beyond = number + 1 - ROWS
        following = film.lines[number + 1][0] if number + 1 < len(film.lines) else None
        if beyond > 0 and following != at:
            steps.append(f"{_share(at, lasting)}{{transform:translateY({-beyond * LINE}px)}}")
    return f"@keyframes s{{{''.join(steps)}}}#s{{animation:s {lasting:.1f}s step-end infinite}}\n"


def main(words: list[str]) -> int:
    picture = drawn(played())
    if words == ["--check"]:
        is_true = TARGET.exists() and TARGET.read_text(encoding="utf-8") == picture
        print("docs/session.svg is what the commands answer" if is_true else "it has changed")
        return 0 if is_true else 1
    TARGET.write_text(picture, encoding="utf-8")
    print(f"{TARGET.name}: {len(picture)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
