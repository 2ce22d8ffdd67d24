"""The command line as it is read: what the words become, and what is said of those that fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.commands.help import nearest
from holdfast.cli.parser import GROUPS, Usage, json_or_text, load_all, parse

COMMANDS = load_all()


def usage_error(*words):
    with pytest.raises(Usage) as caught:
        parse(list(words))
    assert caught.value.code == "usage"
    assert caught.value.hint.startswith("holdfast ")
    return caught.value


def test_every_value_of_start_arrives():
    args = parse(
        [
            *("start", "dev", "docs/plan.md", "--title", "A title", "--task=One", "--task", "Two"),
            *("--phase", "plan", "--read", "@a.md", "--read", "@b.md", "--remind", "Look"),
            *("--set", "ticket=A-1", "--set=n=3", "--branch", "main", "--ttl", "24h"),
            *("--session", "s1", "--id", "retry-1", "--json", "--label", "x", "--after", "one"),
        ]
    )
    own, target, is_aimed = args.pop("own"), args.pop("target"), args.pop("is_aimed")
    assert (target, is_aimed) == ({"workflow": None, "id": "retry-1"}, True)
    assert {name: args[name] for name in own} == own
    assert set(args) - set(own) == {"command", "session", "id", "workflow", "json", "help"}
    assert args == {
        "command": "start",
        "recipe": "dev",
        "subject": "docs/plan.md",
        "title": "A title",
        "tasks": ["One", "Two"],
        "phases": ["plan"],
        "again": False,
        "reading": ["@a.md", "@b.md"],
        "reminders": ["Look"],
        "context": {"ticket": "A-1", "n": 3},
        "branch": "main",
        "ttl": "24h",
        "replace": False,
        "session": "s1",
        "id": "retry-1",
        "initiative": None,
        "milestone": None,
        "labels": ["x"],
        "after": ["one"],
        "workflow": None,
        "json": True,
        "help": False,
    }


def test_what_is_not_given_has_its_empty_form():
    args = parse(["start", "dev"])
    assert (args["subject"], args["title"], args["tasks"], args["context"]) == (None, None, [], {})
    assert parse(["complete"])["force"] is False
    assert parse(["phase", "start", "plan"])["fields"] == {}


@pytest.mark.parametrize(
    "words",
    [
        ["task", "done", "3", "--json", "-w", "dev-1"],
        ["task", "--json", "done", "-w", "dev-1", "3"],
        ["task", "done", "--workflow=dev-1", "--json", "3"],
        ["task", "done", "-w=dev-1", "--json", "--", "3"],
        ["--json", "-w", "dev-1", "task", "done", "3"],
    ],
)
def test_options_stand_anywhere(words):
    args = parse(words)
    assert (args["command"], args["task"], args["workflow"]) == ("task done", 3, "dev-1")
    assert args["json"] is True


def test_a_double_dash_ends_the_options():
    args = parse(["task", "add", "--", "--json"])
    assert (args["texts"], args["json"]) == (["--json"], False)


@pytest.mark.parametrize("text", ["-", "- an item", "-5", "", " ", "@x", "=", "a=b"])
def test_text_that_is_no_option_is_text(text):
    assert parse(["remind", text])["text"] == text


def test_a_value_may_begin_with_a_dash():
    assert parse(["task", "block", "1", "--reason", "-x"])["reason"] == "-x"
    assert parse(["task", "block", "1", "--reason=--json"])["reason"] == "--json"


def test_a_value_may_be_empty_but_an_id_may_not():
    assert parse(["abandon", "--reason", ""])["reason"] == ""
    assert parse(["show", "--session="])["session"] == ""
    for words in (["show", "-w", ""], ["show", ""], ["task", "done", "1", "--id="]):
        assert "is empty" in usage_error(*words).message


def test_the_workflow_can_be_named_by_place_or_by_option():
    assert parse(["show", "dev-1"])["workflow"] == "dev-1"
    assert parse(["show", "dev-1", "-w", "dev-1"])["workflow"] == "dev-1"
    assert "given twice" in usage_error("show", "dev-1", "-w", "dev-2").message


@pytest.mark.parametrize(("word", "task"), [("3", 3), ("03", "03"), ("U1", "U1"), ("2.5", "2.5")])
def test_a_task_is_a_number_where_it_looks_like_one(word, task):
    assert parse(["task", "start", word])["task"] == task


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("true", True),
        ("false", False),
        ("null", None),
        ('"x"', "x"),
        ('"3"', "3"),
        ("[1, 2]", [1, 2]),
        ('{"a": {"b": null}}', {"a": {"b": None}}),
        ("", ""),
        ("abc", "abc"),
        ("01", "01"),
        ("-0", "-0"),
        ("1.10", "1.10"),
        ("1.0", "1.0"),
        ("1234e56", "1234e56"),
        ("1e999", "1e999"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ("NaN", "NaN"),
        ("-inf", "-inf"),
        ("-Infinity", "-Infinity"),
        ("[NaN]", "[NaN]"),
        ("True", "True"),
        (" 1", " 1"),
        ("{broken}", "{broken}"),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('"\\ud800"', '"\\ud800"'),
        ('"', '"'),
        ("-", "-"),
        ("[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
        ("9" * 5_000, "9" * 5_000),
    ],
)
def test_a_value_is_json_or_else_text(text, value):
    found = json_or_text(text)
    assert found == value
    assert type(found) is type(value)


@given(st.text())
def test_any_text_is_a_value(text):
    json_or_text(text)


def test_a_pair_keeps_what_follows_its_first_equals_sign():
    assert parse(["set", "url=a=b", "empty="])["fields"] == {"url": "a=b", "empty": ""}


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["tsk", "done", "3"], "did you mean 'task'?", "holdfast task done 3"),
        (["task", "dnoe", "3"], "did you mean 'done'?", "holdfast task done 3"),
        (["done", "3"], "did you mean 'task done'?", "holdfast task done 3"),
        (["stat"], "did you mean 'status'?", "holdfast status"),
        (["frobnicate"], "no command 'frobnicate' (argument 1)", "holdfast help"),
        (["task", "x" * 200], "has no 'xxx", "holdfast help task"),
        (["task"], "needs one of: add, start, phase, done, block", "holdfast help task"),
        (
            ["start", "dev", "--tilte=A b"],
            "did you mean --title?",
            "holdfast start dev '--title=A b'",
        ),
        (["show", "--frobnicate"], "(argument 2)", "holdfast help show"),
        (["--title", "x"], "holdfast has no option '--title' (argument 1)", "holdfast help"),
        (["complete", "--force=yes"], "takes no value", "holdfast help complete"),
        (["show", "-w"], "nothing follows it", "holdfast help show"),
        (["show", "-w", "--json"], "'--json' follows it", "holdfast help show"),
        (["show", "-w", "--"], "'--' follows it", "holdfast help show"),
        (["start"], "needs RECIPE", "holdfast help start"),
        (["set"], "needs KEY=VALUE", "holdfast help set"),
        (["task", "block", "1"], "needs --reason TEXT", "holdfast help task block"),
        (
            ["remind", "two", "words", "-w", "x"],
            "'words' (argument 3) is too many",
            "holdfast remind 'two words' -w x",
        ),
        (["verify", "x"], "takes no arguments", "holdfast help verify"),
        (["show", "a", "b"], "'b' (argument 3) is too many", "holdfast help show"),
        (["start", "dev", "--title", "a", "--title", "b"], "given twice", "holdfast help start"),
        (["set", "a=1", "a=2"], "a was given twice", "holdfast help set"),
        (["set", "a"], "it has no `=`", "holdfast help set"),
        (["set", "=a"], "the key before the `=` is empty", "holdfast help set"),
        (["log", "--limit", "0"], "a whole number from 1, not '0'", "holdfast help log"),
        (["log", "--limit", "x"], "a whole number from 1, not 'x'", "holdfast help log"),
    ],
)
def test_a_mistake_is_answered_with_where_why_and_what_next(words, said, hint):
    error = usage_error(*words)
    assert said in error.message
    assert error.hint == hint


@pytest.mark.parametrize("text", ["caf\udce9", "a\0b"])
def test_text_that_no_record_can_hold_is_refused_by_its_place(text):
    error = usage_error("task", "add", text)
    assert error.message.startswith("argument 3, ")
    assert error.message.isprintable()
    usage_error("task", "done", "1", f"--commit={text}")
    usage_error(text)


def test_a_mistake_repeats_no_more_than_a_line_of_what_was_given():
    error = usage_error("task", "x" * 100_000)
    assert len(error.message) < 300
    assert len(usage_error("remind", "x", "y" * 100_000).hint) < 300


@given(st.lists(st.text(max_size=8) | st.sampled_from([*COMMANDS, *GROUPS, "-w", "--json", "--"])))
def test_any_words_are_values_or_a_usage_error(words):
    try:
        args = parse([part for word in words for part in word.split(" ")])
    except Usage as error:
        assert error.message
        assert error.hint
    else:
        assert args["command"] in {"", *COMMANDS}


@pytest.mark.parametrize("words", [[], ["--json"], ["-w", "dev-1"], ["--"]])
def test_no_command_at_all_asks_what_is_going_on(words):
    assert parse(words)["command"] == ""
    assert parse(words)["workflow"] == ("dev-1" if "-w" in words else None)


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h", "--json"]])
def test_help_of_everything(words):
    args = parse(words)
    assert (args["command"], args["topic"]) == ("help", [])


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        (["task", "done", "--help"], ["task", "done"]),
        (["task", "-h"], ["task"]),
        (["help", "task", "done"], ["task", "done"]),
        (["help", "start", "--help"], ["start"]),
        (["start", "--help", "--title", "x"], ["start"]),
    ],
)
def test_help_needs_no_complete_command_line(words, topic):
    args = parse(words)
    assert (args["command"], args["topic"]) == ("help", topic)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("statsu", "status"),
        ("shwo", "show"),
        ("comp", "complete"),
        ("resumee", "resume"),
        ("x", None),
        ("", None),
        ("entirely-else", None),
        ("y" * 10_000, None),
    ],
)
def test_the_nearest_name_is_found_when_it_is_near(word, meant):
    assert nearest(word, ["status", "show", "complete", "resume"]) == meant
