"""One exchange with a hub: pull, take in what others did, push what was done here.

Nothing waits for the network while the ledger is locked: what was pulled is taken in afterwards, a
few thousand events in a transaction, and only what was committed is pushed. A process that is
killed between two of these steps loses nothing and doubles nothing: events are known by replica and
number.
"""

from __future__ import annotations

import os
from operator import itemgetter

from holdfast import formats
from holdfast.core import diff, json_text, sharing
from holdfast.core.json_text import dumps
from holdfast.core.selection import ELSEWHERE
from holdfast.core.workflow.edits import as_imported
from holdfast.errors import Refused
from holdfast.formats import aggregate_of, is_log, is_workflow
from holdfast.formats.schema import is_safe, sanitised
from holdfast.hub.contract import Forked
from holdfast.hub.events import flaw_of
from holdfast.keeper.replica import id_of, new_id, settings_of
from holdfast.storage.ledger import ACTIVE, HELD, HUB, MERGED, OWN_STREAM, RENUMBERED
from holdfast.storage.shared_events import SharedEvents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.core.sharing import Fold
    from holdfast.core.types import Draft, Fields, SharedEvent, Workflow
    from holdfast.hub.contract import Hub
    from holdfast.keeper.replica import Replica
    from holdfast.keeper.session import Session
    from holdfast.keeper.transaction import Transaction

    Progress = Callable[[str, int, int], None]

_SURFACE = "hub"
AT_ONCE = 2_000
"""The number of events that are taken in, or pushed, at once."""
_MAX_PULLS = 1_000


class Exchanged:
    """What an exchange did."""

    def __init__(self) -> None:
        self.pulled = 0
        """The number of events that were new here."""
        self.pushed = 0
        self.streams: list[str] = []
        """The streams that others changed."""
        self.conflicts = 0
        """The number of those that are not settled."""


def exchange(session: Session, hub: Hub, progress: Progress | None = None) -> Exchanged:
    """Pull, take in and push; return what was done. Raise ``Fault`` if the hub is out of reach."""
    done = Exchanged()
    store = session.store
    _share_edits(session)
    done.streams = _take_in_held(session)
    for _ in range(_MAX_PULLS):
        cursor = (settings_of(store) or {}).get("cursor", "")
        pulled = hub.pull(cursor)
        for flaw in pulled.flaws:
            store.note(flaw)
        # In the order of their streams, so that few folds have to begin again.
        events = sorted(pulled.events, key=sharing.position_of)
        for start in range(0, len(events), AT_ONCE):
            part = events[start : start + AT_ONCE]
            news = take_in(session, part)
            done.streams += [event["stream"] for event in news]
            done.pulled += len(news)
            if progress is not None:
                total = sum(pulled.known.values())
                known = sum(SharedEvents(store.ledger).known().values())
                progress("events", min(total, known), total)
        if pulled.cursor != cursor:
            _keep_cursor(session, pulled.cursor)
        if pulled.is_all or pulled.cursor == cursor:
            break
    try:
        done.pushed = _push(session, hub, pulled.known)
    except Forked as forked:
        with session.transaction() as tx:
            _rename(tx, forked.replica, forked.n)
        done.pushed = _push(session, hub, pulled.known)
    done.streams = list(dict.fromkeys(done.streams))
    return done


def _share_edits(session: Session) -> None:
    """Record the edits of records that nobody has taken in yet, so that they travel."""
    ledger = session.store.ledger
    here = [row["id"] for row in ledger.rows(ACTIVE) if not row["worktree"].startswith(ELSEWHERE)]
    with session.transaction() as tx:
        _settle_records(tx, [*here, *filter(is_log, ledger.stream_names())])
        tx.commit()


def _keep_cursor(session: Session, cursor: str) -> None:
    with session.transaction() as tx:
        settings = settings_of(session.store)
        if settings is not None:
            tx.put_fact(HUB, dumps({**settings, "cursor": cursor}))
            tx.commit()


