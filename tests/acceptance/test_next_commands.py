"""The next command that an answer names is one that works: pasted, it is about the same work."""

import os
import shlex

from holdfast.core.refusal import shell_line


def start_workflow(place, recipe, subject, *words):
    """The id of a new workflow, and the next command that its start names."""
    answer = place.run("start", recipe, subject, *words)
    assert answer.code == 0, answer
    return answer.out.split()[2], line_after("next: ", answer.out)


def line_after(mark, text):
    """The command of the line with this mark, without what it is about."""
    line = next(line for line in text.splitlines() if mark in line)
    return line[line.index("holdfast ") :].partition("   ")[0]


def pasted(place, command):
    """The workflow that a command was about, pasted as it stands."""
    name, *words = shlex.split(command)
    assert name == "holdfast"
    return place.ok(*words)["workflow"]["id"]


def two_open(place):
    one, alone = start_workflow(place, "custom", "one", "--task", "First")
    two, beside = start_workflow(place, "brainstorm", "two")
    assert alone == "holdfast task start 1"
    return one, two, beside


def test_without_a_session_a_start_beside_another_workflow_names_its_own(repo):
    _, two, beside = two_open(repo)
    assert beside == f"holdfast advance -w {two}"
    assert pasted(repo, beside) == two


def test_without_a_session_the_briefing_names_its_workflow_where_there_are_several(repo):
    one, two, _ = two_open(repo)
    for workflow, step in ((one, "task start 1"), (two, "advance")):
        named = line_after("NEXT: ", repo.run("resume", workflow).out)
        assert named == f"holdfast {step} -w {workflow}"
        assert pasted(repo, named) == workflow


def test_a_workflow_that_a_session_holds_leaves_the_other_by_default(repo):
    held = repo.as_session("ada", os.getpid()).ok("start", "tdd", "one")["workflow"]["id"]
    _, named = start_workflow(repo, "brainstorm", "two")
    assert named == "holdfast advance"
    text = repo.run("resume", held).out
    assert line_after("NEXT: ", text) == f"holdfast red -w {held} -- COMMAND"


def test_a_session_and_a_single_workflow_need_no_name(repo):
    one, _ = start_workflow(repo, "custom", "one", "--task", "First")
    assert line_after("NEXT: ", repo.run("resume", one).out) == "holdfast task start 1"
    ada = repo.as_session("ada", os.getpid())
    _, named = start_workflow(ada, "brainstorm", "two")
    assert named == "holdfast advance"
    assert line_after("NEXT: ", ada.run("resume", one).out) == "holdfast task start 1"


def test_the_word_for_a_gate_is_about_the_same_workflow(repo):
    repo.ok("start", "tdd", "one")
    two = repo.ok("start", "dev", "two")["workflow"]["id"]
    while (state := repo.state(two))["phase"] != state["phases"][-1]["name"]:
        repo.ok("advance", "-w", two, "--force", "--reason", "a test")
    text = repo.run("resume", two).out
    record = "gate record pr_created --passed pr_number=NUMBER pr_url=URL"
    assert line_after("NEXT: ", text) == f"holdfast {record} -w {two}"


def test_the_command_of_a_gate_comes_behind_the_workflow(repo):
    repo.ok("start", "tdd", "one")
    two = repo.ok("start", "qa-loop", "two")["workflow"]["id"]
    for _ in range(2):
        repo.ok("advance", "-w", two)
    named = line_after("NEXT: ", repo.run("resume", two).out)
    assert named == f"holdfast gate run qa -w {two} -- COMMAND"
    assert pasted(repo, named.replace("COMMAND", "test -e README.md")) == two


def test_the_next_of_an_answer_is_the_same_for_people_and_in_json(repo):
    for words in (["start", "dev", "x", "--task", "One"], ["show"], ["advance"], ["gate", "list"]):
        shown = repo.run(*words).out if words[0] != "advance" else None
        step = repo.ok(*(["show"] if shown is None else words))["next"]
        assert set(step) == {"command", "about", "fill"}
        if shown is not None:
            assert shlex.split(line_after("next: ", shown)) == step["command"]
    refused = repo.run("phase", "start", "verification")
    step = repo.run("phase", "start", "verification", "--json").json["next"]
    assert shlex.split(line_after("next: ", refused.err)) == step["command"]
    assert step["command"] != ["holdfast", "phase", "start", "verification"]
    repo.ok("abandon")
    assert repo.ok("show", repo.ok("log")["events"][0]["stream"])["next"] is None


def test_the_next_of_one_of_several_loops_names_it(repo):
    first = repo.run("loop", "new", "survey").out
    assert line_after("next: ", first) == "holdfast loop plan --unit 'T1: TITLE'"
    repo.ok("start", "tdd", "one")
    planned = repo.run("loop", "plan", "survey", "--unit", "T1: Look").out
    iterate = "holdfast loop iterate T1 --did DID --signal T1_DONE"
    assert line_after("next: ", planned) == iterate
    second = repo.run("loop", "new", "next").out
    assert line_after("next: ", second) == "holdfast loop plan --unit 'T1: TITLE' -w next"
    planned = repo.run("loop", "plan", "survey", "--unit", "T2: Tell").out
    assert line_after("next: ", planned) == f"{iterate} -w survey"
    ada = repo.as_session("ada", os.getpid())
    ada.ok("resume", "next")
    planned = ada.run("loop", "plan", "survey", "--unit", "T3: End").out
    assert line_after("next: ", planned) == f"{iterate} -w survey"


def test_on_another_branch_the_briefing_names_a_command_that_works(repo):
    one, _ = start_workflow(repo, "planning", "one", "--task", "First")
    repo.git("switch", "-q", "-c", "other")
    text = repo.run("resume", one).out
    assert "Either git switch main, or " in text
    assert pasted(repo, line_after("NEXT: ", text)) == one


def test_each_way_to_end_a_turn_is_a_command_of_its_own(repo):
    repo.ok("loop", "new", "survey")
    repo.ok("loop", "plan", "survey", "--unit", "T1: Look")
    for ways, taken in ((2, 0), (2, 0), (3, 0)):
        turn = repo.ok("loop", "next", "survey")["next"]
        commands = [shell_line(words) for words in (turn["command"], *turn["or"])]
        assert len(commands) == ways
        lines = repo.run("loop", "next", "survey").out.splitlines()
        assert lines[-ways:] == [f"  next: {commands[0]}", *[f"    or: {c}" for c in commands[1:]]]
        assert not any(character in "".join(commands) for character in "|<>;&")
        assert pasted(repo, commands[taken].replace("COMMAND", "ls")) == "survey"
    assert repo.ok("loop", "next", "survey")["next"]["turn"] == "archive"
