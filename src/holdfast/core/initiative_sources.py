"""Sources about an initiative (its record, pages, the graph): what each states, and which is right.

The newest source is right. If the times do not decide (one is missing or in the future, or two are
equal), the source that agrees with the graph is right, else the first one.

A page states whether a milestone is completed and which of its tasks are done. It cannot state that
a milestone is in progress or blocked, so it does not disagree with that.
"""

from __future__ import annotations

from holdfast.core.initiatives import MILESTONE_STATUSES_WITH, new_initiative
from holdfast.core.time import age, epoch_ms
from holdfast.core.visible import folded, original, without_hidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Initiative, Milestone, MilestoneTask

APART_MS = 5 * 60 * 1_000
"""A larger difference between the times of sources causes a warning."""


class Source:
    """One source. A value that it does not state is ``None`` and never disagrees."""

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
        """Return whether both sources state a value, and the values differ."""
        return (
            _apart(self.milestone, other.milestone)
            or _apart(self.status, other.status)
            or any(_apart(other.progress.get(key), own) for key, own in self.progress.items())
        )


def _apart(value: str | None, other: str | None) -> bool:
    return value is not None and other is not None and value != other


class Verdict:
    """The right source, the stale ones, and a warning if the last update is long ago."""

    __slots__ = ("authoritative", "compared", "stale", "warning")

    def __init__(
        self,
        authoritative: Source,
        stale: list[Source],
        warning: str | None,
        compared: list[Source],
    ) -> None:
        self.authoritative = authoritative
        self.stale = stale
        self.warning = warning
        self.compared = compared


def correction_text(stale: Sequence[Source], authoritative: Source) -> str:
    names = ", ".join([source.name for source in stale])
    return f"Sync corrected: {names} updated to match {authoritative.name}"


def weigh(sources: Sequence[Source], graph: Source | None, now: str) -> Verdict | None:
    """Return the verdict on sources, the record first; ``None`` if they agree."""
    first = sources[0]
    others = [source for source in sources[1:] if source.differs(first)]
    if graph is not None and graph.differs(first):
        times = _time_of(graph, now), _time_of(first, now)
        if times[0] is not None and times[1] is not None and times[0] > times[1]:
            others.append(graph)
    if not others:
        return None
    candidates = [first, *others]
    by_the_graph = [s for s in candidates if graph is not None and not s.differs(graph)]
    right = _newest(candidates, now) or next(iter(by_the_graph), first)
    compared = [*sources, *(source for source in others if source is graph)]
    stale = [source for source in compared if source is not right and source.differs(right)]
    return Verdict(right, stale, _warning(stale, right, now), compared) if stale else None


def is_unclear(sources: list[Source], now: str) -> bool:
    """Return whether sources disagree and their times do not show which is right."""
    others = [source for source in sources[1:] if source.differs(sources[0])]
    return bool(others) and _newest([sources[0], *others], now) is None


def _time_of(source: Source, now: str) -> int | None:
    """Return when a source was written; ``None`` if unknown or in the future."""
    at = None if source.at is None else epoch_ms(source.at)
    latest = epoch_ms(now)
    return None if at is None or latest is None or at > latest + APART_MS else at


def _newest(sources: list[Source], now: str) -> Source | None:
    times = [_time_of(source, now) for source in sources]
    known_times = [time for time in times if time is not None]
    if len(known_times) < len(sources):
        return None
    newest = [
        source for source, time in zip(sources, times, strict=True) if time == max(known_times)
    ]
    is_clear = not any(source.differs(newest[0]) for source in newest[1:])
    return newest[0] if is_clear else None


def _warning(stale: list[Source], right: Source, now: str) -> str | None:
    """Return the warning about stale sources that are much older than the right one."""
    newest = _time_of(right, now)
    old = [
        f"{age(now, str(source.at))} ({source.name})"
        for source in stale
        if (time := _time_of(source, now)) is not None
        and newest is not None
        and newest - time > APART_MS
    ]
    return f"Initiative state may be stale — last updated {', '.join(old)}" if old else None


MAX_LINE_CHARACTERS = 500


def plain(text: str) -> str:
    """Return a text on one line, as tasks and titles are compared."""
    return folded(text.strip(" *_`#"))[:MAX_LINE_CHARACTERS]


def page_text(text: str) -> str:
    """Return what a line of a page says, where hidden characters are shown by their codes.

    Characters of the page itself that cannot be seen say nothing.
    """
    return plain(original(without_hidden(text)))


