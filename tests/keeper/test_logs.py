"""Logs on the disk: the ledger is the truth, the record is the interface."""

import json
import os
import subprocess

import pytest

from holdfast import Keeper, Refused

INTERVIEW = ".claude/interview-state.json"
DELEGATION = ".claude/delegation-log.json"
AT_MS = 1_775_000_000_000


class Here:
    """A workspace whose clock stands still unless it is told."""

    def __init__(self, root):
        self.root = str(root)
        self.ms = AT_MS

    def keeper(self, root=None):
        self.ms += 1_000
        return Keeper(root or self.root, clock_ms=lambda: self.ms)

    def path(self, name):
        return os.path.join(self.root, name)

    def document(self, name=INTERVIEW):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def write(self, document, name=INTERVIEW):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(document if isinstance(document, str) else json.dumps(document))

    def record(self, skill="plan", confidence=0.5, **options):
        return self.keeper().interviews().record(skill, confidence, **options)

    def skills(self):
        return [one["skill"] for one in self.keeper().interviews().show()["interviews"]]


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path)


def test_an_interview_is_an_event_and_a_record(here):
    noted = here.record(dimensions={"clarity": 0.9}, questions=3)
    assert noted.seqs == [1]
    document = here.document()
    assert {name: document[name] for name in ("skill", "confidence", "questions_asked")} == {
        "skill": "plan",
        "confidence": 0.5,
        "questions_asked": 3,
    }
    assert document["timestamp"].startswith("2026-")
    (event,) = here.keeper().log()
    assert (event["stream"], event["type"], event["version"]) == (
        "_interview",
        "interview_recorded",
        1,
    )


def test_a_refusal_records_nothing(here):
    with pytest.raises(Refused, match="from 0 to 1"):
        here.record(confidence=7)
    assert list(here.keeper().log()) == []
    assert not os.path.exists(here.path(INTERVIEW))


def test_a_look_writes_nothing_where_nothing_is(here):
    assert here.skills() == []
    assert os.listdir(here.root) == []


def test_the_same_request_is_recorded_once(here):
    here.record(id="abc")
    again = here.record(id="abc")
    assert again.seqs == [1]
    assert any("recorded before" in note for note in again.notes)
    assert here.skills() == ["plan"]


def test_an_edit_is_adopted(here):
    here.record("plan")
    here.record("review")
    document = here.document()
    document["confidence"] = 0.75
    document["mine"] = "kept"
    here.write(document)
    assert here.keeper().interviews().show()["interviews"][-1]["confidence"] == 0.75
    assert [event["type"] for event in here.keeper().log()] == ["interview_recorded"] * 2
    here.record("fix")
    assert [event["type"] for event in here.keeper().log()][2:] == [
        "record_edited",
        "interview_recorded",
    ]
    assert here.document()["mine"] == "kept"
    assert here.keeper().verify().ok


def test_an_edit_that_makes_no_sense_is_kept_aside_with_its_line(here):
    here.record()
    text = json.dumps(here.document(), indent=2).replace("0.5", '"much"')
    here.write(text)
    noted = here.record("review")
    assert any("line 3: confidence must be a number" in note for note in noted.notes)
    assert here.skills() == ["plan", "review"]
    assert any(".rejected-" in name for name in os.listdir(here.path(".claude")))


@pytest.mark.parametrize("text", ["", "  \n", "{", "[]", "null", '{"skill": 1, "skill": 2}'])
def test_whatever_stands_there_the_last_good_state_is_served(here, text):
    here.record()
    here.write(text)
    assert here.skills() == ["plan"]
    here.record("review")
    assert here.skills() == ["plan", "review"]
    assert here.document()["skill"] == "review"


def test_a_record_that_is_gone_is_rebuilt(here):
    here.record()
    before = here.document()
    os.remove(here.path(INTERVIEW))
    assert here.skills() == ["plan"]
    here.record("review")
    os.remove(here.path(INTERVIEW))
    here.keeper().interviews().skip("fix", "no time")
    assert here.document()["history"][0]["skill"] == before["skill"]


def test_an_older_copy_is_brought_forward(here):
    here.record()
    before = here.document()
    here.record("review")
    here.write(before)
    assert here.skills() == ["plan", "review"]
    here.keeper().interviews().skip("fix", "no time")
    assert here.document()["skill"] == "review"
    assert [event["type"] for event in here.keeper().log()] == [
        "interview_recorded",
        "interview_recorded",
        "interview_skipped",
    ]


def test_two_edits_of_the_same_moment_are_merged_unless_they_clash(here):
    here.record()
    mine = here.document()
    here.keeper().interviews().skip("fix", "no time")
    mine["confidence"] = 0.9
    here.write(mine)
    state = here.keeper().interviews().show()
    assert (state["interviews"][0]["confidence"], len(state["skips"])) == (0.9, 1)
    here.keeper().interviews().skip("plan", "no time")
    here.write({**mine, "confidence": 0.1})
    state = here.keeper().interviews().show()
    assert state["interviews"][0]["confidence"] == 0.9
    here.keeper().interviews().skip("review", "no time")
    assert any(".rejected-" in name for name in os.listdir(here.path(".claude")))


