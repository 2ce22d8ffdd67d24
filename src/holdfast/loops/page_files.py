"""The pages of a loop on the disk: created once, then patched; the log is appended to.

Pages are written under the workspace's lock. Other programs write them too, so a page is updated
through ``storage/shared_file``. A page that cannot be written becomes a note: the ledger has the
content. ``page_model``, which needs a Markdown parser, is imported only for a page that is not as
Holdfast last wrote it.

An edit is a difference between a page and what was last written there. It is taken into the ledger
as a command of the core. An edit that the core refuses is reported and stays on the page. If a page
cannot be understood, nothing of it is taken in. A look applies the same commands to a copy of the
state, to show what the next change will do.
"""

from __future__ import annotations

import os
import re

from holdfast.core import json_text, workflow
from holdfast.core.json_text import digest
from holdfast.core.refusal import Refusal
from holdfast.core.text_merge import merge_lines
from holdfast.core.workflow import OPENING, find_task, is_active, unit_mark
from holdfast.core.workflow.tasks import MAX_ITERATIONS
from holdfast.errors import Fault, Refused
from holdfast.keeper.record_folders import ARCHIVE, PROGRESS, folder_of
from holdfast.loops import pages, progress_log
from holdfast.loops.progress_log import HEADER, LogComparison
from holdfast.storage import shared_file
from holdfast.system.disk import FOLDER, ODD
from holdfast.workspace import location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.loops.progress_log import LogEntry
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

BRIEF = "brief.md"
CONTEXT = "context.md"
GUARDRAILS = "guardrails.md"
NOT_READABLE = "is not a file that can be read (a link is not followed)"
_MEMORY_FOLDER = "pages"
_MAX_PAGE_BYTES = 4 * 1024 * 1024
_MAX_KNOWN_PAGES = 8
"""More than the writers that can be killed in a row before one of them finishes."""
_MAX_NUMBER = 1 << 63
"""Larger than the size of any log and than any seq."""
_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_MEMORY_TEXTS = ("units", "brief", "brief_shows")
_BRIEF_FIELDS = ("domain", "outcome", "done_when", "constraints", "notes")
_UNIT_FIELDS = ("description", *pages.READ_BULLETS)
_UNIT_DEFAULTS: Fields = {
    "files": [], "depends": [], "description": "", "max_iterations": MAX_ITERATIONS,
}  # fmt: skip
"""The text on a page for a unit without such a value."""
_MAX_COMPLAINTS = 3


def worktree_root(workspace: Workspace, state: Workflow, command: str) -> str:
    """Return the root of a loop's worktree; raise ``Refused`` if the worktree is gone."""
    root = workspace.root_of(state["worktree"])
    if root is None:
        message = f"{command}: the worktree of {state['id']} is gone"
        raise Refused("not_found", message, f"bring it here: holdfast resume {state['id']}")
    return root


def check_active(state: Workflow, command: str) -> None:
    """Raise ``Refused`` if a loop has ended."""
    if not is_active(state):
        message = f"{command}: {state['id']} has ended ({state['status']})"
        raise Refused("ended", message, f"holdfast resume {state['id']}")


def names_in(folder: str) -> list[str]:
    """Return the names in a folder without hidden ones; none if there is no folder."""
    try:
        return [name for name in location.names_in(folder) if not name.startswith(".")]
    except OSError:
        return []


def length_problem(context: str) -> str:
    """Return the sentence on a ``context.md`` that is too long; empty if it is not."""
    count, most = pages.count_words(context), pages.MAX_CONTEXT_WORDS
    if count < most:
        return ""
    return f"{CONTEXT} has {count} words and must have fewer than {most}: shorten it"


# Reading


def read_page(disk: Disk, folder: str, name: str) -> str:
    """Return the text of a page; empty if there is none that can be read."""
    return _decode(_read(disk, folder, name)) or ""


def read_log(disk: Disk, folder: str) -> str | None:
    """Return the text of ``progress.md``, however long; ``None`` if it is not a readable file."""
    raw = _read(disk, folder, PROGRESS)
    # A killed writer may have cut the last entry in the middle of a character.
    return None if raw == ODD else raw.decode(errors="replace")


def _read(disk: Disk, folder: str, name: str) -> bytes:
    """Return the bytes of a page, none if there is no file; ``ODD`` if it cannot be read.

    A link is not followed: it may lead out of the workspace.
    """
    try:
        raw = disk.read_own(os.path.join(folder, name))
    except OSError:
        return ODD
    return ODD if raw == FOLDER else raw or b""


