"""Commands on the ledger and what is kept in step with it, and ``trust`` and ``demo``.

``trust`` is the one command that asks. It asks only on a terminal, and for exactly what it shows.
"""

from __future__ import annotations

import sys
from itertools import chain, islice

from holdfast import answers
from holdfast.answers import failure_fields
from holdfast.answers.events import event_text
from holdfast.cli.answer import (
    Answer,
    Silence,
    StreamAnswer,
    answer_done,
    confirm,
    encode,
    require_person,
)
from holdfast.cli.parser import WORKFLOW, Parameter, command
from holdfast.cli.screen import ProgressBar, Screen, count_cells, counted, pad
from holdfast.core.visible import clean, clean_exactly, clean_json
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Event, Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.audit import Report
    from holdfast.workspace.trust import CommandRequest

_DAMAGED, _UNDELIVERED, _FAULT = 1, 3, 3
STREAM_MAX_COLUMNS, _TYPE_COLUMNS = 28, 18
_FIRST_EVENTS = 200
_CHOICES = ("grep", "since", "types", "task", "by")
"""The parameters of ``log`` that say which events are meant."""
_MAX_ASKED = 20
"""The number of workflows that are named before archiving them is confirmed."""
_LEVEL_MARKS = {"repaired": "completed", "behind": "pending", "error": "blocked"}
_LAYER_MARKS = {"delivered": "completed", "current": "completed", "unavailable": "blocked"}
_LAYER_WORDS = {"delivered": "brought up to date", "current": "up to date"}


@command(
    "log: list events, oldest first; without an ID those of the whole workspace",
    WORKFLOW,
    Parameter("--limit N", "only the newest N", kind="count"),
    Parameter("--grep TEXT", "only with this text in them, in capitals or not"),
    Parameter("--since TIME", "only since a date, a time (UTC) or an age: 2026-01-31, 24h, 7d"),
    Parameter(
        "--type TYPE...", "only of this type; task_* is all of tasks", into="types", names="event"
    ),
    Parameter("--task ID", "only about this task or unit", kind="task", names="any task"),
    Parameter("--by WHO", "only by this surface (cli, hook, mcp, ...), session or machine"),
    Parameter("--follow", "go on with new events until Ctrl-C (JSON: one event a line)"),
    "holdfast log --limit 20",
    "holdfast log --grep timeout --since 7d",
    "holdfast log --type 'gate_*' --by hook",
    "holdfast log dev-1f2e3d4c --follow",
)
def log(keeper: Keeper, args: Arguments) -> Answer:
    choice = {name: args[name] for name in _CHOICES if args[name]}
    # Events that do not fit are not followed again.
    seq = keeper.store.ledger.head_seq if choice and args["follow"] else 0
    events = keeper.events(workflow=args["workflow"], limit=args["limit"], **choice)
    if not args["follow"]:
        is_partial = bool(choice or args["workflow"])
        nothing = "No event fits." if is_partial else "Nothing was recorded yet."
        return EventLog(events, keeper.drain_notes(), nothing)

    def followed() -> Iterator[Event]:
        after = seq
        for event in events:
            after = max(after, event["seq"])
            yield event
        yield from keeper.follow(workflow=args["workflow"], after=after, **choice)

    return StreamAnswer(followed(), _event_line)


class EventLog(Answer):
    """Events that are printed while the ledger is read, so ``ok`` comes last in the JSON."""

    def __init__(self, events: Iterable[Event], notes: list[str], nothing: str) -> None:
        super().__init__(
            lambda: answers.with_notes({"events": list(events)}, notes),
            lambda screen: _log_lines(screen, events, nothing),
            notes,
        )
        self._events = events

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        """Yield the object event by event. A fault on the way ends it as a failed answer."""
        yield '{"events":['
        separator = ""
        end: Fields = {**answers.with_notes({}, self._notes), "ok": True}
        try:
            for event in self._events:
                yield f"{separator}{encode(event, ascii_only=ascii_only)}"
                separator = ","
        except HoldfastError as error:
            self.code = _FAULT
            end = {"ok": False, "error": failure_fields(error)}
        yield f"],{encode(end, ascii_only=ascii_only)[1:]}\n"


