"""Pages that people wrote in too: only Holdfast's own parts are brought up to date.

Of a page of units those are the numbers above, the boxes, the values that the state says
otherwise, units that are missing, and the arrows between them as long as they are Holdfast's own.
Every other byte stays as it is.
"""

from __future__ import annotations

import re

from holdfast.core.workflow.units import MAX_ITERATIONS
from holdfast.layers.markdown import closing_mark, newline_of, split_lines
from holdfast.loops import markdown_text, page_reader, unit_item
from holdfast.loops.page_model import Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.loops.page_model import Section, Unit

GUARDRAILS = "# Guardrails\n\nRead before starting any iteration. Append when issues discovered.\n"
_TOTAL = re.compile(r"[0-9]+ (?:tasks?|phases?)\b")
_STATUS = re.compile(
    r"[0-9]+ done, [0-9]+ in progress, [0-9]+ pending(?:, [0-9]+ (?:blocked|timed out))*"
)
_BOX = re.compile(r"\[[ xX]\]")
_LISTS = ("files", "depends")
"""Of these, none is a value as well."""
_OWN = ("files", "criteria", "output", "max_iterations", "depends", "model", "verify")


def patched_units(text: str, state: Workflow, *, keep_values: bool = False) -> str:
    """The page with Holdfast's own parts as the state has them.

    As long as something on the page is not understood, the values on it stay: they may be edits
    that nobody could take in yet. ``keep_values`` says so of edits that the core refused.
    """
    if page_reader.is_too_long(text):
        return text
    patch = _Patch(text)
    told, complaints = page_reader.read_units(text, unit_item.mode_of(state))
    with_values = not complaints and not keep_values
    drawn = {unit["id"]: unit.get("depends", []) for unit in told}
    patch.count(state)
    patch.redraw(state["tasks"])
    on_page = {unit.name: unit for unit in reversed(patch.page.units)}
    for task in state["tasks"]:
        unit = on_page.get(str(task["id"]))
        if unit is not None:
            patch.settle(unit, task, drawn.get(unit.name, []), with_values=with_values)
    patch.add([t for t in state["tasks"] if str(t["id"]) not in on_page], unit_item.mode_of(state))
    return patch.done()


class _Patch:
    """The changes to one page, gathered and then made from below."""

    def __init__(self, text: str) -> None:
        self.page = Page(text)
        self._text = text
        self._changes: list[tuple[int, int, list[str]]] = []

    def done(self) -> str:
        lines = list(self.page.lines)
        newline = newline_of(lines)
        is_open = bool(lines) and not lines[-1].endswith(("\r", "\n"))
        if is_open:
            lines[-1] += newline
        in_order = sorted(self._changes, key=lambda one: one[:2])
        for first, end, added in in_order[::-1]:
            lines[first:end] = [line + newline for line in added]
        text = "".join(lines)
        return text.removesuffix(newline) if is_open else text

    def put(self, first: int, end: int, text: str) -> None:
        self._changes.append((first, end, text.split("\n")))

    def count(self, state: Workflow) -> None:
        header, mode = self.page.header(), unit_item.mode_of(state)
        counts = {
            "total": (_TOTAL, unit_item.total(state["tasks"], mode)),
            "status": (_STATUS, unit_item.status(state["tasks"])),
        }
        for key, (pattern, now) in counts.items():
            if key in header:
                line = header[key][0]
                before = self.page.bare[line]
                after = pattern.sub(now, before, count=1)
                if after != before:
                    self.put(line, line + 1, after)

    def redraw(self, tasks: list[Task]) -> None:
        section = self.page.section("dependencies")
        if section is None:
            return
        first, end = markdown_text.trimmed(self.page.bare, section.first, section.end)
        before = self.page.bare[first:end]
        after = unit_item.dependencies(tasks)
        if [line.strip() for line in before] == after or not unit_item.is_drawn(before):
            return
        if before:
            self._changes.append((first, end, after))
        else:
            self._changes.append((section.first, section.first, ["", *after]))

    def settle(self, unit: Unit, task: Task, drawn: list[str], *, with_values: bool) -> None:
        """Brings what the page says of a unit to what the state says."""
        title = markdown_text.plain(unit.title)
        box = _boxed(self.page.bare[unit.first], unit, is_done=task["status"] == "completed")
        if with_values and title != task["description"]:
            head = box[: box.index(unit.label)] + unit.label
            new = markdown_text.after_key(task["description"], len(unit.marker))
            self.put(unit.first, unit.title_end, f"{head} {new}".rstrip())
        elif box != self.page.bare[unit.first]:
            self.put(unit.first, unit.first + 1, box)
        for key in _OWN if with_values else ():
            self._settle_bullet(unit, task, key, drawn)

    def _settle_bullet(self, unit: Unit, task: Task, key: str, drawn: list[str]) -> None:
        value: Json = task.get(key)
        bullet = unit.bullet(key)
        if value is None and key not in _LISTS:
            return
        if key in _LISTS:
            value = [str(one) for one in value or []]
        if bullet is not None:
            # What is not read is one line of Holdfast's: others below it were never taken in.
            is_read = key in page_reader.READ
            told = bullet.value if is_read else bullet.value[:1]
            if unit_item.understood(key, told) not in (value, None):
                end = bullet.end if is_read else bullet.first + 1
                now = unit_item.shown(task, key, len(bullet.marker))
                self.put(bullet.first, end, f"{bullet.marker}{bullet.label} {now or 'none'}")
        elif value and value != _DEFAULTS.get(key) and (key, value) != ("depends", drawn):
            marker = unit.bullets[0].marker if unit.bullets else " " * len(unit.marker) + "- "
            now = unit_item.shown(task, key, len(marker))
            place = _place(unit, key)
            self.put(place, place, f"{marker}{unit_item.BULLETS[key]}: {now}")

    def add(self, tasks: list[Task], mode: str) -> None:
        """Puts units that the page does not have at the end of their section."""
        lines = [line for task in tasks for line in unit_item.item(task)]
        if not lines:
            return
        section = self.page.section(*page_reader.UNIT_SECTIONS)
        if section is None:
            name = "## Phases" if mode == "knowledge" else "## Tasks"
            self._append([name, "", *lines])
            return
        inside = [u for u in self.page.units if section.first <= u.first < section.end]
        if inside:
            end = inside[-1].end
            self._changes.append((end, end, lines))
        elif section.end == len(self.page.lines):
            self._append(lines)
        else:
            end = self._end_of(section)
            self._changes.append((end, end, ["", *lines]))

    def _end_of(self, section: Section) -> int:
        first, end = markdown_text.trimmed(self.page.bare, section.first, section.end)
        return end if first < end else section.first

    def _append(self, lines: list[str]) -> None:
        """Puts lines at the end of the page, after what somebody left open there."""
        end = len(self.page.lines)
        left_open = closing_mark(self._text, nested=True)
        gap = [left_open, ""] if left_open else [""] if end and self.page.bare[-1].strip() else []
        self._changes.append((end, end, [*gap, *lines]))


