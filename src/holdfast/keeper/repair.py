"""Repair a workspace: recover the events of a damaged ledger, rebuild every view, verify again.

Nothing is deleted: a damaged database is kept beside the new one, and the content of a record file
is adopted or set aside, as in any other command.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import pairwise

from holdfast import formats
from holdfast.adopt import unknown_records
from holdfast.core import json_text
from holdfast.errors import Fault
from holdfast.formats import (
    LOGS,
    aggregate_of,
    evolve,
    is_log,
    is_workflow,
    parse_signed,
    stream_of,
)
from holdfast.formats.schema import Invalid
from holdfast.keeper.audit import (
    MAX_NAMED,
    OWN_STREAM,
    REPAIRED,
    Chain,
    Report,
    drop_moot,
    name_events,
    read_chain,
    verify,
)
from holdfast.storage import salvage
from holdfast.storage.database import BESIDE, NAME
from holdfast.storage.ledger import ACTIVE, Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_FOLDER = "recovering"


def repair(session: Session) -> Report:
    """Repair the ledger and its views; report the repairs and the result of ``verify``."""
    report = Report()
    store = session.store
    if store.ledger.exists():
        states = _recover_ledger(store, report)
        with session.transaction() as tx:
            store.workspace.prepare(store.disk, store.note)
            _repair_workspace(tx, states or store.ledger.stored_states(), report)
            for note in store.take_notes():
                report.say("repaired", "records", note)
    checked = verify(store, everything=True)
    report.lines += checked.lines
    report.counts = checked.counts
    return report


def _recover_ledger(store: Store, report: Report) -> dict[str, tuple[int, Any]]:
    """Replace a damaged database by a new one with the events that can still be read.

    Return the stored states of the damaged database by stream, each after its version.
    """
    database = store.ledger.database
    database.acquire_lock()
    try:
        if not _is_damaged(store):
            return {}
        folder = os.path.join(store.workspace.home, _FOLDER)
        damaged = salvage.Damaged(database.path, folder, store.disk)
        try:
            states = damaged.states()
            fresh, kept, lost = _copy_events(store, damaged, folder)
        finally:
            damaged.close()
        backup = salvage.put_in_place(fresh, database.path, store.disk, store.stamp())
        store.disk.remove_folder(os.path.dirname(fresh))
    finally:
        database.release()
    events = "1 event" if len(kept) == 1 else f"{len(kept)} events"
    name = os.path.basename(backup)
    report.say("repaired", NAME, f"was made anew with {events}; the damaged one is {name}")
    for gap in lost[:MAX_NAMED]:
        report.say("repaired", NAME, f"{name_events(*gap)} lost")
    if len(lost) > MAX_NAMED:
        report.say("repaired", NAME, f"more are lost, in {len(lost) - MAX_NAMED} other gaps")
    return states


def _is_damaged(store: Store) -> bool:
    """Return True if the database must be replaced; raise ``Fault`` if it is a newer Holdfast's."""
    try:
        chain = read_chain(store, is_careful=True)
        is_sound = store.ledger.identity() and not (chain.bad or chain.loose)
        if not (is_sound and not store.ledger.damage() and store.ledger.has_whole_tables()):
            return True
        # Only SQLite should open the files of a sound ledger, so read its journal only if a view
        # differs from the ledger.
        levels = {line["level"] for line in verify(store).lines}
        path, head = store.ledger.database.path, store.ledger.head()
        return levels != {"ok"} and (
            salvage.journal_goes_on(path, store.disk, head, is_shown="error" in levels)
        )
    except Fault as fault:
        if fault.code == "newer_ledger":
            raise
        return True


def _copy_events(
    store: Store, damaged: salvage.Damaged, folder: str
) -> tuple[str, list[int], list[tuple[int, int]]]:
    """Write the sound events of a damaged ledger into a new one.

    Return its path, the seqs of the events, and the first and last seq of each gap between them.
    """
    for end in ("", *BESIDE):
        store.disk.remove(os.path.join(folder, NAME) + end)  # Left by a repair that was killed.
    fresh = Ledger(folder, store.disk, 1.0)
    fresh.acquire()
    try:
        fresh.begin(damaged.fact("identity"))
        chain = Chain(is_careful=True)
        kept = []
        for row in damaged.events():
            if chain.add(row):
                fresh.keep_row(row)
                kept.append(row[0])
        lost = [*chain.gaps, *((seq, seq) for seq in chain.bad)]
        if lost or chain.loose:
            _note_repair(store, fresh, sorted(lost), chain.loose, [])
        _rebuild_tables(fresh)
        fresh.commit("repair")
        fresh.database.close()
    finally:
        fresh.release()
    store.disk.remove(os.path.join(folder, "lock"))
    given_up = set(chain.gaps).difference(chain.lost())
    ends = pairwise([0, *kept, max(damaged.last_seq(), *kept[-1:], 0) + 1])
    gaps = [(before + 1, after - 1) for before, after in ends if after - before > 1]
    return fresh.database.path, kept, [gap for gap in gaps if gap not in given_up]


def _note_repair(
    store: Store, ledger: Ledger, lost: list[tuple[int, int]], loose: list[int], streams: list[str]
) -> None:
    """Insert the event that accepts these losses."""
    data: Fields = {"lost": lost, "loose": loose, "streams": streams}
    version = next((event["version"] for event in ledger.newest(OWN_STREAM, 1)), 0)
    ledger.insert(
        [{"type": REPAIRED, "data": data}],
        stream=OWN_STREAM, version=version, at=store.now(), by=store.by,
        request=os.urandom(12).hex(),
    )  # fmt: skip


