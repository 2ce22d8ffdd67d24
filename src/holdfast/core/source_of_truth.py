"""Which of several sources that tell of the same initiative is right. Pure.

The newest counts. Where times do not tell (one is missing, lies ahead, or two are the same), the
graph breaks the tie: the source that says the same as it is right, else the first one is.
"""

from __future__ import annotations

from holdfast.core.time import age, epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields

APART_MS = 5 * 60 * 1_000
"""Sources whose times lie further apart than this are worth a warning."""


class Source:
    """What one place says. What it does not say is ``None``, and disagrees with nothing."""

    __slots__ = ("at", "initiative", "milestone", "name", "place", "progress", "status")

    def __init__(
        self,
        name: str,
        at: str | None,
        milestone: str | None,
        status: str | None,
        progress: dict[str, str],
        place: str = "",
        initiative: str | None = None,
    ) -> None:
        self.name = name
        self.at = at
        self.milestone = milestone
        self.status = status
        self.progress = progress
        self.place = place
        """The path of the file, where it is one."""
        self.initiative = initiative
        """Whom it speaks of, where that is another one."""

    def content(self) -> Fields:
        """All that it says, for the event that keeps it."""
        told = {
            "initiative": self.initiative,
            "milestone": self.milestone,
            "status": self.status,
            "updated": self.at,
        }
        said: Fields = {name: value for name, value in told.items() if value is not None}
        return {**said, "progress": self.progress} if self.progress else said

    def differs(self, other: Source) -> bool:
        return (
            _apart(self.milestone, other.milestone)
            or _apart(self.status, other.status)
            or any(_apart(other.progress.get(key), told) for key, told in self.progress.items())
        )


def _apart(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


class Verdict:
    """Who is right, who is stale, and a warning where that is long ago."""

    __slots__ = ("asked", "authoritative", "stale", "warning")

    def __init__(
        self, authoritative: Source, stale: list[Source], warning: str | None, asked: list[Source]
    ) -> None:
        self.authoritative = authoritative
        self.stale = stale
        self.warning = warning
        self.asked = asked
        """All who were heard."""

    @property
    def said(self) -> str:
        return corrected(self.stale, self.authoritative)


def corrected(stale: Sequence[Source], authoritative: Source) -> str:
    names = ", ".join([source.name for source in stale])
    return f"Sync corrected: {names} updated to match {authoritative.name}"


def weigh(sources: Sequence[Source], graph: Source | None, now: str) -> Verdict | None:
    """The verdict on sources, the first of which is the record; ``None`` when they agree."""
    first = sources[0]
    others = [source for source in sources[1:] if source.differs(first)]
    if graph is not None and graph.differs(first) and _is_later(graph, first, now):
        others.append(graph)
    if not others:
        return None
    asked = [first, *others]
    right = _newest(asked, now) or _by_the_graph(asked, graph)
    everyone = [*sources, *(source for source in others if source is graph)]
    stale = [source for source in everyone if source is not right and source.differs(right)]
    return Verdict(right, stale, _warning(asked, now), everyone) if stale else None


def is_unclear(asked: list[Source], now: str) -> bool:
    """Whether the times of sources that disagree do not tell who is right."""
    others = [source for source in asked[1:] if source.differs(asked[0])]
    return bool(others) and _newest([asked[0], *others], now) is None


def _time_of(source: Source, now: str) -> int | None:
    """When it was written; a time that lies ahead tells nothing."""
    at = None if source.at is None else epoch_ms(source.at)
    latest = epoch_ms(now)
    return None if at is None or latest is None or at > latest + APART_MS else at


def _is_later(graph: Source, first: Source, now: str) -> bool:
    own, other = _time_of(graph, now), _time_of(first, now)
    return own is not None and other is not None and own > other


def _newest(asked: list[Source], now: str) -> Source | None:
    times = [_time_of(source, now) for source in asked]
    known = [time for time in times if time is not None]
    if len(known) < len(asked):
        return None
    newest = [source for source, time in zip(asked, times, strict=True) if time == max(known)]
    is_clear = not any(source.differs(newest[0]) for source in newest[1:])
    return newest[0] if is_clear else None


def _by_the_graph(asked: list[Source], graph: Source | None) -> Source:
    if graph is not None:
        for source in asked:
            if not source.differs(graph):
                return source
    return asked[0]


def _warning(asked: list[Source], now: str) -> str | None:
    known = [(time, source) for source in asked if (time := _time_of(source, now)) is not None]
    times = [time for time, _ in known]
    if not times or max(times) - min(times) <= APART_MS:
        return None
    newest = next(source for time, source in known if time == max(times))
    ago = age(now, str(newest.at))
    return f"Initiative state may be stale — last updated {ago}"
