"""Whatever is typed gets a clear answer, and nothing that was kept is harmed by it."""

import os

import pytest

LONG = "x" * 10_240
STRANGE = [
    "../../escape",
    "/etc/passwd",
    "..",
    "a/../../b",
    "\x1b[2J\x1b]0;owned\x07",
    "line one\nline two\r\x7f\x9b31m",
    "\u202egnp.exe",
    "日本語",
    "....",
    "CON",
    "a\\b:c*d?",
    "$(touch owned)",
    "`touch owned`; touch owned",
    "%s%n{0}",
]
RECIPES = ("custom", "tdd", "oneshot", "loop-development")


def files(place):
    """Every file beside and below the place that is neither git's own nor the home's."""
    top = os.path.dirname(place.path)
    return {
        os.path.relpath(os.path.join(folder, name), top)
        for folder, _, names in os.walk(top)
        for name in names
        if ".git" not in folder.split(os.sep) and "home" not in folder.split(os.sep)
    }


@pytest.mark.parametrize(
    ("recipe", "name"), [(RECIPES[n % len(RECIPES)], name) for n, name in enumerate(STRANGE)]
)
def test_a_strange_name_stays_inside_and_comes_back_as_it_was(repo, recipe, name):
    started = repo.ok("start", recipe, name, "--task", name, "--remind", name)["workflow"]
    assert (started["subject"], started["tasks"][0]["description"]) == (name, name)
    assert started["id"].replace("-", "").isalnum()
    record = os.path.realpath(os.path.join(repo.path, started["record"]))
    assert record.startswith(os.path.realpath(repo.path) + os.sep)
    assert all(path.startswith("work" + os.sep) for path in files(repo))
    assert not any(os.path.basename(path) == "owned" for path in files(repo))
    for line in ("show", "status", "resume", "log"):
        text = repo.run(line).out
        assert all(char.isprintable() or char == "\n" for char in text), line
    again = repo.ok("start", recipe, name)
    assert (again["resumed"], again["workflow"]["subject"]) == (True, name)
    assert repo.run("verify").code == 0


def test_text_that_begins_with_a_dash_stands_after_two_dashes(repo):
    for text in ("-rf /", "--force", "-", "--", "-w"):
        answer = repo.run("start", "tdd", "--json", "--", text)
        assert answer.code == 0, answer
        assert answer.json["workflow"]["subject"] == text
    error = repo.refused("start", "tdd", "-rf /", exit_code=2)
    assert "stands after `--`" in error["message"]


TOO_LONG = [
    ["start", "tdd", LONG],
    ["start", "tdd", "y", "--title", LONG],
    ["start", "tdd", "y", "--task", LONG],
    ["start", "tdd", "y", "--remind", LONG],
    ["start", "tdd", "y", "--set", f"a={LONG}"],
    ["start", "tdd", "y", "--ttl", LONG],
    ["start", "tdd", "y", "--read", f"@{LONG}"],
    ["start", "custom", "y", "--phase", LONG],
    ["start", LONG, "y"],
    ["task", "add", LONG],
    ["task", "done", "1", "--commit", LONG],
    ["task", "block", "1", "--reason", LONG],
    ["task", "done", LONG],
    ["remind", LONG],
    ["read", f"@{LONG}"],
    ["step", LONG],
    ["set", f"a={LONG}"],
    ["set", f"{LONG}=a"],
    ["phase", "start", LONG],
    ["phase", "block", "red", "--reason", LONG],
    ["complete", "--outcome", LONG, "--force", "--reason", "x"],
    ["abandon", "--reason", LONG],
    ["show", LONG],
    ["task", "add", "x", "--id", LONG],
    ["task", "add", "x", "--session", LONG],
]


def test_ten_kilobytes_are_refused_in_a_few_words(repo):
    repo.ok("start", "tdd", "x", "--task", "one")
    for words in TOO_LONG:
        error = repo.refused(*words)
        assert len(error["message"]) + len(error["hint"]) < 1_000, words[:2]
    assert repo.types() == ["workflow_started", "phase_started", "task_added"]


def test_bytes_that_are_no_text_are_a_usage_error(repo):
    for line in ("start tdd ?", "task add ?", "remind ?", "show ?", "? x"):
        words = [b"\xff\xfe" if word == "?" else word for word in line.split()]
        error = repo.refused(*words, exit_code=2)
        assert (error["code"], "UTF-8" in error["message"]) == ("usage", True), line
    assert not repo.has(".claude", "holdfast")


EMPTY = {
    1: [
        "start tdd ?",
        "start ? x",
        "start tdd x --title ?",
        "start tdd x --task ?",
        "start tdd x --remind ?",
        "start tdd x --read ?",
        "start tdd x --ttl ?",
        "start custom x --phase ?",
        "task add ?",
        "task done ?",
        "remind ?",
        "read ?",
        "read @",
        "step ?",
        "phase start ?",
        "complete --outcome ?",
        "abandon --reason ?",
    ],
    2: ["show ?", "advance -w ?", "? x", "set ?", "task add x --id ?"],
}