def _decode(raw: bytes) -> str | None:
    """Return the text of a page; ``None`` if it is too large or no text."""
    if len(raw) > _MAX_PAGE_BYTES or raw in (FOLDER, ODD):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def read_json(raw: bytes | None) -> Fields:
    """Return a JSON object; empty if there is none, or it cannot be read."""
    try:
        fields = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    return fields if isinstance(fields, dict) else {}


# Writing


def open_folder(store: Store, state: Workflow) -> LoopFolder | None:
    """Return the folder of a loop; ``None`` if its worktree is gone, or it is no loop.

    A command that is repeated by its id may have been about another workflow.
    """
    path = folder_of(store.workspace, state) if state["recipe"]["format"] == "loop" else None
    return None if path is None else LoopFolder(store, state, path)


class LoopFolder:
    """The folder of one loop, with its pages and its log.

    Its memory is a file beside the ledger about the pages as last written: the page of ``units``,
    the ``brief`` and the digest of what it shows, the digest of ``context``, how much of the
    ``log`` was compared, and as ``known`` the digests of pages of units whose whole content is in
    the ledger; and ``opened``, the event with which this loop began. This distinguishes an edit
    from a page that a killed writer left behind.
    """

    def __init__(self, store: Store, state: Workflow, path: str) -> None:
        self.path = path
        self._root = store.workspace.root_of(state["worktree"]) or store.workspace.root
        self.mode = pages.mode_of(state)
        self.units_name = pages.UNITS_PAGES[self.mode]
        self._store = store
        self._disk = store.disk
        self._id = state["id"]
        self._memory_path = os.path.join(store.workspace.home, _MEMORY_FOLDER, f"{self._id}.json")
        try:
            memory = read_json(self._disk.read(self._memory_path))
        except OSError:
            memory = {}
        blank: Fields = {
            "created_at": state["created_at"], "units": "", "known": [], "log": None,
            "brief": "", "brief_shows": "",
        }  # fmt: skip
        # An earlier loop of this name may have left the file. A loop that began on several machines
        # may have got the time of another one since.
        is_own = memory.get("created_at") == state["created_at"]
        is_own = is_own or ("opened" in memory and memory["opened"] == self._opened())
        self.memory = {**blank, **memory} if is_own else blank
        if not _is_memory(self.memory):
            self.memory = blank
        self.seen: str | None = None
        """The page of units whose edits were taken in."""
        self._parsed_log: tuple[str, list[LogEntry]] | None = None
        self.seen_brief = ""
        """The brief whose edits were taken in."""

    def read(self, name: str) -> str:
        """Return the text of a page; empty if there is none that can be read."""
        return read_page(self._disk, self.path, name)

    def knows(self, units: str) -> bool:
        """Return whether the ledger has everything on this page of units, current or old."""
        return digest(units.encode()) in self.memory["known"]

    def learn(self, units: str) -> None:
        """Remember that the ledger has everything on this page of units."""
        if not self.knows(units):
            digests = [*self.memory["known"], digest(units.encode())]
            self._remember({"known": digests[-_MAX_KNOWN_PAGES:]})

    def _remember(self, changes: Fields) -> None:
        """Change some fields of the memory, and write the file if that made a difference."""
        memory = {**self.memory, **changes}
        if "opened" not in memory:
            memory["opened"] = self._opened()
        if memory != self.memory:
            self.memory = memory
            folder = os.path.dirname(self._memory_path)
            if not os.path.isdir(folder):
                self._disk.make_folder(folder, 0o700)
                self._disk.sync_folder(os.path.dirname(folder))
            self._disk.replace_view(
                self._memory_path, json_text.line_of(memory).encode(), durable=True
            )

    def _opened(self) -> int:
        """Return the seq of the event with which the loop began in this ledger."""
        seqs = [
            event["seq"]
            for number, event in enumerate(self._store.ledger.events(self._id))
            if number == 0 or event["type"] in OPENING
        ]
        return seqs[-1] if seqs else 0

    def write(self, state: Workflow, before: Workflow | None = None) -> None:
        """Bring every page to the state, and keep what people wrote there.

        A page of units that is not the ``seen`` one may have edits that were not taken in, so its
        values stay. ``before`` is the state before the change: a page that is as rendered from it
        is rendered anew.
        """
        try:
            self._write(state, before)
        except Fault as fault:
            why = f"not all pages could be written ({fault.message})"
            self._store.note(f"{why}; the ledger has it")
        except OSError as error:
            where = os.path.basename(error.filename or self.path)
            self._store.note(f"{where} could not be written ({error.strerror}); the ledger has it")

    def _write(self, state: Workflow, before: Workflow | None) -> None:
        self._disk.make_folder(self.path)
        if self.mode == "knowledge":
            for name in ("sources", "outputs"):
                self._disk.make_folder(os.path.join(self.path, name))
        own_context = self.memory.get("context")
        new_context = pages.render_context(state)
        changes: Fields = {}

        def patch_context(text: str) -> str:
            # A page that a person has changed stays as it is.
            is_own = not text or digest(text.encode()) == own_context
            return new_context if is_own else text

        def patch_units(text: str) -> str:
            changes.pop("units", None)
            if not text or (before is not None and text == pages.render_units(before)):
                after = pages.render_units(state)
            else:
                from holdfast.loops import page_model

                after = page_model.patch_units(text, state, keep_values=text != self.seen)
                if text != self.seen:
                    return after
            changes["units"] = after
            # The page is known before it is written, because this process may be killed then.
            self.learn(after)
            return after

        def patch_guardrails(text: str) -> str:
            page = pages.render_guardrails(state)
            if text in ("", page):
                return page
            from holdfast.loops import page_model

            return page_model.patch_guardrails(text, state)

        changes |= self._write_brief(state)
        context = self._patch(CONTEXT, patch_context)
        self._patch(self.units_name, patch_units)
        self._patch(GUARDRAILS, patch_guardrails)
        changes["log"] = self.append_progress()
        if context == new_context:
            changes["context"] = digest(context.encode())
            words = pages.count_words(pages.render_long_context(state))
            if words >= pages.MAX_CONTEXT_WORDS:
                self._store.note(
                    f"{CONTEXT} has the beginnings only, because all would be {words} words: say "
                    f"it in fewer with holdfast loop brief {state['subject']}"
                )
        self._remember(changes)
        self._store.note(length_problem(context or ""))
        # Without it, `mv` of the folder into the archive fails, or takes the archive's name.
        self._disk.make_folder(os.path.join(self._root, ARCHIVE))

    def _write_brief(self, state: Workflow) -> Fields:
        """Patch the brief; return what its memory is to have, nothing if somebody saved it now."""
        new_brief = pages.render_brief(state)
        shows = digest(new_brief.encode())
        changes: Fields = {}

        def patch(text: str) -> str:
            changes.clear()
            if text in ("", new_brief):
                after = new_brief
            elif text != self.seen_brief:
                return text
            elif shows == self.memory["brief_shows"]:
                after = text
            else:
                from holdfast.loops import page_model

                after = page_model.patch_brief(text, state)
            changes["brief"], changes["brief_shows"] = after, shows
            return after

        self._patch(BRIEF, patch)
        return changes

    def _patch(self, name: str, patch: Callable[[str], str]) -> str | None:
        """Patch a page; return its text, or ``None`` if it cannot be read."""
        raw = _read(self._disk, self.path, name)
        if _decode(raw) is None:
            why = NOT_READABLE if raw == ODD else "is not UTF-8 text, or is too large"
            self._store.note(f"{name} {why}; it is left as it is")
            return None
        result = ""

        def patch_bytes(raw: bytes | None) -> bytes | None:
            nonlocal result
            text = _decode(raw or b"")
            if text is None:
                return raw
            result = patch(text)
            return result.encode()

        path, store = os.path.join(self.path, name), self._store
        shared_file.update(
            self._disk, path, patch_bytes, name, store.note, store.pause, merge_lines
        )
        return result

    # The log

    def append_progress(self) -> list[Json] | None:
        """Append an entry for every event that has none; an existing entry is never changed.

        Return the part of the log that needs no second look: its length in bytes, its digest, the
        last event in it, and the identity of the ledger.
        """
        raw = _read(self._disk, self.path, PROGRESS)
        if raw == ODD:
            why = f"{NOT_READABLE}; it is left as it is, and the ledger has it"
            self._store.note(f"{PROGRESS} {why}")
            return None
        comparison, position = self._compare_log(raw, "is written again at the end")
        added = ("" if raw else HEADER) + comparison.addition()
        if added:
            self._disk.extend(os.path.join(self.path, PROGRESS), added.encode())
        newest = comparison.newest_missing()
        if newest is None or comparison.changed:
            return position
        # The last entry is compared again: people may write right below it.
        event, entry = newest
        part = raw + added.removesuffix(entry).encode()
        return [len(part), digest(part), event["seq"] - 1, self._store.ledger.identity()]

    def note_problems(self) -> None:
        """Note what the next change would note about the log and the context. Write nothing."""
        raw = _read(self._disk, self.path, PROGRESS)
        if raw != ODD:
            self._compare_log(raw, "is written again by the next change")
        self._store.note(length_problem(self.read(CONTEXT)))

    def _compare_log(self, raw: bytes, remedy: str) -> tuple[LogComparison, list[Json] | None]:
        """Compare the log with the events, and note differences.

        Return the part that is known and was not compared, too; ``None`` if all of it was.
        """
        comparison, position, _ = self.compare_log(raw)
        for heading in comparison.changed:
            self._store.note(
                f"{PROGRESS}: {heading!r} was changed since; the ledger has it as it was"
            )
        for heading in comparison.removed():
            self._store.note(f"{PROGRESS}: {heading!r} was gone, and {remedy}")
        return comparison, position

    def compare_log(self, raw: bytes) -> tuple[LogComparison, list[Json] | None, int]:
        """Compare the part of the log that is not known, with the events since.

        Return the comparison, the known part, and the lines before the part that was compared.
        """
        store, position = self._store, self.memory["log"]
        size, mark, after, identity = position or (0, "", 0, "")
        is_same = identity == store.ledger.identity() and 0 < size < len(raw)
        if not is_same or digest(raw[:size]) != mark:
            size, after, position = 0, 0, None
        events = list(store.ledger.events(self._id, after=after))
        # An earlier loop of this name has a log of its own.
        openings = [index for index, event in enumerate(events) if event["type"] in OPENING]
        text = raw[size:].decode(errors="replace")
        comparison = LogComparison(
            text or HEADER, events[openings[-1] :] if openings else events, self._entries_of
        )
        return comparison, position, raw[:size].count(b"\n")

    def _entries_of(self, text: str) -> list[LogEntry]:
        """Return the entries of a log; a command that compares it twice parses it once."""
        if self._parsed_log is None or self._parsed_log[0] != text:
            self._parsed_log = text, progress_log.read_entries(text)
        return self._parsed_log[1]


