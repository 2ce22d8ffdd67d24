"""The types of everything that flows through Holdfast, for the type checker alone.

No module imports this one at run time (``tests/test_style.py`` checks it). State, events and
commands are plain dictionaries: unknown fields survive, and starting costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003
from typing import Any, Literal, NotRequired, TypedDict

Json = Any
"""A value that JSON can hold."""

Fields = dict[str, Json]

WorkflowStatus = Literal["in_progress", "blocked", "completed", "abandoned", "expired"]
PhaseStatus = Literal["pending", "in_progress", "completed", "blocked", "skipped"]
TaskStatus = Literal[
    "pending", "in_progress", "confirming", "verifying", "completed", "blocked", "timeout"
]
Format = Literal["verb", "formal", "skill", "loop"]


class RecipePhase(TypedDict):
    """A phase as a recipe declares it."""

    name: str
    steps: NotRequired[list[str]]
    next: NotRequired[list[str]]
    """The phases that may follow; ``advance`` takes the first. Default: the next phase."""
    needs: NotRequired[list[str]]
    """What it takes to leave the phase, as in ``core.workflow.needs``."""
    approval: NotRequired[bool]
    """The same as ``approval`` in ``needs``, in recipes of earlier versions."""
    sets_branch: NotRequired[bool]
    """Its completion sets the workflow's branch to the current one."""
    shows_tests: NotRequired[bool]
    """Its fields ``tests_passing`` and ``last_error`` show the last test run."""


class Recipe(TypedDict):
    """The plan that a workflow is opened from; copied into its opening event."""

    name: str
    format: Format
    phases: list[RecipePhase]
    title: NotRequired[str]
    ttl: NotRequired[str]
    gates: NotRequired[dict[str, Fields]]
    """Gate name to the fields it starts with; ``evidence`` says what the gate takes."""
    task_phases: NotRequired[list[str]]
    task_needs: NotRequired[dict[str, list[str]]]
    """Phase of a task to what it takes to leave it: ``tests``, ``failure``."""
    cycles_at: NotRequired[str]
    """Starting this phase again begins the next cycle: every phase is pending again."""
    subject_key: NotRequired[str]
    """The field of the record's ``context`` that holds the subject (skill format)."""
    context: NotRequired[Fields]
    """The initial ``context``."""
    mode: NotRequired[str]
    """``development`` or ``knowledge`` (loop format)."""
    differs: NotRequired[str]
    """How it differs from the shipped recipe of the same name: another file, or own phases."""


class Phase(TypedDict):
    """A phase of a running workflow. It may have free fields of the user."""

    name: str
    status: PhaseStatus
    started_at: NotRequired[str]
    completed_at: NotRequired[str]
    approved: NotRequired[bool]
    claimed: NotRequired[bool]
    """True if an edit of the record completed it although it lacked something."""
    reason: NotRequired[str]
    """Why it is blocked, or was skipped."""
    forced: NotRequired[str]
    """The reason for entering it in spite of a blocking violation."""
    steps: NotRequired[list[str]]


class Task(TypedDict):
    """A task, or a unit of a loop. It may have free fields of the user."""

    id: int | str
    description: str
    status: TaskStatus
    base: NotRequired[str]
    """The commit that was checked out when it was started."""
    commit: NotRequired[str | None]
    """The newest of its commits."""
    commits: NotRequired[list[str]]
    """All of them, oldest first, if there are several."""
    reason: NotRequired[str]
    phases: NotRequired[dict[str, str]]
    depends: NotRequired[list[int | str]]
    started_at: NotRequired[str]
    completed_at: NotRequired[str]
    iterations_used: NotRequired[int]
    confirmations_used: NotRequired[int]
    verification_passed: NotRequired[bool]
    claimed: NotRequired[bool]
    """True if an edit of the record completed it or one of its phases."""
    verification_run: NotRequired[Fields]
    """``command`` and ``exit_code`` of the last run that verified a unit."""
    max_iterations: NotRequired[int]
    criteria: NotRequired[str]
    output: NotRequired[str]
    model: NotRequired[str]
    verify: NotRequired[str]
    remaining: NotRequired[str]
    blockers: NotRequired[str]


