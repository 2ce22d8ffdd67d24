"""Compare what the record and ``WORKFLOW-STATUS.yaml`` say of an initiative. Nothing is written.

Changes mend what a comparison shows; looks only say it, and name the command that mends.
"""

from __future__ import annotations

from holdfast.core import source_of_truth
from holdfast.core.source_of_truth import Verdict
from holdfast.initiatives import sources, status_yaml
from holdfast.initiatives.paths import parse_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Initiative
    from holdfast.initiatives.paths import Places
    from holdfast.keeper.store import Store

MEND = "holdfast initiative sync"


class Comparison:
    """What the sources of one initiative say, beside each other."""

    __slots__ = ("place", "raw", "status", "verdict")

    def __init__(self, place: str, raw: bytes | None) -> None:
        self.place = place
        """Where ``WORKFLOW-STATUS.yaml`` is, from the worktree's root."""
        self.raw = raw
        self.status: status_yaml.Status | None = None
        """The file, parsed; ``None`` where there is none."""
        self.verdict: Verdict | None = None
        """Which source is right; ``None`` if they agree."""

    def describe(self) -> str:
        """Say what the file says."""
        if self.status is None:
            return f"{self.place} is missing"
        stale = [] if self.verdict is None else self.verdict.stale
        if any(source.initiative for source in stale):
            return f"{self.place} speaks of {self.status.initiative}"
        when = f"as of {self.status.updated}" if self.status.updated else None
        words = [word for word in (self.status.milestone, self.status.status, when) if word]
        return f"{self.place} says {' '.join(words) or 'something else'}"


def compare(
    store: Store, places: Places, key: str, one: Initiative, *, asks_server: bool
) -> Comparison:
    """Compare the file with the record; raise ``Refused`` if the file is broken.

    ``asks_server``: a Memory server is asked where the times of the two do not decide.
    """
    place = places.status(key, one)
    return _compared(store, place, places.read(place), one, asks_server=asks_server)


def glance(store: Store, places: Places, key: str, one: Initiative) -> Comparison | None:
    """Compare for a look, which asks no server; return ``None`` if the two agree."""
    place = places.status(key, one)
    raw = places.read(place)
    if raw is None:
        return None
    compared = _compared(store, place, raw, one, asks_server=False)
    return None if compared.verdict is None else compared


def _compared(
    store: Store, place: str, raw: bytes | None, one: Initiative, *, asks_server: bool
) -> Comparison:
    compared = Comparison(place, raw)
    # A file that is as Holdfast writes it needs no parser.
    if raw is None or status_yaml.is_as_written(raw, *sources.values_of(one)):
        return compared
    own, written = sources.of_record(one), parse_status(place, raw)
    compared.status = written
    if written.initiative not in (None, one["name"]):
        # It speaks of another initiative: it is stale, whatever its time.
        stale = written.source(status_yaml.NAME, place, written.initiative)
        compared.verdict = Verdict(own, [stale], None, [own, stale])
        return compared
    both = [own, written.source(status_yaml.NAME, place)]
    now = store.now()
    server = None
    if asks_server and source_of_truth.is_unclear(both, now):
        server = sources.of_server(store, one["name"])
    compared.verdict = source_of_truth.weigh(both, server, now)
    return compared
