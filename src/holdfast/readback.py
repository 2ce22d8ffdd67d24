"""Reading back: what each layer has when somebody comes back, and a workflow from what is left.

The layers are looked at as they are found, before anything is healed. With the ledger there is one
truth, and every layer follows it. Without it, a record is enough; without that, the graph tells a
position, and the project's memory a sentence.
"""

from __future__ import annotations

from holdfast import discovery, jsontext, settings
from holdfast.core import tiers
from holdfast.core.moment import epoch_ms
from holdfast.core.sentences import one_line
from holdfast.core.workflow.state import blank, is_active
from holdfast.core.workflow.texts import bad_text
from holdfast.digest import md5_of
from holdfast.errors import HoldfastError, Refused
from holdfast.layers import records
from holdfast.layers.records import envelope, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine
    from holdfast.graph.shapes import Graph

_SLOT = "workflow-state"
_PATIENCE_S = 1.0
"""Whoever only looks does not wait long for somebody who writes."""


def found(caller: Caller) -> Fields:
    """The tier, and each layer: whether it is there, where, and which position it has."""
    layers = [_record(caller), _memory(caller), _graph(caller)]
    there = [layer["available"] for layer in layers]
    named = tiers.tier(record=there[0], memory=there[1], graph=there[2])
    return {**named, "layers": layers}


def heal(caller: Caller) -> None:
    """Brings the embedded graph up to date for the next look; where it cannot be, it stays."""
    try:
        if settings.load(caller.engine.workspace.root).graph() != "embedded":
            return
        from holdfast.graph import layer

        made = layer.caught_up(caller.engine, wait_s=_PATIENCE_S)
    except (HoldfastError, OSError) as error:
        caller.engine.note(getattr(error, "message", None) or str(error))
        return
    if made is not None:
        made.store.close()


def _record(caller: Caller) -> Fields:
    """L1: the newest active record of this worktree, as it stands."""
    states = sorted(standing(caller), key=lambda state: state["updated_at"])
    layer: Fields = {"layer": "L1", "available": bool(states), "target": None, "position": None}
    if states:
        newest = states[-1]
        layer |= {"target": newest["record"], "position": position_of(newest)}
    return layer


def standing(caller: Caller) -> Iterator[Workflow]:
    """The active workflows whose records stand in this worktree, whatever the ledger says."""
    engine = caller.engine
    for record in discovery.records_here(engine.workspace.root):
        try:
            path = engine.workspace.inside(engine.workspace.root, record)
            sealed = envelope.unseal(engine.store.read(path) or b"")
            origin = engine.origin(record, engine.workspace.name)
            state = records.parse(records.format_of(record), sealed, None, origin)
        except (jsontext.BadJson, fields.Invalid, HoldfastError, OSError):
            continue
        if is_active(state):
            yield {**state, "record": record}


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


def _memory(caller: Caller) -> Fields:
    """L2: what our section of the project's memory says."""
    from holdfast.memory.layer import Memory

    layer: Fields = {"layer": "L2", "available": False, "target": None, "position": None}
    try:
        memory = Memory(caller)
        layer["target"] = memory.path
        lines = memory.sentences()
    except (HoldfastError, OSError) as error:
        return {**layer, "why": str(error)}
    active = [line for line in lines if line.startswith("Active ")]
    return {**layer, "available": bool(lines), "position": active[0] if active else None}


def _graph(caller: Caller) -> Fields:
    """L3: the entity of the newest active workflow, as the graph has it."""
    layer: Fields = {"layer": "L3", "available": False, "target": None, "position": None}
    try:
        layer["target"] = settings.load(caller.engine.workspace.root).graph()
        entities = _entities(caller, layer["target"])
    except (HoldfastError, OSError) as error:
        return {**layer, "why": getattr(error, "message", None) or str(error)}
    told = _newest(entities)
    if told is None:
        return {**layer, "available": bool(entities)}
    names = ("type", "phase", "phase_index", "context", "updated")
    return {**layer, "available": True, "position": {name: told.get(name) for name in names}}


def _entities(caller: Caller, kept_by: str, *, remote: bool = True) -> list[Fields]:
    """Every entity of a workflow, ended ones too; a server is asked only where that is meant."""
    if kept_by == "off" or (kept_by != "embedded" and not remote):
        return []
    if kept_by == "embedded":
        return _embedded(caller.engine)
    from holdfast.graph import delivery

    return _workflows(delivery.search(caller.engine, kept_by.removeprefix("mcp:"), _SLOT))