def _push(session: Session, hub: Hub, known: dict[str, int]) -> int:
    """Push the events that the hub does not have, also lost ones of others; return how many.

    Our own come first: a hub may refuse to have another replica's restored.
    """
    events, pushed, own = SharedEvents(session.store.ledger), 0, id_of(session.store)
    for replica, last in sorted(events.known().items(), key=lambda known: known[0] != own):
        after = known.get(replica, 0)
        while after < last:
            batch = events.of_replica(replica, after, AT_ONCE)
            if not batch:
                break
            fenced = hub.push(batch)
            if fenced:
                with session.transaction() as tx:
                    _fence(tx, fenced)
            after = batch[-1]["n"]
            pushed += len(batch)
    return pushed


# Taking in


def take_in(session: Session, events: list[SharedEvent]) -> list[SharedEvent]:
    """Take in events of other replicas, those that are not known yet; return them.

    Of each replica, they are taken in without a gap; what follows a gap comes again.
    """
    with session.transaction() as tx:
        replica = tx.replica
        if replica is None:
            return []
        events = [event for event in events if _is_sound(session, event)]
        _check_known(tx, replica, events)
        _settle_records(tx, (event["stream"] for event in events))
        known = replica.events.known()
        fresh: dict[str, list[SharedEvent]] = {}
        for event in sorted(events, key=lambda event: (event["replica"], event["n"])):
            if event["n"] == known.get(event["replica"], 0) + 1:
                known[event["replica"]] = event["n"]
                fresh.setdefault(event["stream"], []).append(event)
        for stream, news in fresh.items():
            merge(tx, stream, news)
        tx.commit(is_asked=True)
        # The answer to a push, which says the same, may have been lost.
        _fence(tx, [(event["replica"], event["n"]) for event in events if event.get("fenced")])
    return [event for news in fresh.values() for event in news]


def _take_in_held(session: Session) -> list[str]:
    """Take in what an earlier version had to hold back; return the streams that changed."""
    held = held_streams(session.store)
    if not held:
        return []
    with session.transaction() as tx:
        if tx.replica is None:
            return []
        _settle_records(tx, held)
        for stream in held:
            merge(tx, stream, [])
        tx.commit(is_asked=True)
    still_held = held_streams(session.store)
    return [stream for stream in held if stream not in still_held]


def _is_sound(session: Session, event: SharedEvent) -> bool:
    """Return whether an event has the form of one; note what is wrong with another."""
    why = flaw_of(event)
    if why is not None:
        session.store.note(f"an event of the hub was left out: {why}")
    return why is None


def _check_known(tx: Transaction, replica: Replica, events: list[SharedEvent]) -> None:
    """Rename the events here under whose numbers the hub has others.

    This ledger is a copy then, or it was restored from a backup, or it is a copy of such a one.
    """
    by_replica: dict[str, list[SharedEvent]] = {}
    for event in sorted(events, key=itemgetter("n")):
        by_replica.setdefault(event["replica"], []).append(event)
    for name, theirs in by_replica.items():
        first = _first_other(replica, name, theirs)
        if first is not None:
            _rename(tx, name, first, max(event["lamport"] for event in theirs))


def _first_other(replica: Replica, name: str, theirs: list[SharedEvent]) -> int | None:
    """Return the number of the first event of a replica that is another one here; else ``None``.

    One of this replica itself must be here.
    """
    last = replica.events.known().get(name, 0)
    first = theirs[0]["n"]
    here = replica.events.of_replica(name, first - 1, last - first + 1) if first <= last else []
    ids = {event["n"]: event["cause"]["id"] for event in here}
    for event in theirs:
        if event["n"] > last:
            return event["n"] if name == replica.id else None
        if ids[event["n"]] != event["cause"]["id"]:
            return event["n"]
    return None


