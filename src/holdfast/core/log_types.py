"""The shapes of the three small aggregates, for the type checker alone.

As with ``types``, no module imports this one at run time.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from holdfast.core.types import Fields

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


class Forge(TypedDict):
    """What was found out, by key."""

    entries: list[Fields]
    """``key``, ``text`` and ``timestamp``: the newest 200, oldest first; all are in the ledger."""
    entries_earlier: int
    extra: Fields


DelegationEntry = Fields
"""``timestamp`` and, by ``kind``, the fields of ``FIELDS`` in ``core.delegation``.

Free fields of the user live beside these. An entry without a kind is a delegation.
"""


class Delegation(TypedDict):
    """Which agent was given what, and how that went."""

    entries: list[DelegationEntry]
    """The newest 200, oldest first; all of them are in the ledger."""
    entries_earlier: int
    extra: Fields
