"""Keep Holdfast's section of the project's ``MEMORY.md`` (L2) up to date.

The section is computed from the whole state of the workspace, so a missed update is made up for by
the next one, and the file is written only if the section changes. The section is between two marks,
and no byte outside of it is changed. Inside it, lines of other writers are kept. The last written
text is stored beside the ledger, so that a line that an editor removed stays out.

The file is outside the project, so nothing is written until somebody wants it: see ``is_wanted``.

The file is the one that Claude Code loads for this project. ``HOLDFAST_MEMORY`` and the settings
come first. A path that comes with a repository must stay inside the workspace; a person's own
settings may name any.
"""

from __future__ import annotations

import os
from errno import EFBIG

from holdfast.core import json_text, logs
from holdfast.core.json_text import digest
from holdfast.core.other_layers import (
    LINE_BEGINNINGS,
    active_line,
    completion_line,
    expiry_line,
    learning_line,
    one_line,
    preference_lines,
)
from holdfast.core.text_merge import merge_lines
from holdfast.core.workflow import is_active
from holdfast.core.workflow.edits import is_adopted
from holdfast.errors import HoldfastError
from holdfast.formats import stream_of
from holdfast.storage import shared_file
from holdfast.storage.ledger import ACTIVE, ENDED
from holdfast.system.disk import Disk
from holdfast.workspace import settings
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource
    from holdfast.storage.ledger import Stream
    from holdfast.workspace.location import Workspace

    Parts = list[tuple[str, list[str]]]
    """Headings, each with its sentences."""

UNAVAILABLE = "Auto-memory unavailable — learnings will not persist"
_NAME = "MEMORY.md"
_OFF = "off"
_PLUGIN = "holdfast"
_STATE_FILE = "memory.json"
"""The file, beside the ledger, with the text that was written last."""
_LOCK_FILE = "memory.lock"
_LOCK_WAIT_S = 5.0
_LOCAL_SETTINGS = "settings.local.json"
_MAX_SETTINGS_BYTES = 1_000_000
_MAX_ENDED = 20
_MAX_FILE_BYTES = 4_000_000
_MARK_LINES = 2
_ACTIVE_VERBS = f"{ACTIVE} AND format = 'verb' ORDER BY updated_at DESC"
_NEWEST_ENDED = f"{ENDED} AND status != 'abandoned' ORDER BY updated_at DESC, seq DESC LIMIT ?"
ACTIVE_HEADING, ENDED_HEADING = "Active workflows", "Ended workflows"
_PREFERENCES = "Preferences"
_HEADINGS = tuple(f"## {name}" for name in (ACTIVE_HEADING, ENDED_HEADING, _PREFERENCES))
_BEGIN = "<!-- holdfast:begin {} -->"
_END = "<!-- holdfast:end {} -->"
_BULLET = "- "
_LOADED_LINES = 200
"""The lines of the document that a client loads."""


