"""Patch pages that people edit too: bring Holdfast's own parts up to date.

On the page of units those parts are the counts at the top, the boxes, values that differ from the
state, missing units, and the arrows between units while they are as Holdfast rendered them. On
``guardrails.md`` they are missing lessons. Every other byte stays as it is.
"""

from __future__ import annotations

import re

from holdfast.core.workflow.tasks import MAX_ITERATIONS
from holdfast.layers.markdown import closing_mark, newline_of, split_lines
from holdfast.loops import pages
from holdfast.loops.markdown_text import (
    decode_after_key,
    decode_line,
    encode_after_key,
    trim_lines,
)
from holdfast.loops.page_reader import (
    READ_BULLETS,
    UNIT_SECTIONS,
    Page,
    is_rendered_arrows,
    is_too_long,
    parse_value,
    read_guardrails,
    read_units,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.loops.page_reader import Unit

_TOTAL = re.compile(r"[0-9]+ (?:tasks?|phases?)\b")
_STATUS = re.compile(
    r"[0-9]+ done, [0-9]+ in progress, [0-9]+ pending(?:, [0-9]+ (?:blocked|timed out))*"
)
_BOX = re.compile(r"\[[ xX]\]")
_LISTS = ("files", "depends")
"""For these, an empty value is a value too."""
_OWN_BULLETS = ("files", "criteria", "output", "max_iterations", "depends", "model", "verify")
_DEFAULTS = {"max_iterations": MAX_ITERATIONS}


def patch_units(text: str, state: Workflow, *, keep_values: bool = False) -> str:
    """Return the page of units with Holdfast's own parts as in the state.

    Values stay as they are if something on the page cannot be understood, or with ``keep_values``:
    they may be edits that were not taken in yet.
    """
    if is_too_long(text):
        return text
    patch = _UnitsPatch(text)
    mode = pages.mode_of(state)
    units, complaints = read_units(text, mode)
    with_values = not complaints and not keep_values
    dependencies = {unit["id"]: unit.get("depends", []) for unit in units}
    patch.update_counts(state)
    patch.update_arrows(state["tasks"])
    on_page = {unit.name: unit for unit in reversed(patch.page.units)}
    for task in state["tasks"]:
        unit = on_page.get(str(task["id"]))
        if unit is None:
            continue
        patch.update_unit(unit, task, with_values=with_values)
        for key in _OWN_BULLETS if with_values else ():
            patch.update_bullet(unit, task, key, dependencies.get(unit.name, []))
    patch.add_units([t for t in state["tasks"] if str(t["id"]) not in on_page], mode)
    return patch.result()


class _UnitsPatch:
    """The changes to one page of units, applied from the last line to the first."""

    def __init__(self, text: str) -> None:
        self.page = Page(text)
        self._text = text
        self._changes: list[tuple[int, int, list[str]]] = []
        """Each replaces the lines from the first number to the second."""

    def result(self) -> str:
        lines = list(self.page.lines)
        newline = newline_of(lines)
        is_unfinished = bool(lines) and not lines[-1].endswith(("\r", "\n"))
        if is_unfinished:
            lines[-1] += newline
        for first, end, added in sorted(self._changes, key=lambda change: change[:2])[::-1]:
            lines[first:end] = [line + newline for line in added]
        text = "".join(lines)
        return text.removesuffix(newline) if is_unfinished else text

    def _replace(self, first: int, end: int, text: str) -> None:
        lines = text.split("\n")
        if lines != self.page.bare[first:end]:
            self._changes.append((first, end, lines))

    def update_counts(self, state: Workflow) -> None:
        """Update the total and the status at the top."""
        header, tasks = self.page.header(), state["tasks"]
        counts = {
            "total": (_TOTAL, pages.total(tasks, pages.mode_of(state))),
            "status": (_STATUS, pages.status_counts(tasks)),
        }
        for key, (pattern, count) in counts.items():
            if key in header:
                line = header[key][0]
                self._replace(line, line + 1, pattern.sub(count, self.page.bare[line], count=1))

    def update_arrows(self, tasks: list[Task]) -> None:
        """Update the section on dependencies, unless people changed it."""
        section = self.page.section("dependencies")
        if section is None:
            return
        first, end = trim_lines(self.page.bare, section.first, section.end)
        before, after = self.page.bare[first:end], pages.render_dependencies(tasks)
        if [line.strip() for line in before] == after or not is_rendered_arrows(before):
            return
        if before:
            self._changes.append((first, end, after))
        else:
            self._changes.append((section.first, section.first, ["", *after]))

    def update_unit(self, unit: Unit, task: Task, *, with_values: bool) -> None:
        """Update the box of a unit, and its title."""
        line = self.page.bare[unit.first]
        is_done = task["status"] == "completed"
        if unit.checked is None and is_done:
            line = f"{unit.marker}[x] {line.removeprefix(unit.marker)}"
        elif is_done != bool(unit.checked):
            line = _BOX.sub("[x]" if is_done else "[ ]", line, count=1)
        if with_values and decode_after_key(unit.title) != task["description"]:
            head = line[: line.index(unit.label)] + unit.label
            title = encode_after_key(task["description"], len(unit.marker))
            self._replace(unit.first, unit.title_end, f"{head} {title}".rstrip())
        else:
            self._replace(unit.first, unit.first + 1, line)

    def update_bullet(self, unit: Unit, task: Task, key: str, dependencies: list[str]) -> None:
        """Update or add a bullet. ``dependencies`` are those that the page shows for the unit."""
        value: Json = task.get(key)
        bullet = unit.bullet(key)
        if value is None and key not in _LISTS:
            return
        if key in _LISTS:
            value = [str(item) for item in value or []]
        if bullet is not None:
            # A bullet that is not read has one line of Holdfast's; further lines are people's.
            is_read = key in READ_BULLETS
            lines = bullet.value if is_read else bullet.value[:1]
            if parse_value(key, lines) not in (value, None):
                end = bullet.end if is_read else bullet.first + 1
                text = pages.render_value(task, key, len(bullet.marker)) or "none"
                self._replace(bullet.first, end, f"{bullet.marker}{bullet.label} {text}")
        elif value and value != _DEFAULTS.get(key) and (key, value) != ("depends", dependencies):
            marker = unit.bullets[0].marker if unit.bullets else " " * len(unit.marker) + "- "
            text = pages.render_value(task, key, len(marker)) or ""
            order = list(pages.BULLETS)
            ends = [b.end for b in unit.bullets if order.index(b.key) < order.index(key)]
            line = max(ends, default=unit.title_end)
            self._replace(line, line, f"{marker}{pages.BULLETS[key]}: {text}")

    def add_units(self, tasks: list[Task], mode: str) -> None:
        """Add missing units at the end of their section."""
        lines = [line for task in tasks for line in pages.render_unit(task)]
        if not lines:
            return
        section = self.page.section(*UNIT_SECTIONS)
        if section is None:
            self._append(["## Phases" if mode == "knowledge" else "## Tasks", "", *lines])
            return
        ends = [u.end for u in self.page.units if section.first <= u.first < section.end]
        if ends:
            self._changes.append((ends[-1], ends[-1], lines))
        elif section.end == len(self.page.lines):
            self._append(lines)
        else:
            first, end = trim_lines(self.page.bare, section.first, section.end)
            end = end if first < end else section.first
            self._changes.append((end, end, ["", *lines]))

    def _append(self, lines: list[str]) -> None:
        """Add lines at the end of the page; close first what was left open there."""
        end = len(self.page.lines)
        mark = closing_mark(self._text, nested=True)
        gap = [mark, ""] if mark else [""] if end and self.page.bare[-1].strip() else []
        self._changes.append((end, end, [*gap, *lines]))


def patch_guardrails(text: str, state: Workflow) -> str:
    """Return ``guardrails.md`` with the missing lessons appended.

    A lesson is not missing if the page has one of its name, edited or not, or one with the same
    content under another name.
    """
    if is_too_long(text):
        return text
    names = [decode_line(section.heading) for section in Page(text).sections]
    contents = [_content(lesson) for lesson in read_guardrails(text)]
    added = ""
    for lesson in state.get("guardrails", []):
        name = str(lesson.get("name", ""))
        if name in names:
            names.remove(name)
        elif _content(lesson) not in contents:
            added += "\n" + pages.render_lesson(lesson)
    if not added:
        return text
    mark = closing_mark(text, nested=True)
    if mark:
        added = f"{mark}\n{added}"
    if text and not text.endswith(("\r", "\n")):
        added = "\n" + added
    return text + added.replace("\n", newline_of(split_lines(text)))


def _content(lesson: Fields) -> Fields:
    return {key: str(lesson[key]) for key in pages.LESSON_FIELDS if lesson.get(key) is not None}
