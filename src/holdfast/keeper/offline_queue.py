"""Keep commands on the user's Memory server while the ledger's folder cannot be written.

The server is then the primary store. Each command is an observation there, beside the new position
of what it changes. A copy in the person's own folder lets looks show what is kept without asking
the server. Once the ledger can be written again, the next command replays the queue in order, each
queued command once. Other programs can write to the server, so each command is signed with a secret
in the person's folder: a gate run that somebody else wrote there is none.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core import workflow as core
from holdfast.core.json_text import digest
from holdfast.core.logs import LOGS
from holdfast.core.record_formats import FORMATS
from holdfast.core.refusal import Refusal
from holdfast.errors import CANNOT_WRITE, Fault, HoldfastError, Refused
from holdfast.formats import active_path, aggregate_of, is_workflow, stream_of
from holdfast.keeper.store import PENDING
from holdfast.layers.graph import mcp_delivery, projection
from holdfast.workspace import settings
from holdfast.workspace.location import person_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Command, Event, Fields, Workflow
    from holdfast.keeper.session import Receipt, Session
    from holdfast.keeper.store import Store
    from holdfast.layers.graph.mcp_delivery import RemoteGraph
    from holdfast.layers.graph.projection import EntityUpdate

    Found = tuple[str, Any]
    """A stream and its state, before a command."""

START = "start"
"""The queued command that opens a workflow; its arguments are those of ``start.prepare``."""
_QUEUE = "HoldfastPending"
_KEY_FILE = "key"
_SIGNATURE = "signature"
_MAX_DIGEST = 64
_QUEUED = {"n": int, "id": str, "do": str, "on": str, "args": dict}
"""The fields of a queued command."""
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
"""Errors of a queued command that is malformed, because another client can write to the server."""


class Kept:
    """The commands that a server keeps for a workspace."""

    def __init__(self, server: str, commands: list[Fields]) -> None:
        self.server = server
        self.commands = commands

    def after(self, store: Store, stream: str, state: Any) -> Any:
        """Return the state of a stream after the commands that fit it."""
        for queued in self.commands:
            if queued["on"] == stream and queued["do"] != START:
                try:
                    state, _ = _apply(store, stream, state, queued)
                except (Refused, *_NONSENSE):
                    continue  # Replaying the queue reports it.
        return state

    def started(self, session: Session) -> list[Workflow]:
        """Return the workflows that were started, and that the ledger does not have."""
        states = []
        for queued in self.commands:
            if queued["do"] == START and session.store.ledger.stream(queued["on"]) is None:
                try:
                    states.append(_start(session, queued))
                except (HoldfastError, *_NONSENSE):
                    continue
        return [self.after(session.store, state["id"], state) for state in states]


def load(store: Store) -> Kept | None:
    """Return what a server keeps for this workspace, as the person's folder has it."""
    raw = store.disk.read_own(_copy_of(store))
    server, *lines = (raw or b"").decode(errors="replace").split("\n")
    if not server:
        return None
    kept = Kept(server, _commands_in(lines))
    if kept.commands:
        store.foretell(_where(kept))
    return kept


def queue_server(session: Session) -> str | None:
    """Return the Memory server that takes the queue; ``None`` if none is configured."""
    try:
        kept_by = settings.load(session.store.workspace.root).graph()
    except HoldfastError:
        return None
    return kept_by.removeprefix("mcp:") if kept_by.startswith("mcp:") else None


# Queueing. Each function decides a command on the state after the queue, and raises ``Refused`` if
# the core does, or ``Fault`` if the server cannot be reached, or if the person's folder cannot be
# written either.


def queue_command(
    session: Session, server: str, kind: str, args: Fields, workflow: str | None, id: str | None,
    request_digest: str,
) -> Receipt:  # fmt: skip
    """Queue a command on a workflow."""

    def find() -> Found:
        state = session.look(workflow)
        return state["id"], state

    return _keep(session, server, _command(session, kind, args, id, request_digest), find)


def queue_log(
    session: Session, server: str, log: str, kind: str, args: Fields, id: str | None,
    request_digest: str,
) -> Receipt:  # fmt: skip
    """Queue a command on a log, or on the initiatives."""

    def find() -> Found:
        return stream_of(log), session.log_state(log)

    return _keep(session, server, _command(session, kind, args, id, request_digest), find)


