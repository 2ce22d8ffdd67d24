"""Nonsense in skill records and on the command line: a clear answer each, and nothing lost."""

import os

import pytest


@pytest.fixture
def dev(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one", "--task", "two")
    repo.ok("task", "done", "1", "--commit", "HEAD")
    return repo


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(tasks="none"),
        lambda record: record.update(tasks=[1, 2]),
        lambda record: record["tasks"].append({"index": 1, "description": "again"}),
        lambda record: record["tasks"][0].update(status="perhaps"),
        lambda record: record["tasks"][0].update(tdd_phases=["red"]),
        lambda record: record["state_machine"].update(current_phase="nowhere"),
        lambda record: record["state_machine"].update(phases={}),
        lambda record: record["checkpoints"].update(lint="passed"),
        lambda record: record.update(test_state=[]),
        lambda record: record.update(files_modified={"path": "x"}),
        lambda record: record.update(history="long"),
        lambda record: record["workflow"].update(status="sleeping"),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused_and_kept(dev, change):
    before = dev.state()
    path = os.path.join(dev.path, before["record"])
    dev.edit(before["record"], change)
    with open(path) as file:
        text = file.read()
    answer = dev.ok("show")
    after = answer["workflow"]
    assert {key: after[key] for key in ("tasks", "phases", "phase", "gates")} == {
        key: before[key] for key in ("tasks", "phases", "phase", "gates")
    }
    assert answer["notes"]
    dev.ok("remind", "carefully")
    kept = [name for name in os.listdir(os.path.dirname(path)) if ".rejected-" in name]
    with open(os.path.join(os.path.dirname(path), kept[0])) as file:
        assert file.read() == text
    dev.ok("task", "done", "2")


def test_a_record_of_five_megabytes_is_an_ordinary_one(dev):
    record = dev.state()["record"]
    dev.edit(record, lambda document: document["context"].update(log="x" * 5_000_000))
    assert len(dev.state()["context"]["log"]) == 5_000_000
    dev.ok("task", "done", "2")
    assert len(dev.run("resume").out) < 10_000


def test_a_record_that_is_absurdly_large_is_set_aside(dev):
    path = os.path.join(dev.path, dev.state()["record"])
    with open(path, "w") as file:
        file.write('{"x": "' + "x" * 17_000_000 + '"}')
    answer = dev.ok("show")
    assert [task["status"] for task in answer["workflow"]["tasks"]] == ["completed", "pending"]
    assert any("cannot be adopted" in note for note in answer["notes"])
    answer = dev.ok("task", "done", "2")
    assert any("rejected" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("phase start nowhere", "not_found"),
        ("phase complete nowhere", "not_found"),
        ("step nowhere", None),
        ("task phase 2 nowhere", "not_found"),
        ("task phase 1 red", "already"),
        ("task done 1", "already"),
        ("task done 9", "not_found"),
        ("gate run nowhere", "no_command"),
        ("start nowhere x", "no_recipe"),
        ("recipes show nowhere", "no_recipe"),
    ],
)
def test_what_does_not_exist_is_named(dev, line, code):
    answer = dev.run(*line.split(), "--json")
    if code is None:
        assert answer.code == 0
    else:
        assert answer.json["error"]["code"] == code
        assert answer.json["error"]["hint"]


def test_a_branch_name_with_escapes_steers_no_terminal(repo):
    name = "feat/\x1b[31mred\x07"
    repo.ok("start", "dev", "a.md", "--branch", name)
    repo.ok("advance")
    repo.ok("phase", "skip", "create_branch", "--reason", "it is named")
    workflow = repo.ok("status")["workflows"][0]["id"]
    for line in (["status"], ["show", workflow], ["resume", workflow], ["log"]):
        shown = repo.run(*line).out
        assert "\x1b" not in shown
        assert "\x07" not in shown
