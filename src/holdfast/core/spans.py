"""What happened to a workflow, as the spans that OpenTelemetry knows. Pure.

    workflow                  from its start to its end; a workflow that is resumed begins another
      phase                   from its start to its completion
        task                  likewise; the units of a loop stand below the workflow itself
          tests, iteration    a run, and what became of it
        gate

A ``SpanFold`` reads the events of one workflow in order and returns each span when it has ended.
Ids are digests of the ledger's identity and the event that begins a span, so whoever reads the same
events again gets the same spans, and a span can name its parent before that has ended. Times are
those at which the ledger recorded something.

A workflow that was started within a trace (``core.trace_parent``) joins it. What belongs to
another trace, such as the next session's, is linked.
"""

from __future__ import annotations

from holdfast.core import trace_parent
from holdfast.core.diff import MERGED
from holdfast.core.json_text import digest, dumps
from holdfast.core.time import epoch_ms
from holdfast.core.trace_parent import BY_TRACE
from holdfast.core.workflow import is_active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.trace_parent import TraceParent
    from holdfast.core.types import Event, Fields, Json, Phase, Task, Workflow

MAX_POINTS = 128
"""The maximum number of points, and of links, of one span."""
_PREFIX = "holdfast"
"""What the names of all attributes begin with."""
_OPEN_PHASE = ("in_progress", "blocked")
_OPEN_TASK = ("in_progress", "confirming", "verifying")
_HALTED_TASK = ("blocked", "timeout")
_DONE = ("completed", "skipped")
_OF_RUN = (
    "command", "exit_code", "signal", "timed_out", "cancelled", "no_test", "commit", "tree",
    "reason", "instead_of", "pushed_to", "runner", "counts", "last_result",
)  # fmt: skip
"""Fields of a run that its span has. Its output is not among them."""
_OF_UNIT = ("did", "remaining", "blockers", "commit", "signal", "clean", "found")
_POINTS = {
    "phase_approved": ("phase",),
    "phase_blocked": ("phase", "reason"),
    "phase_unblocked": ("phase",),
    "phase_skipped": ("phase", "reason"),
    "task_blocked": ("task", "reason"),
    "task_unblocked": ("task",),
    "gate_waived": ("gate", "reason"),
    "violation_found": ("code", "severity", "details"),
    "violation_cleared": ("code",),
    "question_asked": ("question", "text"),
    "question_answered": ("question", "answer"),
    "context_compacted": ("trigger",),
    "session_ended": ("reason",),
    "record_edited": (),
    "change_undone": ("what",),
}
"""Events that are points on a span, and the fields that they keep."""
_BOUND = "workflow_resumed"
"""What comes with a session's first change, and so at the end of its first iteration."""


class Span:
    """A stretch of time with a name. ``end_ms`` is None until it has ended."""

    __slots__ = (
        "attributes", "end_ms", "error", "id", "links", "name", "parent", "points", "start_ms",
        "trace",
    )  # fmt: skip

    def __init__(self, name: str, trace: str, own_id: str, parent: str, start_ms: int) -> None:
        self.name = name
        self.trace = trace
        self.id = own_id
        self.parent = parent
        """The id of the span above; empty for the first of a trace."""
        self.start_ms = start_ms
        self.end_ms: int | None = None
        self.attributes: Fields = {}
        self.points: list[tuple[str, int, Fields]] = []
        """Name, time and attributes of what happened meanwhile."""
        self.links: list[tuple[str, str]] = []
        """Trace and id of other spans that belong to it."""
        self.error: str | None = None
        """Why it failed."""


