"""What Holdfast writes is what ``docs/schemas`` says, in every format and in every old ledger."""

import json
import os
import tomllib

import pytest
from jsonschema import Draft202012Validator

import holdfast
from handbook import answers, declared, records, schemas
from histories import record
from holdfast.keeper.session import Session
from holdfast.workspace import recipes

HISTORIES = sorted(name for name in os.listdir(record.HERE) if name[0].isdigit())
SHIPPED = os.path.join(os.path.dirname(holdfast.__file__), "recipes")


def wrong(schema, value):
    """What is wrong with a value, in a line each."""
    errors = Draft202012Validator(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


def beside(keeper):
    """Something in each of the small records."""
    keeper.interviews().record(skill="plan", confidence=0.8, dimensions={"scope": 0.9})
    keeper.interviews().record(skill="fix", confidence=0.4, questions=3)
    keeper.interviews().skip("fix", reason="in a hurry")
    keeper.delegations().record(agent="tester", outcome="ok", duration_ms=90)
    keeper.delegations().escalate("tester", "architect", "hard", resolved=True)
    keeper.delegations().override(suggested="a", chosen="b")
    keeper.delegations().routing(suggested="a", chosen="b", intent="fix")
    keeper.remember("Short commits", kind="preference", section="Style")
    keeper.note_forge("build", "make")


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A folder in which everything happened, and each record that was found on the way."""
    root = str(tmp_path_factory.mktemp("lived"))
    found = {name: [] for name in records.all_records()}

    do = Session.do

    def do_and_gather(*args, **options):
        """Keep every record as it is after each command."""
        receipt = do(*args, **options)
        gather(root, found)
        return receipt

    monkey = pytest.MonkeyPatch()
    monkey.setattr(Session, "do", do_and_gather)
    monkey.setenv("HOLDFAST_MEMORY", "off")
    try:
        keeper = record.live(root)
        finish(root, keeper)
        beside(keeper)
    finally:
        monkey.undo()
    gather(root, found)
    return found


def finish(root, keeper):
    """The fields that the histories never had."""
    apex = keeper.start("apex", "Another", replace=True).state["id"]
    keeper.evidence().add_violation("V-1", "HIGH", "no test", workflow=apex)
    keeper.evidence().clear_violation("V-1", workflow=apex)
    keeper.complete(force=True, reason="enough", workflow=apex)
    knowledge = keeper.start("loop-knowledge", "reading", context={"domain": "research"})
    unit = {"task": "R1", "description": "Sources", "max_iterations": 3}
    keeper.do("plan_unit", unit, workflow=knowledge.state["id"])
    iteration = {"task": "R1", "did": "two", "remaining": "one"}
    keeper.do("record_iteration", iteration, workflow=knowledge.state["id"])
    for number in range(60):
        keeper.remind(f"reminder {number}", workflow=keeper.start("tdd", "long").state["id"])


def gather(root, found):
    places = {place: kind for kind, place in declared.record_places().items()}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            place = os.path.relpath(path, root)
            if not name.endswith(".json") or place.startswith(".claude/holdfast/"):
                continue
            kind = places.get(place) or recipes_format(place)
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            if kind and value not in found[kind]:
                found[kind].append(value)


def recipes_format(place):
    from holdfast.formats import format_of

    return None if "rejected" in place or place.endswith("index.json") else format_of(place)


@pytest.mark.parametrize("name", sorted(records.all_records()))
def test_every_record_that_is_written_fits_its_schema(lived, name):
    assert lived[name], "no such record was seen"
    schema = records.all_records()[name]
    assert [problem for value in lived[name] for problem in wrong(schema, value)] == []


@pytest.mark.parametrize("name", sorted(records.all_records()))
def test_a_schema_has_every_field_that_is_written_and_no_other(lived, name):
    schema = records.all_records()[name]
    whole = schema.get("anyOf", [schema])[0]["properties"]
    seen = {key for value in lived[name] for key in value}
    assert seen - set(whole) == set()
    assert set(whole) - seen == set()


@pytest.mark.parametrize("version", HISTORIES)
def test_every_event_of_every_old_history_fits_the_schema(version):
    schema = Draft202012Validator(schemas.ledger_line())
    folder = os.path.join(record.HERE, version)
    name = next(name for name in os.listdir(folder) if name.endswith(".ndjson"))
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if "seq" in line]
    assert lines
    assert [error.message for line in lines for error in schema.iter_errors(line)] == []
    properties = set(schemas.ledger_line()["properties"])
    assert properties - {key for line in lines for key in line} <= {"part"}


@pytest.mark.parametrize("name", recipes.names())
def test_every_shipped_recipe_fits_the_schema(name):
    with open(os.path.join(SHIPPED, f"{name}.toml"), "rb") as file:
        assert wrong(schemas.recipe(), tomllib.load(file)) == []


def test_the_schemas_are_sound_and_written_as_the_code_declares_them():
    for schema in schemas.all_schemas().values():
        Draft202012Validator.check_schema(schema)
    assert schemas.stale() == [], "run: make docs"


BROKEN = {
    "verb": ("status", "finished"),
    "formal": ("phase", {"current": 1, "total": 2, "name": "Build", "status": "done"}),
    "skill": ("state_machine", {"current_phase": "red"}),
    "loop": ("mode", "thinking"),
    "initiatives": ("progress", {"M1": "begun"}),
    "interview": ("confidence", "high"),
    "delegation": ("delegations", [{"kind": "gossip"}]),
    "learning": ("learnings", [{}]),
    "forge": ("entries", [{"key": "build"}]),
    "index": ("active_workflows", [{"id": "dev-1"}]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_schema_finds_what_is_wrong(lived, name):
    key, value = BROKEN[name]
    broken = {**lived[name][-1], key: value}
    assert wrong(records.all_records()[name], broken)


def test_every_record_has_a_broken_example():
    assert set(BROKEN) == set(records.all_records())


def test_an_answer_without_its_keys_is_found():
    assert wrong(answers.of_command("status"), {"ok": True})
    assert wrong(answers.of_command("status"), {"ok": False})
    assert wrong(answers.of_command("status"), {"ok": True, "workflows": [{"id": "x"}]})
    nothing = {"ok": True, "workflows": [], "questions": []}
    assert not wrong(answers.of_command("status"), nothing)
