"""Report what each layer contains, and recover a workflow if the ledger was lost.

A record is enough to recover it. Without records, a Memory server still has the workflow's
position, and the project's memory has a sentence about it.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import record as adoption
from holdfast.adopt import unknown_records
from holdfast.core import json_text
from holdfast.core.json_text import md5_of
from holdfast.core.other_layers import observed_values, one_line, phases_at, tier
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
    from holdfast.layers.graph import Entity

_MAX_OPENED = 20
_SLOT = "workflow-state"
_KIND = "WorkflowState"


def found(session: Session) -> Fields:
    """Return the tier, and for each layer its availability, its target and its position."""
    layers = [_record(session), _memory(session), _graph(session)]
    record, memory, graph = (layer["available"] for layer in layers)
    return {**tier(record=record, memory=memory, graph=graph), "layers": layers}


def _record(session: Session) -> Fields:
    """Return layer L1: the newest active record of this worktree."""
    states = sorted(standing(session.store), key=lambda state: state["updated_at"])
    layer: Fields = {"layer": "L1", "available": bool(states), "target": None, "position": None}
    if states:
        newest = states[-1]
        layer |= {"target": newest["record"], "position": _position_of(newest)}
    return layer


def standing(store: Store) -> Iterator[Workflow]:
    """Yield the active workflows in this worktree's record files, without reading the ledger.

    If there are many record files, only the most recently written are opened.
    """
    root = store.workspace.root
    records = unknown_records.records_here(root)
    if len(records) > _MAX_OPENED:
        records = sorted(records, key=lambda record: _written_ns(os.path.join(root, record)))
    for record in records[-_MAX_OPENED:]:
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


def _position_of(state: Workflow) -> Fields:
    names = [phase["name"] for phase in state["phases"]]
    number = names.index(state["phase"]) + 1 if state["phase"] in names else 0
    return {
        "type": state["recipe"]["name"].upper(),
        "phase": state["phase"],
        "phase_index": f"{number}/{len(names)}",
        "context": state["title"] or state["subject"],
        "updated": state["updated_at"],
    }


def _memory(session: Session) -> Fields:
    """Return layer L2: the active workflow in Holdfast's section of the project's memory."""
    from holdfast.layers.memory import Memory

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
    """Return layer L3: the newest active workflow in the graph."""
    layer: Fields = {"layer": "L3", "available": False, "target": None, "position": None}
    try:
        layer["target"] = settings.load(session.store.workspace.root).graph()
        entities = _entities(session.store, layer["target"])
    except (HoldfastError, OSError) as error:
        return {**layer, "why": getattr(error, "message", None) or str(error)}
    newest = _newest(entities)
    if newest is None:
        return {**layer, "available": bool(entities)}
    names = ("type", "phase", "phase_index", "context", "updated")
    return {**layer, "available": True, "position": {name: newest.get(name) for name in names}}


def _entities(store: Store, kept_by: str) -> list[Fields]:
    """Return the graph's workflow entities as fields; of the embedded graph, only the newest."""
    if kept_by == "off":
        return []
    if kept_by == "embedded":
        from holdfast.layers.graph import projection

        entity = projection.read_newest_workflow(store)
        return [] if entity is None else [_fields_of(entity)]
    from holdfast.layers.graph import mcp_delivery

    server = kept_by.removeprefix("mcp:")
    graph = mcp_delivery.call(store, server, lambda graph: graph.search_nodes(_SLOT))
    return [_fields_of(entity) for entity in graph["entities"] if entity["entityType"] == _KIND]


def _fields_of(entity: Entity) -> Fields:
    return {"name": entity["name"], **observed_values(entity["observations"])}


def _newest(entities: list[Fields]) -> Fields | None:
    active = [entity for entity in entities if "status" not in entity and entity.get("phase")]
    return max(active, key=lambda entity: str(entity.get("updated", "")), default=None)


def _restore(session: Session, tx: Transaction) -> Workflow | None:
    """Adopt the newest active workflow in the graph; return ``None`` if there is none."""
    store = session.store
    try:
        kept_by = settings.load(store.workspace.root).graph()
        entity = _newest(_entities(store, kept_by))
    except HoldfastError as error:
        store.note(error.message)
        return None
    state = None if entity is None else _rebuild(store, entity)
    if state is None:
        return None
    store.note(
        f"its record and the ledger are gone: {state['id']} goes on from the graph, as of "
        f"{state['updated_at']}; tasks, gates and reminders are lost"
    )
    adopted: Workflow = adoption.adopt(tx, state, state["record"], expected=None)
    return adopted


def _rebuild(store: Store, entity: Fields) -> Workflow | None:
    """Return a workflow at an entity's position; ``None`` if its recipe or phase is not known."""
    name, context = str(entity.get("type", "")).lower(), str(entity.get("context", ""))
    recipe = store.recipe(name)
    at, updated = _time(entity, "started") or store.now(), _time(entity, "updated")
    phases = None if recipe is None else phases_at(recipe, str(entity["phase"]), at)
    if recipe is None or phases is None:
        return None
    own_id = str(entity["name"]).partition(":")[2]
    workflow_id = own_id or f"{name}-{md5_of(f'{context}{chr(10)}')[:8]}"
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
        "phase": str(entity["phase"]),
        "phases": phases,
    }


def _time(entity: Fields, name: str) -> str | None:
    """Return a time of an entity; ``None`` if another client wrote something else there."""
    time = str(entity.get(name, ""))
    return None if epoch_ms(time) is None else time


def look_further(session: Session, tx: Transaction) -> None:
    """Recover workflows for an empty ledger, from records or else from the graph.

    Raise ``Refused`` with the sentence of the project's memory if only that is left.
    """
    if unknown_records.adopt_all(tx) or _restore(session, tx) is not None:
        return
    sentence = _memory(session)["position"]
    if isinstance(sentence, str):
        raise Refused(
            "not_found",
            f"no record and no ledger is left; the project's memory says: {sentence}",
            "start it again: holdfast start RECIPE SUBJECT",
            candidates=[],
        )
