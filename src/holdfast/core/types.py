"""The shapes of everything that flows through Holdfast, for the type checker alone.

No module imports this one at run time (``tests/test_imports.py`` checks it): state, events and
commands are plain dictionaries, so fields that nobody knows survive, and starting costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003
from typing import Any, Literal, NotRequired, TypedDict

Json = Any
"""A value that JSON can hold."""

Fields = dict[str, Json]

WorkflowStatus = Literal["in_progress", "blocked", "completed", "abandoned", "expired"]
PhaseStatus = Literal["pending", "in_progress", "completed", "blocked"]
TaskStatus = Literal[
    "pending", "in_progress", "confirming", "verifying", "completed", "blocked", "timeout"
]
Format = Literal["verb", "formal", "skill", "loop"]


class RecipePhase(TypedDict):
    """One phase as a recipe declares it."""

    name: str
    steps: NotRequired[list[str]]
    next: NotRequired[list[str]]
    """Where it may go from here; the first is what ``advance`` takes. Default: the phase below."""
    approval: NotRequired[bool]
    """A person must approve the phase before it can be completed."""
    sets_branch: NotRequired[bool]
    """Until it is completed the workflow has no branch of its own; then it has the current one."""
    shows_tests: NotRequired[bool]
    """Its fields ``tests_passing`` and ``last_error`` say how the last test run went."""


class Recipe(TypedDict):
    """What a workflow is opened from; copied whole into its opening event."""

    name: str
    format: Format
    phases: list[RecipePhase]
    title: NotRequired[str]
    ttl: NotRequired[str]
    gates: NotRequired[dict[str, Fields]]
    """Gate name to the fields it starts with, ``status`` among them."""
    task_phases: NotRequired[list[str]]
    cycles_at: NotRequired[str]
    """Starting this phase again begins the next cycle: every phase is pending again."""
    subject_key: NotRequired[str]
    """The field of the record's ``context`` that holds the subject (skill format)."""
    context: NotRequired[Fields]
    """What ``context`` starts with."""
    mode: NotRequired[str]
    """``development`` or ``knowledge`` (loop format)."""


class Phase(TypedDict):
    """A phase of a running workflow. Free fields of the user live beside these."""

    name: str
    status: PhaseStatus
    started_at: NotRequired[str]
    completed_at: NotRequired[str]
    approved: NotRequired[bool]
    reason: NotRequired[str]
    forced: NotRequired[str]
    """Why it was entered although a violation stood in the way."""
    steps: NotRequired[list[str]]


class Task(TypedDict):
    """A task, or in a loop a unit. Free fields of the user live beside these."""

    id: int | str
    description: str
    status: TaskStatus
    commit: NotRequired[str | None]
    reason: NotRequired[str]
    phases: NotRequired[dict[str, str]]
    depends: NotRequired[list[int | str]]
    started_at: NotRequired[str]
    completed_at: NotRequired[str]
    iterations_used: NotRequired[int]
    confirmations_used: NotRequired[int]
    verification_passed: NotRequired[bool]
    max_iterations: NotRequired[int]
    criteria: NotRequired[str]
    output: NotRequired[str]
    model: NotRequired[str]
    verify: NotRequired[str]
    remaining: NotRequired[str]
    blockers: NotRequired[str]


class Session(TypedDict):
    """Who holds a workflow."""

    id: str
    pid: NotRequired[int]
    """The client's process, where the client tells it."""
    born: NotRequired[int]
    """When that process was started: its number goes to another one day."""
    at: str
    seq: NotRequired[int]
    """The event that bound it: which binding is the newest is not the clock's to say."""


class Violation(TypedDict):
    code: str
    severity: str
    details: str


