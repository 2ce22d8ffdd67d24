"""What people and tools wrote on the pages of a loop, as data, and what could not be understood.

A page is a shared document: nothing on it can be wrong enough to raise. What makes no sense is
left out and said, with its line.
"""

from __future__ import annotations

import re

from holdfast.layers.markdown import MAX_LINES, split_lines
from holdfast.loops import markdown_text, unit_item
from holdfast.loops.page_model import Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.loops.page_model import Bullet, Unit

UNIT_SECTIONS = ("tasks", "phases")
GUARDRAIL = ("when", "problem", "solution", "learned")
READ = ("criteria", "files", "output", "max_iterations", "depends", "model")
"""The command that verifies a unit is shown and not read: a page does not say what is run."""
_NAME = re.compile(r"[TR][1-9][0-9]{0,3}")
_WORD = re.compile(r"\w")


def is_name(text: str) -> bool:
    """Whether a unit can be called so: T1 to T9999, R1 to R9999."""
    return _NAME.fullmatch(text) is not None


def words(text: str) -> int:
    """How many words a text has: what white space parts, where it has a letter or a digit."""
    return sum(1 for part in text.split() if _WORD.search(part))


def read_units(text: str, mode: str) -> tuple[list[Fields], list[str]]:
    """The units that a page tells of, in its order, and what could not be understood.

    A unit has ``id``, ``description`` and ``checked``, and what its bullets say. Where it has no
    bullet on what it depends on, the arrows of the page's own section on dependencies count.
    """
    if is_too_long(text):
        return [], [f"line {MAX_LINES}: the page goes on; more lines than that are not read"]
    page = Page(text)
    reading = _Reading(page, "R1" if mode == "knowledge" else "T1")
    for unit in page.units:
        reading.add(unit)
    reading.complain_of_strays()
    reading.take_arrows()
    reading.check_dependencies()
    return list(reading.units.values()), [said for _, said in sorted(reading.complaints)]


def is_too_long(text: str) -> bool:
    return len(text) > MAX_LINES and len(split_lines(text)) > MAX_LINES


class _Reading:
    """The units of one page, while they are read."""

    def __init__(self, page: Page, example: str) -> None:
        self._page = page
        self._example = example
        self.units: dict[str, Fields] = {}
        self._lines: dict[str, int] = {}
        self.complaints: list[tuple[int, str]] = []

    def add(self, unit: Unit) -> None:
        if not is_name(unit.name):
            why = f"{unit.name[:40]!r} is no name for a unit; they are called {self._example}"
            self._complain_among_units(unit.first, why)
            return
        if unit.name in self.units:
            before = self._lines[unit.name] + 1
            self._complain(unit.first, f"{unit.name} stands on line {before} already")
            return
        self._lines[unit.name] = unit.first
        fields: Fields = {"id": unit.name, "description": markdown_text.plain(unit.title)}
        fields["checked"] = bool(unit.checked)
        self.units[unit.name] = fields
        for bullet in unit.bullets:
            if bullet.key in fields:
                self._complain(bullet.first, f"{unit.name} has a second {bullet.label}")
            elif bullet.key in READ:
                self._take(unit.name, bullet)

    def complain_of_strays(self) -> None:
        shown = f"- [ ] **{self._example}**: title"
        for line in self._page.strays:
            self._complain_among_units(line, f"a unit is written {shown!r}, and this is not")

    def take_arrows(self) -> None:
        section = self._page.section("dependencies")
        drawn = unit_item.chains(self._page.bare[section.first : section.end]) if section else {}
        for name, waits in drawn.items():
            fields = self.units.get(name)
            if fields is not None and "depends" not in fields and waits:
                fields["depends"] = list(map(markdown_text.decoded, waits))

    def check_dependencies(self) -> None:
        for name, fields in self.units.items():
            unknown = [one for one in fields.get("depends", []) if one not in self.units]
            if unknown:
                del fields["depends"]
                why = f"{name} depends on {unknown[0][:40]!r}, which is no unit of this page"
                self._complain(self._lines[name], why)
        for name in circular({n: one.get("depends", []) for n, one in self.units.items()}):
            waits = ", ".join(self.units[name].pop("depends"))
            self._complain(self._lines[name], f"{name} would wait for itself, through {waits}")

    def _take(self, name: str, bullet: Bullet) -> None:
        value = unit_item.understood(bullet.key, bullet.value)
        if value is None:
            why = f"{bullet.value[0][:40]!r} is no number from 1 to {unit_item.MOST_ITERATIONS}"
            self._complain(bullet.first, f"{name}: {why}")
        elif value or bullet.key in ("files", "depends"):
            self.units[name][bullet.key] = value

    def _complain_among_units(self, line: int, why: str) -> None:
        """Elsewhere people may tick what they like."""
        section = self._page.section(*UNIT_SECTIONS)
        if section is not None and section.first <= line < section.end:
            self._complain(line, why)

    def _complain(self, line: int, why: str) -> None:
        self.complaints.append((line, f"line {line + 1}: {why}"))


def circular(depends: dict[str, list[str]]) -> list[str]:
    """The units that are in a circle, or between two: those who never get their turn."""
    left = _waiting(depends)
    backwards: dict[str, list[str]] = {name: [] for name in left}
    for name in left:
        for one in set(depends[name]) & left:
            backwards[one].append(name)
    stuck = _waiting(backwards)
    return [name for name in depends if name in stuck]


def _waiting(depends: dict[str, list[str]]) -> set[str]:
    """Who is left when everyone whose turn it is has gone, again and again."""
    counts = {name: len(set(waits)) for name, waits in depends.items()}
    followers: dict[str, list[str]] = {name: [] for name in depends}
    for name, waits in depends.items():
        for one in set(waits):
            followers[one].append(name)
    ready = [name for name, count in counts.items() if not count]
    while ready:
        for name in followers[ready.pop()]:
            counts[name] -= 1
            if not counts[name]:
                ready.append(name)
    return {name for name, count in counts.items() if count}


def read_brief(text: str) -> Fields:
    """What ``brief.md`` says; what it does not say is empty."""
    page = _page(text)
    header = {key: markdown_text.decoded(value) for key, (_, value) in page.header().items()}
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
    """When a page of units says that it was made."""
    return markdown_text.decoded(_page(units).header().get("created", (0, ""))[1])


def read_guardrails(text: str) -> list[Fields]:
    """The lessons of ``guardrails.md``; a section that tells none is somebody's notes."""
    page = _page(text)
    found: list[Fields] = []
    for section in page.sections:
        said = page.keyed(section)
        lesson = {key: said[key] for key in GUARDRAIL if key in said}
        if lesson:
            found.append({"name": markdown_text.decoded(section.heading), **lesson})
    return found


def _page(text: str) -> Page:
    return Page("".join(split_lines(text)[:MAX_LINES]) if is_too_long(text) else text)
