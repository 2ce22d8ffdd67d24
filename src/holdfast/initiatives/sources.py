"""What the record, ``WORKFLOW-STATUS.yaml`` and the graph say of the same initiative.

They are read in this order, the record first. A source that turns out to be right is taken in
through the same checks as an edit of the record.
"""

from __future__ import annotations

from holdfast import jsontext, settings
from holdfast.core import tiers
from holdfast.core.agreement import Source
from holdfast.errors import HoldfastError
from holdfast.initiatives.status import NAME, BadStatus
from holdfast.layers.records import initiative as record
from holdfast.layers.records.fields import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields
    from holdfast.core.small_shapes import Initiative
    from holdfast.engine import Engine
    from holdfast.graph.shapes import Entity

RECORD = "initiative.json"
GRAPH = "memory graph"
FILES = "milestone files"
ENTITY = "initiative-checkpoint"


def values_of(one: Initiative) -> tuple[dict[str, str], dict[str, str]]:
    """What ``WORKFLOW-STATUS.yaml`` has to say, but for the time; and its progress."""
    values = {"initiative": one["name"], "milestone": one["current_milestone"] or ""}
    values = {key: value for key, value in values.items() if value}
    progress = {each["id"]: str(each["status"]) for each in one["milestones"]}
    return {**values, "status": one["status"]}, progress


def of_record(one: Initiative) -> Source:
    """The record, as the ledger has it after every edit was taken in."""
    progress = {each["id"]: each["status"] for each in one["milestones"]}
    return Source(
        RECORD, one["updated_at"], one["current_milestone"], one["status"], dict(progress)
    )


def of_graph(engine: Engine, name: str, *, with_server: bool = False) -> Source | None:
    """The embedded graph as it stands; a server is asked only where nothing else can tell."""
    told = told_by_graph(engine, with_server=with_server)
    if told is None or told.get("initiative") != name:
        return None
    return source_of(told)


def told_by_graph(engine: Engine, *, with_server: bool = True) -> Fields | None:
    """What the checkpoint of the current initiative says, by the names of its observations."""
    try:
        kept_by = settings.load(engine.workspace.root).graph()
        if kept_by == "embedded":
            found = _embedded(engine)
        elif kept_by.startswith("mcp:") and with_server:
            found = _served(engine, kept_by.removeprefix("mcp:"))
        else:
            return None
    except HoldfastError as error:
        engine.note(error.message)
        return None
    return tiers.told(found[0]["observations"]) if found else None


def _embedded(engine: Engine) -> list[Entity]:
    from holdfast.graph import layer

    standing = layer.as_it_stands(engine)
    if standing is None:
        return []
    with standing.store as store:
        return store.open_nodes([ENTITY])["entities"]


def _served(engine: Engine, server: str) -> list[Entity]:
    """Within a time limit; a server that fails is left alone for a while, as in a sync."""
    from holdfast.graph import delivery

    found: list[Entity] = delivery.reached(
        engine, server, lambda graph: graph.open_nodes([ENTITY])["entities"]
    )
    return [one for one in found if one["name"] == ENTITY]


def source_of(told: Fields) -> Source:
    try:
        progress = jsontext.loads(str(told.get("progress", "{}")))
    except jsontext.BadJson:
        progress = {}
    said = progress.items() if isinstance(progress, dict) else ()
    statuses = {str(key): value for key, value in said if isinstance(value, str)}
    return Source(GRAPH, told.get("updated"), told.get("milestone"), told.get("status"), statuses)


def taken(one: Initiative, source: Source, engine: Engine) -> Initiative:
    """The initiative with what a source says in it; ``BadStatus`` where that makes no sense."""
    document, rest = record.render(one)
    document["status"] = source.status or document["status"]
    document["progress"] = {**document["progress"], **source.progress}
    document["currentMilestone"] = source.milestone or document["currentMilestone"]
    try:
        return record.parse(document, rest, engine.origin(NAME, engine.workspace.name))
    except Invalid as invalid:
        where = ".".join(map(str, invalid.path)).replace("currentMilestone", "milestone")
        raise BadStatus(0, f"{where} {invalid.why}") from None
