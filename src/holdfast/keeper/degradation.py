"""Work with the layers that are left when another one is missing.

``report_layers`` and ``describe_layers`` report each layer. ``recover`` finds workflows if
the ledger was lost: a record is enough; without records, a Memory server still has the position
of a workflow, and the memory of the project has a sentence about it. ``offline_queue`` is for a
workspace that cannot be written.
"""

from __future__ import annotations

import os
from functools import partial

from holdfast import formats
from holdfast.adopt import findings as adoption
from holdfast.adopt import unknown_workflows
from holdfast.core import json_text, selection
from holdfast.core.briefing import place_of
from holdfast.core.initiatives import current_of
from holdfast.core.json_text import md5_of
from holdfast.core.other_layers import observed_values, one_line, phases_at, tier
from holdfast.core.refusal import bad_text
from holdfast.core.time import epoch_ms
from holdfast.core.workflow import blank, is_active
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import schema
from holdfast.keeper.logs import FINAL
from holdfast.layers.graph import mcp_delivery, projection
from holdfast.layers.memory import Memory
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.overview import Overview
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

ACTIVE, COMPLETED, LEARNINGS, NOTHING_YET = "active", "completed", "learnings", "nothing yet"
UNAVAILABLE, OFF = "unavailable", "off"
"""What a layer tells of: work that is going on, work that is done, what was learned, nothing; or
why it tells nothing."""
_MAX_OPENED = 20
"""The number of record files that are opened, the most recently written ones."""


# Layer reports


def report_layers(session: Session) -> Fields:
    """Return the tier, and for each layer its availability, its target and its position."""
    looks = (_look_at_records, _look_at_memory, _look_at_graph)
    layers = [look(session.store) for look in looks]
    found = [layer["state"] for layer in layers]
    record, memory, graph = (layer["available"] for layer in layers)
    work = next((state for state in (ACTIVE, COMPLETED) if state in found), "none")
    fields = tier(record=record, memory=memory, graph=graph)
    position = layers[2]["position"]
    is_lost = not session.store.ledger.head_seq and not record
    if is_lost and isinstance(position, dict) and position.get("phase"):
        where = " ".join(one_line(str(position.get(key) or "")) for key in ("type", "phase"))
        session.store.note(f"{where} is {_from_graph(position.get('updated'))}")
    if work == COMPLETED:
        fields["behaviour"] = "the work is completed: nothing is left to resume"
    return {**fields, "work": work, "layers": layers}


def describe_layers(session: Session, overview: Overview) -> list[Fields]:
    """Return a row for each layer: its target, and whether it is current with the ledger."""
    settled = len(overview.states) - len(overview.unsettled)
    target = f"{settled}/{len(overview.states)} records"
    if overview.unopened:
        target += f", {overview.unopened} more not looked at"
    status = "behind" if overview.unsettled else "current"
    rows: list[Fields] = [{"layer": "L1", "target": target, "status": status}]
    graph = partial(_compare_graph, seq=overview.seq)
    for layer, compare in (("L2", _compare_memory), ("L3", graph)):
        try:
            rows.append({"layer": layer, **compare(session.store)})
        except (HoldfastError, OSError) as error:
            rows.append({"layer": layer, "target": str(error), "status": "unavailable"})
    return rows


def _compare_memory(store: Store) -> Fields:
    memory = Memory(store)
    if memory.path is None:
        return {"target": "MEMORY.md", "status": "off"}
    name = os.path.basename(memory.path)
    return {"target": name, "status": "current" if memory.lines() else "empty"}


def _compare_graph(store: Store, seq: int) -> Fields:
    kept_by = settings.load(store.workspace.root).graph()
    if kept_by == "off":
        return {"target": "graph", "status": "off"}
    if kept_by == "embedded":
        return {"target": "graph", "status": "current" if seq else "empty", "seq": seq}
    delivered = mcp_delivery.delivered_seq(store)
    status = "empty" if not delivered else "behind" if seq > delivered else "current"
    return {"target": kept_by, "status": status, "seq": delivered}


