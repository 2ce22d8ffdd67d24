"""Queue commands on the user's Memory server while the workspace cannot be written.

Each command is stored there as an observation, beside the workflow's new position. Once the folder
can be written again, the next command replays the queue in order, each queued command once.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core import workflow as core
from holdfast.core.json_text import digest
from holdfast.core.refusal import Refusal
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.keeper.session import PENDING, Receipt
from holdfast.workspace import settings
from holdfast.workspace.location import person_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Command, Event, Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.layers.graph.mcp_client import RemoteGraph

WARNING = "ERROR: Cannot write state files — workflow state will not persist"
_KIND = "HoldfastPending"
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
"""Errors of a queued command that is malformed, because another client can write to the server."""


def server_of(session: Session) -> str | None:
    """Return the Memory server that takes the queue; ``None`` if none is configured."""
    try:
        kept_by = settings.load(session.store.workspace.root).graph()
    except HoldfastError:
        return None
    return kept_by.removeprefix("mcp:") if kept_by.startswith("mcp:") else None


def carry_out(
    session: Session, server: str, kind: str, args: Fields, workflow: str | None, id: str | None
) -> Receipt:
    """Decide a command on the state after the queue, and add it to the queue on the server.

    Raise ``Refused`` if the core refuses it, or ``Fault`` if the server cannot be reached.
    """
    from holdfast.layers.graph import mcp_delivery

    state = session.look(workflow)
    command = {"id": id or os.urandom(12).hex(), "do": kind, "args": args, "on": state["id"]}

    def work(graph: RemoteGraph) -> Workflow:
        pending = _pending(session, graph)
        after = state
        for queued in pending:
            if queued["on"] == state["id"] and queued["id"] != command["id"]:
                after = _apply_leniently(session, after, queued)
        after = _apply(session, after, command)
        if all(queued["id"] != command["id"] for queued in pending):
            _add_to_queue(session, graph, [*pending, command])
        _write_position(graph, after)
        return after

    after: Workflow = mcp_delivery.call(session.store, server, work)
    _write_marker(session, server)
    session.store.note(WARNING)
    session.store.note(f"kept on the server mcp:{server} until the folder can be written again")
    return Receipt(after, [], session.notes())


def _apply(session: Session, state: Workflow, queued: Fields) -> Workflow:
    """Return the state after a command, without recording it; raise ``Refused``."""
    now = session.store.now()
    command: Command = {"type": queued["do"], "at": now, "args": queued["args"]}
    outcome = core.decide(state, command)
    if isinstance(outcome, Refusal):
        raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
    for draft in outcome:
        fields: Any = {**draft, "at": now, "stream": state["id"]}
        event: Event = fields
        state = core.evolve(state, event)
    return state


def _apply_leniently(session: Session, state: Workflow, queued: Fields) -> Workflow:
    """Apply a queued command, or skip it if it no longer fits. Replaying the queue reports it."""
    try:
        return _apply(session, state, queued)
    except (Refused, *_NONSENSE):
        return state


def bring_home(session: Session) -> None:
    """Replay the queue on the server, if there is one. A refused command only adds a note.

    If the server cannot be reached, add a note and keep the queue.
    """
    path = _marker_path(session)
    server = (session.store.disk.read_own(path) or b"").decode(errors="replace").strip()
    if not server or not os.access(session.store.workspace.home, os.W_OK):
        return
    from holdfast.layers.graph import mcp_delivery

    try:
        pending: list[Fields] = mcp_delivery.call(
            session.store, server, lambda graph: _pending(session, graph)
        )
        notes = [note for queued in pending for note in _replay(session, queued)]
        mcp_delivery.call(
            session.store, server, lambda graph: graph.delete_entities([_name(session)])
        )
    except HoldfastError as error:
        session.store.note(f"what was kept on mcp:{server} is still there: {error.message}")
        return
    session.store.disk.remove(path)
    session.store.disk.remove_folder(os.path.dirname(path))
    for note in (*notes, f"brought home from mcp:{server}: {len(pending)} commands"):
        session.store.note(note)


def _replay(session: Session, queued: Fields) -> list[str]:
    """Run a queued command; return the notes on it."""
    kind, workflow = queued["do"], queued["on"]
    try:
        return session.do(kind, queued["args"], workflow=workflow, id=queued["id"]).notes
    except Refused as refused:
        return [f"{kind} of {workflow} was refused: {refused.message}"]
    except _NONSENSE:
        return [f"{kind} of {workflow} makes no sense and is left out"]


def _pending(session: Session, graph: RemoteGraph) -> list[Fields]:
    """Return the valid commands in the queue, in order."""
    entities = graph.open_nodes([_name(session)])["entities"]
    lines = [line for entity in entities for line in entity["observations"]]
    commands = [command for command in map(_parse, lines) if command is not None]
    return sorted(commands, key=lambda command: int(command["n"]))


def _parse(line: str) -> Fields | None:
    """Return the queued command of an observation; ``None`` if it is not one."""
    try:
        queued = json_text.loads(line.encode())
    except json_text.BadJson:
        return None
    names = {"n": int, "id": str, "do": str, "on": str, "args": dict}
    fits = isinstance(queued, dict) and all(isinstance(queued.get(k), names[k]) for k in names)
    return queued if fits and queued["do"] in core.DECIDE else None


def _add_to_queue(session: Session, graph: RemoteGraph, commands: list[Fields]) -> None:
    """Store the last of the commands on the server."""
    line = json_text.dumps({**commands[-1], "n": len(commands)})
    graph.create_entities([{"name": _name(session), "entityType": _KIND, "observations": []}])
    graph.add_observations([{"entityName": _name(session), "contents": [line]}])


def _write_position(graph: RemoteGraph, state: Workflow) -> None:
    """Write the workflow's new position into the graph."""
    from holdfast.layers.graph import mcp_delivery, projection

    in_slot = projection.fits_slot(state)
    update = projection.workflow_update(state, in_slot=in_slot)
    mcp_delivery.apply_updates(graph, [update], [])


def _name(session: Session) -> str:
    return f"holdfast-pending:{_key(session)}"


def _key(session: Session) -> str:
    return digest(os.path.realpath(session.store.workspace.home).encode())[:12]


def _write_marker(session: Session, server: str) -> None:
    """Record that a queue exists, in the person's folder, as the workspace cannot be written.

    Raise ``Fault`` if that folder cannot be written either.
    """
    disk = session.store.disk
    path = _marker_path(session)
    try:
        disk.make_folder(os.path.dirname(path), 0o700)
        disk.replace_view(path, f"{server}\n".encode())
    except OSError as error:
        hint = f"when the folder can be written again: holdfast sync ({error.strerror})"
        raise Fault("not_writable", f"{WARNING}; only mcp:{server} has it", hint) from error


def _marker_path(session: Session) -> str:
    return os.path.join(person_folder(), PENDING, _key(session))
