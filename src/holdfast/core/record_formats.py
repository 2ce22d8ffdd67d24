"""Everything about each record format but its document: paths, and what happens at the end.

A new format is one entry here, one module in ``formats`` that renders and parses it (imported in
``formats/__init__``), its name in ``core.types.Format``, and its schema in
``tools/handbook/records.py``.
"""

from __future__ import annotations

from holdfast.core.json_text import md5_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Workflow

_MAX_SLUG = 60


class FormatSpec:
    """A record format. Paths are relative to the worktree's root; ``*`` is a name in them."""

    active: str
    """The record of an active workflow; the first ``*`` is its id, the second id and start."""
    ignored: str
    """The line that makes git ignore the records."""
    completed: str | None = None
    """The path of the record of an ended workflow; ``*`` is the id."""
    archive: str | None = None
    """The folder to which whole folders move at the end; nothing is removed from it."""
    mark: str | None = None
    """A file beside the records. If it is missing too, a tool cleaned the work tree."""
    is_slot = False
    """A worktree has at most one such record."""
    is_kept = True
    """The record of an ended workflow is kept."""
    is_indexed = False
    """Active workflows are listed in ``index.json``."""
    is_named_by_digest = False
    """A workflow's id is its recipe and a digest of its subject, not a readable name."""
    has_own_folder = False
    """The record's folder is removed with it."""
    leaves_empty = False
    """The record of an expired workflow becomes an empty object."""
    ends_when_removed = False
    """Removing the record in the last phase completes the workflow."""

    def __init__(self, active: str, ignored: str, **others: str | bool) -> None:
        self.__dict__.update(others, active=active, ignored=ignored)

    def completed_path(self, workflow_id: str) -> str | None:
        return self.completed.replace("*", workflow_id) if self.completed else None


FORMATS: dict[str, FormatSpec] = {
    "verb": FormatSpec(
        ".claude/workflow-state.json", ".claude/workflow-state.json*",
        is_slot=True, is_named_by_digest=True, leaves_empty=True,
    ),
    "skill": FormatSpec(
        ".claude/workflow-state/active/*.json", ".claude/workflow-state/",
        completed=".claude/workflow-state/completed/*.json",
        is_indexed=True, is_named_by_digest=True,
    ),
    "formal": FormatSpec(
        "untracked/workflow-state/*/state-*.json", "untracked/workflow-state/",
        mark="untracked/workflow-state/.holdfast",
        is_kept=False, has_own_folder=True, ends_when_removed=True,
    ),
    "loop": FormatSpec(
        ".claude/iterative/*/state.json", ".claude/iterative/**/state.json*",
        archive=".claude/iterative/archive/", has_own_folder=True,
    ),
}  # fmt: skip


def formats_with(attribute: str) -> str:
    """Return the formats that have this attribute, as a list for SQL."""
    return ", ".join(f"'{name}'" for name, spec in FORMATS.items() if getattr(spec, attribute))


def spec_of(state: Workflow) -> FormatSpec:
    return FORMATS[state["recipe"]["format"]]


def format_of(path: str) -> str:
    """Return the format of a record by its path from the worktree's root."""
    for name, spec in FORMATS.items():
        folder = spec.ignored.partition("*")[0]
        if path.startswith(folder):
            return name
    return "verb"


def slug(text: str) -> str:
    """Return a name that is safe in a path: lower case letters, digits and single hyphens."""
    from unicodedata import normalize

    plain = normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    words = "".join(letter if letter.isalnum() else " " for letter in plain).split()
    return "-".join(words)[:_MAX_SLUG].strip("-") or f"workflow-{md5_of(text)[:8]}"
