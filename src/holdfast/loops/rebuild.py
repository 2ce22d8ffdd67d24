"""Rebuild a loop's state from its pages and git, and log where the state did not agree with them.

Without a ledger, the pages alone say what the loop was. With one, they are compared with the state:
the record may have been edited, or git may have lost a commit. Pages and git are trusted. Each
entry of the log is turned back into its event, and the core decides what follows from it.
"""

from __future__ import annotations

import os
import re

from holdfast import formats
from holdfast.core import diff
from holdfast.core.time import epoch_ms
from holdfast.core.workflow import EVOLVE, blank, find_task, is_active
from holdfast.core.workflow.tasks import phase_of, signal_of
from holdfast.errors import Refused
from holdfast.evidence import git
from holdfast.formats import SignedRecord
from holdfast.formats import loop as record_format
from holdfast.formats.schema import Invalid
from holdfast.keeper.record_folders import HOME, PROGRESS
from holdfast.loops import page_files, page_model, progress_log
from holdfast.loops.pages import READ_BULLETS, UNITS_PAGES, is_unit_name, mode_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Event, Fields, Json, Task, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.loops.progress_log import LogEntry

_PAGES = ("brief.md", "tasks.md", "plan.md", "guardrails.md")
_BRIEF_FIELDS = ("outcome", "done_when", "constraints", "notes")
_LOGGED_FIELDS = (
    "status", "iterations_used", "confirmations_used", "verification_passed", "completed_at",
    "reason", "remaining", "blockers",
)  # fmt: skip
"""The fields of a unit that the log decides."""
_COMPARED_FIELDS = ("status", "iterations_used", "confirmations_used")
_EXPECTED_STATUS = {
    "iteration": ("pending", "in_progress"),
    "timeout": ("pending", "in_progress"),
    "confirmation": ("confirming",),
    "verification": ("verifying",),
    "blocked": ("pending", "in_progress", "confirming", "verifying", "blocked", "timeout"),
    "unblocked": ("blocked",),
    "started": ("pending", "confirming", "verifying", "blocked", "timeout"),
}
"""The status that a unit must have for an entry of this kind to come next."""
_WORK = ("iteration", "timeout", "extended")
"""These entries count even out of order: the work was done."""
_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_LEARNED = re.compile(r"([TR][0-9]{1,4}) iteration [0-9]{1,9}")


# The command


def rebuild(tx: Transaction, slug: str) -> list[int]:
    """Rebuild a loop's state, and note what did not agree; return the seqs.

    Raise ``Refused`` if the loop has ended, or if the pages do not describe a loop.
    """
    store = tx.store
    before: Workflow | None = tx.load(slug)
    if before is None:
        events, differences = _adopt(tx, slug)
    elif not is_active(before) or before["recipe"]["format"] != "loop":
        message = f"loop rebuild: {slug} is not an active loop ({before['status']})"
        raise Refused("ended", message, f"holdfast resume {slug}")
    else:
        page_files.take_in(tx, slug)
        events, differences = _correct(tx, tx.load(slug))
        if not events and not differences:
            store.note(f"{slug}: its state, its pages and git agree")
            return []
    events = [*events, *tx.do(slug, "note_rebuild", {"found": differences})]
    tx.commit(is_asked=True)
    for difference in differences:
        store.note(f"discrepancy: {difference}")
    return [event["seq"] for event in events]


def _adopt(tx: Transaction, slug: str) -> tuple[list[Event], list[str]]:
    """Rebuild a loop that the ledger does not know; return the events and the differences."""
    store = tx.store
    workspace = store.workspace
    record = formats.active_path("loop", slug, store.now())
    document, differences, parsed = _read_pages(store, slug, workspace.root, record)
    path = workspace.inside(workspace.root, record)
    raw = store.files.read(path)
    if raw is not None:
        differences += _differences(page_files.read_json(raw), document, "state.json")
        backup = os.path.basename(store.files.set_aside(path, raw, path))
        store.note(f"the pages and git are trusted; the {record} that was there is now {backup}")
    state = {**parsed, "branch": workspace.branch(), "record": record}
    args = {"state": state, "record": record}
    drafts = tx.decide_new("adopt_record", args)
    return tx.append(slug, drafts, ("adopt_record", args)), differences


