"""Which of several sources about the same initiative is right. Pure.

The newest is. If the times do not decide (one is missing or in the future, or two are equal), the
source that agrees with the graph is right, else the first one.
"""

from __future__ import annotations

from holdfast.core.time import age, epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields

APART_MS = 5 * 60 * 1_000
"""A larger difference between the times of sources causes a warning."""


class Source:
    """What one source states. A value that it does not state is ``None`` and never disagrees."""

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
        """The path of the source, if it is a file."""
        self.initiative = initiative
        """The initiative that it is about, if it is another one."""

    def content(self) -> Fields:
        """Return the values that the source states, for an event."""
        values = {
            "initiative": self.initiative,
            "milestone": self.milestone,
            "status": self.status,
            "updated": self.at,
        }
        content: Fields = {name: value for name, value in values.items() if value is not None}
        return {**content, "progress": self.progress} if self.progress else content

    def differs(self, other: Source) -> bool:
        """Return whether both sources state a value that is not equal."""
        return (
            _apart(self.milestone, other.milestone)
            or _apart(self.status, other.status)
            or any(_apart(other.progress.get(key), own) for key, own in self.progress.items())
        )


def _apart(value: str | None, other: str | None) -> bool:
    return value is not None and other is not None and value != other


class Verdict:
    """The right source, the stale ones, and a warning if the last update is long ago."""

    __slots__ = ("asked", "authoritative", "stale", "warning")

    def __init__(
        self, authoritative: Source, stale: list[Source], warning: str | None, asked: list[Source]
    ) -> None:
        self.authoritative = authoritative
        self.stale = stale
        self.warning = warning
        self.asked = asked
        """All sources that were compared."""

    @property
    def said(self) -> str:
        return corrected(self.stale, self.authoritative)


def corrected(stale: Sequence[Source], authoritative: Source) -> str:
    names = ", ".join([source.name for source in stale])
    return f"Sync corrected: {names} updated to match {authoritative.name}"


def weigh(sources: Sequence[Source], graph: Source | None, now: str) -> Verdict | None:
    """Return the verdict on sources, the record first; ``None`` if they agree."""
    first = sources[0]
    others = [source for source in sources[1:] if source.differs(first)]
    if graph is not None and graph.differs(first) and _is_later(graph, first, now):
        others.append(graph)
    if not others:
        return None
    asked = [first, *others]
    right = _newest(asked, now) or _by_the_graph(asked, graph)
    compared = [*sources, *(source for source in others if source is graph)]
    stale = [source for source in compared if source is not right and source.differs(right)]
    return Verdict(right, stale, _warning(asked, now), compared) if stale else None


def is_unclear(asked: list[Source], now: str) -> bool:
    """Return whether the times of sources that disagree do not show which is right."""
    others = [source for source in asked[1:] if source.differs(asked[0])]
    return bool(others) and _newest([asked[0], *others], now) is None


def _time_of(source: Source, now: str) -> int | None:
    """Return when a source was written; ``None`` if unknown or in the future."""
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
