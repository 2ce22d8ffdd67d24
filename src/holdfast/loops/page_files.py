"""The pages of a loop on the disk: created once, then patched; the log is appended to.

Pages are written under the workspace's lock. Other programs write them too, so a page is updated
through ``storage/shared_file``. A page that cannot be written becomes a note: the ledger has the
content. The Markdown parser is imported only for a page that is not as Holdfast last wrote it.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.core.workflow import OPENING
from holdfast.errors import Fault, Refused
from holdfast.keeper.loop_folder import PROGRESS, folder_of
from holdfast.loops import pages, progress_log
from holdfast.storage import shared_file
from holdfast.system.disk import FOLDER, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.keeper.store import Store
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

    PageText = tuple[str, bool]
    """The text of a page, and whether the ledger has everything on it."""

CONTEXT = "context.md"
GUARDRAILS = "guardrails.md"
NOT_READABLE = "is no file that can be read (a link is not followed)"
_MEMORY_FOLDER = "pages"
_MAX_PAGE_BYTES = 4 * 1024 * 1024
_MAX_KNOWN_PAGES = 8
"""More than the writers that can be killed in a row before one of them finishes."""


def worktree_root(workspace: Workspace, state: Workflow, command: str) -> str:
    """Return the root of a loop's worktree; raise ``Refused`` if the worktree is gone."""
    root = workspace.root_of(state["worktree"])
    if root is None:
        raise Refused(
            "not_found",
            f"{command}: the worktree of {state['id']} is gone",
            f"holdfast resume {state['id']} brings it here",
        )
    return root


