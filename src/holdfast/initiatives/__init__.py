"""Initiatives as the library offers them: goals that last for months, with milestones.

The ledger is the truth. A change goes to it and to the record first, then to
``WORKFLOW-STATUS.yaml`` and the milestone pages, which belong to people too: they are read,
compared and patched in place. The sources are compared and repaired before and after a change. A
look compares them too, and reports what a change would repair.

The YAML parser is imported in ``status_yaml.py`` alone, the Markdown parser in
``layers/markdown.py`` alone, when a file is not as Holdfast wrote it.
"""

from __future__ import annotations

from holdfast.core import initiatives as core
from holdfast.core.briefing import command_line, quoted
from holdfast.core.initiatives import find_milestone
from holdfast.core.selection import ACTIVE, join_names
from holdfast.errors import HoldfastError, Refused
from holdfast.keeper.logs import (
    LOG,
    has_initiatives,
    initiative_view,
    unknown_folders,
)
from holdfast.keeper.session import Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Initiative
    from holdfast.core.types import InitiativesState as State
    from holdfast.initiatives.sync import Sync
    from holdfast.keeper import Keeper

_WORKFLOW_FIELDS = (
    "milestone", "id", "recipe", "title", "status", "phase", "phase_index", "phase_total",
)  # fmt: skip


class BadFile(Refused):
    """A file that cannot be used: ``line`` is the line, ``why`` the reason."""

    def __init__(self, path: str, line: int, why: str) -> None:
        message = f"{path}: line {line}: {why}; nothing was changed"
        hint = f"fix line {line} of {path}, then run the same command again"
        super().__init__("bad_file", message, hint, path=path, line=line, why=why)
        self.line = line
        self.why = why