def _log_lines(screen: Screen, events: Iterable[Event], nothing: str = "") -> Iterator[str]:
    """Yield a line for each event, or that there is nothing.

    The first events decide how wide the column of streams is.
    """
    coming = iter(events)
    first = list(islice(coming, _FIRST_EVENTS))
    if not first and nothing:
        yield nothing
    width = max([count_cells(clean(event["stream"])) for event in first], default=0)
    for event in chain(first, coming):
        yield _event_line(screen, event, min(width, STREAM_MAX_COLUMNS))


def _event_line(screen: Screen, event: Event, stream_width: int = 0) -> str:
    """``12  2026-01-02 03:04:05Z  dev-1f2e3d4c  task_completed  task=3``."""
    seq = screen.paint(f"{event['seq']:>5}", "dim")
    at = clean(event["at"])[:19].replace("T", " ") + "Z"
    stream = pad(clean(event["stream"]), stream_width)
    kind = pad(clean(event["type"]), _TYPE_COLUMNS)
    taken = 5 + count_cells(at) + count_cells(stream) + count_cells(kind) + 4 * 2
    about = screen.fitted(event_text(event), taken)
    parts = [seq, screen.paint(at, "dim"), stream, screen.paint(kind, "active"), about]
    return "  ".join(parts).rstrip()


@command(
    "trust: read and approve the commands that this repository wants to run",
    Parameter("--list", "only list them, and which are approved"),
    Parameter("--revoke", "forget every approval for this workspace"),
    Parameter("--ledger", "believe the ledger that was set aside because it was not made here"),
    "holdfast trust",
    "holdfast trust --list --json",
)
def trust(keeper: Keeper, args: Arguments) -> Answer:
    from holdfast.workspace.trust import NOT_COVERED

    if args["revoke"]:
        done = f"{counted(keeper.revoke_trust(), 'approvals')} forgotten"
        return Answer({"revoked": done}, lambda _screen: [done])
    if args["ledger"]:
        require_person("trust --ledger")
        done = f"{clean(keeper.take_back_ledger())} is this workspace's ledger again"
        return Answer({"ledger": done}, lambda _screen: [done])
    requests, notes = keeper.untrusted_commands()
    pending = [request for request in requests if not request.approved]
    if pending and not args["list"] and not args["json"]:
        keeper.approve([request.command for request in pending if _ask(request)])
        requests, _ = keeper.untrusted_commands()

    def lines(screen: Screen) -> Iterator[str]:
        for request in requests:
            status = "approved" if request.approved else "not approved"
            mark = "completed" if request.approved else "pending"
            line = f"{clean_exactly(request.gate)}: {clean_exactly(request.command)}"
            yield f"{screen.mark(mark)} {line}  {screen.dim(status, request.source)}"
        if requests:
            yield screen.note(NOT_COVERED)
        else:
            yield "This repository wants no command run."

    rows = [request.as_fields() for request in requests]
    return Answer({"commands": rows, "not_covered": NOT_COVERED}, lines, notes)