class PageMilestone:
    """A milestone as its pages state it."""

    __slots__ = ("checked", "id", "tasks", "title")

    def __init__(self, milestone_id: str, title: str) -> None:
        self.id = milestone_id
        self.title = title
        self.checked: bool | None = None
        """True if its own box is ticked; ``None`` without a box."""
        self.tasks: dict[str, bool] = {}

    @property
    def is_completed(self) -> bool:
        if self.checked is not None:
            return self.checked
        return bool(self.tasks) and all(self.tasks.values())

    @property
    def status(self) -> str:
        if self.is_completed:
            return "completed"
        return "in_progress" if any(self.tasks.values()) else "pending"


def initiative_from_pages(name: str, pages: Sequence[PageMilestone], at: str) -> Initiative:
    """Return an initiative made from its pages alone."""
    initiative = new_initiative(name, [_fresh(page) for page in pages], at)
    return _positioned({**initiative, "current_milestone": None})


def apply_pages(initiative: Initiative, pages: Sequence[PageMilestone]) -> Initiative:
    """Return the initiative with what its pages state; the rest is kept."""
    by_id = {page.id: page for page in pages}
    ids = [milestone["id"] for milestone in initiative["milestones"]]
    milestones = [
        _merged(milestone, by_id[milestone["id"]]) if milestone["id"] in by_id else milestone
        for milestone in initiative["milestones"]
    ]
    milestones += [_fresh(page) for page in pages if page.id not in ids]
    return _positioned({**initiative, "milestones": milestones})


def disagreements(initiative: Initiative, pages: Sequence[PageMilestone]) -> list[str]:
    """Return one sentence for each difference between pages and initiative."""
    sentences = []
    milestones = {milestone["id"]: milestone for milestone in initiative["milestones"]}
    for page in pages:
        milestone = milestones.get(page.id)
        if milestone is None:
            sentences.append(f"{page.id} stands in the milestone files only")
            continue
        if page.is_completed != (milestone["status"] == "completed"):
            status = "completed" if page.is_completed else "open"
            sentences.append(
                f"{page.id} is {milestone['status']} in initiative.json and {status} in the files"
            )
        open_tasks = [plain(task["text"]) for task in milestone["tasks"] if not task["done"]]
        ticked = [text for text in open_tasks if page.tasks.get(text)]
        if ticked:
            sentences.append(f"{page.id}: {len(ticked)} open tasks are ticked in the files")
    return sentences


def in_a_note(sentences: Sequence[str]) -> str:
    return (
        f"the milestone files disagree with initiative.json ({sentences[0]}): "
        "holdfast initiative sync --from files takes them"
    )


def _fresh(page: PageMilestone) -> Milestone:
    tasks: list[MilestoneTask] = [{"text": text, "done": done} for text, done in page.tasks.items()]
    return {"id": page.id, "title": page.title, "status": page.status, "tasks": tasks}  # type: ignore[typeddict-item]


def _merged(milestone: Milestone, page: PageMilestone) -> Milestone:
    after = _fresh(page)
    is_known = page.is_completed == (milestone["status"] == "completed")
    begun = milestone["status"] == "pending" and page.status == "in_progress"
    if is_known and not begun:
        after["status"] = milestone["status"]
    if after["status"] != "completed" and not is_known and "started_at" in milestone:
        after["status"] = "in_progress"
    others = [task for task in milestone["tasks"] if plain(task["text"]) not in page.tasks]
    after["tasks"] = [*after["tasks"], *others]
    after["title"] = page.title or milestone["title"]
    for name, statuses in MILESTONE_STATUSES_WITH.items():
        if name in milestone and after["status"] in statuses:
            after[name] = milestone[name]  # type: ignore[literal-required]
    return after


def _positioned(initiative: Initiative) -> Initiative:
    """Choose an open current milestone, and a status that fits the begun milestones."""
    milestones = initiative["milestones"]
    open_ids = [m["id"] for m in milestones if m["status"] != "completed"]
    begun = [m["id"] for m in milestones if m["status"] != "pending"]
    current = initiative["current_milestone"]
    if current not in open_ids:
        last = milestones[-1]["id"] if milestones else None
        going = [m["id"] for m in milestones if m["status"] == "in_progress"]
        current = next(iter([*going, *open_ids]), last)
    after: Initiative = {**initiative, "current_milestone": current}
    if initiative["status"] == "created" and begun:
        after["status"] = "in_progress"
    if after["status"] == "in_progress" and begun:
        after["milestones"] = [
            {**m, "status": "in_progress"} if m["id"] == current and m["status"] == "pending" else m
            for m in milestones
        ]
    return after