def _rename(tx: Transaction, name: str, first: int, lamport: int = 0) -> None:
    """Give the events of a replica that are here, from a number on, to a replica of a new id.

    If ``name`` is this replica's own, that is its id from now on. ``lamport`` is the highest of the
    events that the hub has under the former id. If a backup was restored, these were lost here, and
    records have shown what they did. So what was done here since comes after them.

    A copy of this ledger may rename the same events, to another id: see ``Fold.renamed``.
    """
    replica = tx.replica
    assert replica is not None
    _settle_records(tx, [event["stream"] for event in _events_from(replica, name, first)])
    ours = _events_from(replica, name, first)
    tx.begin()
    own_id = replica.renew() if name == replica.id else new_id()
    replica.events.set_clock(name, lamport)
    later = max(0, lamport + 1 - ours[0]["lamport"]) if ours else 0
    renamed: list[SharedEvent] = []
    for number, event in enumerate(ours, 1):
        seen = {other: n for other, n in event["seen"].items() if other != name}
        seen |= {name: first - 1} if first > 1 else {}
        seen |= {own_id: number - 1} if number > 1 else {}
        moved: SharedEvent = {**event, "replica": own_id, "n": number, "seen": seen}
        renamed.append({**moved, "lamport": event["lamport"] + later, "renamed": True})
    if renamed:
        replaced = [[name, event["n"]] for event in ours]
        seq = _insert_apart(tx, {"events": renamed, "replaces": replaced})
        replica.events.drop((name, event["n"]) for event in ours)
        replica.events.add(renamed, seq)
        for stream in dict.fromkeys(event["stream"] for event in renamed):
            merge(tx, stream, [], is_whole=True)
    tx.commit()


def _events_from(replica: Replica, name: str, first: int) -> list[SharedEvent]:
    """Return the events of a replica that are here, from a number on."""
    last = replica.events.known().get(name, 0)
    return replica.events.of_replica(name, first - 1, max(0, last - first + 1))


def _settle_records(tx: Transaction, streams: Iterable[str]) -> None:
    """Take in edits of records before events are merged into their streams.

    Each edit is a commit of its own. Between two merges it would commit the first one alone, and a
    process that is killed then would have left out events for good.
    """
    for stream in dict.fromkeys(streams):
        if _has_state(stream):
            tx.load(stream)


def _has_state(stream: str) -> bool:
    return is_log(stream) or (is_workflow(stream) and is_safe(stream))


def _fence(tx: Transaction, fenced: Iterable[tuple[str, int]]) -> None:
    """Take back what was made under a lease that had been lost: it becomes a conflict."""
    replica = tx.replica
    if replica is None:
        return
    streams: dict[str, list[tuple[str, int]]] = {}
    for name, n in fenced:
        event = replica.events.event(name, n)
        if event is not None and not event.get("fenced"):
            streams.setdefault(event["stream"], []).append((name, n))
    _settle_records(tx, streams)
    for stream, numbers in streams.items():
        tx.begin()
        replica.events.fence(numbers)
        merge(tx, stream, [], is_whole=True, fenced=numbers)
    tx.commit()


def merge(
    tx: Transaction, stream: str, news: list[SharedEvent], *, is_whole: bool = False,
    fenced: Iterable[tuple[str, int]] = (), settling: SharedEvent | None = None,
) -> Fold | None:  # fmt: skip
    """Fold new events into a stream, and record what they change here; return the fold.

    ``is_whole``: fold all its events again. ``settling`` is an own event that settles a conflict.
    Return ``None`` if the stream is held back: its state stays, and its events are kept.
    """
    replica, store = tx.replica, tx.store
    assert replica is not None
    data: Fields = {"events": news} if news else {}
    if fenced:
        data["fenced"] = [list(number) for number in fenced]
    if not _has_state(stream):
        _keep_apart(tx, data, news)
        return None
    local = tx.load(stream)
    aggregate = aggregate_of(stream)
    is_blank = local is None or local == aggregate.blank()
    if not is_blank and not replica.events.has(stream):
        tx.publish(stream)
    added = [*news, *([settling] if settling is not None else [])]
    fold = _folded(replica, stream, added, is_whole=is_whole)
    if fold is None:
        store.note(f"{stream}: events of a newer Holdfast are held back until it is installed here")
    if fold is None or (fold.state is None and is_blank):
        _hold(tx, stream, is_held=fold is None)
        _keep_apart(tx, data, news)
        if fold is not None:
            replica.events.put_fold(stream, fold)
        return fold
    after = _local_state(replica, stream, fold, local, news)
    why = formats.flaw(aggregate, after)
    if why is not None:
        store.note(f"{stream}: what came from the hub makes no record ({why}), and is kept aside")
        _hold(tx, stream, is_held=True)
        _keep_apart(tx, data, news)
        return None
    _hold(tx, stream, is_held=False)
    changes = [] if local is None else diff.diff(local, after)
    if local is None or not _is_in_order(diff.apply(local, changes), after):
        data["state"] = after
    elif changes:
        data["changes"] = changes
    if changes:
        _note_renumbered(tx, stream, local, after)
    if data or settling is not None:
        draft: Draft = {"type": MERGED, "data": data}
        inserted = tx.append(stream, [draft], settling, surface=None if settling else _SURFACE)
        replica.events.add(news, inserted[0]["seq"])
    replica.events.put_fold(stream, fold)
    return fold


