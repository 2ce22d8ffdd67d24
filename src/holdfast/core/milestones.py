"""What milestone pages say, against what an initiative says. Pure.

A page tells of a milestone whether it is completed, and which of its tasks are done; that one is
in progress, or blocked, it cannot say, so it does not disagree with that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Initiative, Milestone, MilestoneTask

LONGEST = 500


def plain(text: str) -> str:
    """A text on one line, as a page can hold it and a record can keep it."""
    kept = "".join([c if c.isprintable() else " " for c in text])
    return " ".join(kept.strip(" *_`#").split())[:LONGEST]


class Told:
    """One milestone as pages tell of it."""

    __slots__ = ("checked", "id", "tasks", "title")

    def __init__(self, milestone_id: str, title: str) -> None:
        self.id = milestone_id
        self.title = title
        self.checked: bool | None = None
        """Whether its own box is ticked; ``None`` where it has none."""
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


def rebuilt(name: str, told: Sequence[Told], at: str) -> Initiative:
    """An initiative from nothing but its pages."""
    milestones: list[Milestone] = [_fresh(one) for one in told]
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


def taken(one: Initiative, told: Sequence[Told]) -> Initiative:
    """The initiative with what its pages say in it; what they do not tell of stays."""
    pages = {each.id: each for each in told}
    known = [milestone["id"] for milestone in one["milestones"]]
    milestones = [
        _merged(milestone, pages[milestone["id"]]) if milestone["id"] in pages else milestone
        for milestone in one["milestones"]
    ]
    milestones += [_fresh(each) for each in told if each.id not in known]
    return _positioned({**one, "milestones": milestones})


def disagreements(one: Initiative, told: Sequence[Told]) -> list[str]:
    """Where pages say something else, in sentences."""
    found = []
    known = {milestone["id"]: milestone for milestone in one["milestones"]}
    for each in told:
        milestone = known.get(each.id)
        if milestone is None:
            found.append(f"{each.id} stands in the milestone files only")
            continue
        if each.is_completed != (milestone["status"] == "completed"):
            page = "completed" if each.is_completed else "open"
            found.append(
                f"{each.id} is {milestone['status']} in initiative.json and {page} in the files"
            )
        open_tasks = [plain(task["text"]) for task in milestone["tasks"] if not task["done"]]
        ticked = [text for text in open_tasks if each.tasks.get(text)]
        if ticked:
            found.append(f"{each.id}: {len(ticked)} open tasks are ticked in the files")
    return found


def in_a_note(found: Sequence[str]) -> str:
    return (
        f"the milestone files disagree with initiative.json ({found[0]}): "
        "holdfast initiative sync --from files takes them"
    )


def _fresh(told: Told) -> Milestone:
    tasks: list[MilestoneTask] = [{"text": text, "done": done} for text, done in told.tasks.items()]
    return {"id": told.id, "title": told.title, "status": told.status, "tasks": tasks}  # type: ignore[typeddict-item]


def _merged(milestone: Milestone, told: Told) -> Milestone:
    after = _fresh(told)
    is_known = told.is_completed == (milestone["status"] == "completed")
    begun = milestone["status"] == "pending" and told.status == "in_progress"
    if is_known and not begun:
        after["status"] = milestone["status"]
    if after["status"] != "completed" and not is_known and "started_at" in milestone:
        after["status"] = "in_progress"
    others = [task for task in milestone["tasks"] if plain(task["text"]) not in told.tasks]
    after["tasks"] = [*after["tasks"], *others]
    after["title"] = told.title or milestone["title"]
    kept = {"started_at": ("in_progress", "blocked", "completed"), "completed_at": ("completed",)}
    for name, statuses in kept.items():
        if name in milestone and after["status"] in statuses:
            after[name] = milestone[name]  # type: ignore[literal-required]
    return after


def _positioned(one: Initiative) -> Initiative:
    """The same with a current milestone that is open, and a status that fits what was begun."""
    open_ids = [each["id"] for each in one["milestones"] if each["status"] != "completed"]
    begun = [each for each in one["milestones"] if each["status"] != "pending"]
    current = one["current_milestone"]
    if current not in open_ids:
        last = one["milestones"][-1]["id"] if one["milestones"] else None
        going = [each["id"] for each in one["milestones"] if each["status"] == "in_progress"]
        current = next(iter([*going, *open_ids]), last)
    after: Initiative = {**one, "current_milestone": current}
    if one["status"] == "created" and begun:
        after["status"] = "in_progress"
    if after["status"] == "in_progress" and begun:
        after["milestones"] = [
            {**each, "status": "in_progress"}
            if each["id"] == current and each["status"] == "pending"
            else each
            for each in after["milestones"]
        ]
    return after
