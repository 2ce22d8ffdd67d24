"""The first look at an event: the least that has to happen to know that nothing has to be done.

The event comes as JSON on standard input. Whatever happens, the exit code is 0: a fault of Holdfast
is no reason to stop an agent. It leaves a line in ``.claude/holdfast/hook.log``.
"""

from __future__ import annotations

import os

from holdfast import __version__, jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields

PING = "HoldfastPing"
"""An event that no client has: whoever wants to know whether the hook answers sends it."""
MAX_BYTES = 64 * 1024 * 1024
LEDGER = os.path.join(".claude", "holdfast")
_ALWAYS = ("SessionStart", "PreCompact", "SessionEnd", "PreCompress", "BeforeAgent")
_READS = ("Read", "read_file", "read_many_files", "NotebookRead")
_TOOLS = ("PostToolUse", "AfterTool")
_ENFORCED = ("Stop", "AfterAgent", "PreToolUse", "BeforeTool")
_RECORDS = (
    *(".claude/workflow-state.json", ".claude/workflow-state", "untracked/workflow-state"),
    ".claude/initiative.json",
)
_FOLDERS = (".claude/workflow-state/active", "untracked/workflow-state", ".claude/iterative")
_ONE_FILE = ("file_path", "path", "absolute_path")
_SEVERAL_FILES = ("paths", "include")
_NOTES = ("CLAUDE.local.md", os.path.join("CLAUDE", "Plan"))
_MANY = 64
_MOST = 16 * 1024 * 1024
"""What a record may have, in bytes."""


def main() -> int:
    """Reads one event, and answers it if there is something to say."""
    folder = ""
    try:
        event = _event(_read())
        folder = root_of(event) if event else ""
        _print(_answer(event, folder))
    except BaseException as error:  # noqa: BLE001 - nothing that goes wrong here may stop an agent
        _log(folder, error)
    return 0


def _answer(event: Fields, folder: str) -> Fields | None:
    if event.get("hook_event_name") == PING:
        return {"holdfast": __version__}
    if not folder or not _may_matter(event, folder):
        return None
    from holdfast.hooks.plans import carry_out

    return carry_out(event, folder)


def _read() -> bytes:
    pieces = []
    size = 0
    while size < MAX_BYTES and (piece := os.read(0, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _event(raw: bytes) -> Fields:
    try:
        found = jsontext.loads(raw)
    except jsontext.BadJson:
        return {}
    return found if isinstance(found, dict) else {}


def root_of(event: Fields) -> str:
    """The root of the work tree that the client works in; empty when there is no such folder."""
    told = event.get("cwd")
    folder = told if isinstance(told, str) and os.path.isabs(told) else os.getcwd()
    if "\0" in folder or not os.path.isdir(folder):
        return ""
    above = folder
    while True:
        git = os.path.join(above, ".git")
        is_repository = os.path.exists(os.path.join(git, "HEAD")) or os.path.isfile(git)
        if is_repository or os.path.isdir(os.path.join(above, LEDGER)):
            return above
        if os.path.dirname(above) == above:
            return folder
        above = os.path.dirname(above)


def _may_matter(event: Fields, root: str) -> bool:
    """A quick look that needs no more than a few files' names."""
    if event.get("agent_id"):
        # A sub-agent reads, compacts and stops for itself; its context is not the one that is kept.
        return False
    name = event.get("hook_event_name")
    if name in _ALWAYS:
        return _has_work(root, with_notes=name in ("PreCompact", "PreCompress"))
    if name in _TOOLS:
        return event.get("tool_name") in _READS and _has_ledger(root) and _is_required(event, root)
    return name in _ENFORCED and _has_ledger(root) and is_enforced(root)


def _has_ledger(root: str) -> bool:
    """Whether there is a ledger, its mirror after the work tree was cleaned, or its graph at least.

    In a linked worktree, or a bare repository's, it lies elsewhere.
    """
    git = os.path.join(root, ".git")
    return (
        os.path.exists(os.path.join(root, LEDGER, ".gitignore"))
        or os.path.isdir(os.path.join(git, "holdfast"))
        or os.path.exists(os.path.join(root, LEDGER, "graph.db"))
        or os.path.isfile(git)
    )


def _has_work(root: str, *, with_notes: bool) -> bool:
    places = (*_RECORDS, *_NOTES) if with_notes else _RECORDS
    return _has_ledger(root) or any(os.path.lexists(os.path.join(root, place)) for place in places)


def is_enforced(root: str) -> bool:
    """Whether some settings speak of it; what they say is read by those who understand it."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")
    team = os.path.join(root, ".claude", "holdfast.toml")
    person = os.path.join(base, "holdfast", "config.toml")
    said = b"" if _leads_out(root, ".claude", "holdfast.toml") else _bytes(team)
    return b"enforce" in said or b"enforce" in _bytes(person)


def paths_read(given: object) -> list[str]:
    """The files that a tool was asked to read, in the words of each client."""
    if not isinstance(given, dict):
        return []
    told = [given.get(key) for key in _ONE_FILE]
    for key in _SEVERAL_FILES:
        listed = given.get(key)
        told += listed if isinstance(listed, list) else []
    texts = [path for path in told if isinstance(path, str) and path]
    return [path for path in texts if "\0" not in path and jsontext.is_encodable(path)]


def _is_required(event: Fields, root: str) -> bool:
    """Whether some record could require what was read: its bytes name the file."""
    paths = paths_read(event.get("tool_input"))
    names = {os.path.basename(way) for path in paths for way in (path, os.path.realpath(path))}
    records = _records(root) if names else []
    if len(records) > _MANY or not all(map(_is_plain, names)):
        return bool(records)
    return any(name.encode() in data for data in map(_bytes, records) for name in names)


def _is_plain(name: str) -> bool:
    """Whether every writer of JSON writes the name as it is."""
    return name.isascii() and name.isprintable() and '"' not in name and "\\" not in name


def _records(root: str) -> list[str]:
    found = [os.path.join(root, ".claude", "workflow-state.json")]
    for folder in _FOLDERS:
        above = os.path.join(root, folder)
        if not os.path.isdir(above) or _leads_out(root, *folder.split("/")):
            continue
        for name in os.listdir(above)[: _MANY + 1]:
            path = os.path.join(above, name)
            if not os.path.isdir(path):
                found.append(path)
            elif not os.path.islink(path):
                found += [os.path.join(path, one) for one in os.listdir(path)[:_MANY]]
    return [path for path in found if not os.path.islink(path)]


def _leads_out(root: str, *parts: str) -> bool:
    """Whether a link on the way leads out of the work tree, to what is not this project's."""
    way = root
    for part in parts:
        way = f"{way}/{part}"
        if os.path.islink(way):
            top = os.path.join(os.path.realpath(root), "")
            return not os.path.realpath(os.path.join(root, *parts)).startswith(top)
    return False


def _bytes(path: str) -> bytes:
    """What a file holds; nothing where there is none. A pipe would keep us waiting for ever."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(_MOST)
    except OSError:
        return b""


def _print(answer: Fields | None) -> None:
    """Straight to the client: what a buffer cannot get rid of would change the exit code."""
    left = (jsontext.dumps(answer) + "\n").encode() if answer else b""
    while left:
        left = left[os.write(1, left) :]


def _log(folder: str, error: BaseException) -> None:
    """A line for whoever wonders; where there is no ledger, nothing is made."""
    from holdfast.hooks.log import write_in

    if folder:
        write_in(folder, error)