def _is_memory(memory: Fields) -> bool:
    """Return True if the memory of a loop has the form in which it is written."""
    texts, digests, log = map(memory.get, _MEMORY_TEXTS), memory["known"], memory["log"]
    if not all(isinstance(text, str) for text in texts) or not isinstance(digests, list):
        return False
    if log is None:
        return True
    has_form = isinstance(log, list) and list(map(type, log)) == [int, str, int, str]
    return has_form and 0 <= log[0] < _MAX_NUMBER and 0 <= log[2] < _MAX_NUMBER


# Edits


def take_in(tx: Transaction, stream: str) -> LoopFolder | None:
    """Record the edits of a loaded loop's pages; return its folder, to write the pages later.

    Return ``None`` if the loop has ended, or has no folder.
    """
    state: Workflow = tx.load(stream)
    folder = open_folder(tx.store, state)
    if folder is None or not is_active(state):
        return None
    folder.seen = _EditReader(tx.store, folder, state, tx).take_in()
    tx.commit()
    if folder.seen is not None:
        # Before an event is recorded that is not on the page yet.
        folder.learn(folder.seen)
    return folder


def preview(store: Store, state: Workflow) -> Workflow:
    """Return the state as the next change will have it after the edits. Change nothing."""
    folder = open_folder(store, state)
    if folder is None:
        return state
    reader = _EditReader(store, folder, state)
    reader.take_in()
    folder.note_problems()
    return reader.state


