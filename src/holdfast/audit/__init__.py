"""``verify`` and ``repair``: the ledger line by line, and every view against it."""

from __future__ import annotations

import os

from holdfast import discovery, reconcile
from holdfast.audit import views
from holdfast.audit.history import OWN_STREAM, REPAIRED, History, Report, read
from holdfast.core.workflow.state import is_active
from holdfast.graph import auditing
from holdfast.layers import records
from holdfast.layers.records import envelope
from holdfast.ledger.segment import OPEN_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine


def verify(engine: Engine) -> Report:
    """The ledger, then every view. A view that is merely behind is not an error."""
    report = Report()
    history = read(engine, report)
    if engine.ledger.loose:
        report.say(
            "behind",
            "ledger.ndjson",
            f"{len(engine.ledger.loose)} bytes after the last commit; the next command sees to it",
        )
    views.check_catalog(engine, report)
    for stream, (state, last) in history.states.items():
        if is_active(state) and stream not in history.broken:
            views.check_record(engine, state, last, report)
    for stream, events in history.small.items():
        views.check_small(engine, stream, events, report)
    views.check_strangers(engine, history, report)
    views.check_indexes(engine, history, report)
    auditing.check(engine, report)
    counts = report.counts
    if report.ok:
        report.say(
            "ok",
            "workspace",
            ", ".join([_counted(counts[name], name) for name in ("events", "streams", "records")]),
        )
    return report


def _counted(number: int, name: str) -> str:
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def repair(engine: Engine) -> Report:
    """Moves damage to quarantine, takes what records still know into the ledger, rebuilds views."""
    report = Report()
    history = read(engine, Report())
    lost = sorted({*history.lost, *history.odd_left()})
    if lost:
        # First: an event whose siblings are lost must not become the end of the ledger, where it
        # would be taken for a commit that was torn.
        _record(engine, {"lost": lost})
        report.say("repaired", OPEN_NAME, f"events {lost} are recorded as lost")
    for name in sorted(history.bad_segments):
        kept = engine.ledger.rewrite_without_bad_lines(name)
        report.say("repaired", name, f"lines that are no events are kept in {kept}")
    engine.refresh()
    discovery.discover(engine)
    given_up = [
        stream for stream in sorted(history.broken) if not _goes_on(engine, stream, history, report)
    ]
    if given_up:
        _record(engine, {"lost": [], "streams": given_up})
    _rebuild_views(engine, report)
    for note in engine.notes:
        report.say("repaired", "records", note)
    engine.notes = []
    checked = verify(engine)
    report.lines += checked.lines
    report.counts = checked.counts
    return report


def _record(engine: Engine, data: Fields) -> None:
    events, blob = engine.ledger.prepare(
        [{"type": REPAIRED, "data": data}],
        stream=OWN_STREAM,
        version=0,
        at=engine.now(),
        by=engine.by,
        event_id=os.urandom(12).hex(),
    )
    engine.ledger.append(events, blob)


def _goes_on(engine: Engine, stream: str, history: History, report: Report) -> bool:
    """A stream that misses events goes on from its record, which had seen them, if that is there;
    else from what is left of its history.
    """
    position = engine.position(stream)
    if position is None:
        report.say("repaired", stream, "nothing is left that tells where it began; given up")
        return False
    path = engine.path(position)
    raw = engine.store.read(path) if path is not None else None
    if raw is not None and envelope.shows(raw, position.hash):
        state, source = engine.load(position), position.record
    elif stream in history.states:
        state, source = history.states[stream][0], "what is left of its history"
    else:
        report.say("repaired", stream, "too little is left of its history; given up")
        return False
    now = engine.position(stream)
    if now is not None and now.hash == position.hash:
        reconcile.adopt(engine, state, position.record, state)
    report.say("repaired", stream, f"goes on from {source}")
    return True


def _rebuild_views(engine: Engine, report: Report) -> None:
    engine.register.rebuild()
    newest: dict[tuple[str, str], Fields] = {}
    for row in sorted(engine.rows(), key=lambda row: int(row["seq"])):
        newest[row["worktree"], row["record"]] = row
        position = engine.position(row["id"])
        if position is None or row["status"] not in ("in_progress", "blocked"):
            continue
        state = engine.load(position)
        path = engine.path(position)
        raw = engine.store.read(path) if path is not None else None
        if raw is not None and not _is_shown(engine, state, raw):
            engine.show_again(state["id"], None)
            report.say("repaired", position.record, "was written anew")
    for row in newest.values():
        _rebuild_ended(engine, row, report)
    own = engine.indexes.of(engine.workspace.name)
    if own is not None:
        own.rebuild()
    auditing.repair(engine, report)


def _rebuild_ended(engine: Engine, row: Fields, report: Report) -> None:
    """The record of a workflow that has ended, if it was the last in its place and is gone."""
    root = engine.workspace.root_of(row["worktree"])
    if root is None or row["status"] in ("in_progress", "blocked"):
        return
    place = records.place(engine.replay(row["id"])[0])
    raw = engine.store.read(engine.workspace.inside(root, place)) if place is not None else b"-"
    if raw is None or not raw.strip():
        engine.show_again(row["id"], raw)
        report.say("repaired", str(place), "was gone and is rebuilt")


def _is_shown(engine: Engine, state: Workflow, raw: bytes) -> bool:
    position = engine.position(state["id"])
    if position is None:
        return True
    return raw == records.render(state, engine.ledger.identity(), position.seq, position.hash)
