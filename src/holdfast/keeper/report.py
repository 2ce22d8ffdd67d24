"""Collect what a workflow did, for whoever takes the work over: a reviewer, a team, an archive.

The result is plain data. Nothing is judged here twice: what counts as shown, claimed or waived is
decided in ``core.workflow.needs``, and what was overruled in ``lifecycle``. Git is asked for
the subjects of commits, and for commits that belong to no task. Every text is masked, because
a report is made to be sent. How a report looks is decided in ``answers``.
"""

from __future__ import annotations

from holdfast.core.diff import MERGED
from holdfast.core.json_text import digest, dumps
from holdfast.core.time import epoch_ms
from holdfast.core.workflow import find_phase, is_active
from holdfast.core.workflow.evidence import OWN_GATE_FIELDS, settled_at
from holdfast.core.workflow.lifecycle import feature_position, overruled_by_kind, pending
from holdfast.core.workflow.needs import (
    CHECK,
    CLAIM,
    PULL_REQUEST,
    RUN,
    WAIVED,
    evidence_of,
    gates_of,
    has_failed,
    has_git,
    is_passed,
    is_untested,
)
from holdfast.core.workflow.questions import WITHDRAWN
from holdfast.core.workflow.tasks import commits_of
from holdfast.evidence import git
from holdfast.evidence.masking import masked_texts
from holdfast.keeper.replica import settings_of
from holdfast.storage.shared_events import inside_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Event, Fields, Json, Task, Workflow
    from holdfast.keeper.session import Session

PASSED, FAILED, STALE, PENDING = "passed", "failed", "stale", "pending"
"""Results of a gate; ``needs.WAIVED`` is another one."""
_MAX_COMMITS = 500
_DIGEST_DIGITS = 16
_OF_GATE = (
    "command", "exit_code", "signal", "timed_out", "cancelled", "no_test", "duration_ms", "commit",
    "tree", "reason", "instead_of", "machine", "pushed_to",
)  # fmt: skip
_NO_WORK = ("briefing_delivered", "workflow_resumed", "session_ended", "context_compacted")
"""Events that change nothing of the work itself."""
_ENDS = ("workflow_completed", "workflow_abandoned", "workflow_expired")


def collect(session: Session, state: Workflow) -> Fields:
    """Return the report of a workflow, whose stale gates are marked."""
    story = _Story(session)
    store = session.store
    if store.ledger.stream(state["id"]) is not None:
        for event in store.ledger.events(state["id"]):
            story.read(event)
    earlier = [_work(store.state_at(state["id"], seq - 1), session) for seq in story.features]
    work = _work(state, session)
    ended_at = None if is_active(state) else story.ended_at or state["updated_at"]
    report: Fields = {
        "id": state["id"],
        "recipe": state["recipe"]["name"],
        "status": state["status"],
        "subject": state["subject"],
        "branch": state["branch"],
        "base": state.get("base"),
        "started_at": state["created_at"],
        "ended_at": ended_at,
        "duration_ms": _duration(state["created_at"], ended_at or state["updated_at"]),
        "outcome": state.get("outcome"),
        "reason": state.get("reason"),
        **work,
        "earlier": earlier,
        "left": _left(session, state),
        "questions": _questions(state),
        "pull_request": _pull_request(state),
        "violations": story.violations(state),
        "forced": story.forced,
        "test_runs": story.test_runs,
        "edits": story.edits,
        "conflicts": list(state.get("conflicts", ())),
        "who": story.who(),
        "files": [dict(file) for file in state["files"]],
        "seq": story.seq,
        "events": story.events,
    }
    report = masked_texts(report, session.workspace.root)
    return {**report, "digest": digest_of_gates(report)}


def digest_of_gates(report: Fields) -> str:
    """Return a digest of what all gates rest on, without the one for the pull request itself."""
    parts = [report, *report["earlier"]]
    gates = [gate for part in parts for gate in part["gates"] if gate["name"] != PULL_REQUEST]
    return digest(dumps(gates).encode(errors="replace"))[:_DIGEST_DIGITS]


def _duration(start: object, end: object) -> int | None:
    """Return the milliseconds between two times; ``None`` if one is not known."""
    if not isinstance(start, str) or not isinstance(end, str):
        return None
    start_ms, end_ms = epoch_ms(start), epoch_ms(end)
    return None if start_ms is None or end_ms is None else max(0, end_ms - start_ms)


