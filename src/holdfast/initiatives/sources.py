"""What the record, ``WORKFLOW-STATUS.yaml`` and a Memory server say of the same initiative.

A source that turns out to be right is taken in through the same checks as an edit of the record.
The embedded graph is computed from the ledger, so it cannot say anything else than the record.
"""

from __future__ import annotations

from holdfast.core import degradation, json_text
from holdfast.core.source_of_truth import Source
from holdfast.errors import HoldfastError
from holdfast.formats import initiatives as record
from holdfast.formats.schema import Invalid
from holdfast.initiatives.status_yaml import NAME, BadStatus
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative
    from holdfast.keeper.store import Store
    from holdfast.layers.graph.types import Entity

RECORD = "initiative.json"
GRAPH = "memory graph"
FILES = "milestone files"
ENTITY = "initiative-checkpoint"
_SERVER = "mcp:"


def values_of(one: Initiative) -> tuple[dict[str, str], dict[str, str]]:
    """Return what ``WORKFLOW-STATUS.yaml`` has to say, but for the time, and its progress."""
    values = {"initiative": one["name"], "milestone": one["current_milestone"] or ""}
    values = {key: value for key, value in values.items() if value}
    progress = {each["id"]: str(each["status"]) for each in one["milestones"]}
    return {**values, "status": one["status"]}, progress


def of_record(one: Initiative) -> Source:
    progress = {each["id"]: each["status"] for each in one["milestones"]}
    return Source(
        RECORD, one["updated_at"], one["current_milestone"], one["status"], dict(progress)
    )


def of_server(store: Store, name: str) -> Source | None:
    """Ask the Memory server what it knows of the initiative of this name, if there is a server."""
    checkpoint = read_server(store)
    if checkpoint is None or checkpoint.get("initiative") != name:
        return None
    return of_checkpoint(checkpoint)


def read_server(store: Store) -> Fields | None:
    """Return the checkpoint that a Memory server keeps, by the names of its observations."""
    try:
        kept_by = settings.load(store.workspace.root).graph()
        if not kept_by.startswith(_SERVER):
            return None
        entities = _ask(store, kept_by.removeprefix(_SERVER))
    except HoldfastError as error:
        store.note(error.message)
        return None
    return degradation.observed_values(entities[0]["observations"]) if entities else None


def _ask(store: Store, server: str) -> list[Entity]:
    """Ask within a time limit; a server that fails is left alone for a while, as in a sync."""
    from holdfast.layers.graph import mcp_delivery

    entities: list[Entity] = mcp_delivery.call(
        store, server, lambda graph: graph.open_nodes([ENTITY])["entities"]
    )
    return [one for one in entities if one["name"] == ENTITY]


def of_checkpoint(checkpoint: Fields) -> Source:
    try:
        progress = json_text.loads(str(checkpoint.get("progress", "{}")))
    except json_text.BadJson:
        progress = {}
    pairs = progress.items() if isinstance(progress, dict) else ()
    statuses = {str(key): value for key, value in pairs if isinstance(value, str)}
    return Source(
        GRAPH,
        checkpoint.get("updated"),
        checkpoint.get("milestone"),
        checkpoint.get("status"),
        statuses,
    )


def apply(one: Initiative, source: Source, store: Store) -> Initiative:
    """Return the initiative as a source has it; raise ``BadStatus`` if that makes no sense."""
    document, rest = record.render_initiative(one)
    document["status"] = source.status or document["status"]
    document["progress"] = {**document["progress"], **source.progress}
    document["currentMilestone"] = source.milestone or document["currentMilestone"]
    try:
        return record.parse_initiative(document, rest, store.origin(NAME, store.workspace.name))
    except Invalid as invalid:
        where = ".".join(map(str, invalid.path)).replace("currentMilestone", "milestone")
        raise BadStatus(0, f"{where} {invalid.why}") from None