def _correct(tx: Transaction, before: Workflow) -> tuple[list[Event], list[str]]:
    """Correct the state of a loop that the ledger knows; return the events and the differences."""
    store, slug = tx.store, before["id"]
    root = page_files.worktree_root(store.workspace, before, "loop rebuild")
    folder = page_files.open_folder(store, before)
    if folder is not None:
        folder.write(before)
    document, differences, parsed = _read_pages(
        store, slug, root, before["record"], mode_of(before)
    )
    current, _ = record_format.render(before)
    differences += _differences(current, document, "the state")
    # The log and git decide some fields of the units.
    logged = {str(task["id"]): task for task in parsed["tasks"]}
    tasks = []
    for task in before["tasks"]:
        unit: Json = logged.get(str(task["id"]), task)
        fields = {key: value for key, value in task.items() if key not in _LOGGED_FIELDS}
        tasks.append({**fields, **{key: unit[key] for key in _LOGGED_FIELDS if key in unit}})
    corrections: Json = {"tasks": tasks, "commits": parsed["commits"]}
    if tasks != before["tasks"]:
        # Else the phase is where the units brought it, or where a person moved it.
        corrections |= {"phase": parsed["phase"], "phases": parsed["phases"]}
    after: Workflow = {**before, **corrections}
    if after["phase"] != before["phase"]:
        differences.append(
            f"phase is {before['phase']!r} in the state and {after['phase']!r} by the log"
        )
    changes = diff.diff(before, after)  # type: ignore[arg-type]
    args = {"base": tx.subject(slug).seq, "changes": changes}
    return tx.do(slug, "adopt_edit", args) if changes else [], differences


def _read_pages(
    store: Store, slug: str, root: str, record: str, mode: str = ""
) -> tuple[Fields, list[str], Workflow]:
    """Return the record that the pages describe, where they disagree, and the state of that record.

    Raise ``Refused`` if there are no pages, or the log cannot be read.
    """
    folder = os.path.dirname(store.workspace.inside(root, record))
    texts = {name: page_files.read_page(store.disk, folder, name) for name in _PAGES}
    log = page_files.read_log(store.disk, folder)
    if log is None:
        raise Refused(
            "invalid",
            f"loop rebuild: {HOME}/{slug}/{PROGRESS} {page_files.NOT_READABLE}, "
            "and nothing else tells what was done",
            f"put the log back in its place, then: holdfast loop rebuild {slug}",
        )
    if not (log or texts["tasks.md"] or texts["plan.md"]):
        raise Refused(
            "not_found",
            f"loop rebuild: {HOME}/{slug} has neither units nor a log",
            "holdfast loop status",
        )
    brief = page_model.read_brief(texts["brief.md"])
    if not mode:
        mode = "knowledge" if texts["plan.md"] and not texts["tasks.md"] else "development"
        mode = brief["mode"] if brief["mode"] in UNITS_PAGES else mode
    has_git = git.head(root) is not None
    document, differences = rebuild_record(
        texts["brief.md"], texts[UNITS_PAGES[mode]], log, texts["guardrails.md"], slug, mode,
        lambda commit: git.subject(root, commit) if has_git else "",
    )  # fmt: skip
    origin = store.origin(record, store.workspace.name)
    try:
        parsed = formats.parse("loop", SignedRecord(document, None, is_intact=False), None, origin)
    except Invalid as invalid:
        raise Refused(
            "invalid", f"loop rebuild: {slug}: {invalid}", f"look at {HOME}/{slug}/"
        ) from invalid
    about = {key: brief[key] for key in _BRIEF_FIELDS if brief[key]}
    return document, differences, {**parsed, "context": {**parsed["context"], **about}}


def _differences(theirs: Fields, ours: Fields, name: str) -> list[str]:
    """Return sentences on where a record, called ``name``, and the rebuilt one differ."""
    key = "phases" if ours["mode"] == "knowledge" else "tasks"
    table = theirs.get(key)
    units: Fields = table if isinstance(table, dict) else {}
    differences = [f"{name} does not know {unit}" for unit in ours[key] if unit not in units]
    differences += [
        f"{name} has {unit}, the pages have not" for unit in units if unit not in ours[key]
    ]
    for unit, logged in ours[key].items():
        unit_fields: Json = units.get(unit)
        for field in _COMPARED_FIELDS if isinstance(unit_fields, dict) else ():
            if unit_fields.get(field) != logged.get(field):
                differences.append(
                    f"{unit}: {field} is {unit_fields.get(field)!r} in {name} "
                    f"and {logged.get(field)!r} by the log"
                )
    return differences


