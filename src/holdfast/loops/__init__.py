"""Loops: units of work in bounded iterations, with Markdown pages for people.

The ledger has everything. The pages belong to people too: every change first takes in their edits,
then carries out its command, then patches the pages. ``pages`` renders and ``page_model`` parses
and patches: text in, text or data out. ``page_files`` and ``rebuild`` connect pages and ledger. The
Markdown parser is imported in ``layers/markdown.py`` alone, when a page was edited.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import unknown_workflows
from holdfast.core import selection
from holdfast.core.next_step import next_turn
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import OPENING, find_task, is_active, unit_mark
from holdfast.core.workflow.lifecycle import completion_signal
from holdfast.core.workflow.tasks import TIMEOUT_CHOICES, iterations_allowed
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import aggregate_of
from holdfast.keeper import overview, start
from holdfast.keeper.record_folders import HOME, PROGRESS, RECORD
from holdfast.keeper.requests import fingerprint, plain
from holdfast.keeper.session import Receipt
from holdfast.loops import archive, page_files, pages, progress_log
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.keeper import Keeper
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_COMMIT_LENGTH = 12
"""The number of characters of a commit's id that are kept."""
_MAX_SLUG_LENGTH = 60
_SLUG_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class Loops:
    """The loops of a workspace. Methods raise ``Refused`` and ``Fault`` like the keeper's."""

    def __init__(self, keeper: Keeper) -> None:
        self._session = keeper.session
        self._store = keeper.store

    # Opening and planning

    def new(
        self,
        slug: str,
        mode: str = "development",
        *,
        task: str | None = None,
        domain: str | None = None,
        outcome: str | None = None,
        done_when: Sequence[str] = (),
        constraints: Sequence[str] = (),
        approach: str | None = None,
        patterns: Sequence[str] = (),
        notes: str | None = None,
        inherit: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Start a loop with its pages, or go on with the active one of this name.

        With ``inherit``, it gets the lessons of archived loops that match.
        """
        _check_slug(slug)
        if mode not in pages.UNITS_PAGES:
            modes = " and ".join(pages.UNITS_PAGES)
            message = f"loop new: there is no mode {mode[:40]!r}, only {modes}"
            raise Refused("invalid", message, f"holdfast loop new {slug} --mode development")
        fields: Fields = {
            "domain": domain, "outcome": outcome, "done_when": list(done_when),
            "constraints": list(constraints), "approach": approach, "patterns": list(patterns),
            "notes": notes,
        }  # fmt: skip
        context = {key: value for key, value in fields.items() if value}
        # A request that was made before these two existed has another fingerprint.
        fields = {k: v for k, v in fields.items() if v or k not in ("approach", "patterns")}
        _check_context("loop new", slug, task or slug, context)
        plan = start.prepare(
            self._session, f"loop-{mode}", slug, title=task or slug, context=plain(context)
        )
        receipt: Receipt | None = None
        try:
            with self._session.transaction() as tx:
                asked: Fields = {"mode": mode, "slug": slug, "task": task, "inherit": inherit}
                request = fingerprint("new_loop", {**asked, **fields})
                receipt = self._session.repeat(tx, id, slug, request)
                if receipt is None:
                    _make_room(tx, slug, mode)
                    receipt = start.carry_out(
                        self._session, tx, plan, replace=False, again=True, id=id
                    )
                archive.inherit_lessons(tx, receipt, inherit=inherit)
                return self._update_pages(tx, receipt)
        except Fault as fault:
            if receipt is None:
                raise
            why = f"the loop is open; its pages follow: {fault.message}"
            receipt.notes += [*self._store.take_notes(), why]
            return receipt

    def brief(
        self,
        slug: str | None = None,
        *,
        task: str | None = None,
        domain: str | None = None,
        outcome: str | None = None,
        done_when: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
        approach: str | None = None,
        patterns: Sequence[str] | None = None,
        notes: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Change what the loop is about; an empty text, or list of empty texts, takes it away."""
        lists = {"done_when": done_when, "constraints": constraints, "patterns": patterns}
        values: Fields = {
            "domain": domain, "outcome": outcome, "approach": approach, "notes": notes,
            **{k: None if v is None else list(filter(None, v)) for k, v in lists.items()},
        }  # fmt: skip
        values = {key: value for key, value in values.items() if value is not None}

        def check(state: Workflow) -> Fields:
            context = {**state["context"], **values}
            _check_context("loop brief", state["subject"], task or state["title"], context)
            return {}

        args: Fields = {"title": task, "values": plain(values)}
        return self._change(slug, "change_brief", args, id, prepare=check)

    def plan(
        self,
        slug: str | None,
        unit: str,
        *,
        criteria: str | None = None,
        files: Sequence[str] = (),
        max: int | None = None,
        depends: Sequence[str] | None = None,
        model: str | None = None,
        output: str | None = None,
        verify: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Plan a unit such as ``T1: title``, or change its plan."""
        name, _, title = (part.strip() for part in unit.partition(":"))
        args: Fields = {
            "task": name, "description": title or None, "criteria": criteria,
            "files": list(files) or None, "max_iterations": max,
            "depends": None if depends is None else list(depends),
            "model": model, "output": output, "verify": verify,
        }  # fmt: skip

        def check_name(state: Workflow) -> Fields:
            mark = unit_mark(state["recipe"])
            if name[:1] != mark or not pages.is_unit_name(name):
                raise Refused(
                    "invalid",
                    f"loop plan: {unit[:60]!r} does not begin with a unit from {mark}1 to "
                    f"{mark}9999",
                    f"holdfast loop plan --unit '{mark}1: TITLE'",
                )
            return {}

        return self._change(slug, "plan_unit", args, id, prepare=check_name)

    # Units

    def iterate(
        self,
        unit: str,
        *,
        did: str,
        remaining: str | None = None,
        blockers: str | None = None,
        commit: str | None = None,
        signal: str | None = None,
        blocked: str | None = None,
        slug: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Record an iteration; with the unit's signal, the unit is confirmed next.

        ``blocked`` is the reason why the unit cannot go on: both are recorded, or nothing.
        """
        bare = signal.removeprefix("<signal>").removesuffix("</signal>") if signal else signal
        args = {
            "task": unit, "did": did, "remaining": remaining, "blockers": blockers,
            "commit": commit, "signal": bare, "blocked": blocked,
        }  # fmt: skip
        # Git is asked before the ledger is locked.
        made = {} if commit is None else self._commit_fields(commit)
        receipt = self._change(slug, "record_iteration", args, id, prepare=lambda _state: made)
        task = find_task(receipt.state, unit)
        if task is not None and task["status"] == "timeout":
            receipt.notes.append(f"{unit} has used {iterations_allowed(task)}: {TIMEOUT_CHOICES}")
        return receipt

    def _commit_fields(self, name: str) -> Fields:
        """Return the short id and the subject of a commit; raise ``Refused`` if there is none.

        Outside git the name is kept as it is.
        """
        from holdfast.evidence import commits, git

        workspace = self._session.workspace
        commit = commits.resolve(workspace, name, "loop iterate")
        if workspace.git is None:
            return {"commit": commit}
        subject = git.subject(workspace.root, commit)
        return {"commit": commit[:_COMMIT_LENGTH], "subject": subject or None}

    def confirm(
        self, unit: str, *, issues: str | None = None, slug: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Record the confirmation of a unit: clean, or with the issues that it found."""
        return self._change(slug, "confirm_unit", {"task": unit, "found": issues}, id)

    def verify(
        self, unit: str, *, failed: str | None = None, evidence: Fields | None = None,
        slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Record the verification of a unit: passed, or why it failed."""
        args = {"task": unit, "found": failed, "evidence": evidence}
        return self._change(slug, "verify_unit", args, id)

    def run_verification(
        self, unit: str, command: Sequence[str] = (), *, timeout: str | None = None,
        slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Run a command that verifies a unit, by default the unit's own, and record the result."""
        from holdfast.loops import driver

        request = fingerprint("run_verification", {"task": unit, "words": list(command)})
        if self._session.peek_repeat(id, request) is not None:
            return self._change(slug, "verify_unit", {}, id, request_digest=request)
        # The notes of this look are dropped: the change makes them again.
        state = self.show(slug).state
        workspace = self._session.workspace
        evidence, failed = driver.run_verification(workspace, state, unit, list(command), timeout)
        args = {"task": unit, "found": failed, "evidence": evidence}
        return self._change(state["id"], "verify_unit", args, id, request_digest=request)

    def block(
        self, unit: str, reason: str, *, slug: str | None = None, id: str | None = None
    ) -> Receipt:
        """Record that a unit cannot go on, and why; the next unit is free."""
        return self._change(slug, "block_task", {"task": unit, "reason": reason}, id)

    def unblock(self, unit: str, *, slug: str | None = None, id: str | None = None) -> Receipt:
        """Let a blocked unit go on."""
        return self._change(slug, "unblock_unit", {"task": unit}, id)

    def extend(
        self, unit: str, max: int, *, slug: str | None = None, id: str | None = None
    ) -> Receipt:
        """Allow a unit more iterations."""
        return self._change(slug, "extend_unit", {"task": unit, "max_iterations": max}, id)

    def guardrail(
        self, *, when: str, problem: str, solution: str, name: str | None = None,
        learned: str | None = None, slug: str | None = None, id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Add a lesson that every later iteration reads."""
        title = name or (problem.strip().splitlines() or ["lesson"])[0][:60]
        args: Fields = {"name": title, "when": when, "problem": problem, "solution": solution}
        args["learned"] = learned

        def source(state: Workflow) -> Fields:
            task = find_task(state, state.get("current_task"))
            now = f"{task['id']} iteration {task.get('iterations_used', 0)}" if task else None
            return {"learned": learned or now}

        return self._change(slug, "add_guardrail", args, id, prepare=source)

    def phase(self, name: str, *, slug: str | None = None, id: str | None = None) -> Receipt:
        """Set the phase of the loop by hand."""
        if name == "complete":
            message = "loop phase: a loop is complete when it is in the archive"
            raise Refused("invalid", message, "holdfast loop archive")
        args: Fields = {"phase": name, "fields": {}, "branch": self._session.workspace.branch()}
        return self._change(slug, "start_phase", args, id)

    def settle(self, slug: str | None = None) -> Receipt:
        """Take in the edits of the pages, patch the pages, and change nothing else.

        Also move what a killed command left in the old folder of an archived loop.
        """
        with self._session.transaction() as tx:
            stream = self._select(tx, slug)
            archive.finish_move(tx, tx.load(stream))
            return self._update_pages(tx, self._session.answer(tx.load(stream), []))

    # Looking

    def show(self, slug: str | None = None) -> Receipt:
        """Return the loop's state with the edits of its pages. Change nothing."""
        return Receipt(self._look(self._named(slug)), [], self._store.take_notes())

    def all(self) -> tuple[list[Workflow], list[str]]:
        """Return the active loops, and notes. Change nothing."""
        states = [self._look(row["id"]) for row in [*self._rows(), *self._unknown_rows()]]
        return [state for state in states if is_active(state)], self._store.take_notes()

    def opening(self) -> tuple[str, str]:
        """Return the message for a worktree without an active loop, and the next command."""
        names = [
            name
            for name in _folder_names(self._store)
            if _slug_error(name) is None
            and self._store.ledger.stream(name) is None
            and os.path.isfile(os.path.join(self._store.workspace.root, HOME, name, PROGRESS))
        ]
        if not names:
            return "no loop is active here", "holdfast loop new SLUG"
        message = f"no loop is active here; {HOME}/{names[0]} has the log of one"
        return message, f"holdfast loop rebuild {names[0]}"

    def next(self, slug: str | None = None) -> tuple[Fields, list[str]]:
        """Return the next turn, of the current unit or the first that is ready, and notes.

        Change nothing. Raise ``Refused`` if the loop has ended.
        """
        receipt = self.show(slug)
        page_files.check_active(receipt.state, "loop next")
        lost = self._session.facts.lost_commits(receipt.state)
        return next_turn(receipt.state, is_named=slug is not None), [*receipt.notes, *lost]

    def _look(self, stream: str) -> Workflow:
        state = self._session.look(stream)
        _check_is_loop(state)
        return page_files.preview(self._store, state) if is_active(state) else state

    # Driving and ending

    def run(
        self,
        slug: str,
        command: Sequence[str],
        *,
        verify: str | None = None,
        timeout: str | None = None,
        until: Sequence[str] = (),
        tell: Callable[[Workflow, Task, str], None] = lambda *_: None,
        echo: Callable[[bytes], None] | None = None,
    ) -> Fields:
        """Run a worker for each turn, until every unit is done, one is stuck, or none is ready.

        ``until`` are times and costs after which no turn begins. ``tell`` is called before each
        turn with the state, the unit and the turn. ``echo`` gets the workers' output as it comes.
        """
        from holdfast.loops.driver import Driver

        driver = Driver(self, self._store, slug, list(command), verify, timeout, until, echo)
        return driver.drive(tell)

    def archive(
        self, slug: str | None = None, *, outcome: str | None = None, id: str | None = None,
        request_digest: str = "",
    ) -> Receipt:  # fmt: skip
        """Move the loop's folder into the archive; note the units that are not done.

        ``request_digest`` as in ``Session.do``.
        """
        request_digest = request_digest or fingerprint("archive_loop", {})
        with self._session.transaction() as tx:
            receipt = self._session.repeat(tx, id, slug, request_digest)
            if receipt is not None:
                archive.finish_move(tx, receipt.state)
                return receipt
            stream = self._select(tx, slug)
            page_files.take_in(tx, stream)
            before: Workflow = tx.load(stream)
            open_units = _open_units(before) if before["tasks"] else ["no unit was planned"]
            self._session.check_lease(tx, stream)
            state, seqs = archive.archive(tx, stream, id, outcome)
            if open_units:
                self._store.note(f"it was not finished: {', '.join(open_units)}")
            return self._session.answer(state, seqs)

    def rebuild(self, slug: str | None = None) -> Receipt:
        """Rebuild the state from the pages and git; log what did not agree."""
        from holdfast.loops.rebuild import rebuild

        if slug is None:
            names = _folder_names(self._store)
            if len(names) != 1:
                code = "ambiguous" if names else "not_found"
                message = f"loops with a folder here: {', '.join(names) or 'none'}"
                raise Refused(code, message, "holdfast loop rebuild SLUG")
            slug = names[0]
        _check_slug(slug)
        with self._session.transaction() as tx:
            seqs = rebuild(tx, slug)
            return self._update_pages(tx, self._session.answer(tx.load(slug), seqs))

    # Changing

    def _change(
        self, slug: str | None, kind: str, args: Fields, id: str | None,
        *, prepare: Callable[[Workflow], Fields] = lambda _state: {}, request_digest: str = "",
    ) -> Receipt:  # fmt: skip
        """Take in the edits of the pages, carry out a command, and patch the pages.

        ``prepare`` is called with the state before the command. It returns further arguments, or
        raises ``Refused``. ``request_digest`` as in ``Session.do``.
        """
        request_digest = request_digest or fingerprint(kind, args)
        with self._session.transaction() as tx:
            receipt = self._session.repeat(tx, id, slug, request_digest)
            if receipt is not None:
                return self._update_pages(tx, receipt)
            stream = self._select(tx, slug)
            folder = page_files.take_in(tx, stream)
            before: Workflow = tx.load(stream)
            events = self._session.do_in(tx, stream, kind, {**args, **prepare(before)}, id)
            receipt = self._session.committed(tx, stream, events)
            if folder is not None:
                folder.write(receipt.state, before)
            return receipt

    def _update_pages(self, tx: Transaction, receipt: Receipt) -> Receipt:
        """Take in the edits of the pages, patch the pages, and update the receipt's state."""
        stream = receipt.state["id"]
        folder = page_files.take_in(tx, stream)
        receipt.state = tx.load(stream)
        if folder is not None:
            folder.write(receipt.state)
        return receipt

    def _select(self, tx: Transaction, slug: str | None) -> str:
        """Load the selected loop, and return its stream; raise ``Refused`` if it is no loop."""
        if slug is None and not self._rows():
            self._session.adopt_unknown(tx)
        stream = self._session.select(tx, self._named(slug))
        _check_is_loop(tx.load(stream))
        return stream

    def _named(self, slug: str | None) -> str:
        """Return the id of the selected loop; raise ``Refused`` if there is none, or several."""
        if slug is not None:
            if self._store.ledger.stream(slug) is None:
                _check_slug(slug)
            return slug
        rows = self._rows() or self._unknown_rows()
        if len(rows) == 1:
            return str(rows[0]["id"])
        if not rows:
            raise Refused("not_found", *self.opening())
        picked = self._session.chosen(rows)
        if isinstance(picked, Refusal):
            names = selection.join_names([str(row["id"]) for row in rows])
            message = f"several loops are active: {names}; name one with -w"
            raise Refused("ambiguous", message, f"holdfast loop next {rows[0]['id']}")
        return str(picked["id"])

    def _rows(self) -> list[Fields]:
        """Return the rows of the active loops, newest activity first."""
        query = f"{ACTIVE} AND format = 'loop' ORDER BY updated_at DESC"
        rows = self._store.ledger.rows(query)
        return [row for row in rows if not self._store.has_run_out(row)]

    def _unknown_rows(self) -> list[Fields]:
        """Return rows of active loops whose records the ledger does not know."""
        return [
            overview.row_of(state, {"stream": state["id"]})
            for state in unknown_workflows.peek_all(self._store)
            if state["recipe"]["format"] == "loop" and is_active(state)
        ]

    def needs_explicit_id(self, state: Workflow) -> bool:
        """Return whether a command must name this loop, because it would select another one."""
        try:
            rows = self._rows()
        except (OSError, HoldfastError):
            return True  # A name is never wrong, and the command itself succeeded.
        picked = rows[0] if len(rows) == 1 else self._session.chosen(rows)
        return isinstance(picked, Refusal) or picked["id"] != state["id"]


def complete(
    keeper: Keeper, outcome: str | None = None, *, force: bool = False, reason: str | None = None,
    workflow: str | None = None, id: str | None = None,
) -> Receipt:  # fmt: skip
    """Complete a workflow; a loop whose units are all done goes into the archive."""
    args: Fields = {"outcome": outcome, "force": force, "reason": reason}
    request_digest = fingerprint("complete_workflow", args)
    repeated = keeper.session.peek_repeat(id, request_digest)
    state = keeper.session.look(workflow) if repeated is None else repeated.state
    is_finished = is_active(state) and bool(state["tasks"]) and not _open_units(state)
    is_archived = repeated is not None and formats.is_archived(state["record"])
    if state["recipe"]["format"] != "loop" or not (is_finished or is_archived):
        return keeper.complete(
            outcome=outcome, force=force, reason=reason, workflow=workflow, id=id
        )
    receipt = Loops(keeper).archive(
        state["id"], outcome=outcome, id=id, request_digest=request_digest
    )
    receipt.signal = completion_signal(receipt.state, {})
    return receipt


def _open_units(state: Workflow) -> list[str]:
    return [str(task["id"]) for task in state["tasks"] if task["status"] != "completed"]


def _check_is_loop(state: Workflow) -> None:
    if state["recipe"]["format"] != "loop":
        message = f"{state['id']} is not a loop but a workflow of {state['recipe']['name']}"
        raise Refused("invalid", message, f"holdfast show {state['id']}")


# Names


def _check_slug(slug: str) -> None:
    """Raise ``Refused`` if a loop cannot have this name, which becomes that of its folder."""
    why = _slug_error(slug)
    if why is not None:
        raise Refused("invalid", f"loop: the name {slug[:60]!r} {why}", "holdfast loop new my-loop")


def _slug_error(slug: str) -> str | None:
    if not slug or len(slug) > _MAX_SLUG_LENGTH:
        return f"must have 1 to {_MAX_SLUG_LENGTH} characters"
    if not _SLUG_LETTERS.issuperset(slug):
        return "may hold lower case letters, digits and - only"
    if slug[0] == "-" or slug[-1] == "-" or "--" in slug:
        return "must not begin or end with -, nor have two in a row"
    return "is the folder of what has ended" if slug == "archive" else None


def _folder_names(store: Store) -> list[str]:
    """Return the names of the loops with a folder in this worktree, without archived ones."""
    names = page_files.names_in(os.path.join(store.workspace.root, HOME))
    return [name for name in names if name != "archive"]


# Room for a new loop


def _check_context(tried: str, slug: str, title: str, context: Fields) -> None:
    """Raise ``Refused`` if ``context.md`` would have too many words."""
    preview: Fields = {"title": title, "context": context, "tasks": []}
    count = pages.count_words(pages.render_long_context(preview))  # type: ignore[arg-type]
    if count >= pages.MAX_CONTEXT_WORDS:
        raise Refused(
            "invalid",
            f"{tried}: {page_files.CONTEXT} of {slug} would have {count} words, "
            f"and must have fewer than {pages.MAX_CONTEXT_WORDS}",
            "say the outcome in fewer words; --notes has room for more",
        )


def _make_room(tx: Transaction, slug: str, mode: str) -> None:
    """Free the name and the folder of a new loop: put what an ended one left into the archive.

    Raise ``Refused`` if another kind of workflow has the name, or the folder has a log without a
    record, which is that of a loop unknown to the ledger.
    """
    store = tx.store
    state: Workflow | None = tx.load(slug)
    if state is not None:
        kind = state["recipe"]["name"]
        if kind != f"loop-{mode}":
            raise Refused(
                "exists",
                f"loop new: {slug} is the name of a workflow of {kind} ({state['status']})",
                f"choose another name: holdfast loop new {slug[:50]}-2 --mode {mode}",
            )
        if is_active(state):
            return
        if formats.is_archived(state["record"]):
            archive.finish_move(tx, state)
        else:
            archive.archive(tx, slug)
            store.note(f"the {slug} that had ended was put into the archive")
    folder = os.path.join(store.workspace.root, HOME, slug)
    brief = page_files.read_page(store.disk, folder, "brief.md")
    if brief:
        from holdfast.loops.page_model import read_brief

        created = read_brief(brief)["created"]
        openings = [[event] for event in store.ledger.events(slug) if event["type"] in OPENING]
        states = [aggregate_of(slug).replay(opening.copy)[0] for opening in openings]
        if created and created in [state["created_at"] for state in states if state is not None]:
            archive.archive_old_pages(store, slug)
    log = page_files.read_log(store.disk, folder)
    is_begun = log is None or log.strip() not in ("", progress_log.HEADER.strip())
    if is_begun and not os.path.lexists(os.path.join(folder, RECORD)):
        raise Refused(
            "exists",
            f"loop new: {HOME}/{slug} has the log of a loop that is not known here",
            f"holdfast loop rebuild {slug}",
        )