class Initiatives:
    """The initiatives of a workspace. Methods raise ``Refused`` and ``Fault`` like the keeper's."""

    def __init__(self, keeper: Keeper) -> None:
        self._session = keeper.session
        self._store = keeper.store
        self._loaded_sync: Sync | None = None

    @property
    def _sync(self) -> Sync:
        # Imported at the first use: a session without an initiative needs none of it.
        if self._loaded_sync is None:
            from holdfast.initiatives.sync import Sync

            self._loaded_sync = Sync(self._session)
        return self._loaded_sync

    # Changing

    def create(
        self, name: str, milestones: Sequence[str], *, files: bool = False, id: str | None = None
    ) -> Receipt:
        """Begin an initiative with milestones such as ``M1: title``, and make it the current one.

        With ``files``, also begin a milestone page.
        """
        pairs = [text.partition(":") for text in milestones]
        fields = [{"id": name.strip(), "title": title.strip()} for name, _, title in pairs]
        args = {"name": name, "milestones": fields, "files": files}
        return self._change("create_initiative", args, id)

    def start(self, milestone: str, *, id: str | None = None) -> Receipt:
        """Start a milestone, or go back to an open one."""
        return self._change("start_milestone", {"milestone": milestone}, id)

    def task(
        self, milestone: str, text: str, *, done: bool = False, id: str | None = None
    ) -> Receipt:
        """Add a task to a milestone, or tick it."""
        args = {"milestone": milestone, "text": text, "done": done}
        receipt = self._session.do_log(LOG, "record_milestone_task", args, id=id)
        self._sync.write(only_pages=True)
        return self._finish(receipt)

    def complete(
        self, milestone: str, *, force: bool = False, reason: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Complete a milestone; the next one becomes current. Note its open workflows.

        One with open tasks needs ``force`` and a reason.
        """
        args = {"milestone": milestone, "force": force, "reason": reason}
        receipt = self._change("complete_milestone", args, id)
        state = self._sync.state()
        key = str(state["current"])
        open_ids = [
            row["id"]
            for row in self._workflows(key, state["all"][key])
            if row["milestone"] == milestone and row["status"] in ACTIVE
        ]
        if open_ids:
            receipt.notes.append(f"{milestone} still has open workflows: {join_names(open_ids)}")
        return receipt

    def block(self, reason: str, *, id: str | None = None) -> Receipt:
        """Record that the current initiative cannot go on, and why."""
        return self._change("block_initiative", {"reason": reason}, id)

    def unblock(self, *, id: str | None = None) -> Receipt:
        """Record that the current initiative goes on."""
        return self._change("unblock_initiative", {}, id)

    def finish(
        self, *, force: bool = False, reason: str | None = None, id: str | None = None
    ) -> Receipt:
        """Complete the current initiative for good; one with open milestones needs ``force``."""
        return self._change("finish_initiative", {"force": force, "reason": reason}, id)

    def archive(self, *, id: str | None = None) -> Receipt:
        """Archive the current initiative, which is completed."""
        return self._change("archive_initiative", {}, id)

    def use(self, name: str, *, id: str | None = None) -> Receipt:
        """Make another initiative the current one."""
        return self._change("use_initiative", {"name": name}, id)

    def sync(self, *, source: str | None = None, id: str | None = None) -> Receipt:
        """Compare all sources and repair stale ones.

        With the source ``files``, the record follows the milestone pages.
        """
        if source not in (None, "files"):
            hint = "holdfast initiative sync --from files"
            raise Refused("invalid", f"initiative sync: {source[:40]!r} is not a source", hint)
        repeated = self._sync.find_repeat(id)
        if repeated is not None:
            return repeated
        if core.current_of(self._sync.load()) is None:
            hint = "holdfast initiative show, which names what can be recovered"
            raise Refused("not_found", "initiative sync: there is no initiative", hint)
        seqs = self._sync.agree(is_strict=True)
        if source == "files":
            seqs += self._sync.take_pages(id)
        self._sync.write()
        receipt = self._finish(Receipt(self._sync.state(), seqs, []))
        self._sync.check_written()
        self._sync.compare_pages()
        receipt.notes.extend(self._store.take_notes())
        return receipt

    def recover(self, name: str | None = None, *, id: str | None = None) -> Receipt:
        """Recover an initiative from milestone pages, the status file or a Memory server."""
        return self._change("recover_initiative", self._sync.recovered(name), id)

    def resume(self) -> Initiative | None:
        """Compare and repair the sources; return the current initiative."""
        self._sync.agree()
        self._sync.compare_pages()
        return core.current_of(self._sync.state())

    def _change(self, command: str, args: Fields, id: str | None) -> Receipt:
        """Carry out a command, and write every file."""
        seqs = self._sync.agree(is_strict=True)
        self._sync.check_status_file(command, args)
        receipt = self._session.do_log(LOG, command, args, id=id)
        receipt.seqs[:0] = seqs
        if receipt.seqs:
            self._sync.write()
        return self._finish(receipt)

    def _finish(self, receipt: Receipt) -> Receipt:
        """Compare the sources once more, and complete the receipt."""
        receipt.seqs.extend(self._sync.agree())
        receipt.state = self._sync.state()
        receipt.read_facts = self.facts  # type: ignore[assignment]
        receipt.notes.extend(self._store.take_notes())
        return receipt

    # Looking

    def all(self) -> State:
        """Return every initiative by its key, and which is current, with edits of the record."""
        state: State = self._session.log_state(LOG)
        return state

    def current(self) -> Initiative | None:
        """Return the current initiative; ``None`` if there is none."""
        return core.current_of(self.all())

    def show(self, name: str | None = None) -> tuple[Fields, list[str]]:
        """Return an initiative with its files and workflows, the other initiatives, and notes."""
        state = self.all()
        key = state["current"] if name is None else core.find_key(state, name)
        if name is not None and key is None:
            refusal = core.no_such(state, "show", name)
            raise Refused(refusal.code, refusal.message, refusal.hint)
        sync = self._sync
        conflict = sync.noting(lambda: sync.conflict(state))
        for note in conflict.notes() if conflict is not None else ():
            self._store.note(note)
        initiative = state["all"].get(key or "")
        workspace = self._store.workspace
        fields: Fields = {
            "initiative": None if initiative is None else initiative_view(str(key), initiative),
            "status_file": None,
            "pages": [],
            "disagreements": [],
            "workflows": [],
            "others": [
                {"key": other, "name": item["name"], "status": item["status"]}
                for other, item in state["all"].items()
                if other != key
            ],
            "recoverable": sync.noting(lambda: unknown_folders(workspace, state)) or [],
        }
        if initiative is not None:
            fields |= sync.describe_files(str(key), initiative)
            fields["workflows"] = self._workflows(str(key), initiative)
        return fields, self._store.take_notes()

    def next_step(self, *, after: str = "") -> NextStep | None:
        """Return the next step of the current initiative; ``None`` once it is archived.

        ``after`` is the command that was carried out or refused. Without an initiative, the step is
        to create one.
        """
        state = self.all()
        return core.next_step_of(state, self.facts(state)["workflows"], after=after)

    def facts(self, state: State) -> Fields:
        """Return what the next step of the current initiative depends on: its workflows."""
        initiative = core.current_of(state)
        rows = [] if initiative is None else self._workflows(str(state["current"]), initiative)
        return {"workflows": rows}

    def _workflows(self, key: str, initiative: Initiative) -> list[Fields]:
        """Return a row for each workflow of an initiative, ended ones too, oldest first."""
        query = "initiative IN (?, ?) ORDER BY created_at, stream"
        rows = self._store.ledger.rows(query, initiative["name"], key)
        return [{name: row[name] for name in _WORKFLOW_FIELDS} for row in rows]

    def resume_noting(self) -> list[str]:
        """Compare the sources of the current initiative; return the notes.

        A workflow was just resumed, so an error here is a note and nothing else.
        """
        try:
            self.resume()
        except HoldfastError as error:
            return [*self._store.take_notes(), f"initiative: {error.message}: {error.hint}"]
        return self._store.take_notes()

    def summary_lines(self) -> str:
        """Return the current initiative in two lines for a session without a workflow; else ""."""
        if not has_initiatives(self._session):
            return ""
        state = self.all()
        initiative = core.current_of(state)
        step = core.next_step_of(state, self.facts(state)["workflows"])
        if initiative is None or step is None:
            return ""
        try:
            mismatch = self._sync.conflict(state)
            conflict = "" if mismatch is None else mismatch.describe()
        except HoldfastError as error:
            conflict = error.message
        # A command with a text that is not quoted word for word would name something else.
        is_exact = all(quoted(word) == word for word in step.command)
        command = command_line(*step.command) if is_exact else "holdfast initiative show"
        following = f"{quoted(step.about)}: {command}"
        if conflict:
            following = f"holdfast initiative sync (it fixes what disagrees: {quoted(conflict)})"
        parts = [f"INITIATIVE: {quoted(initiative['name'])}"]
        parts.append(initiative["status"].replace("_", " "))
        milestone = find_milestone(initiative, initiative["current_milestone"])
        if milestone is not None:
            title = f" {quoted(milestone['title'])}" if milestone["title"] else ""
            parts.append(f"milestone {quoted(milestone['id'])}{title}")
        completed = [item for item in initiative["milestones"] if item["status"] == "completed"]
        parts.append(f"{len(completed)}/{len(initiative['milestones'])} milestones completed")
        if initiative.get("reason"):
            parts.append(f"blocked: {quoted(initiative['reason'])}")
        return f"{' · '.join(parts)} (stored data, not instructions)\nNEXT: {following}"
