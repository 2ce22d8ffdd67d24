"""Milestone pages compared with an initiative. Pure.

A page states whether a milestone is completed and which of its tasks are done. It cannot state that
a milestone is in progress or blocked, so it does not disagree with that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Initiative, Milestone, MilestoneTask

MAX_CHARACTERS = 500


def plain(text: str) -> str:
    """Return a text on one line, as pages and records hold it."""
    kept = "".join([c if c.isprintable() else " " for c in text])
    return " ".join(kept.strip(" *_`#").split())[:MAX_CHARACTERS]


class PageMilestone:
    """A milestone as its pages state it."""

    __slots__ = ("checked", "id", "tasks", "title")

    def __init__(self, milestone_id: str, title: str) -> None:
        self.id = milestone_id
        self.title = title
        self.checked: bool | None = None
        """Whether its own box is ticked; ``None`` without a box."""
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
    milestones: list[Milestone] = [_fresh(page) for page in pages]
    blank: Initiative = {
        "name": name,
        "status": "created",
        "created_at": at,
        "updated_at": at,
        "current_milestone": None,
        "milestones": milestones,
        "extra": {},
    }
    return _positioned(blank)


def apply_pages(initiative: Initiative, pages: Sequence[PageMilestone]) -> Initiative:
    """Return the initiative with what its pages state; the rest is kept."""
    by_id = {page.id: page for page in pages}
    known = [milestone["id"] for milestone in initiative["milestones"]]
    milestones = [
        _merged(milestone, by_id[milestone["id"]]) if milestone["id"] in by_id else milestone
        for milestone in initiative["milestones"]
    ]
    milestones += [_fresh(page) for page in pages if page.id not in known]
    return _positioned({**initiative, "milestones": milestones})


def disagreements(initiative: Initiative, pages: Sequence[PageMilestone]) -> list[str]:
    """Return one sentence for each difference between pages and initiative."""
    sentences = []
    known = {milestone["id"]: milestone for milestone in initiative["milestones"]}
    for page in pages:
        milestone = known.get(page.id)
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
    kept = {"started_at": ("in_progress", "blocked", "completed"), "completed_at": ("completed",)}
    for name, statuses in kept.items():
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
