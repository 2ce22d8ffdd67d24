"""``search``, ``log`` with filters and ``show --at`` as a person types and reads them."""

import shlex

import pytest

HOSTILE = "\x1b[31mred\x1b[0m \u202etxt.exe <script>alert(1)</script> zebra\u200b"


def test_a_hit_is_shown_with_its_words_marked_and_how_to_open_it(repo):
    repo.ok("start", "dev", "docs/a.md", "--title", "Login", "--task", "Write the parser")
    out = repo.run("search", "WRITE", "pars").out
    workflow, facts, text, following = out.splitlines()
    assert workflow.startswith("workflow  dev-")
    assert workflow.endswith("Login")
    assert facts.strip().startswith("task_added · event ")
    assert text.strip() == "task=1 description=[Write] the [parser]"
    command = shlex.split(following.partition("next: ")[2].partition("   ")[0])
    opened = repo.run(*command[1:])
    assert opened.code == 0
    assert opened.out.startswith("As it was after event ")
    assert "Write the parser" in opened.out


def test_every_hit_names_a_command_that_opens_it(repo):
    repo.ok("start", "dev", "docs/a.md", "--task", "a zebra")
    repo.ok("remember", "a zebra in a cage")
    repo.ok("forge", "add", "build", "with a zebra")
    repo.ok("initiative", "create", "Zebra", "--milestone", "M1:Stripes")
    hits = repo.ok("search", "zebra")["hits"]
    assert {hit["kind"] for hit in hits} == {"workflow", "learning", "forge", "initiatives"}
    for hit in hits:
        assert repo.run(*hit["open"][1:]).code == 0, hit["open"]


def test_colours_mark_the_words_on_a_terminal_that_has_them(repo):
    repo.ok("remember", "a zebra in a cage")
    repo.environment["FORCE_COLOR"] = "1"
    assert "a \x1b[32mzebra\x1b[0m in a cage" in repo.run("search", "zebra").out


def test_what_is_stored_is_data_on_the_screen_too(repo):
    repo.ok("start", "dev", "docs/a.md", "--title", HOSTILE, "--task", HOSTILE)
    for words in (["search", "zebra"], ["log", "--grep", "zebra"], ["show", "--at", "1"]):
        answer = repo.run(*words)
        assert answer.code == 0
        assert not {"\x1b", "\u202e", "\u200b"} & set(answer.out), words
        assert "<U+202E>" in answer.out
        as_json = repo.run(*words, "--json")
        assert not {"\x1b", "\u202e", "\u200b"} & set(as_json.out), words


def test_nothing_found_is_no_failure(repo):
    repo.ok("remember", "a fact")
    answer = repo.run("search", "zebra")
    assert (answer.code, answer.out) == (0, "Nothing here has all of these words.\n")
    assert repo.ok("search", "zebra")["hits"] == []


def test_a_log_without_events_is_not_empty(repo):
    assert repo.run("log").out == "Nothing was recorded yet.\n"
    repo.ok("start", "oneshot", "a zebra")
    assert repo.run("log", "--task", "9").out == "No event fits.\n"
    assert repo.ok("log", "--task", "9")["events"] == []


def test_a_search_of_one_workflow_is_refused_with_the_command_for_it(repo):
    workflow = repo.ok("start", "oneshot", "a zebra")["workflow"]["id"]
    answer = repo.run("search", "a", "zebra", "-w", workflow)
    assert answer.code == 1
    assert "-w cannot choose one" in answer.err
    command = f"holdfast log {workflow} --grep 'a zebra'"
    assert f"  next: {command}\n" in answer.err
    assert "title=a zebra" in repo.run(*shlex.split(command)[1:]).out


def test_words_can_be_anything_behind_two_dashes(repo):
    repo.ok("remember", "run it with --fast")
    assert len(repo.ok("search", "--", "--fast")["hits"]) == 1
    assert repo.refused("search", "--", "--")["code"] == "invalid"
    assert repo.refused("search", exit_code=2)["code"] == "usage"


def test_another_repository_is_named_and_how_to_get_there(repo, tmp_path):
    repo.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    other = repo.at("..", "other place")
    other.ok("remember", "a zebra elsewhere")
    repo.ok("remember", "nothing of the kind")
    assert "Nothing here" in repo.run("search", "zebra").out
    out = repo.run("search", "zebra", "--all").out
    assert "other place" in out
    assert out.splitlines()[-1].startswith("  next: cd '")
    assert "then holdfast log _learning" in out
    hit = repo.ok("search", "zebra", "--all")["hits"][0]
    assert hit["repository"].endswith("other place")


def test_the_log_is_filtered_for_people_and_in_json(repo):
    repo.ok("start", "dev", "docs/a.md", "--task", "one", "--task", "two")
    repo.ok("remind", "hold on")
    words = ["log", "--type", "task_*", "--task", "2", "--since", "1h", "--by", "cli"]
    (event,) = repo.ok(*words)["events"]
    assert (event["type"], event["data"]["task"]) == ("task_added", 2)
    (line,) = repo.run(*words, "--grep", "TWO", "--limit", "5").out.splitlines()
    assert line.endswith("task=2 description=two")
    assert repo.run(*words, "--grep", "nothing").out == "No event fits.\n"


@pytest.mark.parametrize("words", [["--type", "task_complete"], ["--since", "yesterday"]])
def test_a_filter_that_cannot_be_meant_is_refused_with_a_command_that_works(repo, words):
    repo.ok("start", "dev", "docs/a.md")
    error = repo.refused("log", *words)
    assert repo.run(*shlex.split(error["hint"])[1:]).code == 0


def test_a_past_state_is_shown_whole_and_says_what_it_is(repo):
    workflow = repo.ok("start", "dev", "docs/a.md", "--task", "one")["workflow"]["id"]
    seq = repo.ok("remind", "early")["seqs"][-1]
    repo.ok("remind", "late")
    answer = repo.ok("show", "--at", str(seq))
    assert answer["workflow"]["reminders"] == ["early"]
    assert answer["at"]["seq"] == seq
    assert set(answer) == {"ok", "workflow", "at"}
    out = repo.run("show", workflow, "--at", str(seq)).out
    assert out.startswith(f"As it was after event {seq}, reminder_added, just now:\n{workflow}")
    assert "early" in out
    assert "late" not in out
    assert out.endswith(f"  next: holdfast show {workflow}   as it is now\n")
    error = repo.refused("show", "--at", "999")
    assert repo.run(*shlex.split(error["hint"])[1:]).code == 0
    assert repo.refused("show", "--at", "0", exit_code=2)["code"] == "usage"