def _embedded(engine: Engine) -> list[Fields]:
    from holdfast.graph import layer

    standing = layer.as_it_stands(engine)
    if standing is None:
        return []
    with standing.store as store:
        return _workflows(store.search_nodes(_SLOT))


def _workflows(graph: Graph) -> list[Fields]:
    return [
        {"name": entity["name"], **tiers.told(entity["observations"])}
        for entity in graph["entities"]
        if entity["entityType"] == "WorkflowState"
    ]


def _newest(entities: list[Fields]) -> Fields | None:
    active = [told for told in entities if "status" not in told and told.get("phase")]
    return max(active, key=lambda told: str(told.get("updated", "")), default=None)


def restore(caller: Caller, *, remote: bool = False) -> Workflow | None:
    """The workflow that the graph still knows, where ledger and records are gone; adopted."""
    engine = caller.engine
    if engine.ledger.head_seq:
        return None
    try:
        kept_by = settings.load(engine.workspace.root).graph()
        told = _newest(_entities(caller, kept_by, remote=remote))
    except HoldfastError as error:
        engine.note(error.message)
        return None
    state = None if told is None else _rebuilt(caller, told)
    if state is None:
        return None
    engine.needs_lock()
    from holdfast import reconcile

    engine.note(
        f"its record and the ledger are gone: {state['id']} goes on from the graph, as of "
        f"{state['updated_at']}; tasks, gates and reminders are lost"
    )
    return reconcile.adopt(engine, state, state["record"], None)


def _rebuilt(caller: Caller, told: Fields) -> Workflow | None:
    """A workflow at the position that an entity tells."""
    engine = caller.engine
    name, context = str(told.get("type", "")).lower(), str(told.get("context", ""))
    recipe = engine.recipe(name)
    at, updated = _time(told, "started") or engine.now(), _time(told, "updated")
    listed = None if recipe is None else tiers.phases_at(recipe, str(told["phase"]), at)
    if recipe is None or listed is None:
        return None
    known = str(told["name"]).partition(":")[2]
    workflow_id = known or f"{name}-{md5_of(f'{context}{chr(10)}')[:8]}"
    if not fields.is_safe(workflow_id):
        return None
    record = records.active_path(recipe["format"], workflow_id, engine.now())
    return {
        **blank(workflow_id, recipe, at),
        "updated_at": updated or at,
        "subject": context if bad_text("context", context) is None else one_line(context),
        "title": one_line(context),
        "branch": engine.workspace.branch(),
        "worktree": engine.workspace.name,
        "record": record,
        "phase": str(told["phase"]),
        "phases": listed,
    }


def _time(told: Fields, name: str) -> str | None:
    """A time that an entity tells; anybody can write there, so it may be none."""
    found = str(told.get(name, ""))
    return None if epoch_ms(found) is None else found


def newest_of(engine: Engine, parsed: Workflow) -> Workflow:
    """A record that is all that is left; at the position of the graph, if that is later."""
    if engine.ledger.head_seq or parsed["recipe"]["format"] != "verb" or not is_active(parsed):
        return parsed
    try:
        if settings.load(engine.workspace.root).graph() != "embedded":
            return parsed
        entities = _embedded(engine)
    except HoldfastError as error:
        engine.note(error.message)
        return parsed
    told = _newest([one for one in entities if one["name"] in (_SLOT, f"{_SLOT}:{parsed['id']}")])
    if told is None or not tiers.is_newer(str(told.get("updated", "")), parsed["updated_at"]):
        return parsed
    same = told.get("type") == parsed["recipe"]["name"].upper()
    phase, updated = str(told["phase"]), str(told["updated"])
    listed = tiers.phases_at(parsed["recipe"], phase, updated, parsed["phases"])
    if not same or told.get("context") != (parsed["title"] or parsed["subject"]) or listed is None:
        return parsed
    engine.note(
        f"the graph is newer than {parsed['record'] or 'the record'}: {parsed['id']} goes on in "
        f"{phase}, as of {updated}"
    )
    return {**parsed, "phase": phase, "phases": listed, "updated_at": updated}


def look_further(caller: Caller) -> None:
    """Goes down the read order where there is no ledger: records, the graph, the memory."""
    if caller.discover() or restore(caller, remote=True) is not None:
        return
    said = _memory(caller)["position"]
    if isinstance(said, str):
        raise Refused(
            "not_found",
            f"no record and no ledger is left; the project's memory says: {said}",
            "start it again: holdfast start RECIPE SUBJECT",
            candidates=[],
        )