def test_another_tools_record_is_adopted(here):
    here.write({"delegations": [{"agent": "tester", "model": "small"}], "by": "them"}, DELEGATION)
    entries = here.keeper().delegations().list()["entries"]
    assert entries == [{"agent": "tester", "model": "small", "adopted": True}]
    here.keeper().delegations().record("reviewer", outcome="ok")
    document = here.document(DELEGATION)
    assert [entry["agent"] for entry in document["delegations"]] == ["tester", "reviewer"]
    assert document["by"] == "them"


def test_without_the_ledger_the_record_is_enough(here):
    here.record()
    here.record("review")
    subprocess.run(["rm", "-rf", here.path(".claude/holdfast")], check=True)
    assert here.skills() == ["plan", "review"]


def test_it_is_no_workflow(here):
    here.record()
    assert here.keeper().workflows()[0] == []
    with pytest.raises(Refused, match="there is no workflow '_interview'"):
        here.keeper().show(workflow="_interview")
    here.keeper().start("tdd", "one")
    here.record()
    assert [row["recipe"] for row in here.keeper().workflows()[0]] == ["tdd"]


def test_every_worktree_sees_the_same(tmp_path):
    root = tmp_path / "main"
    root.mkdir()
    here = Here(root)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (
        ["init", "-q", "-b", "main"],
        ["commit", "-q", "--allow-empty", "-m", "begin"],
        ["worktree", "add", "-q", "-b", "side", "../side"],
    ):
        subprocess.run([*git, *words], cwd=root, check=True)
    side = str(tmp_path / "side")
    here.record("plan")
    here.keeper(side).interviews().record("review", 0.4)
    here.record("fix")
    for place in (here.root, side):
        state = here.keeper(place).interviews().show()
        assert [one["skill"] for one in state["interviews"]] == ["plan", "review", "fix"]


def test_verify_names_what_is_behind_and_what_makes_no_sense(here):
    here.record()
    here.write({"skill": "mine"})
    report = here.keeper().verify()
    assert report.ok
    assert [line["what"] for line in report.lines if line["level"] == "behind"] == [INTERVIEW]


def test_delegations_tell_what_can_be_learned(here):
    log = here.keeper().delegations()
    for outcome, ms in (("ok", 300), ("failed", 100), ("ok", 200)):
        log.record("tester", outcome=outcome, model="m", task_type="tests", duration_ms=ms)
    log.escalate("tester", "architect", "too hard", resolved=True)
    log.escalate("tester", "architect", "again", resolved=False)
    log.override("tester", "reviewer")
    log.routing("oneshot", "apex", "feature")
    told = log.list()["summary"]
    assert told["agents"] == [
        {
            "agent": "tester",
            "count": 3,
            "outcomes": {"ok": 2, "failed": 1},
            "task_types": {"tests": 3},
            "median_ms": 200,
        }
    ]
    assert told["escalations"] == [
        {"from": "tester", "to": "architect", "count": 2, "resolved": 1, "unresolved": 1}
    ]
    assert told["overrides"] == [{"suggested": "tester", "chosen": "reviewer", "count": 1}]
    assert told["routings"] == [{"suggested": "oneshot", "chosen": "apex", "count": 1}]
    assert len(log.list(agent="architect")["entries"]) == 2


def test_an_id_of_another_command_is_refused_and_nothing_is_recorded(here):
    here.keeper().remember("One", id="abc")
    with pytest.raises(Refused, match="another command: event 1, learning_recorded"):
        here.keeper().interviews().record("plan", 0.5, id="abc")
    with pytest.raises(Refused, match="another command: event 1, learning_recorded"):
        here.keeper().start("apex", "Login", id="abc")
    here.keeper().start("apex", "Login", id="def")
    with pytest.raises(Refused, match="another command: event 2, workflow_started"):
        here.keeper().remember("Two", id="def")
    assert [entry["text"] for entry in here.keeper().learnings()] == ["One"]


def test_a_retry_after_the_list_was_emptied_has_an_answer(here, capsys, monkeypatch):
    from holdfast.cli.main import main

    words = ["delegation", "override", "--suggested", "a", "--chosen", "b", "--id", "abc"]
    monkeypatch.chdir(here.root)
    assert main(words) == 0
    here.write({**here.document(DELEGATION), "delegations": []}, DELEGATION)
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["entry"] is None


@pytest.mark.parametrize("words", [["interview", "show"], ["context"]])
def test_whoever_looks_is_told_that_an_edit_was_refused(here, capsys, monkeypatch, words):
    from holdfast.cli.main import main

    here.record()
    here.write("{x", INTERVIEW)
    monkeypatch.chdir(here.root)
    assert main([*words, "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert ".claude/interview-state.json has an edit that cannot be adopted (line " in note