class Memory:
    """The ``MEMORY.md`` of one workspace."""

    def __init__(self, source: LayerSource) -> None:
        self._source = source

    @property
    def path(self) -> str | None:
        """The file's path; ``None`` if memory is switched off."""
        return find_path(self._source.workspace)

    def is_available(self) -> bool:
        """Return True if the file can be read and written, or created."""
        path = file = self.path
        if path is None:
            return False
        while not os.path.lexists(path) and os.path.dirname(path) != path:
            path = os.path.dirname(path)
        is_right_kind = os.path.isfile(path) if path == file else os.path.isdir(path)
        return is_right_kind and os.access(path, os.W_OK)

    def is_wanted(self) -> bool:
        """Return True if somebody asked for the file in any of four ways.

        They named its path, set Claude Code up to run Holdfast (``init`` or the plugin), used
        ``remember``, or have a section from earlier, which must not grow stale.
        """
        workspace = self._source.workspace
        if self.path is None:
            return False
        return bool(
            _named_path(workspace)
            or _is_client_set_up(workspace)
            or self.own_entries("learning")["learnings"]
            or self.lines()
        )

    def lines(self) -> list[str]:
        """Return the lines of our section; empty if there is none."""
        path = self.path
        raw = self._source.disk.read(path) if path else None
        lines = MemorySection(raw or b"", self._key).lines or []
        return [encode(line).decode(errors="replace") for line in lines]

    def sentences(self) -> list[str]:
        """Return the sentences of our section, without headings and list marks."""
        return bullets(self.lines())

    def write(self) -> bool:
        """Bring the section up to date; return True if the file changed.

        Trouble with the file becomes a note, because the state itself is safe.
        """
        disk = self._source.disk
        try:
            path = self.path
            if path is None or not self.is_wanted():
                return False
            lock = disk.lock(os.path.join(self._source.workspace.home, _LOCK_FILE), _LOCK_WAIT_S)
            try:
                return self._write(os.path.realpath(path))
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            self._source.note(f"{UNAVAILABLE} ({why})")
            return False

    def _write(self, path: str) -> bool:
        disk = self._source.disk
        last = self._remembered(path)
        room = settings.load(self._source.workspace.root).memory_lines - _MARK_LINES
        next_: Fields = {}
        has_changed = False

        def update(raw: bytes | None) -> bytes | None:
            # Called again if another writer was faster, so everything is computed anew.
            nonlocal next_, has_changed
            if raw is not None and len(raw) > _MAX_FILE_BYTES:
                raise OSError(EFBIG, f"it has more than {_MAX_FILE_BYTES:,} bytes")
            document = MemorySection(raw or b"", self._key)
            ours, others, remembered = merge(document.lines, list(self._parts()), last, room)
            after: bytes | None = document.with_lines([*ours, *others])
            after = None if raw is None and not after else after
            next_ = {"path": path, **remembered}
            has_changed = has_changed or after != raw
            return after

        disk.make_folder(os.path.dirname(path))
        self._clear_spares(path, last["written"])
        source = self._source
        shared_file.settle(disk, path, update, source.note, source.pause, self._key, merge_lines)
        if next_ != last:
            disk.replace_view(self._state_path, json_text.pretty(next_).encode() + b"\n")
        return has_changed

    def _clear_spares(self, path: str, written: list[str]) -> None:
        """Remove what a killed writer left beside the file; keep it if it has unknown lines."""

        def is_known(spare: bytes) -> bool:
            rendered = render(self._parts())
            ours = MemorySection(b"", self._key).with_lines(rendered)
            current = self._source.disk.read(path) or b""
            known_lines = {b"", *current.splitlines(), *ours.splitlines()}
            *whole, last = spare.splitlines()
            return any(row.startswith(last) for row in known_lines) and all(
                row in known_lines or _is_ours(decode(row), {*written, *_HEADINGS}) for row in whole
            )

        for saved in shared_file.clear_spares(self._source.disk, path, is_known, self._key):
            self._source.note(f"what was saved as {path} when a writer died is kept as {saved}")

    @property
    def _key(self) -> str:
        """The section's name, because several workspaces may share one file."""
        top = self._source.workspace.project
        name = "".join([c if c.isalnum() else "-" for c in os.path.basename(top)]) or "workspace"
        return f"{name[:40]}-{digest(os.path.realpath(top).encode())[:8]}"

    @property
    def _state_path(self) -> str:
        return os.path.join(self._source.workspace.home, _STATE_FILE)

    def _remembered(self, path: str) -> Fields:
        """Return the text that was written last; empty if it is unknown or was another file."""
        try:
            stored = json_text.loads(self._source.disk.read_own(self._state_path) or b"{}")
        except json_text.BadJson:
            stored = {}
        if not isinstance(stored, dict) or stored.get("path") != path:
            stored = {}
        return {"path": path, **{key: _texts(stored.get(key)) for key in ("written", "dropped")}}

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield headings with sentences; the last ones are dropped first if there is no room."""
        source = self._source
        logs_of_person = ("learning", "delegation", "interview")
        learning, delegation, interview = [self.own_entries(log) for log in logs_of_person]
        learnings: dict[str, list[str]] = {}
        for entry in learning["learnings"]:
            heading = one_line(entry.get("section", logs.DEFAULT_SECTION))
            learnings.setdefault(heading, []).insert(0, learning_line(entry))
        yield from learnings.items()
        yield _PREFERENCES, preference_lines(delegation, interview)
        active = []
        for stream in list(source.ledger.states(_ACTIVE_VERBS)):
            state = source.peek_at(stream).state
            if is_active(state) and not is_adopted(state):
                active.append(active_line(state))
        yield ACTIVE_HEADING, [sentence for sentence in active if sentence]
        ended = source.ledger.states(_NEWEST_ENDED, _MAX_ENDED)
        own = [stream for stream in ended if not is_adopted(stream.state)]
        yield ENDED_HEADING, [self._ended(stream) for stream in own]

    def own_entries(self, log: str) -> Fields:
        """Return a log's state without the entries that came with somebody else's record."""
        state: Fields = self._source.state_of(stream_of(log))
        return {
            name: [entry for entry in state[name] if not entry.get(logs.ADOPTED)]
            for name in logs.REMEMBERED
            if name in state
        }

    def _ended(self, stream: Stream) -> str:
        row, state = stream.row, stream.state
        if row["status"] == "expired":
            return expiry_line(row["recipe"], row["title"], row["phase"])
        return completion_line(row["recipe"], row["title"], state)


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# The section: bytes in, bytes out


class MemorySection:
    """A document split at our marks. ``lines`` is what is between them; ``None`` without marks.

    Bytes that are not UTF-8 are preserved. A second section of the same name, from a merge or a
    copy, is joined with the first.
    """

    def __init__(self, raw: bytes, key: str) -> None:
        self._begin, self._end = _BEGIN.format(key).encode(), _END.format(key).encode()
        self._newline = b"\r\n" if raw.count(b"\r\n") * 2 > raw.count(b"\n") else b"\n"
        rows = raw.splitlines(keepends=True)
        last_end = max([n for n, row in enumerate(rows) if row.strip() == self._end], default=-1)
        before: list[bytes] = []
        after: list[bytes] = []
        lines: list[bytes] = []
        earlier: set[bytes] = set()
        first = 0
        is_open = has_section = False
        for number, row in enumerate(rows):
            mark = row.strip()
            # Without an end mark, a section ends after the lines that can be ours.
            is_open = is_open and (number <= last_end or row.startswith((b"- ", b"## ")))
            if mark == self._begin:
                if not is_open:
                    earlier.update(lines[first:])
                    first = len(lines)
                is_open = has_section = True
            elif not is_open:
                (after if has_section else before).append(row)
            elif mark == self._end:
                is_open = False
            elif row.rstrip(b"\r\n") not in earlier:
                lines.append(row.rstrip(b"\r\n"))
        self.lines = [decode(row) for row in lines] if has_section else None
        self._before, self._after = b"".join(before), b"".join(after)

    def with_lines(self, lines: Sequence[str]) -> bytes:
        """Return the document with these lines in the section; without lines, without a section."""
        if not lines:
            return self._before + self._after
        rows = [self._begin, *[encode(line) for line in lines], self._end]
        body = b"".join([row + self._newline for row in rows])
        if self.lines is None and self._before.count(b"\n") > _LOADED_LINES - len(rows):
            # Clients load the first lines only, and would not see a section at the end.
            return body + self._newline + self._before
        gap = b""
        # Adding and removing the section must not leave a line behind each time.
        has_blank_line = self._before.endswith(self._newline * 2)
        if self.lines is None and self._before and not has_blank_line:
            has_line_end = self._before.endswith((b"\n", b"\r"))
            gap = self._newline if has_line_end else self._newline * 2
        return self._before + gap + body + self._after


def decode(row: bytes) -> str:
    return row.decode(errors="surrogateescape")


def encode(line: str) -> bytes:
    return line.encode(errors="surrogateescape")


def bullets(lines: Iterable[str]) -> list[str]:
    """Return the sentences of a section's lines."""
    return [line.removeprefix(_BULLET) for line in lines if line.startswith(_BULLET)]


