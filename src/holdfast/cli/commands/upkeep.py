"""Commands that look after the workspace: clean, sync, verify, repair, export, import, demo."""

from __future__ import annotations

import sys

from holdfast.answers import json
from holdfast.answers.text import clean, clean_json
from holdfast.cli.answer import Answer, Silence, done_page, page
from holdfast.cli.grammar import argument, command, flag
from holdfast.cli.screen import note_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.audit import Report

_DAMAGED, _UNDELIVERED = 1, 3
_LEVEL_MARKS = {"repaired": "completed", "behind": "pending", "error": "blocked"}
_LAYER_MARKS = {"delivered": "completed", "current": "completed", "unavailable": "blocked"}
_LAYER_WORDS = {"delivered": "brought up to date", "current": "up to date"}


@command(
    "clean",
    "let expired workflows and old ended records go; resume ID brings each back",
    flag("--dry-run", "only say what would go"),
    examples=("holdfast clean --dry-run", "holdfast clean"),
)
def clean_up(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.clean(dry_run=args["dry_run"])

    def lines(screen: Screen) -> Iterator[str]:
        verb = "would leave" if args["dry_run"] else "left"
        for row in rows:
            about = screen.paint(clean(f"{row['why']}{screen.dot()}{row['record']}"), "dim")
            yield f"{screen.mark('completed')} {clean(row['id'])} {verb} the folder  {about}"
        if not rows:
            yield "Nothing is old enough to go."
        elif not args["dry_run"]:
            yield screen.paint("  holdfast resume ID brings each of them back", "dim")

    return page({"cleaned": rows, "dry_run": args["dry_run"]}, lines, notes)


@command(
    "sync",
    "bring MEMORY.md and the memory graph up to date, and say what was delivered",
    flag("--everything", "as if nothing had been delivered yet: for one that was emptied"),
    examples=("holdfast sync", "holdfast sync --everything --json"),
)
def sync(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.sync(everything=args["everything"])

    def lines(screen: Screen) -> Iterator[str]:
        for row in rows:
            mark = screen.mark(_LAYER_MARKS.get(row["status"], "pending"))
            target = clean(str(row.get("target", "")))
            about = screen.paint(clean(_delivery(row)), "dim")
            yield f"{mark} {clean(row['layer'])} {target}  {about}".rstrip()
            if "error" in row:
                yield f"  {clean(row['error']['message'])}"
                yield f"  next: {clean(row['error']['hint'])}"
        yield from note_lines(screen, notes)

    code = _UNDELIVERED if any("error" in row for row in rows) else 0
    return Answer(lambda: json.layers(rows, notes), lines, code=code)


def _delivery(row: Fields) -> str:
    """Return what was delivered to a layer, or how far it is behind."""
    if "seq" not in row:
        return _LAYER_WORDS.get(row["status"], str(row["status"]))
    if row["status"] == "delivered":
        entities = f"{row['entities']} {'entity' if row['entities'] == 1 else 'entities'}"
        events = _counted(row["events"], "events")
        return f"{events} delivered, {entities} changed; at event {row['seq']}"
    if row["status"] == "current":
        return f"up to date, at event {row['seq']}"
    behind = f", {_counted(row['behind'], 'events')} behind" if "behind" in row else ""
    return f"{row['status']}{behind}"


@command(
    "verify",
    "check the ledger, and every view against it; changes nothing",
    flag("--everything", "check all events of a long ledger, not only the newest 50,000"),
    examples=("holdfast verify", "holdfast verify --everything"),
)
def verify(keeper: Keeper, args: Arguments) -> Answer:
    return _report_answer(keeper.verify(everything=args["everything"]), "holdfast repair")


@command(
    "repair",
    "put what is damaged aside and rebuild it; deletes nothing",
    examples=("holdfast repair",),
)
def repair(keeper: Keeper, _args: Arguments) -> Answer:
    return _report_answer(keeper.repair(), "holdfast verify")


def _report_answer(report: Report, following: str) -> Answer:
    """Answer with what is damaged; ``following`` is the command to run then."""

    def lines(screen: Screen) -> Iterator[str]:
        for line in [line for line in report.lines if line["level"] != "ok"]:
            mark = screen.mark(_LEVEL_MARKS.get(line["level"], "pending"))
            about = f"{line['level']}: {clean(line['message'])}"
            yield f"{mark} {clean(line['what'])}  {about}"
        counts = [_counted(number, clean(name)) for name, number in report.counts.items()]
        verdict = screen.paint("sound", "good") if report.ok else screen.paint("damaged", "bad")
        yield screen.dot().join([verdict, *counts])
        if not report.ok:
            yield f"  next: {following}"

    return Answer(lambda: json.report(report, following), lines, code=0 if report.ok else _DAMAGED)


@command(
    "export",
    "print all events, or those of one workflow, as lines of JSON: a backup",
    argument(
        "ID",
        "the workflow (default: all)",
        into="workflow",
        kind="id",
        count="maybe",
        values="workflow",
    ),
    examples=("holdfast export > backup.jsonl", "holdfast export dev-1f2e3d4c"),
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
    "import",
    "take in what export printed; what another machine ran counts as a claim",
    argument("FILE", "an export; - reads it from standard input", into="path", values="file"),
    examples=("holdfast import backup.jsonl", "holdfast import -"),
)
def import_file(keeper: Keeper, args: Arguments) -> Answer:
    imported = keeper.import_file(args["path"])
    if imported.events:
        events = _counted(imported.events, "events")
        done = f"imported {events} of {', '.join(imported.streams[:10])}"
    else:
        done = f"nothing is new in it: all {imported.known} events are here already"
    fields = {"events": imported.events, "known": imported.known, "streams": imported.streams}
    return done_page(done, fields, keeper.noticed())


@command(
    "demo",
    "watch a workflow survive a kill, an edit and a lost context",
    examples=("holdfast demo",),
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


def _counted(number: int, name: str) -> str:
    return f"{number} {name.removesuffix('s') if number == 1 else name}"
