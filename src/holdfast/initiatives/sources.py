"""What the record, ``WORKFLOW-STATUS.yaml`` and a Memory server say of one initiative.

Nothing is written here: a change repairs what a comparison shows, a look only reports it. The
embedded graph is computed from the ledger, so it always agrees with the record.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.initiative_sources import Source, Verdict, is_unclear, weigh
from holdfast.core.other_layers import observed_values
from holdfast.errors import HoldfastError
from holdfast.formats import initiatives as record
from holdfast.formats.schema import Invalid
from holdfast.initiatives import status_yaml
from holdfast.initiatives.status_yaml import NAME, BadStatus
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative
    from holdfast.initiatives.paths import InitiativePaths
    from holdfast.keeper.store import Store

RECORD = "initiative.json"
GRAPH = "memory graph"
FILES = "milestone files"
SYNC_COMMAND = "holdfast initiative sync"
_ENTITY = "initiative-checkpoint"
_SERVER = "mcp:"


def status_values(initiative: Initiative) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of ``WORKFLOW-STATUS.yaml`` without the time, and its progress."""
    values = {"initiative": initiative["name"], "milestone": initiative["current_milestone"] or ""}
    values = {key: value for key, value in values.items() if value}
    progress = {each["id"]: str(each["status"]) for each in initiative["milestones"]}
    return {**values, "status": initiative["status"]}, progress


def record_source(initiative: Initiative) -> Source:
    """Return what the record says."""
    _, progress = status_values(initiative)
    milestone, status = initiative["current_milestone"], initiative["status"]
    return Source(RECORD, initiative["updated_at"], milestone, status, progress)


def checkpoint_source(checkpoint: Fields) -> Source:
    """Return what the checkpoint of a Memory server says."""
    try:
        progress = json_text.loads(str(checkpoint.get("progress", "{}")))
    except json_text.BadJson:
        progress = {}
    pairs = progress.items() if isinstance(progress, dict) else ()
    statuses = {str(key): value for key, value in pairs if isinstance(value, str)}
    milestone, status = checkpoint.get("milestone"), checkpoint.get("status")
    return Source(GRAPH, checkpoint.get("updated"), milestone, status, statuses)


def read_server(store: Store) -> Fields | None:
    """Return the checkpoint that a Memory server has; ``None`` without a server or a checkpoint.

    A server that failed recently is not asked. An error becomes a note.
    """
    try:
        graph = settings.load(store.workspace.root).graph()
        if not graph.startswith(_SERVER):
            return None
        from holdfast.layers.graph import mcp_delivery

        entities = mcp_delivery.call(
            store,
            graph.removeprefix(_SERVER),
            lambda server: server.open_nodes([_ENTITY])["entities"],
        )
    except HoldfastError as error:
        store.note(error.message)
        return None
    observations = [entity["observations"] for entity in entities if entity["name"] == _ENTITY]
    return observed_values(observations[0]) if observations else None


def apply_source(initiative: Initiative, source: Source, store: Store) -> Initiative:
    """Return the initiative as a source has it, checked like an edit of the record.

    Raise ``BadStatus`` if a value of the source is invalid.
    """
    document, rest = record.render_initiative(initiative)
    document["status"] = source.status or document["status"]
    document["progress"] = {**document["progress"], **source.progress}
    document["currentMilestone"] = source.milestone or document["currentMilestone"]
    try:
        return record.parse_initiative(document, rest, store.origin(NAME, store.workspace.name))
    except Invalid as invalid:
        where = ".".join(map(str, invalid.path)).replace("currentMilestone", "milestone")
        raise BadStatus(0, f"{where} {invalid.why}") from None


class Comparison:
    """``WORKFLOW-STATUS.yaml`` compared with the record."""

    __slots__ = ("place", "raw", "status", "verdict")

    def __init__(self, place: str, raw: bytes | None) -> None:
        self.place = place
        """The path of the file, from the root of the worktree."""
        self.raw = raw
        self.status: status_yaml.Status | None = None
        """The parsed file; ``None`` if it is missing or as Holdfast wrote it."""
        self.verdict: Verdict | None = None
        """Which source is right; ``None`` if they agree."""

    def describe(self) -> str:
        """Return a sentence on what the file says."""
        if self.status is None:
            return f"{self.place} is missing"
        stale = [] if self.verdict is None else self.verdict.stale
        if any(source.initiative for source in stale):
            return f"{self.place} speaks of {self.status.initiative}"
        when = f"as of {self.status.updated}" if self.status.updated else None
        words = [word for word in (self.status.milestone, self.status.status, when) if word]
        return f"{self.place} says {' '.join(words) or 'something else'}"


def compare(
    store: Store, paths: InitiativePaths, key: str, initiative: Initiative, *, ask_server: bool
) -> Comparison:
    """Compare the file with the record; raise ``Refused`` if the file is broken.

    With ``ask_server``, a Memory server decides where the times of the two do not.
    """
    place = paths.status_file(key, initiative)
    comparison = Comparison(place, paths.read(place))
    raw = comparison.raw
    if raw is None or status_yaml.is_as_written(raw, *status_values(initiative)):
        return comparison
    own, file = record_source(initiative), paths.parse_status(place, raw)
    comparison.status = file
    if file.initiative not in (None, initiative["name"]):
        # A file about another initiative is stale, whatever its time.
        stale = file.source(NAME, place, file.initiative)
        comparison.verdict = Verdict(own, [stale], None, [own, stale])
        return comparison
    both, now, server = [own, file.source(NAME, place)], store.now(), None
    if ask_server and is_unclear(both, now):
        checkpoint = read_server(store)
        if checkpoint is not None and checkpoint.get("initiative") == initiative["name"]:
            server = checkpoint_source(checkpoint)
    comparison.verdict = weigh(both, server, now)
    return comparison
