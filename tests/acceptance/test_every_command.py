"""Every command of the first set, as text and as JSON, with its exit code and its keys."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from holdfast.cli.parser import load_all
from support.paths import ROOT
from support.story import FOUND, PAGE, PERSONS, STORY

COMMANDS = load_all()
with open(os.path.join(ROOT, "docs", "json.md"), encoding="utf-8") as page:
    CONTRACT = page.read()


def section(title):
    return CONTRACT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def documented(title):
    """The rows of a section's table: the names of the first cell, then the other cells."""
    rows = [line.strip("| ").split(" | ") for line in section(title).splitlines() if "|" in line]
    return [(re.findall(r"`([^`]+)`", row[0]), row[1:]) for row in rows[2:]]


KEYS = {
    name: set(re.findall(r"`([^`]+)`", cells[0] if cells else ""))
    for names, cells in documented("Answers")
    for name in names
}

SERVERS = {"mcp", "mcp memory", "statusline", "web"}
"""They answer a client or a browser, not a command line."""
OTHERS = {"conflicts drop", "conflicts take", "demo", "doctor", "export", "import", "pr"}
"""They have tests of their own."""


def test_the_story_tells_of_every_command():
    assert {name for name, _ in STORY} | OTHERS | SERVERS | PERSONS == set(COMMANDS)
    assert set(KEYS) == set(COMMANDS) | {"holdfast", "--version"}


def test_every_command_answers_with_its_documented_keys(repo):
    repo.write(FOUND, PAGE)
    for name, line in STORY:
        answer = repo.run(*repo.in_json(shlex.split(line)))
        assert answer.code == 0, (line, answer)
        absent = {
            "start": {"briefing"},
            "abandon": {"abandoned"},
            "show": {"at"},
            "watch": {"repositories"},
        }
        absent = absent.get(name, set())
        assert set(answer.json) - {"notes"} == {"ok", *KEYS[name]} - absent, line
        assert answer.err == ""


def test_a_start_that_resumes_has_the_briefing_too(repo):
    repo.ok("start", "dev", "x")
    assert set(repo.ok("start", "dev", "x")) - {"notes"} == {"ok", *KEYS["start"]}


def test_what_export_prints_line_by_line_is_taken_in_by_import(repo):
    repo.ok("start", "dev", "x", "--task", "one")
    exported = repo.run("export", "--json")
    assert (exported.code, exported.out) == (0, repo.run("export").out)
    lines = [json.loads(line) for line in exported.out.splitlines()]
    assert [line for line in lines if "seq" in line] == repo.ok("log")["events"]
    elsewhere = repo.at("..", "elsewhere")
    elsewhere.write("export.jsonl", exported.out)
    answer = elsewhere.ok("import", "export.jsonl")
    assert set(answer) - {"notes"} == {"ok", *KEYS["import"]}
    assert elsewhere.types() == repo.types()
    assert elsewhere.run("import", "export.jsonl").out.startswith("✓ nothing is new in it")


def test_every_command_answers_people_in_plain_text(repo):
    repo.write(FOUND, PAGE)
    for _, line in STORY:
        answer = repo.run(*shlex.split(line))
        assert answer.code == 0, (line, answer)
        assert answer.err == ""
        assert answer.out.strip(), line
        assert "\x1b" not in answer.out


def test_the_two_ways_to_say_json_and_which_workflow_can_stand_anywhere(repo):
    started = repo.ok("start", "tdd", "one")["workflow"]["id"]
    repo.ok("start", "tdd", "two")
    lines = [
        ["task", "add", "-w", started, "--json", "text"],
        ["task", "add", "text", "--json", "-w", started],
        ["task", "--json", "-w", started, "add", "text"],
        ["task", "add", f"--workflow={started}", "--json", "--", "--json"],
    ]
    for number, words in enumerate(lines, 1):
        answer = repo.run(*words)
        assert (answer.code, answer.json["workflow"]["id"]) == (0, started), words
        assert answer.json["workflow"]["tasks"][-1]["id"] == number
    assert repo.state(started)["tasks"][-1]["description"] == "--json"
    assert repo.ok("show", started) == repo.ok("show", "-w", started)


def test_a_workflow_has_exactly_the_documented_keys(repo):
    of_several_machines = {"conflicts"}
    names = {name for names, _ in documented("A workflow") for name in names}
    names -= of_several_machines
    repo.ok("initiative", "create", "Tidy", "--milestone", "M1")
    repo.ok("start", "dev", "before")
    repo.ok("complete", "--force", "--reason", "done with it")
    order = ("--label", "small", "--after", repo.ok("log")["events"][-1]["stream"])
    repo.ok("start", "dev", "x", "--task", "one", "--phase", "all", "--milestone", "M1", *order)
    new = set(repo.state())
    repo.ok("ask", "Why?")
    repo.ok("task", "start", "1")
    repo.ok("task", "remove", "1")
    repo.ok("complete", "--force", "--reason", "done with it", "--outcome", "all is well")
    workflow = repo.ok("log")["events"][-1]["stream"]
    assert new | set(repo.state(workflow)) == names
    assert names - new == {
        "questions",
        "current_task",
        "last_task",
        "completed_at",
        "outcome",
        "reason",
        "skipped",
        "removed_tasks",
    }


