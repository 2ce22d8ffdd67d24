"""The schema of every record: the fields of its format, and their allowed values."""

from __future__ import annotations

from handbook import declared
from handbook.schemas import (
    COUNT,
    FLAG,
    HASH,
    OBJECT,
    TEXT,
    TIME,
    Schema,
    array,
    document,
    fields,
    nullable,
    of,
    words,
)
from holdfast import formats
from holdfast.core import types as core_types
from holdfast.core.initiatives import STATUSES
from holdfast.core.logs import DELEGATION_FIELDS
from holdfast.formats import formal as formal_code
from holdfast.formats import loop as loop_code
from holdfast.formats import schema as checks
from holdfast.formats import skill as skill_code
from holdfast.formats import verb as verb_code
from holdfast.storage import skill_index as listing

_DURATION: Schema = {"type": "string", "pattern": r"^\d+[smhdw]$"}
_ENVELOPE: Schema = {
    **fields({"ledger": TEXT, "seq": COUNT, "hash": HASH, "digest": HASH, "rest": OBJECT}),
    "description": "Which event the record shows, a digest of its values, and the rest of its "
    "state. Absent in a record that another tool wrote.",
}


def all_records() -> dict[str, Schema]:
    """Return the schema of each record, by its name."""
    makers = {
        "verb": verb,
        "formal": formal,
        "skill": skill,
        "loop": loop,
        "initiatives": initiatives,
        "interview": interview,
        "delegation": delegation,
        "learning": learning,
        "forge": forge,
        "index": index,
    }
    assert {*makers} == {*declared.formats(), *declared.record_places()}, "a record has no schema"
    return {name: make() for name, make in makers.items()}


def _record(name: str, where: str, properties: Schema, *optional: str) -> Schema:
    shape = fields({**properties, "_holdfast": _ENVELOPE}, *optional, "_holdfast")
    return document(f"The record of {name}", f"{where}. See format.md.", shape)


def verb() -> Schema:
    phase = of(core_types.Phase, verb_code._PHASE)  # noqa: SLF001
    violations = fields(
        {"violations": array(of(core_types.Violation)), "blocking": FLAG, "summary": TEXT}
    )
    record = _record(
        "a workflow in the format verb",
        formats.active_path("verb", "", ""),
        {
            "type": {**TEXT, "description": "the recipe's name in capitals"},
            "phase": nullable(TEXT),
            "status": words(checks.WORKFLOW_STATUSES),
            "startedAt": TIME,
            "lastUpdated": TIME,
            "ttl": nullable(_DURATION),
            "context": {**TEXT, "description": "what it is about"},
            "phases": array(phase),
            "enforcement": violations,
            "completedAt": TIME,
        },
        "enforcement",
        "completedAt",
    )
    head = {key: record.pop(key) for key in ("$schema", "title", "description")}
    empty = {**OBJECT, "maxProperties": 0, "description": "after it expired"}
    return {**head, "anyOf": [record, empty]}


def formal() -> Schema:
    status = words(formal_code._STATUS)  # noqa: SLF001
    return _record(
        "a workflow in the format formal",
        "untracked/workflow-state/{id}/state-{id}-{start}.json",
        {
            "workflow": {**TEXT, "description": "what it is about"},
            "workflow_type": {**TEXT, "description": "the recipe's name"},
            "phase": fields({"current": COUNT, "total": COUNT, "name": TEXT, "status": status}),
            "required_reading": array({"type": "string", "pattern": "^@"}),
            "context": OBJECT,
            "key_reminders": array(TEXT),
            "created_at": TIME,
        },
    )