def queue_start(
    session: Session, server: str, args: Fields, id: str | None, request_digest: str
) -> Receipt:
    """Queue the start of a workflow; resume the active one with its recipe and subject."""
    from holdfast.keeper import overview

    command = _command(session, START, args, id, request_digest)
    state = _start(session, command)
    for row in overview.list_active(session, None):
        if (row["recipe"], row["subject"]) == (state["recipe"]["name"], state["subject"]):
            receipt = session.answer(session.look(row["id"]), [])
            receipt.resumed = True
            return receipt
        is_here = row["worktree"] == session.workspace.name
        if (
            is_here
            and row["format"] == state["recipe"]["format"]
            and FORMATS[row["format"]].is_slot
        ):
            message = f"{row['id']} is active and has this worktree's only place for such a record"
            raise Refused("occupied", message, f"holdfast complete -w {row['id']}")
    return _keep(session, server, command, lambda: (state["id"], None))


def _command(
    session: Session, kind: str, args: Fields, id: str | None, request_digest: str
) -> Fields:
    return {
        "id": id or os.urandom(12).hex(), "do": kind, "args": args, "on": "",
        "at": session.store.now(), "asked": request_digest,
    }  # fmt: skip


def _keep(session: Session, server: str, command: Fields, find: Callable[[], Found]) -> Receipt:
    """Add a command to the queue on the server, and to its copy; return the answer."""
    store, name = session.store, _name_of(session.store)

    def work(graph: RemoteGraph) -> Any:
        kept = store.kept = Kept(server, _read_queue(store, graph, name))
        known = [queued for queued in kept.commands if queued["id"] == command["id"]]
        if known:
            stream = known[0]["on"]
            return session.look(stream) if is_workflow(stream) else store.state_of(stream)
        stream, state = find()
        command.update(on=stream, n=len(kept.commands) + 1)
        events: list[Event]
        if command["do"] == START:
            after, events = _start(session, command), []
        else:
            after, events = _apply(store, stream, state, command)
            if not events:
                return after
        graph.create_entities([{"name": name, "entityType": _QUEUE, "observations": []}])
        command[_SIGNATURE] = _sign(store, command)
        line = json_text.dumps(command)
        graph.add_observations([{"entityName": name, "contents": [line]}])
        mcp_delivery.apply_updates(graph, *_updates(stream, after, events))
        kept.commands.append(command)
        return after

    after = mcp_delivery.call(store, server, work)
    assert store.kept is not None
    _copy(store, store.kept)
    store.note(CANNOT_WRITE)
    store.note(_where(store.kept))
    receipt = session.answer(after, [])
    receipt.is_kept = any(queued["id"] == command["id"] for queued in store.kept.commands)
    return receipt


def _copy(store: Store, kept: Kept) -> None:
    path = _copy_of(store)
    lines = [kept.server, *map(json_text.dumps, kept.commands)]
    try:
        store.disk.make_folder(os.path.dirname(path), 0o700)
        store.disk.replace_view(path, "\n".join(lines).encode())
    except OSError as error:
        hint = f"when the folder can be written again: holdfast sync ({error.strerror})"
        message = f"{CANNOT_WRITE}; only mcp:{kept.server} has it"
        raise Fault("not_writable", message, hint) from error


def _where(kept: Kept) -> str:
    return f"kept on the server mcp:{kept.server} until the folder can be written again"


def _updates(stream: str, after: Any, events: list[Event]) -> tuple[list[EntityUpdate], list[str]]:
    """Return how the server's entities change with a command, and which it removes."""
    if is_workflow(stream):
        return [projection.workflow_update(after, in_slot=projection.fits_slot(after))], []
    if stream == projection.INITIATIVES:
        return projection.initiative_updates(after)
    updates = [update for event in events for update in projection.event_updates(event)]
    return projection.merge_updates(updates), []


def _apply(store: Store, stream: str, state: Any, queued: Fields) -> tuple[Any, list[Event]]:
    """Return the state after a command, and its events, without recording them.

    Raise ``Refused`` if the core refuses it.
    """
    aggregate, at = aggregate_of(stream), str(queued.get("at") or store.now())
    command: Command = {"type": queued["do"], "at": at, "args": queued["args"]}
    outcome = aggregate.decide(state, command)
    if isinstance(outcome, Refusal):
        raise outcome.error()
    events: list[Any] = [{**draft, "at": at, "stream": stream} for draft in outcome]
    for event in events:
        state = aggregate.evolve(state, event)
    return state, events


def _start(session: Session, queued: Fields) -> Workflow:
    """Return the workflow that a queued start opens."""
    from holdfast.keeper import start

    store = session.store
    notes = list(store.notes)
    plan = start.prepare(session, **queued["args"])
    store.notes[:] = notes
    now = str(queued.get("at") or store.now())
    record = active_path(plan.args["recipe"]["format"], plan.stem, now)
    args = {**plan.args, "worktree": store.workspace.name, "record": record, "session": None}
    opening = {**queued, "do": "start_workflow", "args": args}
    state: Workflow = _apply(store, plan.stem, None, opening)[0]
    return state


