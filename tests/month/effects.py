"""A workflow as the model has it, and what each command does to it, if it was recorded."""

from holdfast.workspace import recipes

ACTIVE = ("in_progress", "blocked")
MOST_ITERATIONS = 5


class Wrong(AssertionError):
    """Something is not as it must be."""


def must(holds, *why):
    if not holds:
        raise Wrong(" ".join(map(str, why)))


class Flow:
    """A workflow as the model has it."""

    def __init__(self, name, recipe):
        told = recipes.load(recipe)
        self.id, self.recipe, self.format = name, recipe, told["format"]
        listed = [phase["name"] for phase in told["phases"]]
        following = dict(zip(listed, [*listed[1:], None], strict=True))
        self.may_follow = {
            phase["name"]: phase.get("next") or [following[phase["name"]]]
            for phase in told["phases"]
        }
        self.following = {name: names[0] for name, names in self.may_follow.items()}
        self.cycles_at = told.get("cycles_at")
        self.needs = {phase["name"]: phase.get("needs", []) for phase in told["phases"]}
        self.has_task_phases = "task_phases" in told
        self.takes = {name: gate.get("evidence") for name, gate in told.get("gates", {}).items()}
        steps = {step: p["name"] for p in told["phases"] for step in p.get("steps", [])}
        self.phase_of_gate = {name: steps.get(name, listed[-1]) for name in self.takes}
        self.approved = set()
        self.phases = dict.fromkeys(listed, "pending")
        self.phase = listed[0]
        self.phases[self.phase] = "in_progress"
        self.status, self.ttl = "in_progress", told.get("ttl")
        self.tasks, self.reminders, self.reading, self.context = {}, [], [], {}
        self.gates = {name: gate["status"] for name, gate in told.get("gates", {}).items()}
        self.guardrails, self.iterations = 0, {}
        self.session, self.bound_at, self.worktree = None, 0, ""
        self.at_ms = 0

    @property
    def is_active(self):
        return self.status in ACTIVE

    @property
    def current_task(self):
        moving = [task for task, status in self.tasks.items() if status == "in_progress"]
        return moving[0] if len(moving) == 1 else None

    @property
    def lacks(self):
        """What the current phase still asks for, as far as a month knows.

        Nobody runs a test or makes a commit in it; of the branch it does not know.
        """
        return [need for need in self.needs[self.phase] if need != "branch" and self._lacks(need)]

    def _lacks(self, need):
        if need == "approval":
            return self.phase not in self.approved
        if need == "tasks":
            is_none = self.has_task_phases and not self.tasks
            return is_none or not set(self.tasks.values()) <= {"completed"}
        if need == "gates":
            return any(not self.is_passed(gate) for gate in self.gates_of(self.phase))
        return True

    def gates_of(self, phase):
        return [gate for gate in self.gates if self.phase_of_gate[gate] == phase]

    def is_passed(self, gate):
        """Nobody runs a gate in a month, so one that takes a run is waived or not passed."""
        result = self.gates[gate]
        return result == "waived" or (result == "passed" and self.takes[gate] == "claim")

    def leave(self, kinds):
        """Leave the phase, as the events say: completed if it lacks nothing, else skipped."""
        is_skipped = "phase_skipped" in kinds
        must(is_skipped != ("phase_completed" in kinds), f"{self.phase} is left by {kinds}")
        must(is_skipped or not self.lacks, f"{self.phase} lacks {self.lacks}")
        self.phases[self.phase] = "skipped" if is_skipped else "completed"
        if is_skipped:
            self.status = "in_progress"

    def enter(self, name):
        self.phase = name
        self.phases[name] = "in_progress"

    def as_told(self):
        return {
            "status": self.status,
            "phase": self.phase,
            "phases": self.phases,
            "tasks": self.tasks,
            "reminders": self.reminders,
            "required_reading": self.reading,
            "gates": self.gates,
        }