class Workflow(TypedDict):
    """The one aggregate behind all four record formats."""

    id: str
    recipe: Recipe
    subject: str
    title: str
    status: WorkflowStatus
    created_at: str
    updated_at: str
    completed_at: NotRequired[str]
    outcome: NotRequired[str]
    reason: NotRequired[str]
    cleaned_at: NotRequired[str]
    """When the record of an ended workflow left its folder."""
    branch: str | None
    base: NotRequired[str]
    """The commit that was checked out when it began, where git tells."""
    initiative: NotRequired[Fields]
    """``name`` and ``milestone`` of the initiative it belongs to."""
    worktree: str
    """``.`` is the main worktree; a linked one goes by its name in git."""
    record: str
    """The path of its L1 record from the worktree's root."""
    session: Session | None
    ttl: str | None
    phase: str | None
    """The current phase's name; ``None`` before the first and after the last."""
    step: str | None
    cycle: int
    phases: list[Phase]
    tasks: list[Task]
    current_task: NotRequired[int | str | None]
    gates: dict[str, Fields]
    violations: list[Violation]
    required_reading: list[str]
    read: dict[str, str]
    """Required reading that was read since the last compaction, with the time."""
    reminders: list[str]
    context: Fields
    archived_from: NotRequired[str]
    """Of an archived loop: where its record stood."""
    guardrails: NotRequired[list[Fields]]
    """Lessons of a loop, which every iteration is told."""
    tests: Fields
    files: list[Fields]
    commits: list[str]
    history: list[Fields]
    """The newest 50 entries; all of them are in the ledger."""
    history_earlier: int
    extra: Fields
    """What the record holds that Holdfast does not know, at its place in the record."""


class Draft(TypedDict):
    """An event as the core says it: what happened, before the ledger gives it a place."""

    type: str
    data: Fields


class Event(TypedDict):
    """A line of the ledger."""

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


class Command(TypedDict):
    """A request to the core. ``args`` depend on ``type``; time and place arrive with it."""

    type: str
    at: str
    args: Fields


Change = list[Json]
"""``[path, was, now]`` of an adopted edit; a missing value is ``None`` and its key left out."""


class Origin(TypedDict):
    """Where a document was found, and what a parser may ask about that place."""

    at: str
    """The time of reading, for a document that tells none."""
    path: str
    """From the worktree's root."""
    worktree: str
    recipe: Callable[[str], Recipe | None]
    """The recipe of a name, as it stands here."""


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
    """When someone said so; a milestone that merely came next is in progress without it."""
    completed_at: NotRequired[str]
    tasks: list[MilestoneTask]


class Initiative(TypedDict):
    """A lasting goal."""

    name: str
    status: InitiativeStatus
    reason: NotRequired[str]
    """Why it is blocked; gone when it no longer is."""
    created_at: str
    updated_at: str
    completed_at: NotRequired[str]
    archived_at: NotRequired[str]
    current_milestone: str | None
    """Stays on the last milestone when all are completed; ``None`` where there are none."""
    milestones: list[Milestone]
    files: NotRequired[bool]
    """Whether its page was written by Holdfast, which then adds tasks to it."""
    folder: NotRequired[str]
    """Where its files are, where that is not its key."""
    extra: Fields
    """What the record holds that Holdfast does not know."""


class Initiatives(TypedDict):
    """All initiatives of a workspace, by their keys."""

    current: str | None
    all: dict[str, Initiative]


class InterviewEntry(TypedDict):
    """One interview. Free fields of the user live beside these."""

    skill: str
    confidence: NotRequired[float]
    dimensions: NotRequired[dict[str, float]]
    questions_asked: NotRequired[int]
    timestamp: NotRequired[str]


class InterviewSkip(TypedDict):
    """An interview that the user did not want. Free fields live beside these."""

    skill: str
    reason: NotRequired[str]
    timestamp: NotRequired[str]


class Interview(TypedDict):
    """How sure the skills were of what they were asked to do."""

    interviews: list[InterviewEntry]
    """The newest 50, oldest first; all of them are in the ledger."""
    interviews_earlier: int
    skips: list[InterviewSkip]
    """The newest 50, oldest first."""
    skips_earlier: int
    extra: Fields


class LearningEntry(TypedDict):
    """One thing that was learned. Free fields of the user live beside these."""

    text: str
    section: NotRequired[str]
    kind: NotRequired[str]
    timestamp: NotRequired[str]


class Learning(TypedDict):
    """What outlives the workflow it came from."""

    learnings: list[LearningEntry]
    """The newest 200, oldest first; all of them are in the ledger."""
    learnings_earlier: int
    extra: Fields


DelegationEntry = Fields
"""``timestamp`` and, by ``kind``, the fields of ``DELEGATION_FIELDS`` in ``core.logs``.

Free fields of the user live beside these. An entry without a kind is a delegation.
"""


class Delegation(TypedDict):
    """Which agent was given what, and how that went."""

    entries: list[DelegationEntry]
    """The newest 200, oldest first; all of them are in the ledger."""
    entries_earlier: int
    extra: Fields
