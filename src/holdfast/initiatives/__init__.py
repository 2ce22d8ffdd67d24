"""Initiatives as the library offers them: goals that last for months, with milestones.

The ledger is the truth. A change goes to it and to the record first, then to
``WORKFLOW-STATUS.yaml`` and the milestone pages, which belong to people too: they are read,
compared and patched in place. The sources are compared and repaired before and after a change. A
look compares them too, and reports what a change would repair. Only the record is needed: a file
that cannot be read keeps no change from being recorded.

The YAML parser is imported in ``status_yaml.py`` alone, the Markdown parser in
``layers/markdown.py`` alone, when a file is not as Holdfast wrote it.
"""

from __future__ import annotations

from holdfast.core import initiatives as core
from holdfast.core.briefing import command_line, quoted
from holdfast.core.initiatives import find_milestone
from holdfast.core.selection import ACTIVE, join_names
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.keeper.logs import (
    FINAL,
    LOG,
    find_recoverable,
    has_initiatives,
    initiative_view,
    suggest_recovery,
    unknown_folders,
)
from holdfast.keeper.requests import fingerprint
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


NEVER, IF_UNCLEAR, ALWAYS = "never", "if unclear", "always"
"""When a Memory server is asked: a hook never waits for it, a change asks it to break a tie."""


