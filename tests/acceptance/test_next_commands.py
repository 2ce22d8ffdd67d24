"""The next command that an answer names is one that works: pasted, it is about the same work."""

import os
import shlex


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
    one, alone = start_workflow(place, "tdd", "one", "--task", "First")
    two, beside = start_workflow(place, "dev", "two", "--task", "Second")
    assert alone == "holdfast task start 1"
    return one, two, beside


def test_without_a_session_a_start_beside_another_workflow_names_its_own(repo):
    _, two, beside = two_open(repo)
    assert beside == f"holdfast task start 1 -w {two}"
    assert pasted(repo, beside) == two


def test_without_a_session_the_briefing_names_its_workflow_where_there_are_several(repo):
    one, two, _ = two_open(repo)
    for workflow in (one, two):
        named = line_after("NEXT: ", repo.run("resume", workflow).out)
        assert named == f"holdfast task start 1 -w {workflow}"
        assert pasted(repo, named) == workflow


def test_a_workflow_that_a_session_holds_leaves_the_other_by_default(repo):
    held = repo.as_session("ada", os.getpid()).ok("start", "tdd", "one")["workflow"]["id"]
    _, named = start_workflow(repo, "dev", "two", "--task", "Second")
    assert named == "holdfast task start 1"
    text = repo.run("resume", held).out
    assert line_after("NEXT: ", text) == f"holdfast advance -w {held}"


def test_a_session_and_a_single_workflow_need_no_name(repo):
    one, _ = start_workflow(repo, "tdd", "one", "--task", "First")
    assert line_after("NEXT: ", repo.run("resume", one).out) == "holdfast task start 1"
    ada = repo.as_session("ada", os.getpid())
    _, named = start_workflow(ada, "dev", "two", "--task", "Second")
    assert named == "holdfast task start 1"
    assert line_after("NEXT: ", ada.run("resume", one).out) == "holdfast task start 1"


def test_the_word_for_a_gate_is_about_the_same_workflow(repo):
    repo.ok("start", "tdd", "one")
    two = repo.ok("start", "dev", "two")["workflow"]["id"]
    while (state := repo.state(two))["phase"] != state["phases"][-1]["name"]:
        repo.ok("advance", "-w", two, "--force", "--reason", "a test")
    text = repo.run("resume", two).out
    assert f"or say so: holdfast gate record -w {two} " in text


def test_the_next_of_one_of_several_loops_names_it(repo):
    first = repo.run("loop", "new", "survey").out
    assert line_after("next: ", first) == "holdfast loop plan --unit 'T1: TITLE'"
    repo.ok("start", "tdd", "one")
    planned = repo.run("loop", "plan", "survey", "--unit", "T1: Look").out
    assert line_after("next: ", planned) == "holdfast loop next"
    second = repo.run("loop", "new", "next").out
    assert line_after("next: ", second) == "holdfast loop plan --unit 'T1: TITLE' -w next"
    planned = repo.run("loop", "plan", "survey", "--unit", "T2: Tell").out
    assert line_after("next: ", planned) == "holdfast loop next -w survey"
    ada = repo.as_session("ada", os.getpid())
    ada.ok("resume", "next")
    planned = ada.run("loop", "plan", "survey", "--unit", "T3: End").out
    assert line_after("next: ", planned) == "holdfast loop next -w survey"


def test_on_another_branch_the_briefing_names_a_command_that_works(repo):
    one, _ = start_workflow(repo, "planning", "one", "--task", "First")
    repo.git("switch", "-q", "-c", "other")
    text = repo.run("resume", one).out
    assert "Either git switch main, or " in text
    assert pasted(repo, line_after("NEXT: ", text)) == one


def test_each_way_to_end_a_turn_is_a_command_of_its_own(repo):
    repo.ok("loop", "new", "survey")
    repo.ok("loop", "plan", "survey", "--unit", "T1: Look")
    for ways, taken in ((2, 1), (2, 0), (3, 2)):
        turn = repo.ok("loop", "next", "survey")["next"]
        commands = [turn["command"], *turn["or"]]
        assert len(commands) == ways
        lines = repo.run("loop", "next", "survey").out.splitlines()
        assert lines[-ways:] == [f"  next: {commands[0]}", *[f"    or: {c}" for c in commands[1:]]]
        assert not any(character in "".join(commands) for character in "|<>;&")
        assert pasted(repo, commands[taken].replace("COMMAND", "true")) == "survey"
    assert repo.ok("loop", "next", "survey")["next"]["turn"] == "archive"
