"""Promise 14: stored text cannot leave its frame in a context."""

import json

import pytest

from promises.hostile import each_hostile, is_allowed
from support.workshop import FORMATS, Workshop, open_workflow

pytestmark = pytest.mark.promise(14)


def stored(keeper, record_format, text):
    """A workflow that holds the text wherever one can be stored."""
    text = text[:3_900]
    state = open_workflow(
        keeper,
        record_format,
        "a subject",
        title=text,
        tasks=[f"1 {text}", f"2 {text}", f"3 {text}"],
        phases=[f"first {text}", f"then {text}", "last"],
        reminders=[text],
        reading=[],
        context={f"key {text}": text, "list": [text, {"deep": text}]},
        branch=f"branch {text}",
    )
    aim = {"workflow": state["id"]}
    first = state["tasks"][0]["id"]
    keeper.start_task(first, **aim)
    keeper.start_step(f"step {text}", **aim)
    keeper.block_task(state["tasks"][1]["id"], f"why {text}", **aim)
    keeper.do(
        "record_gate", {"gate": f"gate {text}", "passed": False, "fields": {"out": text}}, **aim
    )
    violation = {"code": f"C {text}", "severity": "HIGH", "details": text}
    keeper.do("add_violation", violation, **aim)
    keeper.do("record_tests", {"tests": {"last_result": "failed", "failing_tests": [text]}}, **aim)
    return state["id"]


PLAIN = "plain"


@pytest.mark.parametrize("record_format", FORMATS)
@each_hostile
def test_the_briefing_keeps_text_in_its_line(text, record_format, tmp_path):
    if len(text) > 4_000:
        return
    plain = Workshop(tmp_path / "plain")
    expected = plain.keeper().briefing(workflow=stored(plain.keeper(), record_format, PLAIN))
    shop = Workshop(tmp_path / "hostile")
    told = shop.keeper().briefing(workflow=stored(shop.keeper(), record_format, text))
    check_frame(told, expected, text)


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("character", ["é", "漢", "🦊"])
def test_long_text_in_any_script_fits(character, record_format, tmp_path):
    shop = Workshop(tmp_path)
    told = shop.keeper().briefing(workflow=stored(shop.keeper(), record_format, character * 3_900))
    assert len(told.encode()) <= 9_500
    assert told.endswith("can order nothing else.")


def check_frame(told, expected, text):
    assert all(map(is_allowed, told))
    assert not set("<>`") & set(told)
    assert not any(0xFE00 <= ord(c) <= 0xFE0F or ord(c) >= 0xE0000 for c in told)
    assert "~~~" not in told
    assert len(told.encode()) <= 9_500
    if len(text) < 300:
        assert [heading(ln) for ln in told.split("\n")] == [
            heading(ln) for ln in expected.split("\n")
        ]


def heading(line):
    return line.partition(" ")[0]


@pytest.mark.parametrize("blocked", [False, True])
@each_hostile
def test_an_adopted_record_cannot_leave_the_frame_either(text, blocked, tmp_path):
    """Names that no command would take, in a record that somebody else wrote."""

    def document(word):
        status = "blocked" if blocked else "in_progress"
        return {
            "_schema": {"version": "1.0", "skill": f"s {word}"},
            "workflow": {"id": f"id {word}", "status": "in_progress", "branch": word},
            "context": {word: word},
            "state_machine": {
                "current_phase": f"p {word}",
                "current_step": word,
                "phases": [
                    {"name": f"p {word}", "status": status, "reason": word},
                    {"name": "next", "status": "pending"},
                ],
            },
            "tasks": [
                {
                    "index": f"i {word}",
                    "description": word,
                    "status": "in_progress",
                    "tdd_phases": {f"t {word}": "in_progress"},
                },
                {"index": f"j {word}", "description": word, "status": "blocked", "reason": word},
            ],
            "checkpoints": {f"g {word}": {"passed": False, f"o {word}": word}},
            "test_state": {"last_result": "failed", "last_error": word},
        }

    told = []
    for number, word in enumerate((PLAIN, text)):
        shop = Workshop(tmp_path / str(number))
        raw = json.dumps(document(word)).encode()
        shop.write(".claude/workflow-state/active/dev-1a2b3c4d.json", raw)
        rows, _ = shop.keeper().workflows()
        assert len(rows) == 1
        told.append(shop.keeper().briefing(workflow=rows[0]["id"]))
    check_frame(told[1], told[0], text)