class Binding(TypedDict):
    """The session that holds a workflow."""

    id: str
    pid: NotRequired[int]
    """The client's process, if the client reports it."""
    born: NotRequired[int]
    """When that process started, because pids are reused."""
    at: str
    seq: NotRequired[int]
    """The event that bound it: the order of bindings does not depend on a clock."""


class Violation(TypedDict):
    code: str
    severity: str
    details: str
    blocking: NotRequired[bool]
    """True if the record says that it blocks, whatever its severity."""


class Question(TypedDict):
    """A question to people, and its answer."""

    id: int
    text: str
    choices: list[str]
    blocking: bool
    """True if the whole phase waits for the answer."""
    asked_at: str
    by: Fields
    """The ``surface`` and the ``session`` that asked."""
    status: str
    """``open``, ``answered`` or ``withdrawn``."""
    answer: NotRequired[str]
    answered_at: NotRequired[str]
    answered_by: NotRequired[Fields]


class Workflow(TypedDict):
    """The one aggregate behind all four record formats."""

    id: str
    recipe: Recipe
    subject: str
    title: str
    status: WorkflowStatus
    created_at: str
    updated_at: str
    adopted_at: NotRequired[str]
    """When its record was adopted, if it was active before that: its time to live begins then."""
    completed_at: NotRequired[str]
    outcome: NotRequired[str]
    reason: NotRequired[str]
    skipped: NotRequired[Fields]
    """What was pending when it was completed by force, by kind."""
    cleaned_at: NotRequired[str]
    """When the record of an ended workflow was removed."""
    branch: str | None
    base: NotRequired[str]
    """The commit that was checked out when it began, in a git repository."""
    initiative: NotRequired[Fields]
    """``name`` and ``milestone`` of the initiative it belongs to."""
    labels: NotRequired[list[str]]
    """Words by which agents choose their work from the pool."""
    after: NotRequired[list[str]]
    """The ids of the workflows that have to be completed before it is taken from the pool."""
    worktree: str
    """``.`` is the main worktree; a linked one has its name in git; ``@NAME`` is a machine."""
    record: str
    """The path of its L1 record from the worktree's root."""
    notes_file: NotRequired[str]
    """The path of the agent's notes that it was adopted from."""
    conflicts: NotRequired[list[Fields]]
    """Commands of several machines that do not go together, until they are settled."""
    session: Binding | None
    ttl: str | None
    phase: str | None
    """The current phase's name; ``None`` before the first and after the last."""
    step: str | None
    cycle: int
    phases: list[Phase]
    tasks: list[Task]
    current_task: NotRequired[int | str | None]
    last_task: NotRequired[int]
    """The greatest number of a removed task, which no later task gets."""
    removed_tasks: NotRequired[list[str]]
    """The ids of the tasks that were removed before they were done."""
    gates: dict[str, Fields]
    violations: list[Violation]
    required_reading: list[str]
    read: dict[str, str]
    """Required reading that was read since the last compaction, with the time."""
    reminders: list[str]
    questions: NotRequired[list[Question]]
    """What was asked of people, the newest 100; all of them are in the ledger."""
    context: Fields
    archived_from: NotRequired[str]
    """The former path of an archived loop's record."""
    guardrails: NotRequired[list[Fields]]
    """Lessons of a loop, shown in every iteration."""
    tests: Fields
    files: list[Fields]
    commits: list[str]
    history: list[Fields]
    """The newest 50 entries; all of them are in the ledger."""
    history_earlier: int
    extra: Fields
    """Fields of the record that Holdfast does not know, at their paths in the record."""


class Draft(TypedDict):
    """An event that the core decided on, before the ledger numbers it."""

    type: str
    data: Fields


class Event(TypedDict):
    """An event in the ledger."""

    seq: int
    id: str
    at: str
    stream: str
    version: int
    v: int
    type: str
    data: Fields
    by: Fields
    part: NotRequired[list[int]]
    """``[k, n]``: the k-th of n events that were committed together."""
    prev: str
    hash: str


class Cause(TypedDict):
    """The command behind a shared event, without anything that only its machine knows."""

    id: str
    """The id of the request: that of its first event in the ledger."""
    at: str
    type: str
    args: Fields
    by: Fields
    """The ``name`` of the replica, and the ``surface``."""


