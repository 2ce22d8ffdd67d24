"""The ledger's folder among those that Codex lets the commands of an agent write.

Its sandbox ``workspace-write`` keeps ``.git`` read-only, and the ledger lies in there. A folder
named in ``sandbox_workspace_write.writable_roots`` is writable all the same, and nothing around it
is. (So it was with Codex 0.166 on Linux, also for linked worktrees.) It has to be there: where one
of them is missing below the current folder or in ``/tmp``, Codex starts no command at all.

The path is one of this machine, so it stands in the person's own configuration. A list in a trusted
project's ``.codex/config.toml`` takes the place of the person's; a permission profile
(``default_permissions``) makes Codex ignore both.
"""

from __future__ import annotations

import os
import re

from holdfast.core.json_text import is_encodable
from holdfast.errors import Refused
from holdfast.install.agents import AGENTS
from holdfast.install.hooks import Misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

FILE = "config.toml"
TEAM_FILE = os.path.join(".codex", FILE)
TABLE = "sandbox_workspace_write"
ROOTS = "writable_roots"
_OWN_TABLE = re.compile(
    rf"(?:\r?\n)?^\[{TABLE}\]\r?\n{ROOTS} = \[[^\]#]*\]\r?\n(?=\s*(?:\[|\Z))", re.MULTILINE
)
"""The table as it is added here, with the empty line before it and nothing else in it."""
_LEDGER = "holdfast"


class BadToml(Exception):
    """A text that is not TOML, and why."""


def config_path() -> str:
    """Return where the person's own configuration of Codex is."""
    return os.path.join(AGENTS["codex"].own_folder(), FILE)


def folder_to_allow(workspace: Workspace) -> str | None:
    """Return the ledger's folder if it lies in git's; ``None`` where Codex lets it be written.

    Raise ``Refused`` if it is a link: a repository must not choose what a sandbox lets out.
    """
    if workspace.common is None or not is_encodable(workspace.home):
        return None
    folder = os.path.realpath(workspace.home)
    if folder != os.path.join(os.path.realpath(workspace.common), _LEDGER):
        raise Refused(
            "outside",
            f"{workspace.home} leads out of git's folder, to {folder}",
            "replace the link by a folder of its own",
        )
    return folder


