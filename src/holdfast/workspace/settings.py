"""Read the team's settings (``.claude/holdfast.toml``) and the person's (``~/.config/holdfast/``).

The team's file comes with a repository, so it is untrusted: it is checked key by key and cannot
grant trust. The person's settings override the team's.
"""

from __future__ import annotations

import os

from holdfast.core.time import duration_s
from holdfast.errors import Fault, Refused
from holdfast.workspace.location import (
    PERSON_SETTINGS,
    TEAM_SETTINGS,
    is_inside,
    person_folder,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Fields, Json

    Rule = tuple[Callable[[Json], bool], str]

TEAM = TEAM_SETTINGS
MAX_BYTES = 262_144
MAX_COMMAND = 1_000
MAX_NAME = 100
_NEWER = "if it is for a newer Holdfast: git pull in its checkout, then pip install ."
_GAP = " " * 20
"""Spaces that could push the rest of a command out of a reader's sight."""
COMPLETED_KEPT = "24h"
MEMORY_LINES = 40
MILESTONES = "documentation/milestones/_active"
ENFORCEABLE = ("reading", "stop")
GRAPH_VARIABLE = "HOLDFAST_GRAPH"
EMBEDDED = "embedded"


class BadSettings(Refused):
    """A settings file cannot be used: the value of ``key`` is wrong, and ``why`` explains it."""

    def __init__(self, path: str, key: str, why: str, hint: str = "") -> None:
        super().__init__(
            "bad_settings", f"{path}: {key}: {why}",
            hint or f"edit {path}, then run the command again", key=key, why=why,
        )  # fmt: skip


class Settings:
    """The settings of both files together."""

    def __init__(self, team: Fields, person: Fields) -> None:
        self._team = team
        self._person = person
        self.trusted_folders: list[str] = person.get("trust", {}).get("folders", [])

    def gate(self, name: str) -> tuple[Fields, bool]:
        """Return a gate's settings, and whether its command comes from the repository."""
        team = self._team.get("gates", {}).get(name, {})
        person = self._person.get("gates", {}).get(name, {})
        return {**team, **person}, "command" in team and "command" not in person

    def gates_of_team(self) -> Fields:
        gates: Fields = self._team.get("gates", {})
        return gates

    def ttl(self, recipe: str) -> str | None:
        """Return how long workflows of this recipe may be inactive; ``None`` if it is not set."""
        ttl: str | None = self._value("ttl", recipe)
        return ttl

    def enforced(self) -> list[str]:
        """Return the rules that hooks enforce. The person's list replaces the team's."""
        return self._value("enforce") or []

    def memory(self) -> str | None:
        """Return the path of the project's memory, ``off``, or ``None`` if it is not set."""
        path: str | None = self._value("memory")
        return path

    def milestones(self) -> str:
        """Return the folder, relative to the root, with one folder for each initiative."""
        return self._value("milestones") or MILESTONES

    def workflow_status(self) -> str | None:
        """Return the path of ``WORKFLOW-STATUS.yaml`` from the root; ``None`` if it is not set."""
        path: str | None = self._value("workflow_status")
        return path

    def memory_lines(self) -> int:
        """Return how many lines Holdfast may use in a project's memory."""
        return self._value("memory_lines") or MEMORY_LINES

    def graph(self) -> str:
        """Return which server keeps the memory graph: ``embedded``, ``off`` or ``mcp:NAME``.

        Raise ``BadSettings`` if the environment variable has another value.
        """
        server = os.environ.get(GRAPH_VARIABLE)
        if server and not _is_graph(server):
            raise BadSettings("the environment", GRAPH_VARIABLE, _VALUES["graph"][1])
        return server or self._value("graph") or EMBEDDED

    def completed_kept(self) -> str:
        """Return how long the records of ended workflows are kept in their folder."""
        return self._value("clean", "completed") or COMPLETED_KEPT

    def _value(self, key: str, entry: str | None = None) -> Any:
        """Return a value, or an entry of a table: the person's, else the team's, else ``None``."""
        for settings in (self._person, self._team):
            value = settings.get(key) if entry is None else settings.get(key, {}).get(entry)
            if value is not None:
                return value
        return None


def load(root: str) -> Settings:
    """Return the settings of this person for the workspace at ``root``.

    Raise ``BadSettings`` if a file has a wrong value, or ``Fault`` if it cannot be read.
    """
    team, person = [_load_file(*file) for file in _files(root)]
    for key in ("memory", "milestones", "workflow_status"):
        path = team.get(key, "off")
        full = os.path.join(root, path)
        if path != "off" and (path.startswith("~") or not is_inside(full, root)):
            raise BadSettings(TEAM, key, "leads out of the workspace")
    return Settings(team, person)


def _load_file(path: str, label: str, within: str | None) -> Fields:
    try:
        settings = parse_toml(read_file(path, label, within))
        _check(settings, _TABLES if within else (*_TABLES, "trust"))
    except BadValue as bad:
        hint = f"edit {label}; {_NEWER}" if bad.is_unknown else ""
        raise BadSettings(label, bad.key, bad.why, hint) from None
    return settings


def may_enforce(root: str) -> bool:
    """Return True if a settings file mentions enforcement. It is not parsed, so this is fast."""
    for file in _files(root):
        try:
            if b"enforce" in read_file(*file):
                return True
        except (BadValue, Fault):
            continue
    return False


def _files(root: str) -> tuple[tuple[str, str, str | None], ...]:
    """Return path and name of the team's and the person's file, and the folder it must be in."""
    person = os.path.join(person_folder(), PERSON_SETTINGS)
    return (os.path.join(root, TEAM), TEAM, root), (person, person, None)


def _check(settings: Fields, tables: tuple[str, ...]) -> None:
    """Raise ``BadValue`` with the first wrong key."""
    refuse_unknown_keys(settings, (*_VALUES, *tables), "")
    for key, value in settings.items():
        is_good, why = _VALUES.get(key, _TABLE)
        if not is_good(value):
            raise BadValue(key, why)
    for name, gate in settings.get("gates", {}).items():
        _check_gate(gate, f"gates.{name}")
    for recipe, ttl in settings.get("ttl", {}).items():
        check_duration(ttl, f"ttl.{recipe}")
    refuse_unknown_keys(settings.get("clean", {}), ("completed",), "clean.")
    for key, kept in settings.get("clean", {}).items():
        check_duration(kept, f"clean.{key}")
    refuse_unknown_keys(settings.get("trust", {}), ("folders",), "trust.")
    folders = settings.get("trust", {}).get("folders", [])
    if not isinstance(folders, list) or not all(isinstance(f, str) and f for f in folders):
        raise BadValue("trust.folders", "must be a list of folders")


def _is_enforceable(value: Json) -> bool:
    return isinstance(value, list) and all(name in ENFORCEABLE for name in value)


def _is_graph(value: Json) -> bool:
    is_named = isinstance(value, str) and value.startswith("mcp:") and value.isprintable()
    return value in (EMBEDDED, "off") or (is_named and 4 < len(value) <= 100)


def _is_line(value: Json) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_path(value: Json) -> bool:
    return _is_line(value) and value.strip("/.") != ""


def _is_line_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 5 <= value <= 200


_TABLES = ("gates", "ttl", "clean")
_TABLE: Rule = (lambda value: isinstance(value, dict), "must be a table")
_VALUES: dict[str, Rule] = {
    "enforce": (_is_enforceable, f"must be a list of {', '.join(ENFORCEABLE)}"),
    "graph": (_is_graph, "must be embedded, off, or mcp:NAME of a server in .mcp.json"),
    "memory": (_is_line, "must be the path of a file, or off"),
    "memory_lines": (_is_line_count, "must be a number from 5 to 200"),
    "milestones": (_is_path, "must be a path from the workspace's root"),
    "workflow_status": (_is_path, "must be a path from the workspace's root"),
}
"""The single values: whether one is right, and what it must be."""


def _check_gate(gate: Json, key: str) -> None:
    if not isinstance(gate, dict):
        raise BadValue(key, "must be a table")
    refuse_unknown_keys(gate, ("command", "timeout"), f"{key}.")
    if "command" in gate and (why := bad_command(gate["command"])):
        raise BadValue(f"{key}.command", why)
    if "timeout" in gate:
        check_duration(gate["timeout"], f"{key}.timeout")


def bad_command(value: Json) -> str | None:
    """Return why a person could not approve this command by reading it, or ``None``."""
    if not isinstance(value, str) or not value.strip():
        return "must be text"
    if len(value) > MAX_COMMAND:
        return f"has {len(value)} characters, at most {MAX_COMMAND} are possible"
    if not value.isprintable():
        return "must be one line without characters that cannot be seen"
    if _GAP in value:
        return "must not have a gap behind which the rest of it can be overlooked"
    return None


# Any TOML file that people write


class BadValue(Exception):
    """The value of ``key`` in a file is wrong, and ``why`` explains it."""

    def __init__(self, key: str, why: str, *, is_unknown: bool = False) -> None:
        super().__init__(why)
        self.key = key
        self.why = why
        self.is_unknown = is_unknown


def read_file(path: str, label: str, within: str | None) -> bytes:
    """Return the content of a file that people write; empty if there is no ordinary file.

    Raise ``BadValue`` if it is a link out of ``within`` or too large, ``Fault`` if unreadable.
    """
    # Opening a pipe would block until another process writes to it.
    if not os.path.isfile(path):
        return b""
    if within is not None and not is_inside(path, within):
        raise BadValue("file", "is a link that leads out of the workspace")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise unreadable(label, error) from error
    if len(data) > MAX_BYTES:
        raise BadValue("file", f"is larger than {MAX_BYTES:,} bytes")
    return data


def unreadable(label: str, error: OSError) -> Fault:
    """Return the fault of a file or folder of people that cannot be read."""
    why = f"{label} cannot be read ({error.strerror})"
    return Fault("not_read", why, "make it readable, then run the command again")


def parse_toml(data: bytes) -> Fields:
    """Return the value of a TOML file; raise ``BadValue`` if it is not one."""
    if not data:
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadValue("file", f"is not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadValue("file", f"is not TOML: {error}") from None
    except (RecursionError, ValueError):
        raise BadValue("file", "holds a value that is nested too deeply or too large") from None


def check_duration(value: Json, key: str) -> str:
    """Return a duration; raise ``BadValue`` if it is not one."""
    if not isinstance(value, str) or not duration_s(value):
        raise BadValue(key, "must be a duration such as 30s, 90m, 24h or 7d")
    return value


def refuse_unknown_keys(table: Fields, known: tuple[str, ...], prefix: str) -> None:
    """Raise ``BadValue`` if the table has a key that is not known."""
    for key in table:
        if key not in known:
            why = f"is unknown; known are {', '.join(known)}"
            raise BadValue(f"{prefix}{printable(key)}", why, is_unknown=True)


def printable(text: str) -> str:
    """Return untrusted text shortened and escaped, so that a message can contain it."""
    short = text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"
    return short if short.isprintable() and short.strip() == short != "" else repr(short)
