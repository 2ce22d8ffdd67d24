"""Hypothesis strategies for workflows: every state that the core can reach, and more."""

import functools

from hypothesis import strategies as st

from holdfast.core.time import iso
from holdfast.core.workflow import blank

FORMATS = ("verb", "formal", "skill", "loop")
WORKFLOW_STATUSES = ("in_progress", "blocked", "completed", "abandoned", "expired")
PHASE_STATUSES = ("pending", "in_progress", "completed", "blocked")
TASK_STATUSES = (*PHASE_STATUSES, "confirming", "verifying", "timeout")

words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = words.filter(str.strip)
safe_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)
recipe_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
NONE = st.just({})
times = st.one_of(
    st.integers(0, 4_000_000_000_000).map(iso),
    st.sampled_from(["2025-03-04T05:06:07Z", "2025-03-04T05:06:07.654321Z", "2025-03-04 05:06+02"]),
)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = (
    scalars
    | floats
    | st.lists(scalars, max_size=2)
    | st.dictionaries(words, scalars | st.just([]) | st.just({}), max_size=2)
)
objects = st.dictionaries(words, json_values, max_size=2)


def unknown_keys(*also):
    """Draw names of fields that this format does not know; other formats may."""
    return st.sampled_from(["note", "owner", "x-priority", "Größe", *also])


def free_fields(*also):
    return st.dictionaries(unknown_keys(*also), json_values, max_size=2)


def with_optional(required, optional, free):
    """Draw objects with some of the optional fields, and free fields."""
    declared = st.fixed_dictionaries(required, optional=optional)
    return st.builds(lambda fields, beside: {**beside, **fields}, declared, free)


phase_bodies = with_optional(
    {"status": st.sampled_from(PHASE_STATUSES)},
    {
        "started_at": times,
        "completed_at": times,
        "approved": st.booleans(),
        "reason": words,
        "steps": st.lists(words, max_size=3),
    },
    free_fields("startedAt", "completedAt", "progress", "test_file"),
)
task_bodies = with_optional(
    {"description": words, "status": st.sampled_from(TASK_STATUSES)},
    {
        "commit": st.none() | words,
        "commits": st.lists(words, max_size=2),
        "reason": words,
        "phases": st.dictionaries(words, st.sampled_from(PHASE_STATUSES), max_size=3),
        "depends": st.lists(st.integers() | words, max_size=2),
        "started_at": times,
        "completed_at": times,
        "iterations_used": st.integers(0, 9),
        "confirmations_used": st.integers(0, 9),
        "verification_passed": st.booleans(),
        "max_iterations": st.integers(0, 9),
    },
    free_fields("index", "commit_sha", "tdd_phases", "criteria", "iteration_begun"),
)
task_ids = {
    record_format: st.lists(
        st.integers(0, 99)
        | (
            st.from_regex(r"[TR][1-9]", fullmatch=True) if record_format == "loop" else st.nothing()
        ),
        max_size=4,
        unique_by=str,
    )
    for record_format in FORMATS
}
phase_names = st.lists(names, max_size=4, unique=True)
recipe_phases = st.fixed_dictionaries(
    {},
    optional={
        "steps": st.lists(names, max_size=2),
        "next": st.lists(names, max_size=2),
        "approval": st.booleans(),
        "sets_branch": st.booleans(),
    },
)


def recipe_bodies(record_format):
    optional = {
        "title": names,
        "ttl": st.sampled_from(["30s", "24h", "7d"]),
        "gates": st.dictionaries(words, objects, max_size=2),
        "task_phases": st.lists(names, max_size=3, unique=True),
        "cycles_at": names,
        "context": objects,
    }
    if record_format == "skill":
        keys = ["feature_file", "task_description", "ticket", "feature_title"]
        optional["subject_key"] = st.sampled_from(keys)
    if record_format == "loop":
        optional["mode"] = st.sampled_from(["development", "knowledge"])
    required = {"name": recipe_names, "format": st.just(record_format)}
    return st.fixed_dictionaries(required, optional=optional)


NESTED = {
    "verb": ("enforcement",),
    "formal": ("phase",),
    "skill": ("_schema", "workflow", "state_machine"),
    "loop": (),
}


def extras(record_format):
    """Draw unknown fields at the top and nested, some with the name of a known field."""
    below = st.dictionaries(unknown_keys("id", "status", "current"), json_values, max_size=2)
    nested = st.fixed_dictionaries({}, optional=dict.fromkeys(NESTED[record_format], below))
    if record_format == "verb":
        plain = st.dictionaries(unknown_keys(), json_values, min_size=1, max_size=2)
        nested = st.just({}) | st.fixed_dictionaries({"enforcement": plain})
    return st.builds(
        lambda top, inner: {**top, **inner}, free_fields("context", "created_at"), nested
    )


def contexts():
    keys = words | st.sampled_from(["feature_file", "feature_title", "ticket", "domain"])
    return st.dictionaries(keys, json_values, max_size=4)


def sessions():
    return st.none() | st.fixed_dictionaries(
        {"id": names, "at": times}, optional={"pid": st.integers(1, 99_999)}
    )


