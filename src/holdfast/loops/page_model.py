"""The pages of a loop as people and tools may have edited them: parsed, read and patched.

No content is wrong enough to raise: what cannot be understood is left out and reported with its
line. A patch brings Holdfast's own parts up to date. On the page of units those are the counts at
the top, the boxes, values that differ from the state, missing units, and the arrows between units
while they are as Holdfast rendered them. On ``guardrails.md`` they are missing lessons. Every other
byte stays as it is.
"""

from __future__ import annotations

import re
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from holdfast.core.workflow.tasks import MAX_ITERATIONS
from holdfast.layers.markdown import MAX_LINES, block_tree, closing_mark, newline_of, split_lines
from holdfast.loops import pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.layers.markdown import Block

MAX_UNIT_ITERATIONS = 1_000
"""The largest number of iterations that a page may set."""
_LISTS = ("files", "depends")
"""For these bullets, an empty value is a value too."""

_MARKER = r"(\s*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)"
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)")
_UNIT = re.compile(
    _MARKER + r"(?:\[([ xX])\][ \t]+)?(\*\*([^*\n]+?)(?:\*\*[ \t]*:|:\*\*))[ \t]*(.*)"
)
_TICK_BOX = re.compile(_MARKER + r"\[[ xX]?\]")
_BULLET = re.compile(
    _MARKER + r"((?:\*\*)?([A-Za-z][A-Za-z ]{0,30}?)(?:\*\*[ \t]*:|:\*\*|:))[ \t]*(.*)"
)
_KEYS = {label.lower(): key for key, label in pages.BULLETS.items()} | {
    "file": "files",
    "outputs": "output",
    "completion signal": "completion",
    "maximum iterations": "max_iterations",
    "depends on": "depends",
}
_HEADER = re.compile(r"\*\*([A-Za-z][A-Za-z ]{0,30}):\*\*[ \t]*(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SPAN = re.compile(r"`([^`]+)`")
_PATHS = re.compile(r"(?:`[^`]*`|[^,`\n])+")
_BETWEEN_NAMES = re.compile(r"[\s,;&`*]+|\band\b")
_ARROWS = re.compile(r"\s*(?:→|[-=]>)\s*")
_REMARK = re.compile(r"\s*\([^()]*\)\Z")
_BOX = re.compile(r"\[[ xX]\]")
_TOTAL = re.compile(r"[0-9]+ (?:tasks?|phases?)\b")
_STATUS = re.compile(
    r"[0-9]+ done, [0-9]+ in progress, [0-9]+ pending(?:, [0-9]+ (?:blocked|timed out))*"
)


def is_too_long(text: str) -> bool:
    """Return whether a page has more lines than are read."""
    return len(text) > MAX_LINES and len(split_lines(text)) > MAX_LINES


# The model of a page


class PageSection(NamedTuple):
    """The lines from ``first`` to ``end`` below a heading of the second level."""

    heading: str
    first: int
    end: int
    blocks: list[Block]


class Bullet(NamedTuple):
    """A value on the lines from ``first`` to ``end``."""

    key: str
    """The name of a unit's value; for other bullets, the label in lower case."""
    first: int
    end: int
    marker: str
    label: str
    value: list[str]
    """The lines after the label."""


class Unit(NamedTuple):
    """A unit on the lines from ``first`` to ``end``; its title goes up to ``title_end``."""

    name: str
    first: int
    title_end: int
    end: int
    marker: str
    checked: bool | None
    """``None`` without a box."""
    label: str
    title: list[str]
    bullets: list[Bullet]


class Page:
    """A parsed page, and the changes to it, which are made from the last line to the first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._changes: list[tuple[int, int, list[str]]] = []
        """Each replaces the lines from the first number to the second."""
        self.lines = split_lines(text)
        self.bare = [line.rstrip("\r\n") for line in self.lines]
        self.blocks = block_tree(text)
        self.sections = [
            PageSection(heading.text, heading.end, end, blocks)
            for heading, end, blocks in pages.sections_of(self.blocks, len(self.lines))
        ]
        self.units: list[Unit] = []
        self.other_boxes: list[int] = []
        """Lines of items with a box that are not units."""
        for item in _items_of(self.blocks):
            match = _UNIT.match(self.bare[item.first])
            if match:
                self.units.append(self._unit(item, match))
            elif _TICK_BOX.match(self.bare[item.first]):
                self.other_boxes.append(item.first)

    def title(self) -> str:
        """Return the first heading, if it is of the first level."""
        heading = next((block for block in self.blocks if block.kind == "heading"), None)
        return pages.decode_line(heading.text) if heading and heading.depth == 1 else ""

    def header(self) -> dict[str, tuple[int, str]]:
        """Return the bold keys above the first section, with their lines and values."""
        header: dict[str, tuple[int, str]] = {}
        for block in self.blocks:
            if block.kind == "heading" and block.depth > 1:
                break
            for line in range(block.first, block.end) if block.kind == "paragraph" else ():
                match = _HEADER.match(self.bare[line])
                if match:
                    header.setdefault(match[1].lower(), (line, match[2].strip()))
        return header

    def section(self, *names: str) -> PageSection | None:
        """Return the first section with one of these names, in lower case."""
        return next((s for s in self.sections if s.heading.lower() in names), None)

    def units_section(self) -> PageSection | None:
        """Return the section of units, of either mode."""
        return self.section("tasks", "phases")

    def text(self, *names: str) -> str:
        """Return the text of a section."""
        section = self.section(*names)
        return pages.decode_block(self.bare[section.first : section.end]) if section else ""

    def items(self, *names: str) -> list[str]:
        """Return the items of a section's lists; if it has no list, its paragraphs."""
        section = self.section(*names)
        blocks = section.blocks if section else []
        items = [self.bare[item.first : self._end_of(item)] for item in _items_of(blocks)]
        if items:
            items = [[_ITEM.sub("", first, count=1), *others] for first, *others in items]
            return [pages.decode_item(lines) for lines in items if lines != [""]]
        paragraphs = [block for block in blocks if block.kind == "paragraph"]
        return [pages.decode_item(self.bare[block.first : block.end]) for block in paragraphs]

    def bullets(self, blocks: list[Block]) -> list[Bullet]:
        """Return the items of lists that begin with a label."""
        bullets = []
        for item in _items_of(blocks):
            match = _BULLET.match(self.bare[item.first])
            if match:
                end = self._end_of(item)
                value = [match[4], *self.bare[item.first + 1 : end]]
                key = match[3].strip().lower()
                bullets.append(Bullet(key, item.first, end, match[1], match[2], value))
        return bullets

    def replace(self, first: int, end: int, text: str) -> None:
        """Replace some lines by others, or by none."""
        lines = text.split("\n") if text else []
        if lines != self.bare[first:end]:
            self._changes.append((first, end, lines))

    def append(self, text: str) -> None:
        """Add lines at the end of the page; close first what was left open there."""
        end = len(self.lines)
        mark = closing_mark(self._text, nested=True)
        gap = f"{mark}\n\n" if mark else "\n" if end and self.bare[-1].strip() else ""
        self.replace(end, end, gap + text)

    def patched(self) -> str:
        """Return the text with the changes, in the page's own line ends."""
        lines, newline = list(self.lines), newline_of(self.lines)
        is_unfinished = bool(lines) and not lines[-1].endswith(("\r", "\n"))
        if is_unfinished:
            lines[-1] += newline
        for first, end, added in sorted(self._changes, key=lambda change: change[:2])[::-1]:
            lines[first:end] = [line + newline for line in added]
        text = "".join(lines)
        return text.removesuffix(newline) if is_unfinished else text

    def _end_of(self, block: Block) -> int:
        return pages.trim_lines(self.bare, block.first, block.end)[1]

    def _unit(self, block: Block, match: re.Match[str]) -> Unit:
        title_end = block.children[0].end if block.children else block.first + 1
        return Unit(
            pages.decode_line(match[4].strip()),
            block.first,
            title_end,
            self._end_of(block),
            marker=match[1],
            checked=None if match[2] is None else match[2] != " ",
            label=match[3],
            title=[match[5], *self.bare[block.first + 1 : title_end]],
            bullets=[
                bullet._replace(key=_KEYS[bullet.key])
                for bullet in self.bullets(block.children)
                if bullet.key in _KEYS
            ],
        )


def _items_of(blocks: list[Block]) -> list[Block]:
    return [item for block in blocks if block.kind.endswith("_list") for item in block.children]


# Values


def parse_value(key: str, lines: list[str]) -> Json:
    """Return the value of a unit's bullet; ``None`` if it cannot be understood."""
    text = "\n".join(line.strip() for line in lines)
    if key == "files":
        return _parse_paths(text)
    if key == "max_iterations":
        number = int(text) if _NUMBER.fullmatch(text) else 0
        return number if 1 <= number <= MAX_UNIT_ITERATIONS else None
    if key == "depends":
        names = [pages.decode_line(name) for name in _BETWEEN_NAMES.split(text) if name]
        return [] if [name.lower() for name in names] in (["none"], ["-"], ["—"]) else names
    span = _SPAN.fullmatch(text) if key in ("output", "verify") else None
    return pages.decode_line(span[1]) if span else pages.decode_after_key(lines)


def _parse_paths(text: str) -> list[str]:
    """Return paths that are inline code or separated by commas; words beside code are remarks."""
    paths: list[str] = []
    for part in _PATHS.findall(text):
        spans = _SPAN.findall(part)
        bare = part.replace("`", "").strip().removeprefix("- ").strip()
        paths += map(pages.decode_line, spans or ([bare] if bare else []))
    return [] if [path.lower() for path in paths] == ["none"] else paths


def parse_arrows(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the units of lines with arrows, each with those it depends on."""
    depends: dict[str, list[str]] = {}
    for line in lines:
        text = line.strip()
        names = _ARROWS.split(_REMARK.sub("", text))
        if names == [text] or not all(names) or any(" " in name for name in names):
            continue
        for index, name in enumerate(names):
            waits = depends.setdefault(name, [])
            if index and names[index - 1] not in waits:
                waits.append(names[index - 1])
    return depends


# The page of units


def read_units(text: str, mode: str) -> tuple[list[Fields], list[str]]:
    """Return the units of a page in its order, and complaints on what cannot be understood.

    A unit has ``id``, ``description``, ``checked`` and the values of its bullets. For a unit
    without a bullet on dependencies, the arrows of the section on dependencies count.
    """
    if is_too_long(text):
        return [], [f"line {MAX_LINES}: the page goes on; more lines than that are not read"]
    page = Page(text)
    section = page.units_section()
    among_units = range(section.first, section.end) if section else range(0)
    example = "R1" if mode == "knowledge" else "T1"
    form = f"- [ ] **{example}**: title"
    units: dict[str, Fields] = {}
    lines = {unit.name: unit.first for unit in reversed(page.units)}
    complaints = [
        (line, f"a unit is written {form!r}, and this is not")
        for line in page.other_boxes
        if line in among_units
    ]
    for unit in page.units:
        name = unit.name
        if name in units:
            complaints.append((unit.first, f"{name} stands on line {lines[name] + 1} already"))
        elif pages.is_unit_name(name):
            units[name], problems = _read_unit(unit)
            complaints += problems
        elif unit.first in among_units:
            why = f"{name[:40]!r} is not a name for a unit; units are called {example}"
            complaints.append((unit.first, why))
    section = page.section("dependencies")
    arrows = parse_arrows(page.bare[section.first : section.end]) if section else {}
    for name, waits in arrows.items():
        if waits and name in units:
            units[name].setdefault("depends", [pages.decode_line(other) for other in waits])
    for name, fields in units.items():
        unknown = [other for other in fields.get("depends", []) if other not in units]
        if unknown:
            del fields["depends"]
            why = f"{name} depends on {unknown[0][:40]!r}, which is not a unit of this page"
            complaints.append((lines[name], why))
    for name in circular({name: unit.get("depends", []) for name, unit in units.items()}):
        through = ", ".join(units[name].pop("depends"))
        complaints.append((lines[name], f"{name} would wait for itself, through {through}"))
    return list(units.values()), [f"line {line + 1}: {why}" for line, why in sorted(complaints)]


def _read_unit(unit: Unit) -> tuple[Fields, list[tuple[int, str]]]:
    """Return the fields of a unit, and complaints with their lines."""
    complaints = []
    fields: Fields = {"id": unit.name, "description": pages.decode_after_key(unit.title)}
    fields["checked"] = bool(unit.checked)
    for bullet in unit.bullets:
        if bullet.key in fields:
            complaints.append((bullet.first, f"{unit.name} has a second {bullet.label}"))
        elif bullet.key in pages.READ_BULLETS:
            value = parse_value(bullet.key, bullet.value)
            if value is None:
                why = f"{bullet.value[0][:40]!r} is not a number from 1 to {MAX_UNIT_ITERATIONS}"
                complaints.append((bullet.first, f"{unit.name}: {why}"))
            elif value or bullet.key in _LISTS:
                fields[bullet.key] = value
    return fields, complaints


def circular(depends: dict[str, list[str]]) -> list[str]:
    """Return the units in a circle of dependencies, or between two circles."""
    followers: dict[str, list[str]] = {name: [] for name in depends}
    for name, waits in depends.items():
        for dependency in waits:
            followers[dependency].append(name)
    stuck = set(depends)
    # First without the units that are ready before a circle, then without those behind one.
    for graph in (depends, followers):
        sorter = TopologicalSorter({name: stuck.intersection(graph[name]) for name in stuck})
        with suppress(CycleError):
            sorter.prepare()
        while ready := sorter.get_ready():
            stuck.difference_update(ready)
            sorter.done(*ready)
    return [name for name in depends if name in stuck]


# The other pages

_BRIEF_SECTIONS = {
    "outcome": ("outcome needed", "outcome"),
    "done_when": ("done when",),
    "constraints": ("constraints",),
    "notes": ("approach / notes", "approach", "notes"),
}
_EMPTY_BRIEF: Fields = {
    "title": "", "created": "", "mode": "", "domain": "", "outcome": "", "done_when": [],
    "constraints": [], "notes": "",
}  # fmt: skip


def read_brief(text: str) -> Fields:
    """Return what ``brief.md`` says; a missing part is empty."""
    return {**_EMPTY_BRIEF, **read_brief_parts(text)}


def read_brief_parts(text: str) -> Fields:
    """Return what ``brief.md`` says, without the parts that it lacks."""
    return _brief_parts(_first_lines(text))


def _brief_parts(page: Page) -> Fields:
    header = {key: pages.decode_line(value) for key, (_, value) in page.header().items()}
    parts: Fields = {key: header[key] for key in ("created", "mode", "domain") if key in header}
    if page.title():
        parts["title"] = page.title()
    for key, names in _BRIEF_SECTIONS.items():
        if page.section(*names) is not None:
            is_list = isinstance(_EMPTY_BRIEF[key], list)
            parts[key] = page.items(*names) if is_list else page.text(*names)
    return parts


def read_created(units: str) -> str:
    """Return the creation time on a page of units; empty if it has none."""
    return pages.decode_line(_first_lines(units).header().get("created", (0, ""))[1])


def read_guardrails(text: str) -> list[Fields]:
    """Return the lessons of ``guardrails.md``; a section without their keys is a note."""
    page = _first_lines(text)
    lessons: list[Fields] = []
    for section in page.sections:
        # Of two bullets with one key, the first counts.
        bullets = {bullet.key: bullet.value for bullet in reversed(page.bullets(section.blocks))}
        keys = [key for key in pages.LESSON_FIELDS if key in bullets]
        lesson = {key: pages.decode_after_key(bullets[key]) for key in keys}
        if lesson:
            lessons.append({"name": pages.decode_line(section.heading), **lesson})
    return lessons


def _first_lines(text: str) -> Page:
    return Page("".join(split_lines(text)[:MAX_LINES]) if is_too_long(text) else text)


# Patching


def patch_units(text: str, state: Workflow, *, keep_values: bool = False) -> str:
    """Return the page of units with Holdfast's own parts as in the state.

    Values stay as they are if something on the page cannot be understood, or with ``keep_values``:
    they may be edits that were not taken in yet.
    """
    if is_too_long(text):
        return text
    page, mode, tasks = Page(text), pages.mode_of(state), state["tasks"]
    units, complaints = read_units(text, mode)
    with_values = not complaints and not keep_values
    dependencies = {unit["id"]: unit.get("depends", []) for unit in units}
    header, counts = page.header(), pages.counts(state)
    for key, pattern in (("Total", _TOTAL), ("Status", _STATUS)):
        if key.lower() in header:
            line, _ = header[key.lower()]
            page.replace(line, line + 1, pattern.sub(counts[key], page.bare[line], count=1))
    _patch_arrows(page, tasks)
    on_page = {unit.name: unit for unit in reversed(page.units)}
    for task in tasks:
        unit = on_page.get(str(task["id"]))
        if unit is not None:
            _patch_unit(page, unit, task, with_title=with_values)
        if unit is not None and with_values:
            _patch_bullets(page, unit, task, dependencies.get(unit.name, []))
    missing = [task for task in tasks if str(task["id"]) not in on_page]
    if missing:
        _add_units(page, missing, pages.UNITS_SECTIONS[mode])
    return page.patched()


def _patch_arrows(page: Page, tasks: list[Task]) -> None:
    """Update the section on dependencies, unless people changed it."""
    section = page.section("dependencies")
    if section is None:
        return
    first, end = pages.trim_lines(page.bare, section.first, section.end)
    before = [line.strip() for line in page.bare[first:end]]
    after = pages.render_dependencies(tasks)
    as_rendered = pages.render_arrows(parse_arrows(before))
    if before == after or [line for line in before if line] != as_rendered:
        return
    if before:
        page.replace(first, end, "\n".join(after))
    else:
        page.replace(section.first, section.first, "\n".join(["", *after]))


def _patch_unit(page: Page, unit: Unit, task: Task, *, with_title: bool) -> None:
    """Update the box of a unit, and its title."""
    line = page.bare[unit.first]
    is_done = task["status"] == "completed"
    if unit.checked is None and is_done:
        line = f"{unit.marker}[x] {line.removeprefix(unit.marker)}"
    elif is_done != bool(unit.checked):
        line = _BOX.sub("[x]" if is_done else "[ ]", line, count=1)
    if with_title and pages.decode_after_key(unit.title) != task["description"]:
        head = line[: line.index(unit.label)] + unit.label
        title = pages.encode_after_key(task["description"], len(unit.marker))
        page.replace(unit.first, unit.title_end, f"{head} {title}".rstrip())
    else:
        page.replace(unit.first, unit.first + 1, line)


def _patch_bullets(page: Page, unit: Unit, task: Task, dependencies: list[str]) -> None:
    """Update or add bullets. ``dependencies`` are those that the page shows for the unit."""
    on_page = {bullet.key: bullet for bullet in reversed(unit.bullets)}
    implied = (("max_iterations", MAX_ITERATIONS), ("depends", dependencies))
    line = unit.title_end
    for key, label in pages.BULLETS.items():
        bullet = on_page.get(key)
        value: Json = task.get(key)
        if key in _LISTS:
            value = [str(item) for item in value or []]
        if bullet is None and value and (key, value) not in implied:
            marker = unit.bullets[0].marker if unit.bullets else " " * len(unit.marker) + "- "
            text = pages.render_value(task, key, len(marker))
            page.replace(line, line, f"{marker}{label}: {text}")
        elif bullet is not None and value is not None:
            # A bullet that is not read has one line of Holdfast's; further lines are people's.
            is_read = key in pages.READ_BULLETS
            if parse_value(key, bullet.value if is_read else bullet.value[:1]) not in (value, None):
                end = bullet.end if is_read else bullet.first + 1
                text = pages.render_value(task, key, len(bullet.marker)) or "none"
                page.replace(bullet.first, end, f"{bullet.marker}{bullet.label} {text}")
        line = max([line, *(bullet.end for bullet in unit.bullets if bullet.key == key)])


def _add_units(page: Page, tasks: list[Task], name: str) -> None:
    """Add missing units at the end of their section, which is called ``name`` if it is new."""
    text = "\n".join(line for task in tasks for line in pages.render_unit(task))
    section = page.units_section()
    if section is None:
        page.append(f"## {name}\n\n{text}")
        return
    ends = [unit.end for unit in page.units if section.first <= unit.first < section.end]
    if ends:
        page.replace(ends[-1], ends[-1], text)
    elif section.end == len(page.lines):
        page.append(text)
    else:
        first, end = pages.trim_lines(page.bare, section.first, section.end)
        end = end if first < end else section.first
        page.replace(end, end, f"\n{text}")


def patch_brief(text: str, state: Workflow) -> str:
    """Return ``brief.md`` with the title, the domain and the sections that differ as in the state.

    A missing section is added at the end.
    """
    if is_too_long(text):
        return text
    page, wanted = Page(text), read_brief_parts(pages.render_brief(state))
    shown, sections = _brief_parts(page), pages.brief_sections(state["context"])
    if page.title() and page.title() != wanted["title"]:
        heading = next(block for block in page.blocks if block.kind == "heading")
        title = f"# {pages.encode_heading(state['title'])}"
        page.replace(heading.first, heading.end, title)
    _patch_domain(page, shown.get("domain", ""), wanted.get("domain", ""))
    missing = []
    for key, lines in sections.items():
        section = page.section(*_BRIEF_SECTIONS[key])
        if section is None:
            missing += [f"## {pages.BRIEF_HEADINGS[key]}", *lines, ""] if lines else []
        elif shown[key] != wanted[key]:
            first, end = pages.trim_lines(page.bare, section.first, section.end)
            first, end = (first, end) if first < end else (section.first, section.first)
            page.replace(first, end, "\n".join(lines))
    if missing:
        page.append("\n".join(missing[:-1]))
    return page.patched()


def _patch_domain(page: Page, shown: str, wanted: str) -> None:
    header = page.header()
    if shown == wanted or not header:
        return
    line, _ = header.get("domain", (max(line for line, _ in header.values()) + 1, ""))
    end = line + ("domain" in header)
    page.replace(line, end, f"**Domain:** {pages.encode_line(wanted)}" if wanted else "")


def patch_guardrails(text: str, state: Workflow) -> str:
    """Return ``guardrails.md`` with the missing lessons appended.

    A lesson is not missing if the page has one of its name, edited or not, or one with the same
    content under another name.
    """
    if is_too_long(text):
        return text
    page = Page(text)
    names = [pages.decode_line(section.heading) for section in page.sections]
    contents = [pages.lesson_content(lesson) for lesson in read_guardrails(text)]
    missing = []
    for lesson in state.get("guardrails", []):
        name = str(lesson.get("name", ""))
        if name in names:
            names.remove(name)
        elif pages.lesson_content(lesson) not in contents:
            missing.append(pages.render_lesson(lesson))
    if missing:
        page.append("\n".join(missing).removesuffix("\n"))
    return page.patched()
