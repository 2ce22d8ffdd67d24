"""Read the team's settings (``.claude/holdfast.toml``) and the person's (``~/.config/holdfast/``).

The team's file comes with a repository, so it is untrusted: it is checked key by key and cannot
grant trust. The person's settings override the team's.
"""

from __future__ import annotations

import os

from holdfast.core.time import duration_s
from holdfast.core.visible import first_hidden
from holdfast.errors import Fault, Refused
from holdfast.workspace.location import (
    MILESTONES,
    PERSON_SETTINGS,
    TEAM_SETTINGS,
    is_in_repository,
    is_inside,
    person_path,
    read_start,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json

    Check = Callable[[Json, str], Json]
    Rules = dict[str, "Check | Rules"]

TEAM = TEAM_SETTINGS
MAX_BYTES = 262_144
MAX_COMMAND = 1_000
MAX_NAME = 100
MAX_PATTERNS = 50
MAX_PATTERN = 500
_NEWER = "if it is for a newer Holdfast: git pull in its checkout, then pip install ."
_GAP = " " * 20
"""Spaces that could push the rest of a command out of a reader's sight."""
COMPLETED_KEPT = "24h"
MEMORY_LINES = 40
ENFORCEABLE = ("reading", "stop")
ANY = "*"
"""The key, in rules, of a table whose keys are names that people choose."""
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
    """The settings of both files together. The person's override the team's."""

    def __init__(self, team: Fields, person: Fields) -> None:
        both = {**team, **person}
        self.trusted_folders: list[str] = person.get("trust", {}).get("folders", [])
        self.gates_of_team: Fields = team.get("gates", {})
        self._gates_of_person: Fields = person.get("gates", {})
        self.ttl: dict[str, str] = {**team.get("ttl", {}), **person.get("ttl", {})}
        """How long the workflows of a recipe may be inactive, by its name."""
        cleaned = {**team.get("clean", {}), **person.get("clean", {})}
        self.completed_kept: str = cleaned.get("completed", COMPLETED_KEPT)
        """How long the records of ended workflows are kept in their folder."""
        self.enforced: list[str] = both.get("enforce", [])
        """The rules that hooks enforce."""
        self.memory: str | None = both.get("memory")
        """The path of the project's memory, or ``off``."""
        self.memory_lines: int = both.get("memory_lines", MEMORY_LINES)
        """How many lines Holdfast may use in a project's memory."""
        self.milestones: str = both.get("milestones", MILESTONES)
        """The folder, relative to the root, with one folder for each initiative."""
        self.workflow_status: str | None = both.get("workflow_status")
        """The path of ``WORKFLOW-STATUS.yaml`` from the root."""
        self.mask_patterns: list[str] = [
            pattern
            for file in (team, person)
            for pattern in file.get("mask", {}).get("patterns", [])
        ]
        """Regular expressions of what is masked in kept output. Neither file can take one away."""
        self._graph: str = both.get("graph", EMBEDDED)
        hub = {**team.get("hub", {}), **person.get("hub", {})}
        self.hub_output: bool = hub.get("output", False)
        """Whether the output of gates and tests travels to other machines, too."""
        self.hub_redact: list[str] = [
            pattern for file in (team, person) for pattern in file.get("hub", {}).get("redact", [])
        ]
        """Regular expressions of texts that never travel. Neither file can take one away."""

    def gate(self, name: str) -> tuple[Fields, bool]:
        """Return a gate's settings, and whether its command comes from the repository."""
        team, person = self.gates_of_team.get(name, {}), self._gates_of_person.get(name, {})
        return {**team, **person}, "command" in team and "command" not in person

    def gate_names(self) -> list[str]:
        """Return the names of the gates that have a command in the settings."""
        gates = {**self.gates_of_team, **self._gates_of_person}
        return [name for name in gates if "command" in self.gate(name)[0]]

    def graph(self) -> str:
        """Return which server keeps the memory graph: ``embedded``, ``off`` or ``mcp:NAME``.

        Raise ``BadSettings`` if the environment variable has another value.
        """
        server = os.environ.get(GRAPH_VARIABLE)
        if not server:
            return self._graph
        try:
            return str(_check_graph(server, GRAPH_VARIABLE))
        except BadValue as bad:
            raise BadSettings("the environment", bad.key, bad.why) from None


def load(root: str) -> Settings:
    """Return the settings of this person for the workspace at ``root``.

    Raise ``BadSettings`` if a file has a wrong value, or ``Fault`` if it cannot be read.
    """
    loaded = []
    for path, label, within in _files(root):
        try:
            table = parse_toml(read_file(path, label, within))
            loaded.append(check_table(table, "", _RULES if within else _RULES_OF_PERSON))
        except BadValue as bad:
            hint = f"edit {label}; {_NEWER}" if bad.is_unknown else ""
            raise BadSettings(label, bad.key, bad.why, hint) from None
    team, person = loaded
    for key in ("memory", "milestones", "workflow_status"):
        path = team.get(key, "off")
        full = os.path.join(root, path)
        if path != "off" and (path.startswith("~") or not is_inside(full, root)):
            raise BadSettings(TEAM, key, "leads out of the workspace")
    return Settings(team, person)


def mentions(root: str, key: bytes) -> bool:
    """Return True if a settings file mentions a key. It is not parsed, so this is fast."""
    for file in _files(root):
        try:
            if key in read_file(*file):
                return True
        except (BadValue, Fault):
            continue
    return False


def _files(root: str) -> tuple[tuple[str, str, str | None], ...]:
    """Return path and name of the team's and the person's file, and the folder it must be in.

    A person's file in the repository is not read: whoever made the repository could have put it
    there.
    """
    person = os.path.join(person_path(), PERSON_SETTINGS)
    if os.path.lexists(person) and is_in_repository(person, root):
        person = os.devnull
    return (os.path.join(root, TEAM), TEAM, root), (person, person, None)


def _is_enforceable(value: Json) -> bool:
    return isinstance(value, list) and all(name in ENFORCEABLE for name in value)


def _is_line(value: Json) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_path(value: Json) -> bool:
    return _is_line(value) and value.strip("/.") != ""


def _is_line_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 5 <= value <= 200


def _are_folders(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(f, str) and f for f in value)


def _are_patterns(value: Json) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_PATTERNS
        and all(isinstance(text, str) and 0 < len(text) <= MAX_PATTERN for text in value)
    )