class _EditReader:
    """Finds the edits of one loop's pages and carries them out.

    Without a transaction, the edits change ``state`` alone.
    """

    def __init__(
        self, store: Store, folder: LoopFolder, state: Workflow, tx: Transaction | None = None
    ) -> None:
        self.state = state
        self._store = store
        self._folder = folder
        self._tx = tx
        self._page = folder.units_name
        self._mark = unit_mark(state["recipe"])
        self._was_refused = False

    def take_in(self) -> str | None:
        """Take in lessons and units; return the page of units if all of it was taken in."""
        self._take_lessons()
        self._take_brief()
        taken = self._take_page()
        self._take_log()
        return taken

    def _take_page(self) -> str | None:
        text = self._folder.read(self._page)
        if not text:
            return None
        if self._folder.knows(text):
            return text
        from holdfast.loops.page_model import read_units

        units, complaints = read_units(text, self._folder.mode)
        if complaints:
            extra = len(complaints) - _MAX_COMPLAINTS
            more = f" (and {extra} more)" if extra > 0 else ""
            for complaint in complaints[:_MAX_COMPLAINTS]:
                self._store.note(
                    f"{self._page}, {complaint}{more}; "
                    "nothing of the page is taken in until it is fixed"
                )
            return None
        last_units, _ = read_units(self._folder.memory["units"], self._folder.mode)
        self._take_units(units, {unit.pop("id"): unit for unit in last_units})
        return None if self._was_refused else text

    def _do(self, kind: str, args: Fields) -> str:
        """Carry out a command, and return a phrase on its result. Raise ``Refused``."""
        if self._tx is not None:
            self._tx.do(self.state["id"], kind, args)
            self.state = self._tx.load(self.state["id"])
            return "taken in"
        at = self._store.now()
        drafts = workflow.decide(self.state, {"type": kind, "at": at, "args": args})
        if isinstance(drafts, Refusal):
            raise drafts.error()
        for draft in drafts:
            event: Any = {**draft, "at": at, "stream": self.state["id"]}
            self.state = workflow.evolve(self.state, event)
        return "taken in by the next change"

    # Units

    def _take_units(self, units: list[Fields], remembered: dict[str, Fields]) -> None:
        for unit in units:
            task = find_task(self.state, unit["id"])
            if unit["checked"] and (task is None or task["status"] != "completed"):
                self._store.note(
                    f"{self._page}: {unit['id']} was ticked by hand; it is done when it was "
                    "confirmed and verified: holdfast loop next"
                )
        edits = [edit for unit in units if (edit := self._edit(unit, remembered)) is not None]
        dependencies = [
            {"task": edit["task"], "depends": edit.pop("depends")}
            for edit in edits
            if edit.get("depends")
        ]
        # Dependencies come last: a unit may depend on one further down the page.
        for edit in edits:
            self._plan(edit)
        for edit in dependencies:
            if find_task(self.state, edit["task"]) is not None:
                self._plan(edit)
        returns = "is back" if self._tx is not None else "comes back with the next change"
        for name in sorted(remembered.keys() - {unit["id"] for unit in units}):
            if find_task(self.state, name) is not None:
                self._store.note(
                    f"{self._page}: {name} was taken out and {returns}; to leave it out: "
                    f"holdfast loop block {name} --reason TEXT"
                )

    def _edit(self, unit: Fields, remembered: dict[str, Fields]) -> Fields | None:
        """Return the arguments of ``plan_unit`` for an edited unit; ``None`` if it is unedited."""
        task = find_task(self.state, unit["id"])
        values = {key: unit[key] for key in _UNIT_FIELDS if key in unit}
        if task is None:
            return {"task": unit["id"], **values}
        before: Fields = remembered.get(unit["id"], {**task})
        changed = {
            key: value
            for key, value in values.items()
            if value != before.get(key, _UNIT_DEFAULTS.get(key))
            and value != task.get(key, _UNIT_DEFAULTS.get(key))
        }
        if changed.get("depends") and task.get("depends"):
            # Drop the old dependencies first: the page may have turned one around.
            self._plan({"task": unit["id"], "depends": []})
        return {"task": unit["id"], **changed} if changed else None

    def _plan(self, args: Fields) -> None:
        name = args["task"]
        is_known = find_task(self.state, name) is not None
        if not is_known and not name.startswith(self._mark):
            self._refuse(f"{name} is not a unit of this mode; its units are called {self._mark}1")
            return
        if is_known and len(args) == 1:
            return
        try:
            outcome = self._do("plan_unit", args)
        except Refused as refused:
            self._refuse(f"{refused.message}; the page stays as it is")
            return
        keys = ", ".join(key for key in args if key != "task")
        self._store.note(f"{self._page}: {outcome}: {name} ({keys})")

    def _refuse(self, why: str) -> None:
        self._was_refused = True
        self._store.note(f"{self._page}: {why}")

    # The log

    def _take_log(self) -> None:
        """Take in the iterations that people wrote at the end of the log."""
        raw = _read(self._store.disk, self._folder.path, PROGRESS)
        if raw == ODD:
            return
        comparison, position, before = self._folder.compare_log(raw)
        for entry in comparison.extra:
            where = f"{PROGRESS}, line {before + entry.line}: {entry.heading[:80]}"
            why = self._take_iteration(entry)
            # A log that came with the record tells what the record has.
            if why and (position is not None or comparison.has_entries):
                self._store.note(f"{where}: {why}; it does not count")

    def _take_iteration(self, entry: LogEntry) -> str:
        """Take in an iteration of the log; return why it is not, or an empty text."""
        task = find_task(self.state, entry.task) if entry.task is not None else None
        if entry.kind != "iteration":
            return "Holdfast writes such entries: holdfast loop next"
        if task is None:
            return f"{entry.task} is not planned"
        following = task.get("iterations_used", 0) + 1
        if entry.number not in (None, following):
            return f"iteration {following} follows"
        signal = (entry.fields.get("signal") or "").strip("`")
        args: Fields = {
            "task": task["id"],
            "did": entry.fields.get("did") or task["description"] or "?",
            "remaining": entry.fields.get("remaining"),
            "blockers": entry.fields.get("blockers"),
            "signal": signal.removeprefix("<signal>").removesuffix("</signal>") or None,
            "logged": entry.heading,
        }
        commit = entry.fields.get("commit") or ""
        subject = self._subject_of(commit)
        if commit and subject is None:
            self._store.note(f"{PROGRESS}: git has no commit {commit[:64]!r}: it is left out")
        elif commit:
            args |= {"commit": commit, "subject": subject or None}
        try:
            outcome = self._do("record_iteration", args)
        except Refused as refused:
            return refused.message
        self._store.note(f"{PROGRESS}: {outcome}: {task['id']} iteration {following}")
        return ""

    def _subject_of(self, commit: str) -> str | None:
        """Return the subject of a commit, empty without git; ``None`` if git has no such commit."""
        workspace = self._store.workspace
        root = workspace.root_of(self.state["worktree"])
        if root is None or workspace.git is None or not commit:
            return ""
        from holdfast.evidence import git

        return git.subject(root, commit) if _HASH.fullmatch(commit) else None

    # The brief

    def _take_brief(self) -> None:
        """Take in what people changed on ``brief.md``. A section that they removed comes back."""
        folder = self._folder
        text, last = folder.read(BRIEF), folder.memory["brief"]
        own = pages.render_brief(self.state)
        if text in ("", last, own):
            folder.seen_brief = text
            return
        from holdfast.loops.page_model import read_brief, read_brief_parts

        before, now = read_brief(last or own), read_brief_parts(text)
        changed = {key: now[key] for key in ("title", *_BRIEF_FIELDS) if key in now}
        changed = {key: value for key, value in changed.items() if value != before[key]}
        title = changed.pop("title", None)
        context = self.state["context"]
        if "notes" in changed and context.get("approach"):
            changed["approach"], _, changed["notes"] = changed["notes"].partition("\n\n")
        changed = {key: v for key, v in changed.items() if v != context.get(key, before.get(key))}
        if changed or title:
            try:
                outcome = self._do("change_brief", {"title": title, "values": changed})
            except Refused as refused:
                if refused.code != "already":
                    self._store.note(f"{BRIEF}: {refused.message}; the page stays as it is")
                    return
            else:
                names = ", ".join([*(["title"] if title else []), *changed])
                self._store.note(f"{BRIEF}: {outcome}: {names}")
        folder.seen_brief = text

    # Lessons

    def _take_lessons(self) -> None:
        """Take in the lessons that people wrote or changed."""
        text = self._folder.read(GUARDRAILS)
        if text in ("", pages.render_guardrails(self.state)):
            return
        from holdfast.loops.page_model import read_guardrails

        for lesson in read_guardrails(text):
            fields = {key: value for key, value in lesson.items() if value}
            contents = [pages.lesson_content(lesson) for lesson in self.state.get("guardrails", [])]
            name = fields.get("name")
            if not name or pages.lesson_content(fields) in contents:
                continue
            try:
                outcome = self._do("add_guardrail", {**fields, "replace": True})
            except Refused as refused:
                self._store.note(f"{GUARDRAILS}: {name[:60]}: {refused.message}")
                continue
            self._store.note(f"{GUARDRAILS}: {outcome}: {name[:60]}")