class SharedEvent(TypedDict):
    """A command that was carried out, as it travels between replicas (``core.sharing``)."""

    replica: str
    """The ledger it was carried out on."""
    n: int
    """Its number among the shared events of that replica, from 1 and without gaps."""
    lamport: int
    """One more than the highest that its replica knew."""
    seen: dict[str, int]
    """The highest ``n`` that its replica knew of each replica."""
    rules: int
    """The version of the core that decided it."""
    stream: str
    cause: Cause
    epoch: NotRequired[int]
    """The lease under which it was made."""
    fenced: NotRequired[bool]
    """True if the lease had been lost by then, as the hub found."""
    renamed: NotRequired[bool]
    """True if it was made under a number that the hub has given to another event."""


class Command(TypedDict):
    """A request to the core; ``args`` depend on ``type``."""

    type: str
    at: str
    args: Fields


Change = list[Json]
"""``[path, was, now]`` of an adopted edit, as in ``core.diff``."""


class Origin(TypedDict):
    """The path and time at which a document was read, and what its parser may ask there."""

    at: str
    """The time of reading, for a document without a time."""
    path: str
    """From the worktree's root."""
    worktree: str
    recipe: Callable[[str], Recipe | None]
    """Returns the recipe of a name in this workspace."""


# The aggregates beside workflows

InitiativeStatus = Literal["created", "in_progress", "blocked", "completed", "archived"]
MilestoneStatus = Literal["pending", "in_progress", "blocked", "completed"]


class MilestoneTask(TypedDict):
    text: str
    done: bool


class Milestone(TypedDict):
    """A named outcome of an initiative."""

    id: str
    title: str
    status: MilestoneStatus
    started_at: NotRequired[str]
    """Set by ``start``; a milestone that merely comes next is in progress without it."""
    completed_at: NotRequired[str]
    forced: NotRequired[Fields]
    """If it was completed by force: the ``reason``, and its ``open`` tasks."""
    tasks: list[MilestoneTask]


class Initiative(TypedDict):
    """A lasting goal."""

    name: str
    status: InitiativeStatus
    reason: NotRequired[str]
    """Why it is blocked; removed when it no longer is."""
    created_at: str
    updated_at: str
    completed_at: NotRequired[str]
    archived_at: NotRequired[str]
    forced: NotRequired[Fields]
    """If it was finished by force: the ``reason``, and its ``open`` milestones."""
    current_milestone: str | None
    """The last milestone when all are completed; ``None`` without milestones."""
    milestones: list[Milestone]
    files: NotRequired[bool]
    """True if Holdfast wrote its page, and so adds tasks to it."""
    folder: NotRequired[str]
    """The folder of its files, if it is not the key."""
    former: NotRequired[list[str]]
    """The names that it had before, the last one first."""
    extra: Fields
    """Fields of the record that Holdfast does not know."""


class InitiativesState(TypedDict):
    """All initiatives of a workspace, by their keys."""

    current: str | None
    all: dict[str, Initiative]


class InterviewEntry(TypedDict):
    """An interview. It may have free fields of the user."""

    skill: str
    confidence: NotRequired[float]
    dimensions: NotRequired[dict[str, float]]
    questions_asked: NotRequired[int]
    timestamp: NotRequired[str]


class InterviewSkip(TypedDict):
    """An interview that the user declined. It may have free fields of the user."""

    skill: str
    reason: NotRequired[str]
    timestamp: NotRequired[str]


class Interview(TypedDict):
    """The interview log: how confident skills were of what they were asked to do."""

    interviews: list[InterviewEntry]
    """The newest 50, oldest first; all of them are in the ledger."""
    interviews_earlier: int
    skips: list[InterviewSkip]
    """The newest 50, oldest first."""
    skips_earlier: int
    extra: Fields


class LearningEntry(TypedDict):
    """A learning. It may have free fields of the user."""

    text: str
    section: NotRequired[str]
    kind: NotRequired[str]
    timestamp: NotRequired[str]


DelegationEntry = Fields
"""``timestamp`` and, by ``kind``, the fields of ``DELEGATION_FIELDS`` in ``core.logs``.

Free fields of the user live beside these. An entry without a kind is a delegation.
"""


class Delegation(TypedDict):
    """The delegation log: which agent was given what, and how it ended."""

    entries: list[DelegationEntry]
    """The newest 200, oldest first; all of them are in the ledger."""
    entries_earlier: int
    extra: Fields