def render(parts: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the lines of headings and their sentences, without empty headings."""
    lines: list[str] = []
    for heading, sentences in parts:
        if sentences:
            lines += [f"## {heading}", *[f"{_BULLET}{sentence}" for sentence in sentences]]
    return lines


# The next content


def merge(
    current: list[str] | None, parts: Parts, last: Fields, room: int
) -> tuple[list[str], list[str], Fields]:
    """Return our next lines, the lines of other writers, and what to remember for the next merge.

    ``last`` is what was remembered: the lines of ours that were ``written``, and the sentences
    that an editor removed and that stay out (``dropped``).
    """
    all_ours = {sentence for _, sentences in parts for sentence in sentences}
    present = bullets(current or [])
    missing = [sentence for sentence in bullets(last["written"]) if sentence not in present]
    removed = missing if current is not None else []
    dropped = [text for text in dict.fromkeys([*last["dropped"], *removed]) if text in all_ours]
    others = _lines_of_others(current or [], {*last["written"], *_HEADINGS, *render(parts)})
    taken = set(dropped)
    next_parts: Parts = []
    for heading, sentences in parts:
        fresh = [text for text in dict.fromkeys(sentences) if text not in taken]
        taken.update(fresh)
        next_parts.append((heading, fresh))
    room = max(room - len(others), 0)
    while sum(len(sentences) + bool(sentences) for _, sentences in next_parts) > room:
        # The last sentence of the last part is dropped first.
        next(sentences for _, sentences in reversed(next_parts) if sentences).pop()
    lines = render(next_parts)
    return lines, others, {"written": lines, "dropped": dropped}


def _lines_of_others(current: list[str], ours: set[str]) -> list[str]:
    """Return the lines that other writers put into the section, with the blank lines between."""
    others: list[str] = []
    for line in current:
        if line.strip():
            if not _is_ours(line.strip(), ours):
                others.append(line)
        elif others and others[-1]:
            others.append("")
    return others if not others or others[-1] else others[:-1]


def _is_ours(line: str, ours: set[str]) -> bool:
    """Return True if a line is one of these, or begins like a line that Holdfast writes."""
    return line in ours or any(text.startswith(LINE_BEGINNINGS) for text in bullets([line]))


# The file's path


def find_path(workspace: Workspace) -> str | None:
    """Return the absolute path, ``None`` if memory is switched off."""
    path = _named_path(workspace)
    if path == _OFF:
        return None
    if path:
        return os.path.abspath(os.path.join(workspace.root, os.path.expanduser(path)))
    if os.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") == "1":
        return None
    return _client_path(workspace)


def _named_path(workspace: Workspace) -> str | None:
    """Return the path, or ``off``, that the person or the team named; ``None`` if neither did."""
    return os.environ.get("HOLDFAST_MEMORY") or settings.load(workspace.root).memory


def _is_client_set_up(workspace: Workspace) -> bool:
    """Return True if Claude Code runs Holdfast here, by a hook in its settings or by the plugin."""
    folders = {workspace.root, workspace.main_worktree or workspace.root}
    return any(_runs_holdfast(layer) for folder in folders for layer in _client_settings(folder))


def _runs_holdfast(layer: Fields) -> bool:
    plugins = layer.get("enabledPlugins")
    if isinstance(plugins, dict):
        names = [name.partition("@")[0] for name, is_on in plugins.items() if is_on is True]
        if _PLUGIN in names:
            return True
    return _PLUGIN in json_text.dumps(layer.get("hooks"))


def _client_folder() -> str:
    return os.path.abspath(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"))


def _client_settings(folder: str) -> tuple[Fields, Fields, Fields]:
    """Return Claude Code's settings in a work tree: local, the team's, the person's."""
    project = os.path.join(folder, ".claude")
    local = _read_settings(os.path.join(project, _LOCAL_SETTINGS), folder)
    team = _read_settings(os.path.join(project, "settings.json"), folder)
    return local, team, _read_settings(os.path.join(_client_folder(), "settings.json"))


def _client_path(workspace: Workspace) -> str | None:
    """Return the path by the client's own settings: local, then the team's, then the person's."""
    own = _client_folder()
    main = workspace.main_worktree or workspace.root
    local, team, person = _client_settings(main)
    enabled = [layer.get("autoMemoryEnabled") for layer in (local, team, person)]
    if next((value for value in enabled if isinstance(value, bool)), True) is False:
        return None
    # An archive can bring local settings, too; and a home inside the repository is not a person's.
    own_root = main if is_inside(own, main) else None
    for layer, root in ((local, main), (team, main), (person, own_root)):
        folder = layer.get("autoMemoryDirectory")
        if isinstance(folder, str) and folder and "\0" not in folder:
            path = os.path.abspath(os.path.join(main, os.path.expanduser(folder), _NAME))
            # A repository's file must be inside of it, by its path and by its links.
            if root is None or is_inside(path, root):
                return path
    real = os.path.realpath(main)
    slug = "".join([letter if letter.isascii() and letter.isalnum() else "-" for letter in real])
    name = os.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME") or slug
    return os.path.join(own, "projects", name, "memory", _NAME)


def _read_settings(path: str, root: str | None = None) -> Fields:
    """Return a client's settings; empty if they are unreadable or lie outside of ``root``."""
    if root is not None and not is_inside(path, root):
        return {}
    try:
        document = json_text.loads(Disk().read(path, _MAX_SETTINGS_BYTES) or b"{}")
    except (OSError, json_text.BadJson):
        return {}
    return document if isinstance(document, dict) else {}