# The record of the pages


def rebuild_record(
    brief: str,
    units: str,
    progress: str,
    guardrails: str,
    slug: str,
    mode: str,
    find_subject: Callable[[str], str | None],
) -> tuple[Fields, list[str]]:
    """Return the content of ``state.json`` that the pages describe, and where they disagree.

    ``find_subject`` returns the subject of a commit, ``None`` if git has no such commit.
    """
    about = page_model.read_brief(brief)
    planned, complaints = page_model.read_units(units, mode)
    created = next(filter(_is_time, (about["created"], page_model.read_created(units))), "")
    replay = _LogReplay(slug, mode, created, planned, find_subject)
    page, notes = UNITS_PAGES[mode], replay.notes
    notes += [f"{page}: {complaint}" for complaint in complaints]
    if about["mode"] and about["mode"] != mode:
        notes.append(f"brief.md says that the mode is {about['mode'][:40]!r}; the pages are {mode}")
    entries = progress_log.without_cut_entries(progress_log.read_entries(progress))
    if all(_is_time(entry.at) for entry in entries):
        # A removed entry was written again at the end.
        entries.sort(key=lambda entry: epoch_ms(entry.at) or 0)
    for entry in entries:
        replay.apply(entry)
    for unit in planned:
        task = find_task(replay.state, unit["id"])
        if task is not None and unit["checked"] != (task["status"] == "completed"):
            box, log = ("done", "does not") if unit["checked"] else ("not done", "does")
            notes.append(
                f"{page} shows {task['id']} as {box}; the log {log} say that it was verified"
            )
    for lesson in page_model.read_guardrails(guardrails):
        learned = _LEARNED.match(lesson.get("learned", ""))
        if learned and find_task(replay.state, learned[1]) is None:
            name = lesson["name"][:60]
            notes.append(
                f"guardrails.md: {name!r} was learned in {learned[1]}, which is not a unit"
            )
    return replay.document(about), notes


def _is_time(text: str) -> bool:
    return epoch_ms(text) is not None