def skill() -> Schema:
    machine = {"current_phase": nullable(TEXT), "phases": array(of(core_types.Phase)),
               "current_step": nullable(TEXT), "cycle_count": COUNT}  # fmt: skip
    workflow = {
        "id": TEXT,
        "status": words(skill_code.STATUSES),
        "created_at": TIME,
        "updated_at": TIME,
        "branch": nullable(TEXT),
        "completed_at": TIME,
    }
    return _record(
        "a workflow in the format skill",
        f"{skill_code.ACTIVE}{{id}}.json, later {skill_code.COMPLETED}{{id}}.json",
        {
            "_schema": fields({"version": {"const": skill_code.VERSION}, "skill": TEXT}),
            "workflow": fields(workflow, "completed_at"),
            "context": OBJECT,
            "state_machine": fields(machine, "current_step", "cycle_count"),
            "tasks": array(of(core_types.Task, skill_code._TASK)),  # noqa: SLF001
            "checkpoints": {**OBJECT, "additionalProperties": OBJECT},
            "test_state": OBJECT,
            "files_modified": array(OBJECT),
            "history_earlier": COUNT,
            "history": array(OBJECT),
        },
        "tasks",
        "test_state",
        "files_modified",
        "history_earlier",
    )


def loop() -> Schema:
    unit = of(core_types.Task)
    unit["properties"]["status"] = words(loop_code._STATUS)  # noqa: SLF001
    unit["properties"][loop_code._BEGUN] = COUNT  # noqa: SLF001
    for name in ("id", *loop_code._IN_MARKDOWN):  # noqa: SLF001
        unit["properties"].pop(name, None)
    unit["required"] = ["status"]
    units = {**OBJECT, "additionalProperties": unit}
    record = _record(
        "a loop",
        ".claude/iterative/{id}/state.json",
        {
            "task": {**TEXT, "description": "its title"},
            "slug": {**TEXT, "description": "what it is about, and the name of its folder"},
            "mode": words(loop_code.UNITS),
            "domain": TEXT,
            "created": TIME,
            "updated": TIME,
            "phase": nullable(TEXT),
            "current_task": nullable(TEXT),
            "current_phase": nullable(TEXT),
            "current_iteration": COUNT,
            "tasks": units,
            "phases": units,
            "commits": array(TEXT),
        },
        *("domain", "current_task", "current_phase", "current_iteration", "tasks", "phases"),
        "commits",
    )
    by_mode = [
        {"properties": {"mode": {"const": mode}}, "required": [key]}
        for mode, (key, _) in loop_code.UNITS.items()
    ]
    return {**record, "oneOf": by_mode}


def initiatives() -> Schema:
    milestone = of(core_types.Milestone)["properties"]["status"]
    return _record(
        "initiatives",
        declared.record_places()["initiatives"],
        {
            "name": TEXT,
            "status": words(STATUSES),
            "currentMilestone": nullable(TEXT),
            "lastUpdated": TIME,
            "progress": {**OBJECT, "additionalProperties": milestone},
        },
    )


def interview() -> Schema:
    entry = of(core_types.InterviewEntry)["properties"]
    return _record(
        "interviews",
        declared.record_places()["interview"],
        {
            **entry,
            "history": array(of(core_types.InterviewEntry)),
            "skips": array(of(core_types.InterviewSkip)),
        },
        *entry,
        "skips",
    )


def delegation() -> Schema:
    kinds = {"duration_ms": COUNT, "resolved": FLAG}
    entry = {
        name: nullable(kinds.get(name, TEXT))
        for names in DELEGATION_FIELDS.values()
        for name in names
    }
    entry = {"kind": words(DELEGATION_FIELDS), "timestamp": TIME, **entry}
    rows = {"type": "object", "properties": entry}
    where = declared.record_places()["delegation"]
    return _record("delegations", where, {"delegations": array(rows)})


def learning() -> Schema:
    rows = {"learnings": array(of(core_types.LearningEntry))}
    return _record("learnings", declared.record_places()["learning"], rows)


def forge() -> Schema:
    entry = fields({"key": TEXT, "text": TEXT, "timestamp": TIME})
    return _record(
        "the forge context", declared.record_places()["forge"], {"entries": array(entry)}
    )


def index() -> Schema:
    row = fields(
        {"id": TEXT, "skill": TEXT, "feature": TEXT, "started_at": TIME, "last_activity": TIME}
    )
    shape = fields(
        {
            "schema_version": {"const": listing.VERSION},
            "updated_at": TIME,
            "active_workflows": array(row),
            "_holdfast": fields({"doubtful": words_of_doubt()}),
        }
    )
    return document("The index of skill workflows", f"{listing.NAME}. See format.md.", shape)


def words_of_doubt() -> Schema:
    return {"type": "integer", "enum": [0, 1]}
