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
import tomllib

from holdfast.core.json_text import is_encodable
from holdfast.errors import Refused
from holdfast.install.agents import AGENTS, USER
from holdfast.install.client_files import BOM, MAX_FILE_BYTES, Misfit, SharedFile
from holdfast.system.disk import Disk
from holdfast.workspace.location import is_inside
from holdfast.workspace.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields
    from holdfast.workspace.location import Workspace

FILE = "config.toml"
TEAM_FILE = os.path.join(".codex", FILE)
TABLE = "sandbox_workspace_write"
ROOTS = "writable_roots"
PROFILE = "default_permissions"
_OWN_TABLE = re.compile(
    rf"(?:\r?\n)?^\[{TABLE}\]\r?\n{ROOTS} = \[[^\]#]*\]\r?\n(?=\s*(?:\[|\Z))", re.MULTILINE
)
"""The table as ``init`` adds it, with the empty line before it."""
_LEDGER = "holdfast"


class SandboxFile(SharedFile):
    """The user's configuration of Codex (TOML), with the ledger's folder as a writable one."""

    def __init__(self, workspace: Workspace, folder: str) -> None:
        super().__init__(AGENTS["codex"], USER, workspace, config_path())
        self.folder = folder
        # Every project adds a folder of its own to the same file.
        self.key = f"{self.path}#{folder}"
        self._project = workspace.root

    def _add(self, text: str) -> str:
        return add_root(text, self.folder)

    def _remove(self, text: str, original: str) -> str:
        return remove_root(text, self.folder, original)

    def _line_of(self, text: str, path: list[str | int]) -> int:
        return text.count("\n", 0, max(text.find(str(path[-1])), 0)) + 1

    def _text(self, raw: bytes) -> tuple[str, str]:
        try:
            text = raw.decode()
            mark = BOM if text.startswith(BOM) else ""
            tomllib.loads(text.removeprefix(BOM))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as bad:
            raise BadSettings(self.name, "the file", f"is not TOML: {bad}") from None
        return mark, text.removeprefix(BOM)

    def parse(self, raw: bytes) -> Fields:
        """Return what these bytes configure; raise ``BadSettings`` if they are not TOML."""
        return tomllib.loads(self._text(raw)[1])

    def config(self) -> Fields:
        """Return the user's configuration; raise ``BadSettings`` if it is not TOML."""
        raw = Disk().read(self.path, MAX_FILE_BYTES) if os.path.isfile(self.path) else None
        return self.parse(raw or b"")

    def _team_config(self) -> Fields:
        """Return the project's configuration; an empty one if it cannot be read."""
        path = os.path.join(self._project, TEAM_FILE)
        if not os.path.isfile(path) or not is_inside(path, self._project):
            return {}
        try:
            return self.parse(Disk().read(path, MAX_FILE_BYTES) or b"")
        except (BadSettings, OSError):
            return {}

    def obstacle(self, config: Fields) -> tuple[str, str] | None:
        """Return why Codex's commands cannot write the folder, and a remedy; ``None`` if they can.

        ``config`` is the user's own configuration.
        """
        mode, profile = config.get("sandbox_mode"), config.get(PROFILE)
        if isinstance(profile, str):
            rules: Any = config.get("permissions")
            for key in (profile, "filesystem"):
                rules = rules.get(key) if isinstance(rules, dict) else None
            paths = rules.items() if isinstance(rules, dict) else ()
            if is_among(self.folder, [path for path, access in paths if access == "write"]):
                return None
            why = f"its profile {profile} ({PROFILE}) does not name {self.folder}"
            return why, f'add to [permissions.{profile}.filesystem]: "{self.folder}" = "write"'
        if mode == "danger-full-access":
            return None
        if mode == "read-only":
            return "its sandbox_mode is read-only", "set another sandbox_mode"
        team = self._team_config()
        has_team_list = ROOTS in _table(team)
        if is_among(self.folder, roots_in(team if has_team_list else config)):
            return None
        if has_team_list:
            why = f"{ROOTS} in {TEAM_FILE} replaces your own list, and lacks {self.folder}"
            return why, f"remove {ROOTS} from {TEAM_FILE}"
        return f"{self.folder} is not among its {ROOTS}", "holdfast init --agent codex"

    def has_folder(self) -> bool:
        """Return True if Codex mounts the folder, or if the configuration cannot be parsed."""
        try:
            return is_among(self.folder, roots_in(self.config()))
        except BadSettings:
            return True


def config_path() -> str:
    """Return the path of the user's configuration of Codex."""
    return os.path.join(AGENTS["codex"].own_folder(), FILE)


def sandbox_file(workspace: Workspace) -> SandboxFile | None:
    """Return Codex's configuration; ``None`` if Codex lets the ledger's folder be written anyway.

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
    return SandboxFile(workspace, folder)


def roots_in(config: Fields) -> list[str]:
    """Return the folders outside the workspace that commands may write."""
    roots = _table(config).get(ROOTS)
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def _table(config: Fields) -> Fields:
    table = config.get(TABLE)
    return table if isinstance(table, dict) else {}


def is_among(folder: str, roots: list[str]) -> bool:
    """Return True if the folder is one of the roots, after resolving links."""
    real = os.path.realpath(folder)
    return any(os.path.isabs(root) and os.path.realpath(root) == real for root in roots)


def add_root(text: str, folder: str) -> str:
    """Return the text with the folder in the list; raise ``Misfit`` if it does not fit in.

    If a profile makes Codex ignore the list, return the text unchanged.
    """
    before = tomllib.loads(text)
    if isinstance(before.get(PROFILE), str) or is_among(folder, roots_in(before)):
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


def remove_root(text: str, folder: str, original: str) -> str:
    """Return the text without the folder, and without what is then empty and was not there before.

    A table that ``init`` added for the ledgers of other projects was not there before.
    """
    before, earlier = tomllib.loads(text), tomllib.loads(original)
    if not is_among(folder, roots_in(before)):
        return text
    has_table, has_roots = TABLE in earlier, ROOTS in _table(earlier)
    names = [os.path.basename(root) for root in roots_in(earlier)]
    if names and set(names) == {_LEDGER} and _OWN_TABLE.search(original):
        has_table = has_roots = False
    roots = before[TABLE][ROOTS]
    others = [root for root in roots if not (isinstance(root, str) and is_among(folder, [root]))]
    if not (others or has_table) and (own := _OWN_TABLE.search(text)) is not None:
        return text[: own.start()] + text[own.end() :]
    import tomlkit

    document: Any = tomlkit.parse(text)
    table: Any = document[TABLE]
    if others or has_roots:
        for index in reversed(range(len(roots))):
            if roots[index] not in others:
                del table[ROOTS][index]
    elif len(table) > 1 or has_table:
        del table[ROOTS]
    else:
        del document[TABLE]
    return _checked(tomlkit.dumps(document), before, others)


def _checked(after: str, before: Fields, roots: list[Any]) -> str:
    """Return the new text; raise ``Misfit`` if it changes more than the roots."""
    try:
        config = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        config = {}
    expected = {**before[TABLE], ROOTS: roots}
    is_rest_equal = {**config, TABLE: None} == {**before, TABLE: None}
    if not is_rest_equal or {ROOTS: [], **config.get(TABLE, {})} != expected:
        raise Misfit([TABLE], f"{ROOTS} cannot be changed without harm to the rest")
    return after