# Replaying


def replay(session: Session) -> None:
    """Replay the queue on the server, if there is one. A refused command only adds a note.

    If the server cannot be reached, add a note and keep the queue.
    """
    from holdfast.keeper.overview import is_writable

    store = session.store
    name, copy = _name_of(store), _copy_of(store)
    kept = load(store)
    store.forecasts = []
    if kept is None or not is_writable(store.workspace.home):
        return
    server, store.kept = kept.server, None
    notes = []
    try:
        pending: list[Fields] = mcp_delivery.call(
            store, server, lambda graph: _read_queue(store, graph, name)
        )
        for queued in pending:
            try:
                notes += _replay_one(session, queued)
            except Refused as refused:
                notes.append(f"{queued['do']} of {queued['on']} was refused: {refused.message}")
            except _NONSENSE:
                notes.append(f"{queued['do']} of {queued['on']} makes no sense and is left out")
        mcp_delivery.call(store, server, lambda graph: graph.delete_entities([name]))
    except HoldfastError as error:
        store.kept = kept
        store.note(f"what was kept on mcp:{server} is still there: {error.message}")
        return
    store.disk.remove(copy)
    store.disk.remove_folder(os.path.dirname(copy))
    for note in (*notes, f"brought home from mcp:{server}: {len(pending)} commands"):
        store.note(note)


def _replay_one(session: Session, queued: Fields) -> list[str]:
    """Carry out a queued command, once; return the notes."""
    kind, stream, args, own_id = (queued[name] for name in ("do", "on", "args", "id"))
    asked = str(queued.get("asked", ""))[:_MAX_DIGEST]
    if kind == START:
        from holdfast.keeper import start

        plan = start.prepare(session, **args)
        with session.transaction() as tx:
            receipt = session.repeat(tx, own_id, request_digest=asked)
            if receipt is None:
                receipt = start.carry_out(session, tx, plan, replace=False, again=True, id=own_id)
        return receipt.notes
    if is_workflow(stream):
        return session.do(kind, args, workflow=stream, id=own_id, request_digest=asked).notes
    return session.do_log(stream[1:], kind, args, id=own_id, request_digest=asked).notes


def _read_queue(store: Store, graph: RemoteGraph, name: str) -> list[Fields]:
    """Return the commands in the queue that this person's Holdfast wrote, in order."""
    lines = [
        line for entity in graph.open_nodes([name])["entities"] for line in entity["observations"]
    ]
    return [
        queued for queued in _commands_in(lines) if queued.get(_SIGNATURE) == _sign(store, queued)
    ]


def _sign(store: Store, command: Fields) -> str:
    """Return the signature of a command; raise ``Fault`` if the secret for it cannot be kept."""
    path = os.path.join(person_path(), PENDING, _KEY_FILE)
    secret = store.disk.read_own(path)
    if secret is None:
        try:
            store.disk.make_folder(os.path.dirname(path), 0o700)
            store.disk.create(path, os.urandom(16).hex().encode(), durable=True)
        except OSError as error:
            raise Fault(
                "not_writable", f"{path} cannot be written ({error.strerror})", "holdfast doctor"
            ) from error
        secret = store.disk.read_own(path) or b""
    unsigned = {name: value for name, value in command.items() if name != _SIGNATURE}
    return digest(secret + digest(json_text.dumps(unsigned).encode()).encode())


def _commands_in(lines: list[str]) -> list[Fields]:
    commands = []
    for line in lines:
        try:
            queued = json_text.loads(line.encode())
        except json_text.BadJson:
            continue
        if (
            isinstance(queued, dict)
            and all(isinstance(queued.get(name), kind) for name, kind in _QUEUED.items())
            and _is_command(queued["do"], queued["on"])
        ):
            commands.append(queued)
    return sorted(commands, key=lambda command: int(command["n"]))


def _is_command(kind: str, stream: str) -> bool:
    """Return whether a command is one of those that are queued for this stream."""
    if is_workflow(stream):
        return kind == START or kind in core.DECIDE
    if stream == projection.INITIATIVES:
        return not kind.startswith("adopt_")
    return stream[1:] in LOGS and kind in LOGS[stream[1:]].commands


def _name_of(store: Store) -> str:
    """Return the name of a workspace's queue on the server."""
    return f"holdfast-pending:{_key_of(store)}"


def _copy_of(store: Store) -> str:
    """Return the path of the queue's copy, which is in the person's folder."""
    return os.path.join(person_path(), PENDING, _key_of(store))


def _key_of(store: Store) -> str:
    return digest(os.path.realpath(store.workspace.home).encode())[:12]
