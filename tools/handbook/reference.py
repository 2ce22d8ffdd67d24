"""The command line's reference, ``docs/cli.md``: every command, as its module declares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handbook.pages import DOCS
from holdfast.cli.commands.help import about, label, usage
from holdfast.cli.parser import COMMON, SECTIONS, load_all

if TYPE_CHECKING:
    from holdfast.cli.parser import CommandSpec, Parameter

PAGE = DOCS / "cli.md"
_HEAD = """\
# The command line

This page is written by `make docs` from the modules in `src/holdfast/cli/commands/`.

    holdfast COMMAND [ARGUMENTS] [OPTIONS]

`holdfast` alone tells what is going on here and the three commands that are likely next. It only
looks: a folder without anything stays so. A name that nobody knows (a command, an option, a
workflow, a recipe, a phase, a unit) is answered with the one that was probably meant, and the whole
line with it.

Options stand anywhere after the command's name, as `--option VALUE` or `--option=VALUE`; `--`
ends them, for text that begins with a dash. Only `trust` asks a question, and on a terminal alone.

`KEY=VALUE`: a value that is JSON (`true`, `null`, `3`, `[1, 2]`, `{"a": 1}`, `"3"`) is kept as
that, anything else as text. A number counts as one in the form in which it would be written
back, so `1.10` and `1234e56` stay text.
"""

_EXITS = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | refused: the request does not fit the state, or `verify` found damage |
| 2 | usage: the command line was not understood |
| 3 | storage fault: a disk, a lock or a file did not do its part |
| 4 | a gate or a test ran and failed |
| 130 | interrupted by Ctrl-C |
"""

_JSON = """\
## JSON

With `--json` there is one object on standard output, whatever happens:
`{"ok": true, …}` or `{"ok": false, "error": {"code", "message", "hint"}}`. The keys of every
answer and all error codes are in [json.md](json.md).
"""

_ENVIRONMENT = """\
## Environment

| | |
|---|---|
| `CLAUDE_CODE_SESSION_ID`, else `CODEX_SESSION_ID` | who is asking, unless `--session` says it |
| `CLAUDE_PID` | the client's process: its session is live while that runs |
| `HOLDFAST_WAIT_MS` | how long to wait for another writer before giving up (default: 10000) |
| `NO_COLOR`, `TERM=dumb` | no colours on a terminal |
| `FORCE_COLOR` | colours without a terminal too, unless `NO_COLOR` is set |
| `COLUMNS` | how wide the terminal is (default: what it says itself; at least 20) |
"""


_COMPLETION = """\
## Completion

| shell | how to install it |
|---|---|
| bash | `source <(holdfast completion bash)` in `~/.bashrc` |
| zsh | `source <(holdfast completion zsh)` in `~/.zshrc`, after `compinit` |
| fish | `holdfast completion fish \\| source` in `~/.config/fish/config.fish` |

A script can be kept as a file as well; its first lines say where. At every Tab it asks Holdfast
what fits, so it need not be installed again when there are new commands. Asking changes nothing.
"""


def markdown() -> str:
    parts = [_HEAD, "## Every command\n", _table(COMMON)]
    for section, modules in SECTIONS.items():
        parts.append(f"## {section}\n")
        commands = [name for name in load_all() if name.partition(" ")[0] in modules]
        parts += [_command(name, load_all()[name]) for name in commands]
    return "\n".join([*parts, _EXITS, _JSON, _ENVIRONMENT, _COMPLETION])


def _command(name: str, spec: CommandSpec) -> str:
    parts = [f"### holdfast {name}\n", f"{_sentence(spec.about)}\n", *usage(name, "    "), ""]
    if spec.parameters:
        parts.append(_table((*spec.arguments, *spec.options)))
    examples = "\n".join(spec.examples)
    return "\n".join([*parts, f"```sh\n{examples}\n```\n"])


def _table(items: tuple[Parameter, ...]) -> str:
    cells = [(_cell(f"`{label(item)}`"), _cell(about(item))) for item in items]
    rows = [f"| {name} | {text} |" for name, text in cells]
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    """Escape bars, which would end the cell."""
    return text.replace("|", "\\|")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def stale() -> list[str]:
    is_same = PAGE.exists() and PAGE.read_text("utf-8") == markdown()
    return [] if is_same else [PAGE.name]


def write() -> None:
    PAGE.write_text(markdown(), "utf-8")