def _ask(request: CommandRequest) -> bool:
    """Ask the person on the terminal; raise ``Refused`` if there is none."""
    from holdfast.workspace.trust import describe_gate

    require_person("trust")

    source, gate = clean_exactly(request.source), clean_exactly(describe_gate(request.gate))
    print(f"\n{source} wants {gate} to run:\n")
    print(f"    {clean_exactly(request.command)}\n")
    print("Approve exactly this command, for this workspace? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@command(
    "clean: let expired workflows and old ended records go; resume ID brings each back",
    Parameter("--dry-run", "only say what would go"),
    Parameter("--all", "end every active workflow of this worktree, and let every record go; asks"),
    Parameter("--yes", "with --all: do not ask"),
    "holdfast clean --dry-run",
    "holdfast clean --all --yes",
)
def clean_up(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.clean(dry_run=args["dry_run"] or args["all"], everything=args["all"])
    if args["all"] and not args["dry_run"]:
        listed = [f"{row['id']} ({row['why']})" for row in rows]
        if listed and confirm("clean --all", "Let all of these go?", listed, args):
            rows, notes = keeper.clean(everything=True)
        elif listed:
            return Answer({"cleaned": [], "dry_run": False}, lambda _: ["Nothing was cleaned."])

    def lines(screen: Screen) -> Iterator[str]:
        verb = "would leave" if args["dry_run"] else "left"
        for row in rows:
            text = f"{row['id']} {verb} the folder"
            yield screen.row("completed", text, row["why"], str(row["record"]))
        if not rows:
            yield "Nothing is here to go." if args["all"] else "Nothing is old enough to go."
        elif not args["dry_run"]:
            yield screen.paint("  holdfast resume ID brings each of them back", "dim")

    return Answer({"cleaned": rows, "dry_run": args["dry_run"]}, lines, notes)


@command(
    "sync: bring MEMORY.md and the memory graph up to date, and say what was delivered",
    Parameter("--everything", "as if nothing had been delivered yet: for one that was emptied"),
    Parameter("--background", "only to the Memory server, as every change does by itself"),
    Parameter("--telemetry", "only spans, to OpenTelemetry, as every change does by itself"),
    "holdfast sync",
    "holdfast sync --everything --json",
)
def sync(keeper: Keeper, args: Arguments) -> Answer:
    names = ("everything", "background", "telemetry")
    rows, notes = keeper.sync(**{name: args[name] for name in names})

    def lines(screen: Screen) -> Iterator[str]:
        for row in rows:
            mark = _LAYER_MARKS.get(row["status"], "pending")
            yield screen.row(mark, f"{row['layer']} {row.get('target', '')}", _delivery(row))
            if "error" in row:
                yield f"  {clean(row['error']['message'])}"
                yield f"  next: {clean(row['error']['hint'])}"

    code = _UNDELIVERED if any("error" in row for row in rows) else 0
    return Answer(lambda: answers.layers(rows, notes), lines, notes=notes, code=code)


def _delivery(row: Fields) -> str:
    """Return what was delivered to a layer, or how far it is behind."""
    if "seq" not in row:
        return _LAYER_WORDS.get(row["status"], str(row["status"]))
    if row["status"] == "delivered":
        events = counted(row["events"], "events")
        if "spans" in row:
            return f"{counted(row['spans'], 'spans')} of {events} delivered; at event {row['seq']}"
        entities = f"{row['entities']} {'entity' if row['entities'] == 1 else 'entities'}"
        return f"{events} delivered, {entities} changed; at event {row['seq']}"
    if row["status"] == "current":
        return f"up to date, at event {row['seq']}"
    behind = f", {counted(row['behind'], 'events')} behind" if "behind" in row else ""
    return f"{row['status']}{behind}"


@command(
    "archive: move the history of long-ended workflows out of the ledger, into a file",
    Parameter("--before DATE", "those that ended before it; or an age such as 90d", required=True),
    Parameter("--dry-run", "only say what would be moved"),
    Parameter("--yes", "do not ask: for scripts"),
    "holdfast archive --before 2026-01-31 --dry-run",
    "holdfast archive --before 90d --yes",
)
def archive(keeper: Keeper, args: Arguments) -> Answer:
    before = args["before"]
    due = keeper.archive(before, dry_run=True)
    is_dry = args["dry_run"] or not due.rows
    if not (is_dry or args["yes"]) and not _may_archive(due.rows, before):
        is_dry = True
    done = due if is_dry else keeper.archive(before)

    def lines(screen: Screen) -> Iterator[str]:
        for row in done.rows if args["dry_run"] else ():
            text = f"{row['id']} would be archived"
            yield screen.row("completed", text, row["status"], row["title"])
        if not done.rows:
            yield f"No workflow ended before {before}, or all of them are archived."
        elif args["dry_run"]:
            yield f"  {counted(len(done.rows), 'workflows')} in all"
        elif is_dry:
            yield "Nothing was archived."
        else:
            moved = f"{counted(len(done.rows), 'workflows')}, {counted(done.events, 'events')}"
            yield screen.row("completed", f"archived {moved}", done.name, "")
            yield screen.paint("  log, show and resume find them as before", "dim")

    fields = {
        "archived": [] if is_dry else [row["id"] for row in done.rows],
        "due": [row["id"] for row in done.rows] if is_dry else [],
        "archive": done.name or None,
        "events": done.events,
    }
    return Answer(fields, lines, keeper.drain_notes())


def _may_archive(rows: list[Fields], before: str) -> bool:
    """Ask on the terminal; raise ``Refused`` if there is none."""
    workflows = counted(len(rows), "workflows")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused(
            "needs_yes",
            f"archive: {workflows} ended before {before}, and there is no terminal to ask on",
            f"holdfast archive --before {before} --yes",
        )
    for row in rows[:_MAX_ASKED]:
        print(f"    {clean(row['id'])}  {clean(row['status'])}  {clean(row['title'])}")
    if len(rows) > _MAX_ASKED:
        print(f"    and {len(rows) - _MAX_ASKED} more")
    print(f"Move the history of {workflows} into an archive? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@command(
    "verify: check the ledger, and every view against it; changes nothing",
    Parameter("--all", "check all events, not only those since the last time that all was well"),
    "holdfast verify",
    "holdfast verify --all",
)
def verify(keeper: Keeper, args: Arguments) -> Answer:
    bar = ProgressBar.on_terminal(args)
    report = keeper.verify(everything=args["all"], progress=None if bar is None else bar.draw)
    if bar is not None:
        bar.clear()
    return _report_answer(report, "holdfast repair")


@command("repair: put what is damaged aside and rebuild it; deletes nothing", "holdfast repair")
def repair(keeper: Keeper, _args: Arguments) -> Answer:
    return _report_answer(keeper.repair(), "holdfast verify")


def _report_answer(report: Report, following: str) -> Answer:
    """Answer with what is damaged; ``following`` is the command to run then."""

    def lines(screen: Screen) -> Iterator[str]:
        for line in [line for line in report.lines if line["level"] != "ok"]:
            mark = screen.mark(_LEVEL_MARKS.get(line["level"], "pending"))
            about = f"{line['level']}: {clean(line['message'])}"
            yield f"{mark} {clean(line['what'])}  {about}"
        counts = [counted(number, clean(name)) for name, number in report.counts.items()]
        verdict = screen.paint("sound", "good") if report.ok else screen.paint("damaged", "bad")
        yield screen.dot.join([verdict, *counts])
        if not report.ok:
            yield f"  next: {following}"

    return Answer(
        lambda: answers.report(report, following), lines, code=0 if report.ok else _DAMAGED
    )


@command(
    "export: print all events, or those of one workflow, as lines of JSON: a backup",
    Parameter("[ID]", "the workflow (default: all)", into="workflow", kind="id", names="workflow"),
    "holdfast export > backup.jsonl",
    "holdfast export dev-1f2e3d4c",
)
def export(keeper: Keeper, args: Arguments) -> Answer:
    return RawLines(keeper.export(workflow=args["workflow"]))


class RawLines(Answer):
    """Lines of JSON that are printed as they are, with and without ``--json``."""

    is_json_only = True

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__(dict, lambda _screen: lines)
        self._raw_lines = lines

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        for line in self._raw_lines:
            yield f"{clean_json(line, ascii_only=ascii_only)}\n"


@command(
    "import: take in what export printed; what another machine ran counts as a claim",
    Parameter(
        "FILE",
        "an export; - reads it from standard input; a folder is that of a ledger of version 0.1",
        into="path",
        names="file",
    ),
    "holdfast import backup.jsonl",
    "holdfast import -",
    "holdfast import .claude/holdfast",
)
def import_file(keeper: Keeper, args: Arguments) -> Answer:
    imported = keeper.import_file(args["path"])
    if imported.events:
        events = counted(imported.events, "events")
        done = f"imported {events} of {', '.join(imported.streams[:10])}"
    else:
        done = f"nothing is new in it: all {imported.known} events are here already"
    fields = {"events": imported.events, "known": imported.known, "streams": imported.streams}
    return answer_done(done, fields, keeper.drain_notes())


@command(
    "demo: watch a workflow survive a kill, an edit and a lost context",
    "holdfast demo",
    workspace=False,
)
def demo(args: Arguments) -> Answer:
    from holdfast.cli.demo import run

    # With --json, standard output is for the one object.
    code = run(sys.stderr if args["json"] else sys.stdout)
    if not code:
        return Silence()
    message = "something that the demonstration shows did not hold"
    error = {"code": "failed", "message": message, "hint": "holdfast demo"}
    return Silence({"error": error}, code=code)
