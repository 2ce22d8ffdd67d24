"""Every view against the ledger: catalog, index, records."""

from __future__ import annotations

from holdfast import discovery, indexes, jsontext, small
from holdfast.jsontext import BadJson
from holdfast.layers import catalog, index, records
from holdfast.layers.records import envelope
from holdfast.layers.records.fields import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.audit.history import History, Report
    from holdfast.core.shapes import Event, Workflow
    from holdfast.engine import Engine


def check_catalog(engine: Engine, report: Report) -> None:
    closed = engine.ledger.closed.segments()
    if not closed:
        return
    raw = engine.disk.read(engine.register.path) or b""
    found = catalog.Catalog(raw)
    if not found.is_whole or found.seq < closed[-1][2]:
        report.say("behind", catalog.NAME, "it is rebuilt when it is needed")
    elif found.seq == closed[-1][2] and raw != engine.register.built():
        report.say("error", catalog.NAME, "it does not say what the ledger says")


def check_indexes(engine: Engine, history: History, report: Report) -> None:
    """The index of this worktree; a wrong one is only behind, the next command writes it anew."""
    here = engine.workspace.name
    rows = [catalog.row_of(*found) for found in history.states.values()]
    mine = indexes.of_worktree(rows, here)
    own = engine.indexes.of(here) if mine else None
    if own is not None and not own.is_current(mine):
        report.say("behind", index.NAME, "it does not show the active workflows as they are")


def check_small(engine: Engine, stream: str, events: list[Event], report: Report) -> None:
    kind = small.kind_of(stream)
    state, odd = small.replayed(kind, events)
    for event in odd:
        report.say("error", stream, f"event {event['seq']} makes no sense and is left out")
    place = small.record_of(kind).path()
    raw = engine.store.read(engine.workspace.inside(engine.workspace.root, place))
    if raw is None or state is None:
        return
    report.counts["records"] += 1
    made = small.rendered(kind, state, engine.ledger.identity(), events[-1])
    if raw != made and not _reads_alike(raw, made):
        report.say("behind", place, "it is not what the ledger says; the next look mends it")


def _reads_alike(raw: bytes, made: bytes) -> bool:
    """Whether only the layout is another: that is no edit."""
    try:
        return bool(jsontext.loads(raw) == jsontext.loads(made))
    except BadJson:
        return False


def check_record(engine: Engine, state: Workflow, last: Event, report: Report) -> None:
    place = records.place(state)
    root = engine.workspace.root_of(state["worktree"])
    if place is None or root is None:
        return
    path = engine.workspace.inside(root, place)
    raw = engine.store.read(path)
    if raw is None:
        report.say("behind", place, "it is missing; the next command rebuilds it")
        return
    report.counts["records"] += 1
    if raw == records.render(state, engine.ledger.identity(), last["seq"], last["hash"]):
        return
    try:
        sealed = envelope.unseal(raw)
    except BadJson as bad:
        if engine.disk.is_being_written(path) or engine.store.read(path) != raw:
            report.say("behind", place, "it is being written")
        else:
            report.say(
                "error", place, f"line {bad.line}: {bad.why}; the next command sets it aside"
            )
        return
    if not sealed.intact:
        report.say("behind", place, "it was edited; the next command takes the edit in")
    elif sealed.ledger == engine.ledger.identity() and sealed.seq > _head(engine):
        lost = f"the ledger ends at {engine.ledger.head_seq}: events are lost, or it is from a copy"
        report.say("error", place, f"it shows event {sealed.seq}, {lost}; the next command goes on")
    elif sealed.hash != last["hash"]:
        report.say("behind", place, f"it shows event {sealed.seq}, the ledger is at {last['seq']}")
    elif not _says_the_same(engine, sealed, state, place):
        report.say("error", place, "it does not say what the ledger says")


def _head(engine: Engine) -> int:
    """The ledger's last event by now: whoever wrote the record meanwhile wrote there first."""
    engine.ledger.refresh()
    return engine.ledger.head_seq


def check_strangers(engine: Engine, history: History, report: Report) -> None:
    """Records that nothing in the ledger tells of: all that is left when that was emptied."""
    known = {state["record"] for state, _ in history.states.values()}
    for place in discovery.unknown(engine, known):
        report.say("behind", place, "the ledger does not know it; the next command takes it in")


def _says_the_same(engine: Engine, sealed: envelope.Sealed, state: Workflow, place: str) -> bool:
    origin = engine.origin(place, state["worktree"])
    try:
        return records.parse(state["recipe"]["format"], sealed, None, origin) == state
    except Invalid:
        return False
