"""Report what each layer holds, and recover a workflow from what is left when the ledger is gone.

Without the ledger a record is enough. Without records, a Memory server still has the position, and
the project's memory a sentence.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import record as adoption
from holdfast.adopt import unknown_records
from holdfast.core import degradation, json_text
from holdfast.core.digest import md5_of
from holdfast.core.memory_lines import one_line
from holdfast.core.refusal import bad_text
from holdfast.core.time import epoch_ms
from holdfast.core.workflow.state import blank, is_active
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import schema, signature
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.layers.graph.types import Entity

_MAX_OPENED = 20
_SLOT = "workflow-state"
_KIND = "WorkflowState"


def found(session: Session) -> Fields:
    """Return the tier, and for each layer whether it is there, where, and its position."""
    layers = [_record(session), _memory(session), _graph(session)]
    there = [layer["available"] for layer in layers]
    named = degradation.tier(record=there[0], memory=there[1], graph=there[2])
    return {**named, "layers": layers}


def _record(session: Session) -> Fields:
    """L1: the newest active record of this worktree, as it stands."""
    states = sorted(standing(session.store), key=lambda state: state["updated_at"])
    layer: Fields = {"layer": "L1", "available": bool(states), "target": None, "position": None}
    if states:
        newest = states[-1]
        layer |= {"target": newest["record"], "position": position_of(newest)}
    return layer


def standing(store: Store) -> Iterator[Workflow]:
    """Yield the active workflows whose records stand in this worktree, whatever the ledger says.

    Of very many records only those that were written last are opened.
    """
    root = store.workspace.root
    places = unknown_records.records_here(root)
    if len(places) > _MAX_OPENED:
        places = sorted(places, key=lambda place: _written_ns(os.path.join(root, place)))
    for record in places[-_MAX_OPENED:]:
        try:
            path = store.workspace.inside(store.workspace.root, record)
            sealed = signature.parse_signed(store.files.read(path) or b"")
            origin = store.origin(record, store.workspace.name)
            state = formats.parse(formats.format_of(record), sealed, None, origin)
        except (json_text.BadJson, schema.Invalid, HoldfastError, OSError):
            continue
        if is_active(state):
            yield {**state, "record": record}


def _written_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def position_of(state: Workflow) -> Fields:
    names = [phase["name"] for phase in state["phases"]]
    place = names.index(state["phase"]) + 1 if state["phase"] in names else 0
    return {
        "type": state["recipe"]["name"].upper(),
        "phase": state["phase"],
        "phase_index": f"{place}/{len(names)}",
        "context": state["title"] or state["subject"],
        "updated": state["updated_at"],
    }


def _memory(session: Session) -> Fields:
    """L2: what our section of the project's memory says."""
    from holdfast.layers.memory.memory_file import Memory

    layer: Fields = {"layer": "L2", "available": False, "target": None, "position": None}
    try:
        memory = Memory(session.store)
        layer["target"] = memory.path
        lines = memory.sentences()
    except (HoldfastError, OSError) as error:
        return {**layer, "why": str(error)}
    active = [line for line in lines if line.startswith("Active ")]
    return {**layer, "available": bool(lines), "position": active[0] if active else None}


def _graph(session: Session) -> Fields:
    """L3: the entity of the newest active workflow, as the graph has it."""
    layer: Fields = {"layer": "L3", "available": False, "target": None, "position": None}
    try:
        layer["target"] = settings.load(session.store.workspace.root).graph()
        entities = _entities(session.store, layer["target"])
    except (HoldfastError, OSError) as error:
        return {**layer, "why": getattr(error, "message", None) or str(error)}
    told = _newest(entities)
    if told is None:
        return {**layer, "available": bool(entities)}
    names = ("type", "phase", "phase_index", "context", "updated")
    return {**layer, "available": True, "position": {name: told.get(name) for name in names}}


def _entities(store: Store, kept_by: str) -> list[Fields]:
    """Return the entities of workflows that the graph has; the embedded one gives the newest."""
    if kept_by == "off":
        return []
    if kept_by == "embedded":
        from holdfast.layers.graph import pending_events

        entity = pending_events.newest_workflow(store)
        return [] if entity is None else [_told(entity)]
    from holdfast.layers.graph import mcp_delivery

    server = kept_by.removeprefix("mcp:")
    graph = mcp_delivery.call(store, server, lambda graph: graph.search_nodes(_SLOT))
    return [_told(entity) for entity in graph["entities"] if entity["entityType"] == _KIND]


def _told(entity: Entity) -> Fields:
    return {"name": entity["name"], **degradation.observed_values(entity["observations"])}


def _newest(entities: list[Fields]) -> Fields | None:
    active = [told for told in entities if "status" not in told and told.get("phase")]
    return max(active, key=lambda told: str(told.get("updated", "")), default=None)


def restore(session: Session, tx: Transaction) -> Workflow | None:
    """Adopt the workflow that a Memory server still knows, where ledger and records are gone."""
    store = session.store
    try:
        kept_by = settings.load(store.workspace.root).graph()
        told = _newest(_entities(store, kept_by))
    except HoldfastError as error:
        store.note(error.message)
        return None
    state = None if told is None else _rebuilt(store, told)
    if state is None:
        return None
    store.note(
        f"its record and the ledger are gone: {state['id']} goes on from the graph, as of "
        f"{state['updated_at']}; tasks, gates and reminders are lost"
    )
    adopted: Workflow = adoption.adopt(tx, state, state["record"], expected=None)
    return adopted


def _rebuilt(store: Store, told: Fields) -> Workflow | None:
    """A workflow at the position that an entity tells."""
    name, context = str(told.get("type", "")).lower(), str(told.get("context", ""))
    recipe = store.recipe(name)
    at, updated = _time(told, "started") or store.now(), _time(told, "updated")
    listed = None if recipe is None else degradation.phases_at(recipe, str(told["phase"]), at)
    if recipe is None or listed is None:
        return None
    known = str(told["name"]).partition(":")[2]
    workflow_id = known or f"{name}-{md5_of(f'{context}{chr(10)}')[:8]}"
    if not schema.is_safe(workflow_id):
        return None
    record = formats.active_path(recipe["format"], workflow_id, store.now())
    return {
        **blank(workflow_id, recipe, at),
        "updated_at": updated or at,
        "subject": context if bad_text("context", context) is None else one_line(context),
        "title": one_line(context),
        "branch": store.workspace.branch(),
        "worktree": store.workspace.name,
        "record": record,
        "phase": str(told["phase"]),
        "phases": listed,
    }


def _time(told: Fields, name: str) -> str | None:
    """A time that an entity tells; anybody can write there, so it may be none."""
    found = str(told.get(name, ""))
    return None if epoch_ms(found) is None else found


def look_further(session: Session, tx: Transaction) -> None:
    """Go down the read order where the ledger is empty: records, the graph, the memory.

    Raise ``Refused`` with what the memory says, if nothing else is left.
    """
    if unknown_records.adopt_all(tx) or restore(session, tx) is not None:
        return
    said = _memory(session)["position"]
    if isinstance(said, str):
        raise Refused(
            "not_found",
            f"no record and no ledger is left; the project's memory says: {said}",
            "start it again: holdfast start RECIPE SUBJECT",
            candidates=[],
        )
