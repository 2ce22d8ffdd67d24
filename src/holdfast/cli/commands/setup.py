"""Commands that set Holdfast up: ``init``, ``uninstall``, and ``doctor``, which checks it all."""

from __future__ import annotations

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer
from holdfast.cli.grammar import command, flag, option
from holdfast.cli.parser import Usage
from holdfast.cli.screen import note_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen, Tone
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.install import Outcome
    from holdfast.keeper import Keeper

_SCOPE = (
    option("--agent", "NAME", "the client: claude, codex or gemini", values="agent"),
    flag("--local", "your own settings in this project (.claude/settings.local.json)"),
    flag("--user", "your own settings everywhere (~/.claude/settings.json and its like)"),
)
_DRY_RUN = flag("--dry-run", "only show what would change")
_UNWELL = 1
_CHECK_MARKS = {"good": "completed", "bad": "blocked", "unknown": "pending"}
_DIFF_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "@": "active"}


@command(
    "init",
    "put the hooks into a client's settings, the team's unless told otherwise",
    *_SCOPE,
    flag("--enforce", "also the hooks that hold an agent back: before edits, at its end"),
    _DRY_RUN,
    examples=("holdfast init --dry-run", "holdfast init --agent codex --user"),
    workspace=False,
)
def init(args: Arguments) -> Answer:
    from holdfast.install import init as install

    agent, scope = _agent(args) or "claude", _scope(args) or "team"
    outcome = install(agent=agent, scope=scope, enforce=args["enforce"], dry_run=args["dry_run"])
    return _answer(outcome, args, agent, scope)


@command(
    "uninstall",
    "take the hooks out again: untouched files are restored byte for byte",
    *_SCOPE,
    _DRY_RUN,
    examples=("holdfast uninstall --dry-run", "holdfast uninstall --user"),
    workspace=False,
)
def uninstall(args: Arguments) -> Answer:
    from holdfast.install import uninstall as remove

    agent, scope = _agent(args), _scope(args)
    outcome = remove(agent=agent, scope=scope, dry_run=args["dry_run"])
    return _answer(outcome, args, agent, scope)


def _answer(outcome: Outcome, args: Arguments, agent: str | None, scope: str | None) -> Answer:
    fields: Fields = {
        "files": [change.as_fields() for change in outcome.changes],
        "agent": agent,
        "scope": scope,
        "dry_run": args["dry_run"],
    }

    def lines(screen: Screen) -> Iterator[str]:
        yield from settings_lines(screen, fields)
        yield from note_lines(screen, outcome.notes)

    # A line of a diff is one line, however long it is.
    return Answer(lambda: json.with_notes(fields, outcome.notes), lines, is_wrapped=False)


def settings_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield the diff of every settings file first, then what became of each."""
    for file in fields["files"]:
        is_whole = file["change"] in ("created", "removed")
        if is_whole and str(file["path"]).endswith("SKILL.md"):
            continue  # a page of ours: the line about it says enough
        for line in file["diff"].split("\n")[:-1]:
            shown = clean(line.removesuffix("\r"))
            tone = _DIFF_TONES.get(line[:1])
            yield screen.paint(shown, tone) if tone else shown
    for file in fields["files"]:
        became = file["change"]
        if became != "unchanged":
            became = f"would be {became}" if fields["dry_run"] else f"was {became}"
        yield f"{screen.mark('completed')} {clean(file['path'])} {became}"
    if not fields["files"]:
        yield "Nothing of Holdfast's is in these settings."


def _agent(args: Arguments) -> str | None:
    from holdfast.install.agents import AGENTS

    agent: str | None = args["agent"]
    if agent is not None and agent not in AGENTS:
        known = ", ".join(AGENTS)
        raise Usage(f"--agent is one of {known}, not {agent[:60]!r}", f"holdfast {args['command']}")
    return agent


def _scope(args: Arguments) -> str | None:
    if args["local"] and args["user"]:
        message = "--local and --user name two different files: give one of them"
        raise Usage(message, f"holdfast {args['command']} --local")
    return "local" if args["local"] else "user" if args["user"] else None


@command(
    "doctor",
    "see whether all works here; each trouble with the command that mends it",
    examples=("holdfast doctor",),
)
def doctor(keeper: Keeper, _args: Arguments) -> Answer:
    from holdfast.install.doctor import examine

    checks = examine(keeper)

    def lines(screen: Screen) -> Iterator[str]:
        for check in checks:
            mark = screen.mark(_CHECK_MARKS[check["status"]])
            yield f"{mark} {clean(check['what'])}  {screen.paint(clean(check['found']), 'dim')}"
            if check["hint"]:
                yield f"  next: {clean(check['hint'])}"

    is_bad = any(check["status"] == "bad" for check in checks)
    return Answer(lambda: json.checks(checks), lines, code=_UNWELL if is_bad else 0)