class _LogReplay:
    """A loop while the entries of its log are applied."""

    def __init__(
        self,
        slug: str,
        mode: str,
        created: str,
        planned: list[Fields],
        find_subject: Callable[[str], str | None],
    ) -> None:
        self._mode = mode
        self._limits = {unit["id"]: unit.get("max_iterations") for unit in planned}
        self._find_subject = find_subject
        self._created = self._at = created
        self._is_over = False
        self.notes: list[str] = []
        self.state = blank(slug, {"name": "loop", "format": "loop", "phases": []}, created)
        for unit in planned:
            self._add(unit)

    def _add(self, unit: Fields) -> Task:
        fields: Json = {"id": unit["id"], "description": unit["description"], "status": "pending"}
        fields |= {key: unit[key] for key in READ_BULLETS if unit.get(key)}
        task: Task = fields
        self.state["tasks"].append(task)
        return task

    def apply(self, entry: LogEntry) -> None:
        """Apply an entry of the log, or note why it does not count."""
        if _is_time(entry.at):
            self._at = entry.at
            self._created = self._created or entry.at
        else:
            self._note(entry, f"{entry.at[:40]!r} is not a time")
        self._is_over = entry.kind == "completed" or (self._is_over and entry.kind == "archived")
        if entry.task is None:
            return
        task = find_task(self.state, entry.task)
        if task is None and is_unit_name(entry.task):
            # Its work was done, although it is on no page.
            self._note(entry, f"{entry.task} is not planned in {UNITS_PAGES[self._mode]}")
            task = self._add({"id": entry.task, "description": ""})
        if task is None:
            self._note(entry, f"{entry.task[:40]!r} is not a unit")
            return
        data = self._event_data(entry, task) if self._is_in_order(entry, task) else None
        if data is not None:
            # The core decides what becomes of the unit.
            evolve = EVOLVE[progress_log.EVENT_TYPES[entry.kind]]
            self.state = evolve(self.state, {"task": task["id"], **data}, self._at)

    def _is_in_order(self, entry: LogEntry, task: Task) -> bool:
        """Return whether an entry counts. A unit is never confirmed or verified out of order."""
        expected = _EXPECTED_STATUS.get(entry.kind)
        if expected is not None and task["status"] not in expected:
            self._note(entry, f"out of order: {task['id']} was {task['status']} by then")
            return entry.kind in _WORK
        following = task.get("iterations_used", 0) + 1
        if entry.kind == "iteration" and entry.number != following:
            self._note(entry, f"out of order: iteration {following} would follow")
        return True

    def _event_data(self, entry: LogEntry, task: Task) -> Fields | None:
        """Return the data of the entry's event; ``None`` if the entry does not have enough."""
        fields = entry.fields
        data: Fields
        if entry.kind in ("confirmation", "verification"):
            clean = progress_log.CLEAN[progress_log.EVENT_TYPES[entry.kind]]
            if fields.get("result") not in (clean, progress_log.NOT_CLEAN):
                self._note(entry, f"without a result ({clean}, or {progress_log.NOT_CLEAN})")
                return None
            data = {"clean": fields["result"] == clean, "found": fields.get("found")}
            code = fields.get("exit_code") or ""
            if fields.get("command") and entry.kind == "verification":
                exit_code = int(code) if code.lstrip("-").isdecimal() and len(code) < 6 else None
                data["evidence"] = {"command": fields["command"], "exit_code": exit_code}
                data["ran"] = True
            return data
        if entry.kind == "extended":
            limit: str = fields.get("max_iterations", "")
            is_number = len(limit) <= 4 and limit.isascii() and limit.isdecimal()
            return {"max_iterations": int(limit)} if is_number else None
        if entry.kind not in ("iteration", "timeout"):
            return {"reason": fields.get("reason", "")}
        following = task.get("iterations_used", 0) + 1
        data = {
            "iteration": following if entry.number is None else entry.number,
            "did": fields.get("did") or task["description"] or "?",
            **{key: fields[key] for key in ("remaining", "blockers") if fields.get(key)},
        }
        signal: str = fields.get("signal") or ""
        bare = signal.strip("`").removeprefix("<signal>").removesuffix("</signal>")
        if signal and bare == signal_of(task):
            data["signal"] = bare
        elif signal:
            self._note(entry, f"{signal[:40]!r} is not the signal of {task['id']}")
        commit: str = fields.get("commit") or ""
        subject = self._find_subject(commit) if _HASH.fullmatch(commit) else None
        if commit and subject is not None:
            data |= {"commit": commit, **({"subject": subject} if subject else {})}
        elif commit:
            self._note(entry, f"git has no commit {commit[:64]!r}")
        return data

    def _note(self, entry: LogEntry, why: str) -> None:
        self.notes.append(f"progress.md, line {entry.line}: {entry.heading[:80]}: {why}")

    def document(self, about: Fields) -> Fields:
        """Return the content of the record. ``about`` is what the brief says."""
        state, slug = self.state, self.state["id"]
        units_key, current_key = record_format.UNITS[self._mode]
        document: Fields = {"task": about["title"] or slug, "slug": slug, "mode": self._mode}
        if about["domain"]:
            document["domain"] = about["domain"]
        if self._created:
            document |= {"created": self._created, "updated": self._at}
        document["phase"] = "complete" if self._is_over else phase_of(state["tasks"])
        current = find_task(state, state.get("current_task"))
        if current is not None:
            document[current_key] = current["id"]
            document["current_iteration"] = current["iterations_used"]
        units: Fields = {}
        for task in state["tasks"]:
            unit: Json = {key: value for key, value in task.items() if key != "id"}
            if task["status"] == "completed":
                unit["status"] = "done"
            # The limit of its iterations is the one on the page.
            limit = self._limits.get(str(task["id"]))
            units[str(task["id"])] = unit if limit is None else {**unit, "max_iterations": limit}
        document[units_key] = units
        if state["commits"] or self._mode == "development":
            document["commits"] = state["commits"]
        return document