def _started(model, flow, sent, commit):
    event = commit[0]
    if event["type"] == "workflow_resumed":
        must(flow is not None and flow.is_active, "it was not active")
        bound(model, flow, sent, commit)
        return
    must(flow is None or not flow.is_active, "it was active already")
    is_loop = sent.command == "loop new"
    flow = Flow(event["stream"], "loop-development" if is_loop else sent.words[1])
    model.flows[flow.id] = flow
    mark = "T" if flow.format == "loop" else ""
    for number, _ in enumerate(sent.option("--task"), 1):
        flow.tasks[f"{mark}{number}"] = "pending"
    flow.reading += sent.option("--read")
    flow.reminders += sent.option("--remind")
    flow.worktree = event["data"]["worktree"]
    bound(model, flow, sent, commit)


def bound(_model, flow, sent, commit):
    session = commit[0]["data"].get("session")
    if session:
        must(session["id"] in sent.agent.sessions, "another session")
        flow.session, flow.bound_at = session["id"], commit[0]["seq"]


def _resumed(model, flow, sent, commit):
    bound(model, flow, sent, commit)
    flow.worktree = commit[0]["data"].get("worktree", flow.worktree)
    if not flow.is_active:
        is_blocked = flow.phases.get(flow.phase) == "blocked"
        flow.status = "blocked" if is_blocked else "in_progress"


def _advanced(_model, flow, sent, commit):
    must(flow.phases[flow.phase] == "in_progress", f"{flow.phase} is {flow.phases[flow.phase]}")
    kinds = [event["type"] for event in commit]
    is_forced = "--force" in sent.words
    must(is_forced or "phase_skipped" not in kinds, f"{flow.phase} is skipped without force")
    may_lack = flow.lacks or "branch" in flow.needs[flow.phase]
    must(may_lack or "phase_skipped" not in kinds, f"{flow.phase} lacks nothing, and is skipped")
    _move_on(flow, kinds)


def _skipped(_model, flow, sent, commit):
    must(flow.phase == sent.words[2], f"{sent.words[2]} is not current")
    must(flow.phases[flow.phase] in ACTIVE, f"{flow.phase} is {flow.phases[flow.phase]}")
    kinds = [event["type"] for event in commit]
    must("phase_skipped" in kinds, f"{flow.phase} is left by {kinds}")
    _move_on(flow, kinds)


def _move_on(flow, kinds):
    flow.leave(kinds)
    if flow.following[flow.phase] is not None:
        flow.enter(flow.following[flow.phase])


def _went_back(_model, flow, sent, commit):
    name = sent.words[2]
    if name in flow.may_follow[flow.phase]:
        if flow.phases[flow.phase] == "in_progress":
            flow.leave([event["type"] for event in commit])
        flow.enter(name)
        return
    listed = list(flow.phases)
    was_left = flow.phases[name] in ("completed", "skipped")
    again = listed if flow.cycles_at == name and was_left else None
    for phase in again or listed[listed.index(name) :]:
        flow.phases[phase] = "pending"
        flow.approved.discard(phase)
    flow.enter(name)


def _phase_is(status, now):
    def applied(_model, flow, sent, _commit):
        must(flow.phases[sent.words[2]] == status, f"{sent.words[2]} was not {status}")
        flow.phases[sent.words[2]] = flow.status = now

    return applied


def _approved(_model, flow, sent, _commit):
    flow.approved.add(sent.words[2])


def _task_added(_model, flow, _sent, commit):
    name = next(str(event["data"]["task"]) for event in commit if "task" in event["data"])
    must(name not in flow.tasks, f"there was a task {name}")
    flow.tasks[name] = "pending"


def _unit_planned(_model, flow, _sent, commit):
    name = next(str(event["data"]["task"]) for event in commit if "task" in event["data"])
    flow.tasks.setdefault(name, "pending")


def _task_is(now, *before):
    def applied(_model, flow, sent, _commit):
        name = sent.words[2]
        must(flow.tasks.get(name) in before, f"task {name} was {flow.tasks.get(name)}")
        flow.tasks[name] = now

    return applied