def _layer(name: str, target: str | None = None) -> Fields:
    """Return a layer in which nothing was found. ``state`` is one of the words above.

    ``available``: it tells of work. ``position`` is that work, ``why`` the trouble with the layer.
    """
    return {
        "layer": name, "available": False, "state": NOTHING_YET, "target": target, "position": None,
    }  # fmt: skip


def _look_at_records(store: Store) -> Fields:
    """Describe the newest active workflow in this worktree's records, else the initiative.

    The ledger is not read.

    Raise ``Refused`` if a folder of records is outside the workspace.
    """
    root = store.workspace.root
    records = unknown_workflows.records_here(root)
    if len(records) > _MAX_OPENED:
        records = sorted(records, key=lambda record: _written_ns(os.path.join(root, record)))
    states = []
    has_ended = False
    for record in records[-_MAX_OPENED:]:
        try:
            parsed = unknown_workflows.read(store, record)
        except (json_text.BadJson, schema.Invalid, HoldfastError, OSError):
            continue
        if parsed is not None and is_active(parsed[1]):
            states.append({**parsed[1], "record": record})
        has_ended = has_ended or (parsed is not None and parsed[1]["status"] == "completed")
    if not states:
        layer = _look_at_initiatives(store)
        return {**layer, "state": COMPLETED} if has_ended and not layer["available"] else layer
    newest: Any = max(reversed(states), key=lambda state: str(state["updated_at"]))
    number, total = place_of(newest)
    position = {
        "type": newest["recipe"]["name"].upper(),
        "phase": newest["phase"],
        "phase_index": f"{number}/{total}",
        "context": newest["title"] or newest["subject"],
        "updated": newest["updated_at"],
    }
    found = {"available": True, "state": ACTIVE, "position": position}
    return {**_layer("L1", newest["record"]), **found}


def _look_at_initiatives(store: Store) -> Fields:
    """Describe the current initiative in the record of the initiatives."""
    stream = projection.INITIATIVES
    aggregate = formats.aggregate_of(stream)
    path = (aggregate.record_address(None, store.workspace.name) or ("", ""))[1]
    layer = _layer("L1")
    try:
        raw = store.files.read(store.workspace.inside(store.workspace.root, path))
        signed = formats.parse_signed(raw or b"{}")
        origin = store.origin(path, store.workspace.name)
        state = aggregate.parse(signed, None, path, origin)
    except (json_text.BadJson, schema.Invalid, HoldfastError, OSError):
        return layer
    initiative = current_of(state)
    if initiative is None:
        return layer
    about = _of_initiative(
        initiative["name"],
        initiative["status"],
        initiative["current_milestone"],
        initiative["updated_at"],
    )
    return {**layer, "target": path, **about}


def _of_initiative(name: str, status: str, milestone: str | None, updated: str | None) -> Fields:
    """Return how a layer that tells of an initiative differs from one that tells of nothing."""
    if status in FINAL:
        return {"state": COMPLETED}
    position = {"initiative": name, "status": status, "milestone": milestone, "updated": updated}
    return {"available": True, "state": ACTIVE, "position": position}


def _written_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _look_at_memory(store: Store) -> Fields:
    """Describe the active workflow in the project's memory; ``why``, if it cannot be read."""
    layer = _layer("L2")
    try:
        memory = Memory(store)
        layer["target"] = memory.path
        if memory.path is None:
            return {**layer, "state": OFF}
        lines = memory.sentences()
        if memory.is_wanted() and not memory.is_available():
            layer |= {"state": UNAVAILABLE, "why": f"{memory.path} cannot be written"}
    except (HoldfastError, OSError) as error:
        return {**layer, "state": UNAVAILABLE, "why": str(error)}
    active = [line for line in lines if line.startswith("Active ")]
    if layer["state"] != UNAVAILABLE and lines:
        is_over = any(line.startswith("Completed ") for line in lines)
        layer["state"] = ACTIVE if active else COMPLETED if is_over else LEARNINGS
    return {**layer, "available": bool(lines), "position": active[0] if active else None}