def test_an_empty_word_is_refused_everywhere(repo):
    repo.ok("start", "tdd", "first")
    for exit_code, lines in EMPTY.items():
        for line in lines:
            words = ["" if word == "?" else word for word in line.split()]
            assert repo.refused(*words, exit_code=exit_code)["hint"], line
    for line in ("start tdd ?", "task add ?", "remind ?"):
        words = [" \t" if word == "?" else word for word in line.split()]
        assert repo.refused(*words)["code"] == "invalid", line
    assert len(repo.types()) == 2


def test_a_time_to_live_that_is_none_is_refused(repo):
    for ttl in ("nonsense", "-5h", "5", "h", "1e9d", "9" * 30 + "d", "0h", "1 2h"):
        error = repo.refused("start", "tdd", "x", f"--ttl={ttl}")
        assert (error["code"], "24h" in error["hint"]) == ("invalid", True), ttl
    assert repo.ok("status")["workflows"] == []


VALUES = {
    "a=": "",
    "a=b=c": "b=c",
    "a=1": 1,
    "a=-1": -1,
    "a=1.5": 1.5,
    "a=1.10": "1.10",
    "a=007": "007",
    "a=1e5": "1e5",
    "a=1234e56": "1234e56",
    "a=1e999": "1e999",
    "a=" + "9" * 100: "9" * 100,
    "a=true": True,
    "a=True": "True",
    "a=null": None,
    "a=NaN": "NaN",
    'a="1"': "1",
    "a=[1, [2]]": [1, [2]],
    "a=[1,": "[1,",
    'a={"b": NaN}': '{"b": NaN}',
    'a={"b": 1, "b": 2}': '{"b": 1, "b": 2}',
    "a=" + "[" * 70 + "]" * 70: "[" * 70 + "]" * 70,
    "a= b ": " b ",
    "a=\x1b[31m": "\x1b[31m",
    "\u00e4 \u20ac=1": 1,
}


def test_a_value_is_kept_as_json_where_it_is_json_and_else_as_text(repo):
    repo.ok("start", "tdd", "x", "--set", "a=[true]")
    assert repo.state()["context"] == {"a": [True]}
    for given, kept in VALUES.items():
        context = repo.ok("set", given)["workflow"]["context"]
        assert context[given.partition("=")[0]] == kept, given
        assert type(context[given.partition("=")[0]]) is type(kept), given
    assert repo.state()["context"] == {"a": "\x1b[31m", "\u00e4 \u20ac": 1}


def test_what_is_no_pair_is_a_usage_error(repo):
    repo.ok("start", "tdd", "x")
    for words in (["x"], ["=x"], ["a=1", "a=2"]):
        assert repo.refused("set", *words, exit_code=2)["code"] == "usage"
        options = [part for word in words for part in ("--set", word)]
        assert repo.refused("start", "tdd", "y", *options, exit_code=2)["code"] == "usage"


def test_a_limit_is_a_whole_number_from_one(repo):
    for limit in ("-1", "0", "1.5", "9" * 30, "", "many"):
        assert repo.refused("log", f"--limit={limit}", exit_code=2)["code"] == "usage"


def test_required_reading_stays_inside_the_workspace(repo):
    os.symlink(os.path.dirname(repo.path), os.path.join(repo.path, "out"))
    repo.ok("start", "tdd", "x")
    paths = ["@../secret", "@/etc/passwd", "@a/../../b", "@out/secret", "README.md", "@"]
    for path in paths:
        assert repo.refused("read", path)["code"] in ("outside", "invalid"), path
        assert repo.refused("start", "tdd", "y", "--read", path)["code"] in ("outside", "invalid")
    assert repo.state()["required_reading"] == []


def test_a_subject_need_not_be_a_file_but_a_commit_must_exist(repo):
    repo.ok("start", "dev", "no/such/file.md", "--task", "one")
    error = repo.refused("task", "done", "1", "--commit", "no such commit")
    assert (error["code"], "'no such commit'" in error["message"]) == ("no_commit", True)
    assert repo.state()["tasks"][0]["status"] == "pending"


def test_a_hint_goes_to_the_workflow_that_the_caller_named(repo):
    repo.ok("start", "planning", "task", "--task", "one", "--task", "two")
    repo.ok("start", "planning", "other")
    repo.ok("task", "block", "1", "--reason", "no key", "-w", "task")
    aimed = {
        ("task", "done", "1"): "holdfast -w task task start 1",
        ("complete",): "holdfast show task",
        ("complete", "--force"): "holdfast -w task complete --force --reason TEXT",
        ("task", "start", "7"): "holdfast show task",
        ("phase", "start", "Review"): "holdfast show task",
        ("start", "tdd", "x"): "holdfast resume ID",
        ("log", "--type", "tusk"): "holdfast -w task log --limit 20",
    }
    for words, hint in aimed.items():
        assert repo.refused(*words, "-w", "task")["hint"] == hint
    assert repo.refused("advance", "-w", "nobody")["hint"] == "holdfast status"
    assert "next: holdfast -w task task start 1" in repo.run("task", "done", "1", "-w", "task").err
    repo.ok("-w", "task", "task", "start", "1")