def _work(state: Workflow, session: Session) -> Fields:
    """Return what was done for a subject, or for one feature of a folder."""
    is_in_folder = feature_position(state)[1] > 0
    feature = state["context"].get("feature_file") if is_in_folder else None
    return {
        "title": state["title"] or state["subject"],
        "feature": feature,
        "phases": [_phase(phase) for phase in state["phases"]],
        "tasks": [_task(state, task) for task in state["tasks"]],
        "commits": _commits(state, session),
        "gates": [_gate(state, name) for name in state["gates"]],
        "tests": {key: value for key, value in state["tests"].items() if key != "failure"},
        "overruled": overruled_by_kind(state, state.get("skipped", {})),
    }


def _phase(phase: Json) -> Fields:
    names = ("name", "status", "started_at", "completed_at", "approved", "claimed", "reason")
    fields = {name: phase.get(name) for name in (*names, "forced")}
    return {**fields, "duration_ms": _duration(phase.get("started_at"), phase.get("completed_at"))}


def _task(state: Workflow, task: Task) -> Fields:
    """Return a task. ``tests`` is None if its recipe asks for none, or it is not done."""
    asks = bool(state["recipe"].get("task_needs")) and task["status"] == "completed"
    return {
        "id": task["id"],
        "description": task["description"],
        "status": task["status"],
        "commits": commits_of(task),
        "tests": ("not seen" if is_untested(state, task) else "seen") if asks else None,
        "claimed": bool(task.get("claimed")),
        "reason": task.get("reason"),
        "iterations": task.get("iterations_used"),
        "verification": task.get("verification_run"),
        "duration_ms": _duration(task.get("started_at"), task.get("completed_at")),
    }


def _gate(state: Workflow, name: str) -> Fields:
    """Return a gate: its ``result``, and what that rests on."""
    gate = state["gates"][name]
    rests_on = gate.get("evidence") if gate.get("evidence") in (RUN, CLAIM, CHECK) else None
    free = {key: value for key, value in gate.items() if key not in (*OWN_GATE_FIELDS, "timeout")}
    return {
        "name": name,
        "result": _result(state, name),
        "rests_on": WAIVED if gate.get("status") == WAIVED else rests_on,
        "takes": evidence_of(state, name),
        "at": settled_at(gate) or None,
        **{key: gate[key] for key in _OF_GATE if gate.get(key) is not None},
        "fields": free,
        "claimed_fields": list(gate.get("claimed", ())),
    }


def _result(state: Workflow, name: str) -> str:
    """Return the result of a gate; one that was stale at the end by force stays so."""
    gate = state["gates"][name]
    if gate.get("status") in (WAIVED, STALE):
        return str(gate["status"])
    if is_passed(state, name):
        was_stale = name in state.get("skipped", {}).get("gates", ())
        return STALE if was_stale else PASSED
    return FAILED if has_failed(gate) else PENDING


def _commits(state: Workflow, session: Session) -> list[Fields]:
    """Return the commits of the tasks, the phases and the branch, oldest first where git tells.

    One that git does not have has no subject, unless the workflow recorded it.
    """
    recorded = dict(line.partition(": ")[::2] for line in state["commits"])
    tasks: dict[str, list[int | str]] = {}
    for task in state["tasks"]:
        for commit in commits_of(task):
            tasks.setdefault(commit, []).append(task["id"])
    root, branch = session.workspace.root, state["branch"]
    has_branch = has_git(state) and session.workspace.git is not None and branch is not None
    made = []
    if has_branch and "base" in state:
        made = git.commits_between(root, state["base"], f"refs/heads/{branch}", _MAX_COMMITS)
    named = [*dict.fromkeys([*recorded, *tasks])]
    of_branch = dict(made)
    others = [commit for commit in named if commit not in of_branch]
    subjects = {**recorded, **git.subjects(root, others), **of_branch}
    return [
        {"commit": commit, "subject": subjects.get(commit), "tasks": tasks.get(commit, [])}
        for commit in [*others, *of_branch]
    ]


def _left(session: Session, state: Workflow) -> Fields:
    """Return what is pending, by kind; of a completed workflow, what was passed over by force."""
    if state["status"] == "completed":
        return dict(state.get("skipped", {}))
    is_here = is_active(state) and state["worktree"] == session.workspace.name
    return pending(state, session.facts.of_git(state) if is_here else None)


