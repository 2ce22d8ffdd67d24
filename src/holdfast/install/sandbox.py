"""Codex's sandbox: let the commands of an agent write the ledger's folder.

The sandbox ``workspace-write`` keeps ``.git``, which has the ledger, read-only. A folder listed in
``sandbox_workspace_write.writable_roots`` is writable, and nothing around it is (Codex 0.166 on
Linux, linked worktrees included). The folder must exist: if a listed one is missing below the
current folder or in ``/tmp``, Codex runs no command at all.

The path is one of this machine, so it is in the user's own configuration. A list in a trusted
project's ``.codex/config.toml`` replaces the user's; a permission profile
(``default_permissions``) makes Codex ignore both.
"""

from __future__ import annotations

import os
import re

from holdfast.core.json_text import is_encodable
from holdfast.errors import Refused
from holdfast.install.agents import AGENTS
from holdfast.install.json_settings import Misfit

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
"""The table as ``init`` adds it, with the empty line before it."""
_LEDGER = "holdfast"


class BadToml(Exception):
    """The text is not TOML; the message says why."""


def config_path() -> str:
    """Return the path of the user's configuration of Codex."""
    return os.path.join(AGENTS["codex"].own_folder(), FILE)


def folder_to_allow(workspace: Workspace) -> str | None:
    """Return the ledger's folder if it is in git's; ``None`` if Codex lets it be written anyway.

    Raise ``Refused`` if it is a link: a repository must not choose what its sandbox lets out.
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


def parse(text: str) -> Fields:
    """Return the value of a TOML text; raise ``BadToml``."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)) from None


def roots_in(config: Fields) -> list[str]:
    """Return the folders outside the workspace that commands may write."""
    table = config.get(TABLE)
    roots = table.get(ROOTS) if isinstance(table, dict) else None
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def sets_roots(config: Fields) -> bool:
    """Return True if the configuration lists such folders; the list may be empty."""
    table = config.get(TABLE)
    return isinstance(table, dict) and ROOTS in table


def is_among(folder: str, roots: list[str]) -> bool:
    """Return True if the folder is one of the roots, after resolving links."""
    real = os.path.realpath(folder)
    return any(os.path.isabs(root) and os.path.realpath(root) == real for root in roots)


def profile_of(config: Fields) -> str | None:
    """Return the permission profile that replaces the list, if there is one."""
    profile = config.get("default_permissions")
    return profile if isinstance(profile, str) else None


def obstacle(config: Fields, team: Fields, folder: str) -> tuple[str, str] | None:
    """Return why Codex's commands cannot write the folder, and a remedy; ``None`` if they can.

    ``config`` is the user's own configuration, ``team`` the project's.
    """
    mode = config.get("sandbox_mode")
    profile = profile_of(config)
    if profile is not None:
        if _profile_allows(config, profile, folder):
            return None
        why = f"its profile {profile} (default_permissions) does not name {folder}"
        return why, f'add to [permissions.{profile}.filesystem]: "{folder}" = "write"'
    if mode == "danger-full-access":
        return None
    if mode == "read-only":
        return "its sandbox_mode is read-only", "set another sandbox_mode"
    if sets_roots(team):
        if is_among(folder, roots_in(team)):
            return None
        why = f"{ROOTS} in {TEAM_FILE} replaces your own list, and lacks {folder}"
        return why, f"remove {ROOTS} from {TEAM_FILE}"
    if is_among(folder, roots_in(config)):
        return None
    return f"{folder} is not among its {ROOTS}", "holdfast init --agent codex"


def _profile_allows(config: Fields, profile: str, folder: str) -> bool:
    rules: Any = config.get("permissions")
    for key in (profile, "filesystem"):
        rules = rules.get(key) if isinstance(rules, dict) else None
    if not isinstance(rules, dict):
        return False
    return any(access == "write" and is_among(folder, [path]) for path, access in rules.items())


def add_root(text: str, folder: str) -> str:
    """Return the text with the folder in the list; raise ``Misfit`` if it does not fit in.

    If a profile makes Codex ignore the list, return the text unchanged.
    """
    before = parse(text)
    if profile_of(before) is not None or is_among(folder, roots_in(before)):
        return text
    import tomlkit

    table = before.get(TABLE)
    if table is None:
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        name = tomlkit.item(folder).as_string()
        return f"{text}{gap}[{TABLE}]{newline}{ROOTS} = [{name}]{newline}"
    if not isinstance(table, dict):
        raise Misfit([TABLE], f"{TABLE} must be a table")
    roots = table.get(ROOTS, [])
    if not isinstance(roots, list):
        raise Misfit([ROOTS], f"{ROOTS} must be a list")
    document: Any = tomlkit.parse(text)
    if ROOTS in table:
        document[TABLE][ROOTS].append(folder)
    else:
        document[TABLE][ROOTS] = [folder]
    return _checked(tomlkit.dumps(document), before, [*roots, folder])


def remove_root(text: str, folder: str, kept: frozenset[str] = frozenset()) -> str:
    """Return the text without the folder, and without what is then empty unless it is ``kept``."""
    before = parse(text)
    if not is_among(folder, roots_in(before)):
        return text
    roots = before[TABLE][ROOTS]
    others = [root for root in roots if not (isinstance(root, str) and is_among(folder, [root]))]
    if not others and not kept and (own := _OWN_TABLE.search(text)) is not None:
        return text[: own.start()] + text[own.end() :]
    import tomlkit

    document: Any = tomlkit.parse(text)
    table: Any = document[TABLE]
    if others or ROOTS in kept:
        for index in reversed(range(len(roots))):
            if roots[index] not in others:
                del table[ROOTS][index]
    elif len(table) > 1 or TABLE in kept:
        del table[ROOTS]
    else:
        del document[TABLE]
    return _checked(tomlkit.dumps(document), before, others)


def containers(text: str) -> frozenset[str]:
    """Return the keys around our folder that the user wrote.

    A table that ``init`` added for the ledgers of other projects is ours too.
    """
    config = parse(text)
    if TABLE not in config:
        return frozenset()
    if not sets_roots(config):
        return frozenset([TABLE])
    roots = roots_in(config)
    is_ours = roots and all(os.path.basename(root) == _LEDGER for root in roots)
    return frozenset([] if is_ours and _OWN_TABLE.search(text) else [TABLE, ROOTS])


def _checked(after: str, before: Fields, roots: list[Any]) -> str:
    """Return the new text; raise ``Misfit`` if it changes more than the roots."""
    try:
        config = parse(after)
    except BadToml:
        config = {}
    expected = {**before[TABLE], ROOTS: roots}
    rest = {**config, TABLE: None} == {**before, TABLE: None}
    if not rest or {ROOTS: [], **config.get(TABLE, {})} != expected:
        raise Misfit([TABLE], f"{ROOTS} cannot be changed without harm to the rest")
    return after