_DEFAULTS = {"max_iterations": MAX_ITERATIONS}


def _boxed(line: str, unit: Unit, *, is_done: bool) -> str:
    """The first line of a unit with its box as it should be."""
    if is_done == bool(unit.checked):
        return line
    if unit.checked is None:
        return f"{unit.marker}[x] {line.removeprefix(unit.marker)}"
    return _BOX.sub("[x]" if is_done else "[ ]", line, count=1)


def _place(unit: Unit, key: str) -> int:
    """Where a bullet belongs: behind the nearest of those that come before it."""
    order = list(unit_item.BULLETS)
    before = [b.end for b in unit.bullets if order.index(b.key) < order.index(key)]
    return max(before, default=unit.title_end)


def lesson(one: Fields) -> str:
    """A guardrail as a section."""
    lines = [f"## {markdown_text.heading(str(one.get('name', '')))}"]
    lines += [
        f"- **{key.capitalize()}**: {markdown_text.after_key(str(one[key]), 2)}"
        for key in page_reader.GUARDRAIL
        if one.get(key) is not None
    ]
    return "\n".join(lines) + "\n"


def patched_guardrails(text: str, state: Workflow) -> str:
    """The page with the lessons that it does not have yet appended.

    It has a lesson of the same name, however that reads by now, and one that says the same under
    another name.
    """
    if page_reader.is_too_long(text):
        return text
    page = Page(text)
    names = [markdown_text.decoded(section.heading) for section in page.sections]
    bodies = [_body(one) for one in page_reader.read_guardrails(text)]
    added: list[str] = []
    for one in state.get("guardrails", []):
        if str(one.get("name", "")) in names:
            names.remove(str(one.get("name", "")))
        elif _body(one) not in bodies:
            added.append("\n" + lesson(one))
    return _appended(text, "".join(added)) if added else text


def _body(one: Fields) -> Fields:
    return {key: str(one[key]) for key in page_reader.GUARDRAIL if one.get(key) is not None}


def _appended(text: str, added: str) -> str:
    left_open = closing_mark(text, nested=True)
    if left_open:
        added = f"{left_open}\n{added}"
    if text and not text.endswith(("\r", "\n")):
        added = "\n" + added
    return text + added.replace("\n", newline_of(split_lines(text)))