def _questions(state: Workflow) -> list[Fields]:
    """Return what people were asked, and what they answered."""
    names = ("id", "text", "choices", "blocking", "status", "asked_at", "answer", "answered_at")
    asked = [question for question in state.get("questions", ()) if question["status"] != WITHDRAWN]
    return [{name: question.get(name) for name in names} for question in asked]


def _pull_request(state: Workflow) -> Fields | None:
    """Return what is known of the pull request; ``None`` if there is neither one nor its gate.

    ``is_shown`` is true if Holdfast looked it up. ``phase`` is the one that has the gate.
    """
    gate = state["gates"].get(PULL_REQUEST)
    source = state["context"] if gate is None else gate
    if gate is None and "pr_url" not in source:
        return None
    phases = [p["name"] for p in state["phases"] if PULL_REQUEST in gates_of(state, p["name"])]
    claimed = source.get("claimed", ())
    is_shown = gate is not None and gate.get("evidence") == CHECK and "pr_url" not in claimed
    return {
        "number": source.get("pr_number"),
        "url": source.get("pr_url"),
        "is_shown": is_shown,
        "phase": phases[0] if phases and find_phase(state, phases[0]) else None,
    }


class _Story:
    """What only the events tell: who did how much, and what was found on the way."""

    def __init__(self, session: Session) -> None:
        hub = settings_of(session.store)
        self._machine = None if hub is None else str(hub["name"])
        self._who: dict[tuple[str | None, str, str | None], Fields] = {}
        self._violations: dict[str, Fields] = {}
        self.test_runs = {"passed": 0, "failed": 0}
        self._forced: dict[int, Fields] = {}
        """What was done by force, by the seq of its event."""
        self.edits = 0
        """The number of edits of the record that were adopted."""
        self.features: list[int] = []
        """The seqs of the events that completed a feature of a folder."""
        self.ended_at: str | None = None
        self.seq = self.events = 0

    def read(self, event: Event) -> None:
        self.seq, kind, data = event["seq"], event["type"], event["data"]
        self.events += 1
        if kind in _ENDS:
            self.ended_at = event["at"]
        elif kind == "feature_completed":
            self.features.append(event["seq"])
        elif kind == "tests_recorded" and data["tests"].get("evidence") == RUN:
            result = data["tests"].get("last_result")
            if result in self.test_runs:
                self.test_runs[result] += 1
        elif kind in ("task_completed", "task_phase_started") and data.get("reason"):
            row = {"task": data["task"], "phase": data.get("phase"), "reason": data["reason"]}
            self._forced[event["seq"]] = {**row, "at": event["at"]}
        elif kind == "change_undone":
            self._forget(data.get("undoes", ()))
        elif kind == "record_edited":
            self.edits += 1
        elif kind == "violation_found":
            self._violations[data["code"]] = {**data, "cleared_at": None}
        elif kind == "violation_cleared" and data["code"] in self._violations:
            self._violations[data["code"]]["cleared_at"] = event["at"]
        self._count(event)

    def _forget(self, undone: Sequence[int]) -> None:
        """Leave out what the undone events told."""
        self._forced = {seq: row for seq, row in self._forced.items() if seq not in undone}
        self.features = [seq for seq in self.features if seq not in undone]

    @property
    def forced(self) -> list[Fields]:
        """Return the tasks, and phases of tasks, that were done by force, with the reasons."""
        return list(self._forced.values())

    def _count(self, event: Event) -> None:
        if event["type"] == MERGED:
            for shared in inside_of(event):
                cause = shared["cause"]
                name = str(cause["by"].get("name") or shared["replica"])
                self._add(name, str(cause["by"].get("surface", "")), None, cause["at"])
        elif event["type"] not in _NO_WORK:
            by = event["by"]
            self._add(self._machine, str(by.get("surface", "")), by.get("session"), event["at"])

    def _add(self, machine: str | None, surface: str, session: str | None, at: str) -> None:
        new: Fields = {"machine": machine, "surface": surface, "session": session}
        new |= {"changes": 0, "first_at": at}
        row = self._who.setdefault((machine, surface, session), new)
        row["changes"] += 1
        row["last_at"] = at

    def who(self) -> list[Fields]:
        return list(self._who.values())

    def violations(self, state: Workflow) -> list[Fields]:
        """Return what reviews found, cleared or not; an edit or a merge may have brought some."""
        known = {violation["code"]: {**violation} for violation in state["violations"]}
        found = {code: {**fields, "cleared_at": None} for code, fields in known.items()}
        return list({**self._violations, **found}.values())