class SpanFold:
    """The spans of one workflow, as far as its events have been read."""

    def __init__(self, ledger: str, stream: str) -> None:
        self._ledger = ledger
        self._stream = stream
        self._workflow: Span | None = None
        self._phases: dict[str, Span] = {}
        self._tasks: dict[str, Span] = {}
        self._traces: set[str] = set()
        """The traces that the workflow joined or has a link to."""
        self._last: Span | None = None
        """The span of the workflow before it was resumed."""
        self._at = self._earlier = 0
        """The time of the last event, and the one before it at which something was recorded."""

    def read(self, event: Event, before: Workflow | None, after: Workflow) -> list[Span]:
        """Return the spans that an event ends, given the states before and after it."""
        at = epoch_ms(event["at"]) or self._at
        if self._workflow is None:
            if not is_active(after):
                return []
            self._begin(event, after, at)
            before = None
        if at != self._at and event["type"] != _BOUND:
            self._earlier, self._at = self._at, at
        self._link(event)
        self._add_point(event, after, at)
        ended = self._phases_after(event, before, after, at)
        known = dict(self._tasks)
        ended += self._tasks_after(event, before, after, at)
        ended += self._runs_of(event, after, {**known, **self._tasks}, at)
        if not is_active(after):
            ended += self._end_all(after, at)
        return ended

    @property
    def is_open(self) -> bool:
        """Return whether the workflow has begun and not ended."""
        return self._workflow is not None

    # The workflow

    def _begin(self, event: Event, state: Workflow, at: int) -> None:
        parent, last = _parent_of(event), self._last
        joined = parent if parent is not None and parent.is_sampled else None
        trace = self._id("trace", event) if joined is None else joined.trace
        name = f"workflow {state['recipe']['name']}"
        span = Span(name, trace, self._id("workflow", event)[:16], "", at)
        if joined is not None:
            span.parent = joined.span
        elif last is not None:
            span.trace, span.parent = last.trace, last.parent
        if last is not None:
            span.links.append((last.trace, last.id))
        span.attributes = {
            **_attributes({"workflow": self._stream, "resumed": last is not None}),
            **_caller(event),
        }
        self._traces = {span.trace}
        self._workflow = span
        self._at = self._earlier = at

    def _end_all(self, state: Workflow, at: int) -> list[Span]:
        assert self._workflow is not None
        unfinished = [*self._tasks.values(), *self._phases.values()]
        ended = [_ended(span, at, {"status": "left"}) for span in unfinished]
        values: Fields = {name: state.get(name) for name in ("status", "outcome", "reason")}
        values |= {"recipe": state["recipe"]["name"], "title": state["title"] or state["subject"]}
        values |= {"subject": state["subject"], "branch": state["branch"]}
        ended.append(_ended(self._workflow, at, values))
        self._last, self._workflow = self._workflow, None
        self._phases, self._tasks = {}, {}
        return ended

    def _link(self, event: Event) -> None:
        """Link the trace of an event, at its first event within it."""
        parent = _parent_of(event)
        if parent is None or self._workflow is None or parent.trace in self._traces:
            return
        self._traces.add(parent.trace)
        if len(self._workflow.links) < MAX_POINTS:
            self._workflow.links.append((parent.trace, parent.span))

    def _add_point(self, event: Event, state: Workflow, at: int) -> None:
        names = _POINTS.get(event["type"])
        if names is None:
            return
        data = event["data"]
        of_task = self._tasks.get(str(data["task"])) if "task" in data else None
        span = of_task or self._phases.get(str(data.get("phase") or state["phase"]))
        span = span or self._workflow
        assert span is not None
        if len(span.points) < MAX_POINTS:
            values = _attributes({name: data.get(name) for name in names})
            span.points.append((event["type"], at, values))

    # Phases and tasks

    def _phases_after(
        self, event: Event, before: Workflow | None, after: Workflow, at: int
    ) -> list[Span]:
        if before is not None and before["phases"] is after["phases"]:
            return []
        was = {phase["name"]: phase for phase in before["phases"]} if before is not None else {}
        again = event["data"].get("phase") if event["type"] == "phase_started" else None
        removed = self._phases.keys() - {phase["name"] for phase in after["phases"]}
        gone = [self._phases.pop(name) for name in sorted(removed)]
        ended = [_ended(span, at, {"status": "removed"}) for span in gone]
        for phase in after["phases"]:
            name, is_open = phase["name"], phase["status"] in _OPEN_PHASE
            span = self._phases.get(name)
            if span is not None and (not is_open or name == again):
                status = phase["status"] if not is_open else "restarted"
                ended.append(_ended(self._phases.pop(name), at, {**phase, "status": status}))
                span = None
            elif not is_open and span is None and _is_newly_done(was.get(name), phase):
                ended.append(_ended(self._new_phase(event, phase, at), at, phase))
            if is_open and span is None:
                self._phases[name] = self._new_phase(event, phase, at)
        return ended

    def _new_phase(self, event: Event, phase: Phase, at: int) -> Span:
        assert self._workflow is not None
        span = self._below(self._workflow, f"phase {phase['name']}", event, at)
        span.attributes |= _attributes({"phase": phase["name"]})
        return span

    def _tasks_after(
        self, event: Event, before: Workflow | None, after: Workflow, at: int
    ) -> list[Span]:
        if before is not None and before["tasks"] is after["tasks"]:
            return []
        was = {str(task["id"]): task for task in before["tasks"]} if before is not None else {}
        ended = []
        removed = set(self._tasks)
        for task in after["tasks"]:
            name, status = str(task["id"]), task["status"]
            removed.discard(name)
            if was.get(name) is task:
                continue
            span = self._tasks.get(name)
            is_open = status in _OPEN_TASK or (span is not None and status in _HALTED_TASK)
            if span is not None and not is_open:
                ended.append(_ended(self._tasks.pop(name), at, _of_task(task)))
            elif span is None and not is_open and _is_newly_done(was.get(name), task):
                ended.append(_ended(self._new_task(event, task, after, at), at, _of_task(task)))
            elif span is None and is_open:
                self._tasks[name] = self._new_task(event, task, after, at)
        gone = [self._tasks.pop(name) for name in sorted(removed)]
        return ended + [_ended(span, at, {"status": "removed"}) for span in gone]

    def _new_task(self, event: Event, task: Task, state: Workflow, at: int) -> Span:
        assert self._workflow is not None
        is_unit = state["recipe"]["format"] == "loop"
        above = None if is_unit else self._phases.get(str(state["phase"]))
        # A unit begins with its first iteration, which is recorded when it is over.
        begun = min(self._earlier, at) if is_unit and event["type"] in _ITERATIONS else at
        kind = "unit" if is_unit else "task"
        span = self._below(above or self._workflow, f"{kind} {task['id']}", event, begun)
        span.attributes |= _attributes({"task": str(task["id"]), "text": task["description"]})
        return span

    # Runs

    def _runs_of(
        self, event: Event, state: Workflow, tasks: dict[str, Span], at: int
    ) -> list[Span]:
        """Return the span of what an event recorded: a gate, a test run, or an iteration.

        ``tasks`` are the spans of the tasks that were open before the event or are open after it.
        """
        kind = event["type"]
        if kind == "gate_recorded":
            return [self._gate(event, state, at)]
        if kind == "tests_recorded":
            return [self._tests(event, state, at)]
        if kind in _ITERATIONS:
            return [self._pass(event, tasks.get(str(event["data"]["task"])), at)]
        return []

    def _gate(self, event: Event, state: Workflow, at: int) -> Span:
        data, fields = event["data"], event["data"].get("fields", {})
        above = self._phases.get(str(state["phase"]))
        span = self._run(event, above, f"gate {data['gate']}", fields, at)
        result = {"gate": data["gate"], "passed": data["passed"]}
        result |= {"evidence": data.get("evidence", "claim"), "claimed": fields.get("claimed")}
        span.attributes |= _attributes(result)
        if not data["passed"]:
            span.error = f"the gate {data['gate']} failed"
        return span

    def _tests(self, event: Event, state: Workflow, at: int) -> Span:
        tests = event["data"]["tests"]
        above = self._tasks.get(str(state.get("current_task")))
        above = above or self._phases.get(str(state["phase"]))
        fields = {**tests, "command": tests.get("test_command")}
        span = self._run(event, above, "tests", fields, at)
        has_failed, is_wanted = tests.get("last_result") == "failed", bool(tests.get("failure"))
        result = {"passed": not has_failed, "expected_failure": is_wanted}
        span.attributes |= _attributes({**result, "evidence": tests.get("evidence", "claim")})
        if has_failed and not is_wanted:
            span.error = "the tests failed"
        return span

    def _pass(self, event: Event, unit: Span | None, at: int) -> Span:
        """Return the span of an iteration, a confirmation or a verification of a unit."""
        assert self._workflow is not None
        kind, data = event["type"], event["data"]
        name = _ITERATIONS[kind]
        if "iteration" in data:
            name = f"{name} {data['iteration']}"
        span = self._below(unit or self._workflow, name, event, min(self._earlier, at))
        report: Fields = {key: data.get(key) for key in ("iteration", *_OF_UNIT)}
        evidence = data.get("evidence")
        if isinstance(evidence, dict):
            report |= {key: evidence.get(key) for key in ("command", "exit_code")}
        span.attributes |= _attributes({"task": str(data["task"]), **report})
        if kind == "task_timed_out":
            span.error = "the unit has used all its iterations"
        elif data.get("clean") is False:
            span.error = f"{name} found something"
        return _ended(span, at, {})

    def _run(self, event: Event, above: Span | None, name: str, fields: Fields, at: int) -> Span:
        assert self._workflow is not None
        taken = fields.get("duration_ms")
        begun = at - taken if isinstance(taken, int) and 0 < taken < at else at
        span = self._below(above or self._workflow, name, event, begun)
        span.attributes |= _attributes({key: fields.get(key) for key in _OF_RUN})
        parent = _parent_of(event)
        if parent is not None:
            span.links.append((parent.trace, parent.span))
        return _ended(span, at, {})

    def _below(self, above: Span, name: str, event: Event, at: int) -> Span:
        span = Span(name, above.trace, self._id(name, event)[:16], above.id, at)
        span.attributes = {**_attributes({"workflow": self._stream}), **_caller(event)}
        return span

    def _id(self, name: str, event: Event) -> str:
        return digest(dumps([self._ledger, self._stream, event["id"], name]).encode())


