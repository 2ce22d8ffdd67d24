"""A loop's record made anew from its pages alone, where no ledger has it.

The log is told to the core once more: each entry is the event that it was written for, and what it
leads to is the core's to say. Where pages, log and git disagree it is said, in words.
"""

from __future__ import annotations

import re

from holdfast.core.time import epoch_ms
from holdfast.core.workflow import tasks
from holdfast.core.workflow.state import blank
from holdfast.core.workflow.units import EVOLVE as UNITS
from holdfast.core.workflow.units import phase_of, signal_of
from holdfast.formats import loop as record
from holdfast.loops import page_reader, progress_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.loops.progress_log import Entry

_EVOLVE = {**tasks.EVOLVE, **UNITS}
_EXPECTED = {
    "iteration": ("pending", "in_progress"),
    "timeout": ("pending", "in_progress"),
    "confirmation": ("confirming",),
    "verification": ("verifying",),
    "blocked": ("pending", "in_progress", "confirming", "verifying", "blocked", "timeout"),
    "unblocked": ("blocked",),
    "started": ("pending", "confirming", "verifying", "blocked", "timeout"),
}
"""What a unit's status has to be for an entry of this kind to come next."""
_WORK = ("iteration", "timeout", "extended")
"""These count even where they stand in the wrong place: the work was done."""
_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_LEARNED = re.compile(r"([TR][0-9]{1,4}) iteration [0-9]{1,9}")


def rebuilt(
    brief: str,
    units: str,
    progress: str,
    guardrails: str,
    slug: str,
    mode: str,
    has_commit: Callable[[str], bool],
) -> tuple[Fields, list[str]]:
    """The document of ``state.json`` that the pages tell, and where they disagree."""
    said = page_reader.read_brief(brief)
    planned, complaints = page_reader.read_units(units, mode)
    created = next(filter(_is_time, (said["created"], page_reader.read_created(units))), "")
    story = _Story(slug, mode, created, planned, has_commit)
    story.notes += [f"{_page_of(mode)}: {complaint}" for complaint in complaints]
    if said["mode"] and said["mode"] != mode:
        story.note(f"brief.md says that the mode is {said['mode'][:40]!r}; the pages are {mode}")
    for one in _in_order(progress_log.settled(progress_log.read(progress))):
        story.tell(one)
    story.compare_boxes()
    story.compare_lessons(page_reader.read_guardrails(guardrails))
    return story.document(said), story.notes


def _in_order(told: list[Entry]) -> list[Entry]:
    """By their times: an entry that somebody removed was written again at the end."""
    times = [epoch_ms(one.at) for one in told]
    if any(time is None for time in times):
        return told
    return [told[place] for place in sorted(range(len(told)), key=lambda place: times[place] or 0)]


def _page_of(mode: str) -> str:
    return "plan.md" if mode == "knowledge" else "tasks.md"


def _is_time(text: str) -> bool:
    return epoch_ms(text) is not None


def _bare(signal: str) -> str:
    return signal.strip("`").removeprefix("<signal>").removesuffix("</signal>")