def test_a_row_of_status_has_exactly_the_documented_keys(repo):
    text = section("A row of `status`")
    repo.ok("start", "dev", "x")
    (row,) = repo.ok("status")["workflows"]
    assert set(row) == set(re.findall(r"`(\w+)`", text))


def test_an_event_has_exactly_the_documented_keys(repo):
    listed = section("An event of `log`").partition(":")[0]
    repo.ok("start", "dev", "x", "--task", "one")
    events = repo.ok("log")["events"]
    assert {key for event in events for key in event} == set(re.findall(r"`(\w+)`", listed))
    assert [event["type"] for event in events].count("task_added") == 1


def test_the_keys_that_scripts_rely_on_are_there(repo):
    started = repo.ok("start", "dev", "feature.md", "--task", "one", "--read", "@README.md")
    workflow = started["workflow"]
    assert repo.record(workflow["record"])["workflow"]["id"] == workflow["id"]
    shown = repo.state(workflow["id"])
    assert (shown["recipe"], shown["status"], shown["phase"]) == (
        "dev",
        "in_progress",
        "load_feature",
    )
    assert shown["tasks"] == [{"id": 1, "description": "one", "status": "pending"}]
    assert (shown["required_reading"], shown["unread"]) == (["@README.md"], ["@README.md"])
    assert "@README.md" in repo.ok("resume")["briefing"]
    assert [row["id"] for row in repo.ok("status")["workflows"]] == [workflow["id"]]


@pytest.mark.parametrize(
    "line",
    [
        "nosuch",
        "task",
        "task dance 1",
        "task done",
        "task block 1",
        "task done 1 2",
        "task done 1 --commit",
        "task edit 1",
        "task move 1 --to 0",
        "remind",
        "remind x --remove 1",
        "read",
        "read @x --remove @x",
        "unset",
        "rename",
        "start",
        "start dev x --set nothing",
        "start dev x --nosuch 1",
        "log --limit many",
        "log --limit 0",
        "set",
        "show -w",
        "help nosuch",
        "--nosuch",
    ],
)
def test_a_usage_error_is_one_object_too(folder, line):
    error = folder.refused(*line.split(), exit_code=2)
    assert error["code"] == "usage"
    assert error["hint"].startswith("holdfast ")
    answer = folder.run(*line.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("holdfast: ")
    assert "  next: holdfast" in answer.err
    assert not folder.has(".claude")


def test_no_command_at_all_has_its_documented_keys(repo):
    assert set(repo.ok()) == {"ok", *KEYS["holdfast"]}
    repo.ok("start", "dev", "x")
    assert set(repo.ok()) == {"ok", *KEYS["holdfast"]}


def test_help_and_version_need_no_workspace(folder):
    assert folder.run("help").out.startswith("Holdfast keeps the state")
    assert set(folder.ok("help")) == {"ok", "help"}
    assert folder.ok("--version")["version"]
    assert set(folder.ok("task", "done", "--help")) == {"ok", "help"}


def test_the_log_shows_people_no_recipes(repo):
    repo.ok("start", "dev", "x")
    text = repo.run("log").out
    assert "recipe=dev" in text
    assert "phases" not in text
    assert all(len(line) < 120 for line in text.splitlines())


def test_following_the_log_prints_events_as_they_come(repo):
    repo.ok("start", "tdd", "x")
    follower = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "log", "--follow", "--json"],
        cwd=repo.path,
        env=repo.environment,
        stdout=subprocess.PIPE,
    )
    with follower:
        try:
            first = [json.loads(follower.stdout.readline())["type"] for _ in range(2)]
            repo.ok("remind", "look up")
            then = json.loads(follower.stdout.readline())
        finally:
            follower.send_signal(2)
        assert (first, then["type"]) == (["workflow_started", "phase_started"], "reminder_added")
        assert follower.wait(20) == 130


def test_a_request_with_an_id_is_applied_once(repo):
    repo.ok("start", "tdd", "x")
    once = repo.ok("task", "add", "one", "--id", "r-1")
    again = repo.ok("task", "add", "one", "--id", "r-1")
    assert again["seqs"] == once["seqs"]
    assert again["notes"]
    assert len(repo.state()["tasks"]) == 1