def _is_in_order(state: Any, wanted: Any) -> bool:
    """Return whether the objects of a state, such as its context, have their keys in an order.

    Changes add keys at the end, so two machines that add one each would list them differently.
    """
    return all(
        list(state[name]) == list(value)
        for name, value in wanted.items()
        if isinstance(value, dict) and isinstance(state.get(name), dict)
    )


def _note_renumbered(tx: Transaction, stream: str, local: Any, after: Any) -> None:
    """Remember what tasks were called whose numbers are other tasks' now.

    An agent that still means the earlier one is told so, until it is briefed again.
    """
    if "recipe" not in after:
        return
    earlier, now = (
        {str(task["id"]): task["description"] for task in state["tasks"]}
        for state in (local, after)
    )
    moved = {
        number: text
        for number, text in earlier.items()
        if now.get(number, text) != text and text in now.values()
    }
    if moved:
        known = json_text.loads(tx.store.ledger.fact(f"{RENUMBERED}{stream}") or "{}")
        tx.put_fact(f"{RENUMBERED}{stream}", dumps({**moved, **known}))


def _folded(
    replica: Replica, stream: str, added: list[SharedEvent], *, is_whole: bool
) -> Fold | None:
    """Return the fold of a stream with new events; ``None`` if the rules of one are unknown."""
    start = replica.events.fold(stream)
    known = replica.events.of_stream(stream, 0 if is_whole else max(0, start.position[0] - 1))
    later = [event for event in known if sharing.position_of(event) > start.position]
    events = sorted([*later, *added], key=sharing.position_of)
    begins: Fold | None = start
    if is_whole or not start.can_continue(events):
        known = replica.events.of_stream(stream)
        events, begins = sorted([*known, *added], key=sharing.position_of), None
    if any(event["rules"] not in sharing.KNOWN_RULES for event in events):
        return None
    return sharing.fold(aggregate_of(stream), events, begins)


def _local_state(
    replica: Replica, stream: str, fold: Fold, local: Any, news: list[SharedEvent]
) -> Any:
    place: Fields = {}
    if local is None and is_workflow(stream):
        state = fold.state
        record = formats.active_path(state["recipe"]["format"], stream, state["created_at"])
        origin = news or replica.events.of_stream(stream)
        place = {"worktree": _worktree_of(origin), "record": record}
    shared = aggregate_of(stream).blank() if fold.state is None else fold.state
    if local is not None:
        shared = replica.in_full(shared, local)
    return sharing.localised(shared, local, replica.id, place, fold.shown())


def _worktree_of(news: list[SharedEvent]) -> str:
    """Return the name of the worktree of a workflow that is on another machine."""
    name = str(news[0]["cause"]["by"].get("name", "")) if news else ""
    return f"{ELSEWHERE}{sanitised(name)}"


def _keep_apart(tx: Transaction, data: Fields, news: list[SharedEvent]) -> None:
    """Keep events that make no state of their stream, or none yet."""
    if data and tx.replica is not None:
        tx.replica.events.add(news, _insert_apart(tx, data))


def _insert_apart(tx: Transaction, data: Fields) -> int:
    """Record shared events in the ledger's own stream; return the seq."""
    ledger, store = tx.store.ledger, tx.store
    tx.begin()
    draft: Draft = {"type": MERGED, "data": data}
    events = ledger.insert(
        [draft], stream=OWN_STREAM, version=ledger.last_version(OWN_STREAM), at=store.now(),
        by={**store.by, "surface": _SURFACE}, request=os.urandom(12).hex(),
    )  # fmt: skip
    return events[0]["seq"]