def names_in(folder: str) -> list[str]:
    """Return the names in a folder without hidden ones; none if there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def too_many_words(count: int) -> str:
    """Return the sentence on a ``context.md`` that is too long."""
    most = pages.MAX_CONTEXT_WORDS
    return f"{CONTEXT} has {count} words and must have fewer than {most}: shorten it"


# Reading


def read_page(disk: Disk, folder: str, name: str) -> str:
    """Return the text of a page; empty if there is none that can be read."""
    return _decode(_read(disk, folder, name)) or ""


def read_log(disk: Disk, folder: str) -> str | None:
    """Return the text of ``progress.md``, however long; ``None`` if it is not a readable file."""
    raw = _read(disk, folder, PROGRESS)
    return None if raw in (FOLDER, ODD) else _decode_log(raw or b"")


def _read(disk: Disk, folder: str, name: str) -> bytes | None:
    """Return the bytes of a page. A link is not followed: it may lead out of the workspace."""
    path = os.path.join(folder, name)
    try:
        return ODD if os.path.islink(path) else disk.read(path)
    except OSError:
        return ODD


def _decode(raw: bytes | None) -> str | None:
    """Return the text of a page, empty if there is none; ``None`` if it is too large or no text."""
    if raw is None:
        return ""
    if len(raw) > _MAX_PAGE_BYTES or raw in (FOLDER, ODD):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _decode_log(raw: bytes) -> str:
    # A killed writer may have cut the last entry in the middle of a character.
    return raw.decode(errors="replace")


class PageMemory:
    """What the pages of a loop said when they were last written, in a file beside the ledger.

    With it, an edit can be told from a page that a killed writer left behind. ``fields`` has the
    page of ``units``, the digest of ``context``, how far the ``log`` is known, and as ``known`` the
    digests of pages of units whose whole content is in the ledger.
    """

    def __init__(self, store: Store, state: Workflow) -> None:
        self._disk = store.disk
        self._path = os.path.join(store.workspace.home, _MEMORY_FOLDER, f"{state['id']}.json")
        self._created_at = state["created_at"]
        self.fields = self._load()

    def _load(self) -> Fields:
        """Return the fields; empty if there are none, or only those of an earlier loop."""
        try:
            fields = json_text.loads(self._disk.read(self._path) or b"{}", strict=True)
        except json_text.BadJson:
            return {}
        is_this_loop = isinstance(fields, dict) and fields.get("created_at") == self._created_at
        return fields if is_this_loop else {}

    def knows(self, units: str) -> bool:
        """Return whether the ledger has everything on a page of units, which may be an old one."""
        return digest(units.encode()) in self._known()

    def learn(self, units: str) -> None:
        """Remember that the ledger has everything on this page of units."""
        if not self.knows(units):
            known = [*self._known(), digest(units.encode())]
            self.save({"known": known[-_MAX_KNOWN_PAGES:]})

    def save(self, changes: Fields) -> None:
        """Change some fields, and write the file if that made a difference."""
        fields = {"created_at": self._created_at, "units": "", **self.fields, **changes}
        if fields != self.fields:
            self.fields = fields
            self._disk.make_folder(os.path.dirname(self._path), 0o700)
            self._disk.replace_view(self._path, json_text.line_of(fields).encode())

    def _known(self) -> list[Json]:
        known = self.fields.get("known")
        return known if isinstance(known, list) else []


# Writing


def write_pages(
    store: Store, state: Workflow, *, seen: str | None = None, before: Workflow | None = None
) -> None:
    """Bring every page to the state, and keep what people wrote there.

    ``seen`` is the page of units whose edits were taken in. Any other text may have edits that were
    not, so its values stay. ``before`` is the state before the change: a page that is as rendered
    from it is rendered anew.
    """
    folder = folder_of(store.workspace, state)
    if folder is None or state["recipe"]["format"] != "loop":
        return
    try:
        LoopFolder(store, state, folder).write(state, seen, before)
    except Fault as fault:
        store.note(f"not all pages could be written ({fault.message}); the ledger has it")
    except OSError as error:
        where = os.path.basename(error.filename or folder)
        store.note(f"{where} could not be written ({error.strerror}); the ledger has it")


class LoopFolder:
    """The folder of one loop, with its pages and its log."""

    def __init__(self, store: Store, state: Workflow, path: str) -> None:
        self.path = path
        self.mode = pages.mode_of(state)
        self.units_name = pages.units_page(self.mode)
        self.memory = PageMemory(store, state)
        self._store = store
        self._disk = store.disk
        self._id = state["id"]

    def read(self, name: str) -> str:
        """Return the text of a page; empty if there is none that can be read."""
        return read_page(self._disk, self.path, name)

    def write(self, state: Workflow, seen: str | None, before: Workflow | None) -> None:
        """Bring every page to this state; ``seen`` and ``before`` are as for ``write_pages``."""
        self._disk.make_folder(self.path)
        if self.mode == "knowledge":
            for name in ("sources", "outputs"):
                self._disk.make_folder(os.path.join(self.path, name))
        memory = self.memory
        own_context = memory.fields.get("context")
        self._patch("brief.md", lambda text: (text or pages.render_brief(state), True))
        context = self._patch(CONTEXT, lambda text: _patch_context(text, state, own_context))
        units = self._patch(
            self.units_name, lambda text: _patch_units(text, state, seen, before), memory.learn
        )
        self._patch(GUARDRAILS, lambda text: _patch_guardrails(text, state))
        changes: Fields = {"log": self.append_progress(memory.fields.get("log"))}
        changes["context"] = own_context
        if context is not None and context[1]:
            changes["context"] = digest(context[0].encode())
        if units is not None and units[1]:
            changes["units"] = units[0]
        memory.save(changes)
        self._check_words(context[0] if context else "")

    def _check_words(self, context: str) -> None:
        count = pages.count_words(context)
        if count >= pages.MAX_CONTEXT_WORDS:
            self._store.note(too_many_words(count))

    def _patch(
        self,
        name: str,
        patch: Callable[[str], PageText],
        announce: Callable[[str], None] | None = None,
    ) -> PageText | None:
        """Patch a page; return it, or ``None`` if it cannot be read.

        ``announce`` is called before a text is written that the ledger has completely.
        """
        raw = _read(self._disk, self.path, name)
        text = _decode(raw)
        if text is None:
            why = NOT_READABLE if raw in (FOLDER, ODD) else "is no UTF-8 text, or too large"
            self._store.note(f"{name} {why}; it is left as it is")
            return None
        result = patch(text)
        if raw is not None and result[0] == text:
            return result

        def prepare(raw: bytes | None) -> bytes | None:
            nonlocal result
            text = _decode(raw)
            if text is None:
                return raw
            result = patch(text)
            if announce is not None and result[1]:
                announce(result[0])
            return result[0].encode()

        path = os.path.join(self.path, name)

        def is_own(spare: bytes) -> bool:
            text = _decode(spare)
            return text is not None and patch(text)[0] == result[0]

        for kept in shared_file.clear_spares(self._disk, path, is_own):
            kept_name = os.path.basename(kept)
            self._store.note(f"what a killed command left beside {name} is kept as {kept_name}")
        shared_file.settle(self._disk, path, prepare, self._store.pause)
        return result

    def remembered_units(self) -> dict[str, Fields]:
        """Return the units of the page as it was last written, by their ids."""
        from holdfast.loops.page_reader import read_units

        text = self.memory.fields.get("units")
        units, _ = read_units(text if isinstance(text, str) else "", self.mode)
        return {unit.pop("id"): unit for unit in units}

    # The log

    def append_progress(self, known: list[Json] | None = None) -> list[Json] | None:
        """Append an entry for every event that has none; an existing entry is never changed.

        ``known`` is the part of the log that needs no second look: its length in bytes, its digest,
        the last event in it, and the identity of the ledger. Return the same for the log of now.
        """
        log = self._compare_log(known)
        if log is None:
            self._store.note(
                f"{PROGRESS} {NOT_READABLE}; it is left as it is, and the ledger has it"
            )
            return None
        self._note_differences(log, "is written again at the end")
        header = "" if log.text else progress_log.HEADER
        added = header + log.comparison.addition()
        if added:
            self._disk.extend(os.path.join(self.path, PROGRESS), added.encode())
        newest = log.comparison.newest_missing()
        if newest is None or log.comparison.changed:
            return known if log.skipped else None
        # The last entry is compared again: people may write right below it.
        part = log.raw + added.removesuffix(log.comparison.last_entry()).encode()
        return [len(part), digest(part), newest["seq"] - 1, self._store.ledger.identity()]

    def note_problems(self) -> None:
        """Note what the next change would note about the log and the context. Write nothing."""
        log = self._compare_log(self.memory.fields.get("log"))
        if log is not None:
            self._note_differences(log, "is written again by the next change")
        self._check_words(self.read(CONTEXT))

    def _compare_log(self, known: list[Json] | None) -> _Log | None:
        """Compare the log with the events, from the end of its known part on."""
        raw = _read(self._disk, self.path, PROGRESS)
        if raw in (FOLDER, ODD):
            return None
        raw = raw or b""
        skipped, seq = _known_part(raw, known, self._store.ledger.identity())
        events = list(self._store.ledger.events(self._id, after=seq))
        # An earlier loop of this name has a log of its own.
        openings = [index for index, event in enumerate(events) if event["type"] in OPENING]
        return _Log(raw, skipped, events[openings[-1] :] if openings else events)

    def _note_differences(self, log: _Log, remedy: str) -> None:
        for heading in log.comparison.changed:
            self._store.note(
                f"{PROGRESS}: {heading!r} was changed since; the ledger has it as it was"
            )
        for heading in log.comparison.removed():
            self._store.note(f"{PROGRESS}: {heading!r} was gone, and {remedy}")


class _Log:
    """A log, and the comparison of its new part with the events."""

    def __init__(self, raw: bytes, skipped: int, events: list[Event]) -> None:
        self.raw = raw
        self.skipped = skipped
        """The number of bytes that were not compared."""
        self.text = _decode_log(raw[skipped:])
        self.comparison = progress_log.LogComparison(self.text or progress_log.HEADER, events)


def _known_part(raw: bytes, known: list[Json] | None, ledger: str) -> tuple[int, int]:
    """Return the length in bytes of a log's known part, and the last event in it."""
    match known:
        case [int(size), str(mark), int(seq), str(identity)] if 0 < size < len(raw):
            is_same = identity == ledger and digest(raw[:size]) == mark
            return (size, seq) if is_same else (0, 0)
    return 0, 0


def _patch_context(text: str, state: Workflow, own_digest: str | None) -> PageText:
    """Render the context anew; once somebody has changed it, it stays as it is."""
    is_own = not text or digest(text.encode()) == own_digest
    return (pages.render_context(state) if is_own else text), is_own


def _patch_units(text: str, state: Workflow, seen: str | None, before: Workflow | None) -> PageText:
    if not text or (before is not None and text == pages.render_units(before)):
        return pages.render_units(state), True
    from holdfast.loops.page_patcher import patch_units

    is_seen = text == seen
    return patch_units(text, state, keep_values=not is_seen), is_seen


def _patch_guardrails(text: str, state: Workflow) -> PageText:
    page = pages.render_guardrails(state)
    if text in ("", page):
        return page, True
    from holdfast.loops.page_patcher import patch_guardrails

    return patch_guardrails(text, state), True
