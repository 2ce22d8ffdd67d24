"""Where the workspace cannot be written: the user's Memory server takes the state meanwhile.

What was asked for is kept there as an observation each, beside the workflow's new position. When
the folder can be written again, the next command carries all of it out in its order, once.
"""

from __future__ import annotations

import os

from holdfast import jsontext, settings, sight
from holdfast.caller import PENDING, Receipt
from holdfast.core import workflow as core
from holdfast.core.refusal import Refusal
from holdfast.digest import digest
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.workspace import person_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.caller import Caller
    from holdfast.core.shapes import Command, Event, Fields, Workflow
    from holdfast.graph.remote import RemoteGraph

WARNING = "ERROR: Cannot write state files — workflow state will not persist"
_KIND = "HoldfastPending"
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
"""What a command can end in that somebody else wrote on the server."""


def server_of(caller: Caller) -> str | None:
    """The server that stands in; ``None`` where there is none."""
    try:
        kept_by = settings.load(caller.engine.workspace.root).graph()
    except HoldfastError:
        return None
    return kept_by.removeprefix("mcp:") if kept_by.startswith("mcp:") else None


def carry_out(
    caller: Caller, server: str, kind: str, args: Fields, workflow: str | None, id: str | None
) -> Receipt:
    """Decides the command on what is known, and keeps it on the server."""
    from holdfast.graph import delivery

    _, state = sight.glance(caller, workflow)
    if state is None:
        raise Refused("not_found", "there is no such workflow", "holdfast status")
    wanted = {"id": id or os.urandom(12).hex(), "do": kind, "args": args, "on": state["id"]}

    def work(graph: RemoteGraph) -> Workflow:
        pending = _pending(caller, graph)
        after = state
        for one in pending:
            if one["on"] == state["id"] and one["id"] != wanted["id"]:
                after = _done_before(caller, after, one)
        after = _done(caller, after, wanted)
        if all(one["id"] != wanted["id"] for one in pending):
            _keep(caller, graph, [*pending, wanted])
        _show(caller, graph, after)
        return after

    after: Workflow = delivery.reached(caller.engine, server, work)
    _mark(caller, server)
    caller.engine.note(WARNING)
    caller.engine.note(f"kept on the server mcp:{server} until the folder can be written again")
    return Receipt(after, [], caller.notes())


def _done(caller: Caller, state: Workflow, one: Fields) -> Workflow:
    """The state after the command, nowhere recorded yet."""
    now = caller.engine.now()
    command: Command = {"type": one["do"], "at": now, "args": one["args"]}
    outcome = core.decide(state, command)
    if isinstance(outcome, Refusal):
        raise Refused(outcome.code, outcome.message, outcome.hint, **outcome.details)
    for draft in outcome:
        event: Any = {**draft, "at": now, "stream": state["id"]}
        told: Event = event
        state = core.evolve(state, told)
    return state


def _done_before(caller: Caller, state: Workflow, one: Fields) -> Workflow:
    """The same for a command that is kept already: what is wrong with it is said at home."""
    try:
        return _done(caller, state, one)
    except (Refused, *_NONSENSE):
        return state


def bring_home(caller: Caller) -> None:
    """Carries out what was kept on the server, if anything was; what is refused now is said."""
    path = _mark_path(caller)
    server = (caller.engine.disk.read_own(path) or b"").decode(errors="replace").strip()
    if not server or not os.access(caller.engine.workspace.home, os.W_OK):
        return
    from holdfast.graph import delivery

    try:
        pending: list[Fields] = delivery.reached(
            caller.engine, server, lambda graph: _pending(caller, graph)
        )
        said = [note for one in pending for note in _once(caller, one)]
        delivery.reached(
            caller.engine, server, lambda graph: graph.delete_entities([_name(caller)])
        )
    except HoldfastError as error:
        caller.engine.note(f"what was kept on mcp:{server} is still there: {error.message}")
        return
    caller.engine.disk.remove(path)
    caller.engine.disk.remove_folder(os.path.dirname(path))
    for note in (*said, f"brought home from mcp:{server}: {len(pending)} commands"):
        caller.engine.note(note)


def _once(caller: Caller, one: Fields) -> list[str]:
    """Carries out a command that was kept; gives what there is to say of it."""
    try:
        return caller.do(one["do"], one["args"], workflow=one["on"], id=one["id"]).notes
    except Refused as refused:
        return [f"{one['do']} of {one['on']} was refused: {refused.message}"]
    except _NONSENSE:
        return [f"{one['do']} of {one['on']} makes no sense and is left out"]


def _pending(caller: Caller, graph: RemoteGraph) -> list[Fields]:
    found = graph.open_nodes([_name(caller)])["entities"]
    lines = [line for entity in found for line in entity["observations"]]
    commands = [_parsed(line) for line in lines]
    return sorted((one for one in commands if one is not None), key=lambda one: int(one["n"]))


def _parsed(line: str) -> Fields | None:
    try:
        found = jsontext.loads(line.encode())
    except jsontext.BadJson:
        return None
    names = {"n": int, "id": str, "do": str, "on": str, "args": dict}
    fits = isinstance(found, dict) and all(isinstance(found.get(k), names[k]) for k in names)
    return found if fits and found["do"] in core.DECIDE else None


def _keep(caller: Caller, graph: RemoteGraph, commands: list[Fields]) -> None:
    line = jsontext.dumps({**commands[-1], "n": len(commands)})
    graph.create_entities([{"name": _name(caller), "entityType": _KIND, "observations": []}])
    graph.add_observations([{"entityName": _name(caller), "contents": [line]}])


def _show(caller: Caller, graph: RemoteGraph, state: Workflow) -> None:
    from holdfast.graph import applying, projection

    is_holder = projection.Seen(state, caller.engine.ledger.head_seq).has_place
    applying.apply(graph, [projection.of_workflow(state, is_holder=is_holder)], [])


def _name(caller: Caller) -> str:
    return f"holdfast-pending:{_key(caller)}"


def _key(caller: Caller) -> str:
    return digest(os.path.realpath(caller.engine.workspace.home).encode())[:12]


def _mark(caller: Caller, server: str) -> None:
    """Beside the person's own settings, because the workspace cannot be written."""
    disk = caller.engine.disk
    path = _mark_path(caller)
    try:
        disk.make_folder(os.path.dirname(path), 0o700)
        disk.replace_view(path, f"{server}\n".encode())
    except OSError as error:
        hint = f"when the folder can be written again: holdfast sync ({error.strerror})"
        raise Fault("not_writable", f"{WARNING}; only mcp:{server} has it", hint) from error


def _mark_path(caller: Caller) -> str:
    return os.path.join(person_folder(), PENDING, _key(caller))