def _look_at_graph(store: Store) -> Fields:
    """Describe the newest active workflow in the graph; ``why``, if it cannot be read."""
    layer = _layer("L3")
    try:
        layer["target"] = settings.load(store.workspace.root).graph()
        if layer["target"] == "off":
            return {**layer, "state": OFF}
        workflows, initiatives = _read_entities(store, layer["target"])
    except (HoldfastError, OSError) as error:
        return {**layer, "state": UNAVAILABLE, "why": str(error)}
    newest = _find_newest(workflows)
    if newest is not None:
        names = ("type", "phase", "phase_index", "context", "updated")
        position = {name: newest.get(name) for name in names}
        return {**layer, "available": True, "state": ACTIVE, "position": position}
    for values in initiatives[:1]:
        name, status = values.get("initiative", ""), values.get("status", "")
        layer |= _of_initiative(name, status, values.get("milestone"), values.get("updated"))
    if not layer["available"] and workflows:
        layer["state"] = COMPLETED
    return layer


def _read_entities(
    store: Store, kept_by: str, limit_s: float = mcp_delivery.LIMIT_S
) -> tuple[list[Fields], list[Fields]]:
    """Return the graph's workflows and initiatives as fields, the current initiative first.

    Of the embedded graph, these are the newest workflow and the current initiative.
    """
    if kept_by == "off":
        return [], []
    entities: list[Any]
    if kept_by == "embedded":
        stored = store.ledger.stream(projection.INITIATIVES)
        newest = projection.read_newest_workflow(store)
        entities = [newest] if newest is not None else []
        entities += projection.initiative_updates(stored.state)[0] if stored is not None else []
    else:
        server = kept_by.removeprefix("mcp:")
        queries = (projection.SLOT, projection.CHECKPOINT)
        entities = mcp_delivery.call(
            store,
            server,
            lambda graph: [
                node for query in queries for node in graph.search_nodes(query)["entities"]
            ],
            limit_s,
        )
    initiatives = _of_type(entities, "InitiativeCheckpoint")
    current_first = sorted(initiatives, key=lambda it: bool(it["name"] != projection.CHECKPOINT))
    return _of_type(entities, "WorkflowState"), current_first


def _of_type(entities: list[Any], kind: str) -> list[Fields]:
    """Return the entities of a type as fields, each once."""
    found: list[Fields] = []
    for node in entities:
        values = {"name": node["name"], **observed_values(node["observations"])}
        if node["entityType"] == kind and values not in found:
            found.append(values)
    return found


def search(store: Store, query: str, limit: int | None) -> Fields:
    """Search the graph that the settings name; a server finds what it finds, in its own order."""
    kept_by = settings.load(store.workspace.root).graph()
    if kept_by == "off":
        raise Refused("no_memory", "memory: the graph is off", "HOLDFAST_GRAPH=embedded")
    if kept_by == "embedded":
        from holdfast.layers.graph.store import InMemoryGraph

        with InMemoryGraph("") as graph:
            mcp_delivery.apply_updates(graph, projection.read_changes(store)[0], [])
            found = graph.search_nodes(query, ranked=True, limit=limit)
    else:
        server = kept_by.removeprefix("mcp:")
        found = mcp_delivery.call(store, server, lambda graph: graph.search_nodes(query))
        found["entities"] = found["entities"][:limit]
    return {"path": kept_by, "query": query, **found}


def _find_newest(entities: list[Fields]) -> Fields | None:
    active = _active(entities)
    return max(active, key=lambda entity: str(entity.get("updated", "")), default=None)


def _active(entities: list[Fields]) -> list[Fields]:
    return [entity for entity in entities if "status" not in entity and entity.get("phase")]


def active_in(entities: list[Any]) -> list[Fields]:
    """Return the active workflows among the entities of a graph, as fields."""
    return _active(_of_type(entities, "WorkflowState"))