def _rule(is_good: Callable[[Json], bool], why: str) -> Check:
    """Return a check that refuses other values with this reason."""

    def check(value: Json, key: str) -> Json:
        if not is_good(value):
            raise BadValue(key, why)
        return value

    return check


def _check_graph(value: Json, key: str) -> Json:
    is_named = isinstance(value, str) and value.startswith("mcp:") and value.isprintable()
    if value in (EMBEDDED, "off") or (is_named and 4 < len(value) <= 100):
        return value
    raise BadValue(key, "must be embedded, off, or mcp:NAME of a server in .mcp.json")


def _check_command(value: Json, key: str) -> Json:
    if why := bad_command(value):
        raise BadValue(key, why)
    return value


def bad_command(value: Json) -> str | None:
    """Return why a person could not approve this command by reading it, or ``None``."""
    if not isinstance(value, str) or not value.strip():
        return "must be text"
    if len(value) > MAX_COMMAND:
        return f"has {len(value)} characters, at most {MAX_COMMAND} are possible"
    if code := first_hidden(value):
        return f"must be one line without characters that cannot be seen: it has {code}"
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
    if not os.path.isfile(path):
        return b""
    if within is not None and not is_inside(path, within):
        raise BadValue("file", "is a link that leads out of the workspace")
    try:
        data = read_start(path, MAX_BYTES + 1) or b""
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


def check_table(table: Json, key: str, rules: Rules, required: tuple[str, ...] = ()) -> Fields:
    """Return a table after each value was checked, by a function or as a table of its own.

    Raise ``BadValue`` if a key is not known, if a required one is missing, or if a value is wrong.
    """
    if not isinstance(table, dict):
        raise BadValue(key, "must be a table")
    if ANY in rules:
        rules = dict.fromkeys(table, rules[ANY])
    prefix = f"{key}." if key else ""
    for name in table:
        if name not in rules:
            why = f"is unknown; known are {', '.join(rules)}"
            raise BadValue(f"{prefix}{printable(name)}", why, is_unknown=True)
    for name in required:
        if name not in table:
            raise BadValue(f"{prefix}{name}", "is missing")
    checked: Fields = {}
    for name, rule in rules.items():
        if name in table:
            value, inner = table[name], f"{prefix}{name}"
            if isinstance(rule, dict):
                checked[name] = check_table(value, inner, rule)
            else:
                checked[name] = rule(value, inner)
    return checked


def printable(text: str) -> str:
    """Return untrusted text shortened and escaped, so that a message can contain it."""
    short = text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…"
    return short if short.isprintable() and short.strip() == short != "" else repr(short)


_PATTERNS = f"must be a list of at most {MAX_PATTERNS} texts of up to {MAX_PATTERN} characters"
_RULES: Rules = {
    "enforce": _rule(_is_enforceable, f"must be a list of {', '.join(ENFORCEABLE)}"),
    "graph": _check_graph,
    "memory": _rule(_is_line, "must be the path of a file, or off"),
    "memory_lines": _rule(_is_line_count, "must be a number from 5 to 200"),
    "milestones": _rule(_is_path, "must be a path from the workspace's root"),
    "workflow_status": _rule(_is_path, "must be a path from the workspace's root"),
    "gates": {ANY: {"command": _check_command, "timeout": check_duration}},
    "ttl": {ANY: check_duration},
    "clean": {"completed": check_duration},
    "mask": {"patterns": _rule(_are_patterns, _PATTERNS)},
    "hub": {
        "output": _rule(lambda value: isinstance(value, bool), "must be true or false"),
        "redact": _rule(_are_patterns, _PATTERNS),
    },
}
"""The check of each setting."""
_RULES_OF_PERSON: Rules = {
    **_RULES,
    "trust": {"folders": _rule(_are_folders, "must be a list of folders")},
}