class _Story:
    """The loop while its log is told again."""

    def __init__(
        self,
        slug: str,
        mode: str,
        created: str,
        planned: list[Fields],
        has_commit: Callable[[str], bool],
    ) -> None:
        self._slug = slug
        self._mode = mode
        self._planned = {unit["id"]: unit for unit in planned}
        self._has_commit = has_commit
        self._created = self._at = created
        self._is_over = False
        self.notes: list[str] = []
        self._tasks: dict[str, Task] = {}
        self._commits: list[str] = []
        self._current = ""
        self._blank = blank(slug, {"name": "loop", "format": "loop", "phases": []}, created)
        for unit in planned:
            self._add(unit["id"], unit["description"])

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tell(self, one: Entry) -> None:
        """Carries out one entry of the log, or says why not."""
        if _is_time(one.at):
            self._at = one.at
            self._created = self._created or one.at
        else:
            self._say(one, f"{one.at[:40]!r} is no time")
        self._is_over = one.kind == "completed" or (self._is_over and one.kind == "archived")
        if one.task is None:
            return
        task = self._task(one)
        if task is None or not self._fits(one, task):
            return
        data = self._data(one, task)
        if data is not None:
            self._evolve(one.kind, task, data)

    def _evolve(self, kind: str, task: Task, data: Fields) -> None:
        """Lets the core say what becomes of the unit; it needs to see no other for that."""
        alone: Workflow = {**self._blank, "tasks": [task]}
        event = progress_log.KINDS[kind]
        after = _EVOLVE[event](alone, {"task": task["id"], **data}, self._at)
        self._tasks[str(task["id"])] = after["tasks"][0]
        self._commits += after["commits"]
        if "current_task" in after:
            self._current = str(task["id"])

    def _task(self, one: Entry) -> Task | None:
        """The unit of an entry. One that is on no page gets a place: its work was done."""
        name = str(one.task)
        task = self._tasks.get(name)
        if task is None and page_reader.is_name(name):
            self._say(one, f"{name} is not planned in {_page_of(self._mode)}")
            return self._add(name, "")
        if task is None:
            self._say(one, f"{name[:40]!r} is no unit")
        return task

    def _add(self, name: str, description: str) -> Task:
        unit = self._planned.get(name, {})
        task: Json = {"id": name, "description": description, "status": "pending"}
        task |= {key: unit[key] for key in page_reader.READ if unit.get(key)}
        self._tasks[name] = task
        added: Task = task
        return added

    def _fits(self, one: Entry, task: Task) -> bool:
        """Whether an entry counts. Nothing gets confirmed or verified out of order."""
        expected = _EXPECTED.get(one.kind)
        if expected is not None and task["status"] not in expected:
            self._say(one, f"out of order: {task['id']} was {task['status']} by then")
            return one.kind in _WORK
        following = task.get("iterations_used", 0) + 1
        if one.kind == "iteration" and one.number != following:
            self._say(one, f"out of order: iteration {following} would follow")
        return True

    def _data(self, one: Entry, task: Task) -> Fields | None:
        """What the event said; ``None`` where the entry does not tell enough of it."""
        said = one.fields
        if one.kind in ("iteration", "timeout"):
            return self._work(one, task)
        if one.kind in ("confirmation", "verification"):
            clean = progress_log.CLEAN[progress_log.KINDS[one.kind]]
            if said.get("result") not in (clean, progress_log.NOT_CLEAN):
                self._say(one, f"without a result ({clean}, or {progress_log.NOT_CLEAN})")
                return None
            return {"clean": said["result"] == clean, "found": said.get("found")}
        if one.kind == "extended":
            most: str = said.get("max_iterations", "")
            is_number = len(most) <= 4 and most.isascii() and most.isdecimal()
            return {"max_iterations": int(most)} if is_number else None
        return {"reason": said.get("reason", "")}

    def _work(self, one: Entry, task: Task) -> Fields:
        said = one.fields
        data: Fields = {
            "iteration": task.get("iterations_used", 0) + 1 if one.number is None else one.number,
            "did": said.get("did") or task["description"] or "?",
            **{key: said[key] for key in ("remaining", "blockers") if said.get(key)},
        }
        signal: str | None = said.get("signal")
        if signal and _bare(signal) == signal_of(task):
            data["signal"] = signal_of(task)
        elif signal:
            self._say(one, f"{signal[:40]!r} is not the signal of {task['id']}")
        commit: str | None = said.get("commit")
        if commit:
            if _HASH.fullmatch(commit) and self._has_commit(commit):
                data["commit"] = commit
            else:
                self._say(one, f"git has no commit {commit[:64]!r}")
        return data

    def _say(self, one: Entry, why: str) -> None:
        self.note(f"progress.md, line {one.line}: {one.heading[:80]}: {why}")

    def compare_boxes(self) -> None:
        for name, task in self._tasks.items():
            unit = self._planned.get(name)
            is_done = task["status"] == "completed"
            if unit is None or unit["checked"] == is_done:
                continue
            shown, told = ("done", "does not") if unit["checked"] else ("not done", "does")
            self.note(
                f"{_page_of(self._mode)} shows {name} as {shown}; "
                f"the log {told} say that it was verified"
            )

    def compare_lessons(self, lessons: list[Fields]) -> None:
        for lesson in lessons:
            learned = _LEARNED.match(lesson.get("learned", ""))
            if learned and learned[1] not in self._tasks:
                name = lesson["name"][:60]
                self.note(f"guardrails.md: {name!r} was learned in {learned[1]}, which is no unit")

    def document(self, said: Fields) -> Fields:
        units_key, current_key = record.UNITS[self._mode]
        document: Fields = {"task": said["title"] or self._slug, "slug": self._slug}
        document["mode"] = self._mode
        if said["domain"]:
            document["domain"] = said["domain"]
        if self._created:
            document |= {"created": self._created, "updated": self._at}
        document["phase"] = "complete" if self._is_over else phase_of(list(self._tasks.values()))
        if self._current:
            document[current_key] = self._current
            document["current_iteration"] = self._tasks[self._current]["iterations_used"]
        document[units_key] = {name: self._unit(task) for name, task in self._tasks.items()}
        if self._commits or self._mode == "development":
            document["commits"] = self._commits
        return document

    def _unit(self, task: Task) -> Fields:
        """A unit of the document. How many iterations it may take is what the page says now."""
        fields: Json = {key: value for key, value in task.items() if key != "id"}
        if task["status"] == "completed":
            fields["status"] = "done"
        most = self._planned.get(str(task["id"]), {}).get("max_iterations")
        if most is not None:
            fields["max_iterations"] = most
        unit: Fields = fields
        return unit