def _rebuild_tables(ledger: Ledger) -> set[str]:
    """Rebuild the rows and states of all streams from the events, in an open transaction.

    Return the streams with events that make no sense.
    """
    senseless = set()
    ledger.drop_views()
    for stream in ledger.stream_names():
        if not (is_workflow(stream) or is_log(stream)):
            continue
        aggregate = aggregate_of(stream)
        state, odd = aggregate.replay(partial(ledger.events, stream))
        if drop_moot(ledger, odd):
            senseless.add(stream)
        if state is None:
            continue
        last = next(ledger.newest(stream, 1))
        row = {name: last[name] for name in ("stream", "seq", "version", "hash")}
        ledger.put_stream({**row, "kind": aggregate.kind, **aggregate.columns(state)}, state)
    return senseless


def _repair_workspace(tx: Transaction, states: dict[str, tuple[int, Any]], report: Report) -> None:
    """Rebuild the tables, find a state for streams with missing events, and write the records."""
    store = tx.store
    chain = read_chain(store)
    tx.begin()
    senseless = _rebuild_tables(store.ledger)
    given_up = []
    for stream in sorted((chain.broken | senseless) - chain.given_up):
        state, source = _state_of(store, stream, states)
        if state is None:
            given_up.append(stream)
            report.say("repaired", stream, "too little is left of its history; given up")
            continue
        tx.replace_state(stream, state)
        report.say("repaired", stream, f"goes on from {source}")
    if given_up or chain.lost():
        tx.begin()
        _note_repair(store, store.ledger, chain.lost(), [], given_up)
    tx.commit()  # Adopting needs the rows of the streams that were just replaced.
    store.mark_unread()
    unknown_records.adopt_all(tx)
    for kind in LOGS:
        tx.load(stream_of(kind))
    for held in list(store.ledger.states(f"{ACTIVE} OR kind <> 'workflow'")):
        _show(tx, held.row["stream"], report)
    for held in list(store.ledger.states(f"kind = 'workflow' AND NOT {ACTIVE}")):
        _show_ended(tx, held.row["stream"], held.state, report)
    tx.commit()
    own = store.indexes.of(store.workspace.name)
    if own is not None and store.skill_rows(store.workspace.name):
        own.rebuild()


def _state_of(store: Store, stream: str, states: dict[str, tuple[int, Any]]) -> tuple[Any, str]:
    """Return the best state of a stream with missing events, and the state's source."""
    last = next(store.ledger.newest(stream, 1))
    held = store.ledger.stream(stream)
    subject = store.subject_of(held) if held else None
    if subject is not None and subject.path is not None:
        raw = store.files.read(subject.path)
        state = None if raw is None else _parse_record(store, subject, raw, last["seq"])
        if state is not None:
            return state, subject.record
    state = _continued(store, stream, *states.get(stream, (0, None)))
    if state is not None:
        return state, "its last state"
    return (held.state, "what is left of its history") if held else (None, "")


def _continued(store: Store, stream: str, version: int, state: Any) -> Any:
    """Return a stored state with the events after it; ``None`` if one of them is missing."""
    for event in store.ledger.events(stream):
        if state is not None and event["version"] > version:
            version += 1
            is_next = event["version"] == version
            state = evolve(stream, state, event) if is_next else None
    return state


def _parse_record(store: Store, subject: Any, raw: bytes, seq: int) -> Any:
    """Return a record's state; ``None`` if it was edited or is older than event ``seq``."""
    try:
        sealed = parse_signed(raw)
        if not sealed.intact or sealed.ledger != store.ledger.identity() or sealed.seq < seq:
            return None
        origin = store.origin(subject.record, subject.worktree)
        return subject.aggregate.parse(sealed, None, subject.record, origin)
    except (json_text.BadJson, Invalid):
        return None


def _show(tx: Transaction, stream: str, report: Report) -> None:
    """Load a stream, which settles its record, and write the record again."""
    tx.load(stream)
    subject = tx.subject(stream)
    if subject.path is None:
        return
    # Do not read the file again: it may contain an edit that is not settled yet.
    raw = tx.settled(stream)
    identity = tx.store.ledger.identity()
    if raw != subject.aggregate.render(subject.state, identity, subject.seq, subject.hash):
        report.say("repaired", subject.record, "was written anew")
    tx.show(stream)


def _show_ended(tx: Transaction, stream: str, state: Any, report: Report) -> None:
    """Write the missing record of an ended workflow, if no later workflow used its path."""
    store = tx.store
    record = formats.place(state)
    path = None if record is None else store.path_of(state["worktree"], record)
    if record is None or path is None:
        return
    query = "kind = 'workflow' AND worktree = ? AND record = ? ORDER BY seq DESC LIMIT 1"
    newest = store.ledger.rows(query, state["worktree"], state["record"])
    raw = store.files.read(path)
    if newest[0]["stream"] == stream and (raw is None or not raw.strip()):
        tx.load(stream)
        tx.expect(stream, raw)
        tx.show(stream)
        report.say("repaired", record, "was gone and is rebuilt")