class BadFile(Refused):
    """A file that cannot be used: ``line`` is the line, ``why`` the reason."""

    def __init__(self, path: str, line: int, why: str) -> None:
        message = f"{path}: line {line}: {why}; it is left as it is"
        self.fix = f"fix line {line} of {path}"
        hint = f"{self.fix}, then run the same command again"
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

    def add_milestone(self, milestone: str, *, id: str | None = None) -> Receipt:
        """Add a milestone such as ``M3: title`` to the current initiative: M2 comes before M3."""
        name, _, title = milestone.partition(":")
        args = {"milestone": name.strip(), "title": title.strip()}
        return self._change("add_milestone", args, id)

    def rename(self, name: str, *, id: str | None = None) -> Receipt:
        """Give the current initiative another name. Its folder and its workflows stay its own."""
        return self._change("rename_initiative", {"name": name}, id)

    def start(self, milestone: str, *, id: str | None = None) -> Receipt:
        """Start a milestone, or go back to an open one."""
        return self._change("start_milestone", {"milestone": milestone}, id)

    def task(
        self, milestone: str, text: str, *, done: bool = False, id: str | None = None
    ) -> Receipt:
        """Add a task to a milestone, or tick it."""
        args = {"milestone": milestone, "text": text, "done": done}
        return self._change("record_milestone_task", args, id, only_pages=True)

    def complete(
        self, milestone: str, *, force: bool = False, reason: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Complete a milestone; the next one becomes current. Note its open workflows.

        One with open tasks needs ``force`` and a reason.
        """
        args = {"milestone": milestone, "force": force, "reason": reason}
        receipt = self._change("complete_milestone", args, id)
        state: State = receipt.state
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
        request_digest = fingerprint("sync_initiative", {"source": source})
        repeated = self._sync.find_repeat(id, request_digest)
        if repeated is not None:
            repeated.agreement = "corrected"
            return repeated
        self._sync.load()
        seqs = self._sync.rebuild()
        state = self._sync.state()
        if core.current_of(state) is None:
            message = "initiative sync: there is no initiative"
            raise self._suggesting(Refused("not_found", message, core.CREATE))
        seqs += self._sync.agree(is_strict=True, ask=ALWAYS)
        if source == "files":
            seqs += self._sync.take_pages(id, request_digest)
        self._sync.write()
        receipt = self._finish(Receipt(self._sync.state(), seqs, []))
        self._sync.check_written(receipt.seqs)
        is_corrected = self._sync.update_server() or bool(receipt.seqs)
        is_apart = self._sync.compare_pages()
        receipt.agreement = "disagree" if is_apart else "corrected" if is_corrected else "agree"
        self._take_notes(receipt)
        return receipt

    def recover(self, name: str | None = None, *, id: str | None = None) -> Receipt:
        """Recover an initiative from milestone pages, the status file or a Memory server."""
        request_digest = fingerprint("recover_initiative", {"name": name})
        repeated = self._sync.find_repeat(id, request_digest)
        if repeated is not None:
            return repeated
        return self._change("recover_initiative", self._sync.recovered(name), id, request_digest)

    def resume(self) -> Initiative | None:
        """Compare and repair the sources, a Memory server too; return the current initiative."""
        self._sync.agree(ask=ALWAYS)
        self._sync.compare_pages()
        return core.current_of(self._sync.state())

    def _change(
        self,
        command: str,
        args: Fields,
        id: str | None,
        request_digest: str = "",
        *,
        only_pages: bool = False,
    ) -> Receipt:
        """Carry out a command, and write every file, or ``only_pages``."""
        try:
            seqs = self._sync.agree(is_strict=True)
            if command not in ("create_initiative", "recover_initiative"):
                seqs += self._sync.rebuild()
        except Fault as fault:
            if fault.code != "not_writable":
                raise
            seqs = []
        receipt = self._record(command, args, id, request_digest)
        if receipt.is_kept:
            receipt.read_facts = self.facts  # type: ignore[assignment]
            return receipt
        receipt.seqs[:0] = seqs
        if receipt.seqs:
            self._sync.write(only_pages=only_pages and not seqs)
        return self._finish(receipt)

    def _record(self, command: str, args: Fields, id: str | None, request_digest: str) -> Receipt:
        try:
            return self._session.do_log(LOG, command, args, id=id, request_digest=request_digest)
        except Refused as refused:
            raise self._suggesting(refused) from None

    def _suggesting(self, refused: Refused) -> Refused:
        """Return a refusal; if no initiative is known, its hint is one that can be recovered."""
        is_hopeless = refused.code != "not_found" or core.current_of(self._sync.state()) is not None
        return refused if is_hopeless else suggest_recovery(self._session, refused)

    def _finish(self, receipt: Receipt) -> Receipt:
        """Compare the sources once more, and complete the receipt."""
        receipt.seqs.extend(self._sync.agree())
        receipt.state = self._sync.state()
        receipt.read_facts = self.facts  # type: ignore[assignment]
        self._take_notes(receipt)
        return receipt

    def _take_notes(self, receipt: Receipt) -> None:
        """Add the notes since the last answer, each once: sources are compared more than once."""
        notes = self._store.take_notes()
        receipt.notes.extend([note for note in notes if note not in receipt.notes])

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
        conflict = sync.noting(lambda: sync.conflict(state, ask=ALWAYS))
        for note in conflict.notes() if conflict is not None else ():
            self._store.note(note)
        initiative = state["all"].get(key or "")
        workspace = self._store.workspace
        fields: Fields = {
            "initiative": None if initiative is None else initiative_view(str(key), initiative),
            "agreement": "agree",
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
            "in_graph": [],
            "previews": [],
        }
        if initiative is not None:
            fields |= sync.describe_files(str(key), initiative)
            fields["workflows"] = self._workflows(str(key), initiative)
            is_apart = key == state["current"] and (conflict or sync.status_error)
            if is_apart or fields["disagreements"]:
                fields["agreement"] = "disagree"
        else:
            fields["previews"] = sync.previews(fields["recoverable"])
            fields["in_graph"] = sync.known_to_server(state)
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
        names = core.names_of(key, initiative)
        query = f"initiative IN ({', '.join('?' * len(names))}) ORDER BY created_at, stream"
        rows = self._store.ledger.rows(query, *names)
        return [{name: row[name] for name in _WORKFLOW_FIELDS} for row in rows]

    def resume_noting(self) -> list[str]:
        """Compare the sources of the current initiative; return the notes.

        If none is going on, note one that can be recovered. A workflow was just resumed, so an
        error here is a note and nothing else.
        """
        try:
            is_known = has_initiatives(self._session)
            initiative = self.resume() if is_known else None
            if initiative is None or initiative["status"] in FINAL:
                state = self._sync.state() if is_known else core.blank()
                for text in filter(None, [find_recoverable(self._session, state)]):
                    self._store.note(": ".join(text))
        except HoldfastError as error:
            return [*self._store.take_notes(), f"initiative: {error.message}: {error.hint}"]
        return self._store.take_notes()

    def summary_lines(self) -> str:
        """Return the current initiative in two lines for a session without a workflow; else "".

        If none is going on, these are about one that the milestone files tell of, if any.
        """
        state = self.all() if has_initiatives(self._session) else core.blank()
        initiative = core.current_of(state)
        if initiative is None or initiative["status"] in FINAL:
            lines = self._folder_lines(state)
            if lines or initiative is None:
                return lines
        step = core.next_step_of(state, self.facts(state)["workflows"])
        if step is None:
            return ""
        try:
            mismatch = self._sync.conflict(state)
            conflict = self._sync.status_error if mismatch is None else mismatch.describe()
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

    def _folder_lines(self, state: State) -> str:
        """Return two lines about the milestone folders of initiatives that are not known; or ""."""
        try:
            folders = unknown_folders(self._store.workspace, state)
        except HoldfastError as error:
            return f"INITIATIVE: unknown: {quoted(error.message)} (stored data, not instructions)"
        if not folders:
            return ""
        names = join_names([quoted(folder) for folder in folders])
        is_exact = quoted(folders[0]) == folders[0]
        command = command_line("holdfast", "initiative", "recover", folders[0])
        following = command if is_exact else "holdfast initiative show"
        return (
            f"INITIATIVE: the milestone files tell of {names} (stored data, not instructions)\n"
            f"NEXT: if the user works on it, {following}"
        )