def violations():
    return st.lists(
        with_optional(
            {
                "code": names,
                "severity": st.sampled_from(["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"]),
                "details": words,
            },
            {},
            free_fields(),
        ),
        max_size=3,
    )


def questions():
    """Draw questions with different numbers, each open, answered or withdrawn."""
    callers = st.fixed_dictionaries({"surface": words}, optional={"session": words})
    asked = {
        "id": st.integers(1, 99), "text": names, "choices": st.lists(words, max_size=2),
        "blocking": st.booleans(), "asked_at": times, "by": callers,
    }  # fmt: skip
    answer = {"answer": names, "answered_at": times, "answered_by": callers}
    waiting = with_optional({**asked, "status": st.sampled_from(["open", "withdrawn"])}, {}, NONE)
    answered = with_optional({**asked, **answer, "status": st.just("answered")}, {}, NONE)
    return st.lists(waiting | answered, max_size=3, unique_by=lambda question: question["id"])


@st.composite
def workflows(draw, record_format):
    """Draw a state of the format with valid types and references, however unlikely."""
    recipe = draw(RECIPES[record_format])
    declared = draw(phase_names)
    recipe["phases"] = [{"name": name, **draw(recipe_phases)} for name in declared]
    phases = declared if draw(st.booleans()) else draw(phase_names)
    state = blank(draw(safe_names), recipe, draw(times))
    state["record"] = "folder/of/state.json"
    state["phases"] = [{"name": name, **draw(phase_bodies)} for name in phases]
    state["phase"] = draw(st.sampled_from([None, *phases]))
    ids = draw(task_ids[record_format])
    state["tasks"] = [{"id": task_id, **draw(task_bodies)} for task_id in ids]
    if draw(st.booleans()):
        state["current_task"] = draw(st.sampled_from([None, *ids]))
    return state | draw(CHANGES[record_format])


def changes(record_format):
    """Draw fields that may differ from those of a new workflow."""
    reading = words.map("@{}".format)
    fields = {
        "subject": words,
        "title": words,
        "status": st.sampled_from(WORKFLOW_STATUSES),
        "updated_at": times,
        "completed_at": times,
        "outcome": words,
        "reason": words,
        "branch": names,
        "worktree": st.just("side"),
        "session": sessions(),
        "ttl": st.none() | st.sampled_from(["45m", "24h", "7d"]),
        "step": names,
        "cycle": st.integers(1, 5),
        "last_task": st.integers(0, 99),
        "gates": st.dictionaries(words, objects, max_size=2),
        "violations": violations(),
        "required_reading": st.lists(reading, max_size=2),
        "read": st.dictionaries(reading, times, max_size=2),
        "reminders": st.lists(words, max_size=2),
        "questions": questions(),
        "context": contexts(),
        "tests": objects,
        "files": st.lists(objects, max_size=2),
        "commits": st.lists(words, max_size=2),
        "history": st.lists(objects, max_size=2),
        "history_earlier": st.integers(0, 9),
        "extra": extras(record_format),
        "a_field_of_tomorrow": json_values,
    }
    return st.fixed_dictionaries({}, optional=fields)


RECIPES = {record_format: recipe_bodies(record_format) for record_format in FORMATS}
CHANGES = {record_format: changes(record_format) for record_format in FORMATS}
any_workflow = st.one_of(
    st.tuples(st.just(record_format), workflows(record_format)) for record_format in FORMATS
)


def origin_of(state, recipe=lambda _name: None):
    """Return the origin of the state's record."""
    return {
        "at": "2026-01-02T03:04:05.000Z",
        "path": state["record"],
        "worktree": state["worktree"],
        "recipe": recipe,
    }


@functools.cache
def _known_words():
    """Return keys and values of the formats, so that arbitrary JSON passes the first check."""
    keys = [
        *("_schema", "version", "skill", "workflow", "id", "status", "created_at", "updated_at"),
        *("branch", "context", "state_machine", "current_phase", "phases", "name", "steps"),
        *("cycle_count", "tasks", "index", "description", "commit_sha", "tdd_phases", "history"),
        *("checkpoints", "test_state", "files_modified", "history_earlier", "feature_file"),
        *("type", "phase", "startedAt", "lastUpdated", "ttl", "enforcement", "violations"),
        *("completedAt", "workflow_type", "current", "total", "required_reading", "key_reminders"),
        *("task", "slug", "mode", "domain", "created", "updated", "current_task"),
        *("current_iteration", "commits", "iterations_used", "depends", "code", "severity"),
        *("recipe", "format", "was", "statuses", "under", "units", "extra", "session", "next"),
    ]
    values = [*PHASE_STATUSES, *WORKFLOW_STATUSES, "development", "knowledge", "1.0", "24h", "done"]
    values += ["APEX", "execute", "@a"]
    return st.sampled_from(keys) | words, st.sampled_from(values) | words


def arbitrary_json():
    """Draw any JSON value, often with the keys and values of records."""
    keys, values = _known_words()
    return st.recursive(
        scalars | floats | values | st.integers(-2, 5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=40,
    )


def arbitrary_object():
    """Draw any JSON object; every record is one."""
    return st.dictionaries(_known_words()[0], arbitrary_json(), max_size=6)