# The ledger is lost


def recover(tx: Transaction) -> None:
    """Recover workflows for an empty ledger, from records or else from the graph.

    Raise ``Refused`` with the sentence of the project's memory if only that is left.
    """
    if unknown_workflows.adopt_all(tx) or _adopt_from_graph(tx):
        return
    sentence = _look_at_memory(tx.store)["position"]
    if sentence is not None:
        raise Refused(
            "not_found",
            f"no record and no ledger is left; the project's memory says: {sentence}",
            "start it again: holdfast start RECIPE SUBJECT",
            candidates=[],
        )


def _adopt_from_graph(tx: Transaction) -> bool:
    """Adopt the newest active workflow in the graph; return False if there is none."""
    store = tx.store
    try:
        kept_by = settings.load(store.workspace.root).graph()
        entity = _find_newest(_read_entities(store, kept_by)[0])
    except HoldfastError as error:
        store.note(error.message)
        return False
    state = None if entity is None else rebuild(store, entity)
    if state is None:
        return False
    has_run_out = selection.has_run_out(state, store.now_ms())
    whence = _from_graph(state["updated_at"])
    note = f"its record and the ledger are gone: {state['id']} goes on {whence}"
    adoption.adopt(tx, state, state["record"], expected=None)
    adoption.keep_origin(tx, state["id"], note)
    if has_run_out:
        # Recovering it is not an activity of the workflow.
        store.note(f"{state['id']} is {whence}")
        store.note(adoption.expiry_note(state))
        tx.do(state["id"], "expire_workflow", {})
        tx.commit()
    else:
        store.note(note)
    return True


def _from_graph(updated: object) -> str:
    when = one_line(str(updated or "an unknown time"))
    return f"from the graph, as of {when}; tasks, gates and reminders are lost"


def tell_of_graph(session: Session, limit_s: float) -> str:
    """Return a sentence on the work that only a Memory server knows; empty if there is none."""
    store = session.store
    try:
        kept_by = settings.load(store.workspace.root).graph()
        if store.ledger.head_seq or not kept_by.startswith("mcp:"):
            return ""
        entity = _find_newest(_read_entities(store, kept_by, limit_s)[0])
        state = None if entity is None else rebuild(store, entity)
    except HoldfastError as error:
        return error.message
    if state is None:
        return ""
    said = f"{state['title']} at {state['phase']} is {_from_graph(state['updated_at'])}"
    if selection.has_run_out(state, store.now_ms()):
        return f"{said}. {adoption.expiry_note(state)}"
    return f"{said}. To go on: holdfast resume"


def rebuild(store: Store, entity: Fields) -> Workflow | None:
    """Return a workflow at an entity's position; ``None`` if its recipe or phase is not known."""
    name, context = str(entity.get("type", "")).lower(), str(entity.get("context", ""))
    recipe = store.recipe(name)
    at, updated = _parse_time(entity, "started") or store.now(), _parse_time(entity, "updated")
    phases = None if recipe is None else phases_at(recipe, str(entity["phase"]), at)
    if recipe is None or phases is None:
        return None
    own_id = str(entity["name"]).partition(":")[2]
    workflow_id = own_id or f"{name}-{md5_of(f'{context}{chr(10)}')[:8]}"
    if not schema.is_safe(workflow_id):
        return None
    return {
        **blank(workflow_id, recipe, at),
        "updated_at": updated or at,
        "subject": context if bad_text("context", context) is None else one_line(context),
        "title": one_line(context),
        "branch": store.workspace.branch(),
        "worktree": store.workspace.name,
        "record": formats.active_path(recipe["format"], workflow_id, store.now()),
        "phase": str(entity["phase"]),
        "phases": phases,
    }


def _parse_time(entity: Fields, name: str) -> str | None:
    """Return a time of an entity; ``None`` if another client wrote something else there."""
    time = str(entity.get(name, ""))
    return None if epoch_ms(time) is None else time
