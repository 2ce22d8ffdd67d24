"""Where the workspace cannot be written: the user's Memory server takes the state meanwhile.

What was asked for is kept there as an observation each, beside the workflow's new position. When
the folder can be written again, the next command carries all of it out in its order, once.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core import workflow as core
from holdfast.core.digest import digest
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
"""What a command can end in that somebody else wrote on the server."""


def server_of(session: Session) -> str | None:
    """The server that stands in; ``None`` where there is none."""
    try:
        kept_by = settings.load(session.store.workspace.root).graph()
    except HoldfastError:
        return None
    return kept_by.removeprefix("mcp:") if kept_by.startswith("mcp:") else None


def carry_out(
    session: Session, server: str, kind: str, args: Fields, workflow: str | None, id: str | None
) -> Receipt:
    """Decides the command on what is known, and keeps it on the server."""
    from holdfast.layers.graph import mcp_delivery

    state = session.look(workflow)
    wanted = {"id": id or os.urandom(12).hex(), "do": kind, "args": args, "on": state["id"]}

    def work(graph: RemoteGraph) -> Workflow:
        pending = _pending(session, graph)
        after = state
        for one in pending:
            if one["on"] == state["id"] and one["id"] != wanted["id"]:
                after = _done_before(session, after, one)
        after = _done(session, after, wanted)
        if all(one["id"] != wanted["id"] for one in pending):
            _keep(session, graph, [*pending, wanted])
        _show(graph, after)
        return after

    after: Workflow = mcp_delivery.call(session.store, server, work)
    _mark(session, server)
    session.store.note(WARNING)
    session.store.note(f"kept on the server mcp:{server} until the folder can be written again")
    return Receipt(after, [], session.notes())


def _done(session: Session, state: Workflow, one: Fields) -> Workflow:
    """The state after the command, nowhere recorded yet."""
    now = session.store.now()
    command: Command = {"type": one["do"], "at": now, "args": one["args"]}
    outcome = core.decide(state, command)
    if isinstance(outcome, Refusal):
        raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
    for draft in outcome:
        event: Any = {**draft, "at": now, "stream": state["id"]}
        told: Event = event
        state = core.evolve(state, told)
    return state


def _done_before(session: Session, state: Workflow, one: Fields) -> Workflow:
    """The same for a command that is kept already: what is wrong with it is said at home."""
    try:
        return _done(session, state, one)
    except (Refused, *_NONSENSE):
        return state


def bring_home(session: Session) -> None:
    """Carries out what was kept on the server, if anything was; what is refused now is said."""
    path = _mark_path(session)
    server = (session.store.disk.read_own(path) or b"").decode(errors="replace").strip()
    if not server or not os.access(session.store.workspace.home, os.W_OK):
        return
    from holdfast.layers.graph import mcp_delivery

    try:
        pending: list[Fields] = mcp_delivery.call(
            session.store, server, lambda graph: _pending(session, graph)
        )
        said = [note for one in pending for note in _once(session, one)]
        mcp_delivery.call(
            session.store, server, lambda graph: graph.delete_entities([_name(session)])
        )
    except HoldfastError as error:
        session.store.note(f"what was kept on mcp:{server} is still there: {error.message}")
        return
    session.store.disk.remove(path)
    session.store.disk.remove_folder(os.path.dirname(path))
    for note in (*said, f"brought home from mcp:{server}: {len(pending)} commands"):
        session.store.note(note)


def _once(session: Session, one: Fields) -> list[str]:
    """Carries out a command that was kept; gives what there is to say of it."""
    try:
        return session.do(one["do"], one["args"], workflow=one["on"], id=one["id"]).notes
    except Refused as refused:
        return [f"{one['do']} of {one['on']} was refused: {refused.message}"]
    except _NONSENSE:
        return [f"{one['do']} of {one['on']} makes no sense and is left out"]


def _pending(session: Session, graph: RemoteGraph) -> list[Fields]:
    found = graph.open_nodes([_name(session)])["entities"]
    lines = [line for entity in found for line in entity["observations"]]
    commands = [_parsed(line) for line in lines]
    return sorted((one for one in commands if one is not None), key=lambda one: int(one["n"]))


def _parsed(line: str) -> Fields | None:
    try:
        found = json_text.loads(line.encode())
    except json_text.BadJson:
        return None
    names = {"n": int, "id": str, "do": str, "on": str, "args": dict}
    fits = isinstance(found, dict) and all(isinstance(found.get(k), names[k]) for k in names)
    return found if fits and found["do"] in core.DECIDE else None


def _keep(session: Session, graph: RemoteGraph, commands: list[Fields]) -> None:
    line = json_text.dumps({**commands[-1], "n": len(commands)})
    graph.create_entities([{"name": _name(session), "entityType": _KIND, "observations": []}])
    graph.add_observations([{"entityName": _name(session), "contents": [line]}])


def _show(graph: RemoteGraph, state: Workflow) -> None:
    from holdfast.layers.graph import apply, projection

    in_slot = projection.fits_slot(state)
    apply.apply(graph, [projection.workflow_update(state, in_slot=in_slot)], [])


def _name(session: Session) -> str:
    return f"holdfast-pending:{_key(session)}"


def _key(session: Session) -> str:
    return digest(os.path.realpath(session.store.workspace.home).encode())[:12]


def _mark(session: Session, server: str) -> None:
    """Beside the person's own settings, because the workspace cannot be written."""
    disk = session.store.disk
    path = _mark_path(session)
    try:
        disk.make_folder(os.path.dirname(path), 0o700)
        disk.replace_view(path, f"{server}\n".encode())
    except OSError as error:
        hint = f"when the folder can be written again: holdfast sync ({error.strerror})"
        raise Fault("not_writable", f"{WARNING}; only mcp:{server} has it", hint) from error


def _mark_path(session: Session) -> str:
    return os.path.join(person_folder(), PENDING, _key(session))