def _unit_iterated(_model, flow, sent, commit):
    name = sent.words[2]
    must(flow.tasks.get(name) in ("pending", "in_progress"), f"unit {name}: {flow.tasks}")
    flow.iterations[name] = flow.iterations.get(name, 0) + 1
    flow.tasks[name] = "confirming" if sent.option("--signal") else "in_progress"
    if flow.iterations[name] > MOST_ITERATIONS:
        flow.tasks[name] = "timeout"
    kinds = [event["type"] for event in commit]
    must(("task_timed_out" in kinds) == (flow.tasks[name] == "timeout"), f"unit {name}: {kinds}")


def _ended(status):
    def applied(_model, flow, _sent, commit):
        # A phase that lacks something is not completed by an end that was forced.
        if any(event["type"] == "phase_completed" for event in commit):
            must(not flow_has_pending(flow), f"{flow.phase} is completed, and something is pending")
            flow.phases[flow.phase] = "completed"
        flow.status = status

    return applied


def flow_has_pending(flow):
    """Whether anything stands between the workflow and its end."""
    left = flow.following[flow.phase] is not None
    is_open = set(flow.tasks.values()) - {"completed"}
    excused = [g for phase in flow.phases if flow.phases[phase] == "skipped"
               for g in flow.gates_of(phase)]  # fmt: skip
    gates = [gate for gate in flow.gates if gate not in excused and not flow.is_passed(gate)]
    lacks = flow.lacks or is_open or gates
    return left or lacks or flow.phases[flow.phase] != "in_progress"


def _archived(_model, flow, _sent, _commit):
    flow.status = "completed" if set(flow.tasks.values()) == {"completed"} else "abandoned"


def _listed(name, of):
    def applied(_model, flow, sent, _commit):
        getattr(flow, name).append(of(sent))

    return applied


def _context(_model, flow, sent, _commit):
    key, _, value = sent.words[1].partition("=")
    flow.context[key] = value


def _gate(_model, flow, sent, _commit):
    gate, passed = sent.words[2], "--passed" in sent.words
    must(not passed or flow.takes[gate] == "claim", f"{gate} takes a {flow.takes[gate]}")
    flow.gates[gate] = "passed" if passed else "failed"


def _waived(_model, flow, sent, _commit):
    flow.gates[sent.words[2]] = "waived"


def _guardrail(_model, flow, _sent, _commit):
    flow.guardrails += 1


def _nothing_we_keep(_model, _flow, _sent, _commit):
    """It is enough that it is in history once."""


APPLIED = {
    "start": _started,
    "loop new": _started,
    "resume": _resumed,
    "advance": _advanced,
    "phase start": _went_back,
    "phase block": _phase_is("in_progress", "blocked"),
    "phase unblock": _phase_is("blocked", "in_progress"),
    "phase approve": _approved,
    "phase skip": _skipped,
    "step": _nothing_we_keep,
    "task add": _task_added,
    "task start": _task_is(
        "in_progress", "pending", "blocked", "confirming", "verifying", "timeout"
    ),
    "task phase": _task_is("in_progress", "pending", "blocked", "in_progress"),
    "task done": _task_is("completed", "pending", "in_progress"),
    "task block": _task_is(
        "blocked", "pending", "in_progress", "blocked", "confirming", "verifying", "timeout"
    ),
    "remind": _listed("reminders", lambda sent: sent.words[1]),
    "read": _listed("reading", lambda sent: sent.words[1]),
    "set": _context,
    "gate record": _gate,
    "gate waive": _waived,
    "violation add": _nothing_we_keep,
    "violation clear": _nothing_we_keep,
    "tests record": _nothing_we_keep,
    "complete": _ended("completed"),
    "abandon": _ended("abandoned"),
    "loop plan": _unit_planned,
    "loop iterate": _unit_iterated,
    "loop confirm": _task_is("verifying", "confirming"),
    "loop verify": _task_is("completed", "verifying"),
    "loop guardrail": _guardrail,
    "loop archive": _archived,
}