_ITERATIONS = {
    "iteration_recorded": "iteration",
    "task_timed_out": "iteration",
    "confirmation_recorded": "confirmation",
    "verification_recorded": "verification",
}
"""Events of a unit that end a span, and its name."""


def _is_newly_done(before: Phase | Task | None, after: Phase | Task) -> bool:
    """Return whether a phase or task was done or skipped without having begun."""
    return before is not None and before["status"] not in _DONE and after["status"] in _DONE


def _of_task(task: Task) -> Fields:
    names = ("status", "commit", "reason", "claimed", "iterations_used")
    fields: Fields = {name: task.get(name) for name in names}
    return {**fields, "text": task["description"]}


def _ended(span: Span, at: int, values: Json) -> Span:
    """End a span, with the attributes that it has at its end."""
    names = (
        "status", "outcome", "reason", "recipe", "title", "subject", "branch", "commit", "claimed",
        "approved", "forced", "iterations_used", "text",
    )  # fmt: skip
    span.end_ms = max(at, span.start_ms)
    span.attributes |= _attributes({name: values.get(name) for name in names})
    return span


def _parent_of(event: Event) -> TraceParent | None:
    return trace_parent.parse(event["by"].get(BY_TRACE))


def _caller(event: Event) -> Fields:
    by = event["by"]
    surface = "other machines" if event["type"] == MERGED else by.get("surface")
    return _attributes({"surface": surface, "session": by.get("session")})


def _attributes(values: Fields) -> Fields:
    """Return values under their full names, each as a text, a number or a truth value."""
    return {
        f"{_PREFIX}.{name}": _plain(value)
        for name, value in values.items()
        if value not in (None, "", [], {})
    }


def _plain(value: Json) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)
    return value if isinstance(value, str) else dumps(value)