def _hold(tx: Transaction, stream: str, *, is_held: bool) -> None:
    """Remember whether a stream is held back."""
    held = held_streams(tx.store)
    if is_held != (stream in held):
        names = [*held, stream] if is_held else [name for name in held if name != stream]
        tx.put_fact(HELD, "\n".join(names))


def held_streams(store: Any) -> list[str]:
    """Return the streams that are held back until a newer Holdfast is installed."""
    return list(filter(None, store.ledger.fact(HELD).split("\n")))


# Beginning to share


def to_publish(session: Session) -> list[str]:
    """Return the streams that are shared as soon as there is a hub: active ones, and the logs."""
    ledger = session.store.ledger
    workflows = [row["id"] for row in ledger.rows(f"{ACTIVE} ORDER BY created_at, stream")]
    logs = [stream for stream in ledger.stream_names() if is_log(stream)]
    return [*workflows, *logs]


def publish_all(tx: Transaction, streams: list[str]) -> None:
    """Share streams as they stand, and what was changed while there was no hub."""
    replica = tx.replica
    assert replica is not None
    for stream in streams:
        state = tx.load(stream)
        aggregate = aggregate_of(stream)
        if state is None or state == aggregate.blank():
            continue
        if not replica.events.has(stream):
            tx.publish(stream)
            continue
        fold = _folded(replica, stream, [], is_whole=False)
        if fold is None or fold.state is None:
            continue
        # What the state has of others stays marked as theirs.
        replica.events.put_fold(stream, fold)
        shared = replica.in_full(fold.state, state)
        before = sharing.localised(shared, state, replica.id, {}, fold.shown())
        tx.share(stream, _as_believed(before, state) if is_workflow(stream) else before)


def _as_believed(shared: Workflow, state: Workflow) -> Workflow:
    """Return a shared state with what an import has made a claim here as such a claim.

    An import believes less than a hub. That is no change, and takes nobody's evidence away.
    """
    claimed = as_imported(None, shared)
    gates = {
        name: claim if state["gates"].get(name) == claim else shared["gates"][name]
        for name, claim in claimed["gates"].items()
    }
    phases = [
        claim if claim in state["phases"] else phase
        for claim, phase in zip(claimed["phases"], shared["phases"], strict=True)
    ]
    tests = claimed["tests"] if state["tests"] == claimed["tests"] else shared["tests"]
    return {**shared, "gates": gates, "phases": phases, "tests": tests}


def conflicts(session: Session) -> list[Fields]:
    """Return the conflicts that are not settled, each with whether it can be taken."""
    events, at = SharedEvents(session.store.ledger), session.store.now()
    rows: list[Fields] = []
    for stream in events.with_conflicts():
        fold, core = events.fold(stream), aggregate_of(stream)
        rows += [
            {**one, "can_take": sharing.can_take(core, fold, one["id"], at)} for one in fold.shown()
        ]
    return rows


def settle(session: Session, own_id: str, kind: str, reason: str | None) -> Fields:
    """Take or drop a conflict; return it. Raise ``Refused`` if it cannot be taken."""
    events = SharedEvents(session.store.ledger)
    with session.transaction() as tx:
        replica = tx.replica
        for stream in events.with_conflicts():
            conflict = sharing.find_conflict(events.fold(stream).conflicts, own_id)
            if conflict is None or replica is None:
                continue
            args: Fields = {"conflict": own_id} | ({"reason": reason} if reason else {})
            request = os.urandom(12).hex()
            cause = replica.cause(request, kind, args, session.store.now())
            tx.load(stream)
            session.check_lease(tx, stream)
            shared = replica.stamp(stream, cause)
            fold = merge(tx, stream, [], settling=shared)
            still_open = None if fold is None else sharing.find_conflict(fold.conflicts, own_id)
            if still_open is not None:
                raise _not_taken(still_open)
            tx.commit(is_asked=True)
            return conflict
    raise _no_conflict(own_id)


def _not_taken(conflict: Fields) -> Refused:
    why = f"conflicts take: {conflict['command']} on {conflict['workflow']}: {conflict['why']}"
    return Refused("conflict", why, f"holdfast conflicts drop {conflict['id']} --reason TEXT")


def _no_conflict(own_id: str) -> Refused:
    why = f"conflicts: there is no open conflict {own_id[:40]!r}"
    return Refused("not_found", why, "holdfast conflicts")