def parsed(text: str) -> Fields:
    """Return what a TOML text holds; raise ``BadToml``."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)) from None


def roots_in(config: Fields) -> list[str]:
    """Return the folders that a configuration lets commands write besides the workspace."""
    table = config.get(TABLE)
    roots = table.get(ROOTS) if isinstance(table, dict) else None
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def sets_roots(config: Fields) -> bool:
    """True if a configuration has such a list, be it empty."""
    table = config.get(TABLE)
    return isinstance(table, dict) and ROOTS in table


def is_among(folder: str, roots: list[str]) -> bool:
    """True if the folder is one of the roots, whatever links lead there."""
    real = os.path.realpath(folder)
    return any(os.path.isabs(root) and os.path.realpath(root) == real for root in roots)


def profile_of(config: Fields) -> str | None:
    """Return the permission profile that takes the place of the list, if there is one."""
    profile = config.get("default_permissions")
    return profile if isinstance(profile, str) else None


def obstacle(config: Fields, team: Fields, folder: str) -> tuple[str, str] | None:
    """Return why Codex's commands cannot write the folder, and what mends it; ``None`` if they can.

    ``config`` is the person's own configuration, ``team`` the project's.
    """
    mode = config.get("sandbox_mode")
    profile = profile_of(config)
    if profile is not None:
        if _profile_allows(config, profile, folder):
            return None
        said = f"its profile {profile} (default_permissions) does not name {folder}"
        return said, f'add to [permissions.{profile}.filesystem]: "{folder}" = "write"'
    if mode == "danger-full-access":
        return None
    if mode == "read-only":
        return "it lets its commands write nothing (sandbox_mode)", "set another sandbox_mode"
    if sets_roots(team):
        if is_among(folder, roots_in(team)):
            return None
        said = f"{ROOTS} in {TEAM_FILE} takes the place of your own, and lacks {folder}"
        return said, f"take {ROOTS} out of {TEAM_FILE}"
    if is_among(folder, roots_in(config)):
        return None
    return f"{folder} is not among its {ROOTS}", "holdfast init --agent codex"


def _profile_allows(config: Fields, profile: str, folder: str) -> bool:
    found: Any = config.get("permissions")
    for key in (profile, "filesystem"):
        found = found.get(key) if isinstance(found, dict) else None
    rules = found.items() if isinstance(found, dict) else ()
    return any(access == "write" and is_among(folder, [path]) for path, access in rules)


def with_root(text: str, folder: str) -> str:
    """Return the text with the folder in the list; raise ``Misfit`` where there is no place for it.

    A profile makes Codex ignore the list: then the text stays.
    """
    before = parsed(text)
    if profile_of(before) is not None or is_among(folder, roots_in(before)):
        return text
    table = before.get(TABLE)
    if table is None:
        return _with_table(text, folder)
    if not isinstance(table, dict):
        raise Misfit(_line_of(text, TABLE), f"{TABLE} must be a table")
    if not isinstance(table.get(ROOTS, []), list):
        raise Misfit(_line_of(text, ROOTS), f"{ROOTS} must be a list")
    return _checked(_edited(text, folder), before, [*table.get(ROOTS, []), folder], text)


def without_root(text: str, folder: str, kept: frozenset[str] = frozenset()) -> str:
    """Return the text without the folder, and without what held only it unless it is ``kept``."""
    before = parsed(text)
    if not is_among(folder, roots_in(before)):
        return text
    table = before[TABLE]
    roots = table[ROOTS]
    left = [one for one in roots if not (isinstance(one, str) and is_among(folder, [one]))]
    if not left and not kept and (own := _OWN_TABLE.search(text)) is not None:
        return text[: own.start()] + text[own.end() :]
    import tomlkit

    document: Any = tomlkit.parse(text)
    found: Any = document[TABLE]
    if left or ROOTS in kept:
        for index in reversed(range(len(roots))):
            if roots[index] not in left:
                del found[ROOTS][index]
    elif len(table) > 1 or TABLE in kept:
        del found[ROOTS]
    else:
        del document[TABLE]
    return _checked(tomlkit.dumps(document), before, left, text)


def containers(text: str) -> frozenset[str]:
    """Return what a text has of that which we would make; a list of other ledgers is ours too."""
    config = parsed(text)
    if TABLE not in config:
        return frozenset()
    roots = roots_in(config)
    others = [root for root in roots if os.path.basename(root) != _LEDGER]
    if not sets_roots(config):
        return frozenset([TABLE])
    is_ours = roots and not others
    return frozenset([] if is_ours and _OWN_TABLE.search(text) else [TABLE, ROOTS])


def _with_table(text: str, folder: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    import tomlkit

    name = tomlkit.item(folder).as_string()
    return f"{text}{gap}[{TABLE}]{newline}{ROOTS} = [{name}]{newline}"


def _edited(text: str, folder: str) -> str:
    import tomlkit

    document: Any = tomlkit.parse(text)
    table: Any = document[TABLE]
    if ROOTS in table:
        table[ROOTS].append(folder)
    else:
        table[ROOTS] = [folder]
    return tomlkit.dumps(document)


def _checked(after: str, before: Fields, roots: list[Any], text: str) -> str:
    """Return the new text if it says the same as the old one but for the roots."""
    try:
        found = parsed(after)
    except BadToml:
        found = {}
    others = {key: value for key, value in before[TABLE].items() if key != ROOTS}
    had = found.get(TABLE, {})
    is_same = {**found, TABLE: None} == {**before, TABLE: None}
    kept = {key: value for key, value in had.items() if key != ROOTS}
    if not is_same or kept != others or had.get(ROOTS, []) != roots:
        raise Misfit(_line_of(text, TABLE), f"{ROOTS} cannot be changed without harm to the rest")
    return after


def _line_of(text: str, name: str) -> int:
    return text.count("\n", 0, max(text.find(name), 0)) + 1
