"""Read the pages of a loop that people and tools may have edited.

A page is parsed into its sections, its units and their bullets; ``page_patcher`` works on the same
model. No content is wrong enough to raise: what cannot be understood is left out and reported with
its line.
"""

from __future__ import annotations

import re
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from holdfast.layers.markdown import MAX_LINES, block_tree, split_lines
from holdfast.loops.markdown_text import (
    decode_after_key,
    decode_block,
    decode_item,
    decode_line,
    trim_lines,
)
from holdfast.loops.pages import BULLETS, LESSON_FIELDS, render_arrows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Fields, Json
    from holdfast.layers.markdown import Block

UNIT_SECTIONS = ("tasks", "phases")
READ_BULLETS = ("criteria", "files", "output", "max_iterations", "depends", "model")
"""The command that verifies a unit is shown and not read: a page does not decide what is run."""
MAX_UNIT_ITERATIONS = 1_000
"""The largest number of iterations that a page may set."""

_MARKER = r"(\s*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)"
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)")
_UNIT = re.compile(
    _MARKER + r"(?:\[([ xX])\][ \t]+)?(\*\*([^*\n]+?)(?:\*\*[ \t]*:|:\*\*))[ \t]*(.*)"
)
_TICK_BOX = re.compile(_MARKER + r"\[[ xX]?\]")
_BULLET = re.compile(
    _MARKER + r"((?:\*\*)?([A-Za-z][A-Za-z ]{0,30}?)(?:\*\*[ \t]*:|:\*\*|:))[ \t]*(.*)"
)
_KEYS = {label.lower(): key for key, label in BULLETS.items()} | {
    "file": "files",
    "outputs": "output",
    "completion signal": "completion",
    "maximum iterations": "max_iterations",
    "depends on": "depends",
}
_HEADER = re.compile(r"\*\*([A-Za-z][A-Za-z ]{0,30}):\*\*[ \t]*(.*)")
_NAME = re.compile(r"[TR][1-9][0-9]{0,3}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SPAN = re.compile(r"`([^`]+)`")
_PATHS = re.compile(r"(?:`[^`]*`|[^,`\n])+")
_BETWEEN_NAMES = re.compile(r"[\s,;&`*]+|\band\b")
_ARROWS = re.compile(r"\s*(?:→|[-=]>)\s*")
_REMARK = re.compile(r"\s*\([^()]*\)\Z")


def is_unit_name(text: str) -> bool:
    """Return whether a unit can have this id: T1 to T9999, R1 to R9999."""
    return _NAME.fullmatch(text) is not None


def is_too_long(text: str) -> bool:
    """Return whether a page has more lines than are read."""
    return len(text) > MAX_LINES and len(split_lines(text)) > MAX_LINES


# The model of a page


class Section:
    """The lines from ``first`` to ``end`` below a heading of the second level."""

    __slots__ = ("blocks", "end", "first", "heading")

    def __init__(self, heading: Block, end: int, blocks: list[Block]) -> None:
        self.heading = heading.text
        self.first = heading.end
        self.end = end
        self.blocks = blocks


class Bullet:
    """A value of a unit on the lines from ``first`` to ``end``."""

    __slots__ = ("end", "first", "key", "label", "marker", "value")

    def __init__(self, key: str, first: int, end: int, match: re.Match[str]) -> None:
        self.key = key
        self.first = first
        self.end = end
        self.marker = match[1]
        self.label = match[2]
        self.value = [match[4]]
        """The lines after the label."""


class Unit:
    """A unit on the lines from ``first`` to ``end``; its title goes up to ``title_end``."""

    __slots__ = (
        "bullets", "checked", "end", "first", "label", "marker", "name", "title", "title_end",
    )  # fmt: skip

    def __init__(self, first: int, end: int, match: re.Match[str]) -> None:
        self.first = first
        self.end = end
        self.marker = match[1]
        self.checked = None if match[2] is None else match[2] != " "
        self.label = match[3]
        self.name = decode_line(match[4].strip())
        self.title = [match[5]]
        self.title_end = first + 1
        self.bullets: list[Bullet] = []

    def bullet(self, key: str) -> Bullet | None:
        """Return the first bullet with this key."""
        return next((bullet for bullet in self.bullets if bullet.key == key), None)


class Page:
    """A parsed page."""

    def __init__(self, text: str) -> None:
        self.lines = split_lines(text)
        self.bare = [line.rstrip("\r\n") for line in self.lines]
        self.blocks = block_tree(text)
        self.sections = self._sections()
        self.units: list[Unit] = []
        self.other_boxes: list[int] = []
        """Lines of items with a box that are not units."""
        for block in self.blocks:
            for item in block.children if block.kind.endswith("_list") else ():
                match = _UNIT.match(self.bare[item.first])
                if match:
                    self.units.append(self._unit(item, match))
                elif _TICK_BOX.match(self.bare[item.first]):
                    self.other_boxes.append(item.first)

    def title(self) -> str:
        """Return the first heading, if it is of the first level."""
        heading = next((block for block in self.blocks if block.kind == "heading"), None)
        return decode_line(heading.text) if heading and heading.depth == 1 else ""

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

    def section(self, *names: str) -> Section | None:
        """Return the first section with one of these names, in lower case."""
        return next((each for each in self.sections if each.heading.lower() in names), None)

    def text(self, section: Section | None) -> str:
        """Return the text of a section."""
        return decode_block(self.bare[section.first : section.end]) if section else ""

    def items(self, section: Section | None) -> list[str]:
        """Return the items of a section's lists; if it has no list, its paragraphs."""
        blocks = section.blocks if section else []
        lists = [block for block in blocks if block.kind.endswith("_list")]
        items = [self._item(item) for block in lists for item in block.children]
        if items:
            return [decode_item(lines) for lines in items if lines != [""]]
        paragraphs = [self.bare[b.first : b.end] for b in blocks if b.kind == "paragraph"]
        return [decode_item(lines) for lines in paragraphs]

    def keys(self, section: Section) -> dict[str, str]:
        """Return the bold keys of a section's items, with their values."""
        values: dict[str, str] = {}
        for item in (item for block in section.blocks for item in block.children):
            match = _BULLET.match(self.bare[item.first])
            if item.kind == "list_item" and match:
                rest = self.bare[item.first + 1 : self._end_of(item)]
                values.setdefault(match[3].strip().lower(), decode_after_key([match[4], *rest]))
        return values

    def _sections(self) -> list[Section]:
        blocks = self.blocks
        heads = [i for i, b in enumerate(blocks) if b.kind == "heading" and b.depth <= 2]
        sections: list[Section] = []
        for head, following in zip(heads, [*heads, len(blocks)][1:], strict=True):
            end = len(self.lines) if following == len(blocks) else blocks[following].first
            if blocks[head].depth == 2:
                sections.append(Section(blocks[head], end, blocks[head + 1 : following]))
        return sections

    def _item(self, block: Block) -> list[str]:
        first, *others = self.bare[block.first : self._end_of(block)]
        return [_ITEM.sub("", first, count=1), *others]

    def _end_of(self, block: Block) -> int:
        return trim_lines(self.bare, block.first, block.end)[1]

    def _unit(self, block: Block, match: re.Match[str]) -> Unit:
        unit = Unit(block.first, self._end_of(block), match)
        if block.children:
            unit.title_end = block.children[0].end
            unit.title += self.bare[block.first + 1 : unit.title_end]
        for item in (item for child in block.children for item in child.children):
            bullet_match = _BULLET.match(self.bare[item.first])
            key = _KEYS.get(bullet_match[3].strip().lower()) if bullet_match else None
            if bullet_match and key:
                bullet = Bullet(key, item.first, self._end_of(item), bullet_match)
                bullet.value += self.bare[item.first + 1 : bullet.end]
                unit.bullets.append(bullet)
        return unit


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
        names = [decode_line(name) for name in _BETWEEN_NAMES.split(text) if name]
        return [] if [name.lower() for name in names] in (["none"], ["-"], ["—"]) else names
    span = _SPAN.fullmatch(text) if key in ("output", "verify") else None
    return decode_line(span[1]) if span else decode_after_key(lines)


def _parse_paths(text: str) -> list[str]:
    """Return paths that are inline code or separated by commas; words beside code are remarks."""
    paths: list[str] = []
    for part in _PATHS.findall(text):
        spans = _SPAN.findall(part)
        bare = part.replace("`", "").strip().removeprefix("- ").strip()
        paths += map(decode_line, spans or ([bare] if bare else []))
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


def is_rendered_arrows(lines: list[str]) -> bool:
    """Return whether Holdfast could have rendered these lines for some units."""
    return [line.strip() for line in lines if line.strip()] == render_arrows(parse_arrows(lines))


# The page of units


def read_units(text: str, mode: str) -> tuple[list[Fields], list[str]]:
    """Return the units of a page in its order, and complaints on what cannot be understood.

    A unit has ``id``, ``description``, ``checked`` and the values of its bullets. For a unit
    without a bullet on dependencies, the arrows of the section on dependencies count.
    """
    if is_too_long(text):
        return [], [f"line {MAX_LINES}: the page goes on; more lines than that are not read"]
    reader = _UnitReader(Page(text), "R1" if mode == "knowledge" else "T1")
    return reader.units, [complaint for _, complaint in sorted(reader.complaints)]


class _UnitReader:
    """Reads the units of one page."""

    def __init__(self, page: Page, example: str) -> None:
        self._page = page
        self._example = example
        self._units: dict[str, Fields] = {}
        self._lines: dict[str, int] = {}
        self.complaints: list[tuple[int, str]] = []
        for unit in page.units:
            self._add(unit)
        form = f"- [ ] **{example}**: title"
        for line in page.other_boxes:
            self._complain_among_units(line, f"a unit is written {form!r}, and this is not")
        self._add_arrows()
        self._check_dependencies()

    @property
    def units(self) -> list[Fields]:
        return list(self._units.values())

    def _add(self, unit: Unit) -> None:
        name = unit.name
        if not is_unit_name(name):
            why = f"{name[:40]!r} is no name for a unit; they are called {self._example}"
            self._complain_among_units(unit.first, why)
            return
        if name in self._units:
            self._complain(unit.first, f"{name} stands on line {self._lines[name] + 1} already")
            return
        self._lines[name] = unit.first
        fields: Fields = {"id": name, "description": decode_after_key(unit.title)}
        fields["checked"] = bool(unit.checked)
        self._units[name] = fields
        for bullet in unit.bullets:
            if bullet.key in fields:
                self._complain(bullet.first, f"{name} has a second {bullet.label}")
            elif bullet.key in READ_BULLETS:
                value = parse_value(bullet.key, bullet.value)
                if value is None:
                    why = f"{bullet.value[0][:40]!r} is no number from 1 to {MAX_UNIT_ITERATIONS}"
                    self._complain(bullet.first, f"{name}: {why}")
                elif value or bullet.key in ("files", "depends"):
                    fields[bullet.key] = value

    def _add_arrows(self) -> None:
        section = self._page.section("dependencies")
        arrows = parse_arrows(self._page.bare[section.first : section.end]) if section else {}
        for name, waits in arrows.items():
            fields = self._units.get(name)
            if fields is not None and "depends" not in fields and waits:
                fields["depends"] = list(map(decode_line, waits))

    def _check_dependencies(self) -> None:
        for name, fields in self._units.items():
            unknown = [other for other in fields.get("depends", []) if other not in self._units]
            if unknown:
                del fields["depends"]
                why = f"{name} depends on {unknown[0][:40]!r}, which is no unit of this page"
                self._complain(self._lines[name], why)
        for name in circular({n: unit.get("depends", []) for n, unit in self._units.items()}):
            waits = ", ".join(self._units[name].pop("depends"))
            self._complain(self._lines[name], f"{name} would wait for itself, through {waits}")

    def _complain_among_units(self, line: int, why: str) -> None:
        """Complain, unless the line is outside the section of units."""
        section = self._page.section(*UNIT_SECTIONS)
        if section is not None and section.first <= line < section.end:
            self._complain(line, why)

    def _complain(self, line: int, why: str) -> None:
        self.complaints.append((line, f"line {line + 1}: {why}"))


def circular(depends: dict[str, list[str]]) -> list[str]:
    """Return the units in a circle of dependencies, or between two circles."""
    waiting = _never_ready(depends)
    backwards: dict[str, list[str]] = {name: [] for name in waiting}
    for name in waiting:
        for dependency in set(depends[name]) & waiting:
            backwards[dependency].append(name)
    stuck = _never_ready(backwards)
    return [name for name in depends if name in stuck]


def _never_ready(depends: dict[str, list[str]]) -> set[str]:
    """Return the units that remain when those without open dependencies are removed in turn."""
    sorter = TopologicalSorter(depends)
    with suppress(CycleError):
        sorter.prepare()
    remaining = set(depends)
    while ready := sorter.get_ready():
        remaining.difference_update(ready)
        sorter.done(*ready)
    return remaining


# The other pages


def read_brief(text: str) -> Fields:
    """Return what ``brief.md`` says; a missing part is empty."""
    page = _first_lines(text)
    header = {key: decode_line(value) for key, (_, value) in page.header().items()}
    return {
        "title": page.title(),
        "created": header.get("created", ""),
        "mode": header.get("mode", ""),
        "domain": header.get("domain", ""),
        "outcome": page.text(page.section("outcome needed", "outcome")),
        "done_when": page.items(page.section("done when")),
        "constraints": page.items(page.section("constraints")),
        "notes": page.text(page.section("approach / notes", "approach", "notes")),
    }


def read_created(units: str) -> str:
    """Return the creation time on a page of units; empty if it has none."""
    return decode_line(_first_lines(units).header().get("created", (0, ""))[1])


def read_guardrails(text: str) -> list[Fields]:
    """Return the lessons of ``guardrails.md``; a section without their keys is somebody's note."""
    page = _first_lines(text)
    lessons: list[Fields] = []
    for section in page.sections:
        values = page.keys(section)
        lesson = {key: values[key] for key in LESSON_FIELDS if key in values}
        if lesson:
            lessons.append({"name": decode_line(section.heading), **lesson})
    return lessons


def _first_lines(text: str) -> Page:
    return Page("".join(split_lines(text)[:MAX_LINES]) if is_too_long(text) else text)
