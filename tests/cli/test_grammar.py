"""The table of commands is what help, the reference and the functions behind it all agree on."""

import inspect
import shlex

import pytest

from handbook.reference import markdown
from holdfast.cli.answer import ChangeCommand
from holdfast.cli.commands import help as cli_help
from holdfast.cli.parser import COMMON, GROUPS, Usage, load_all, parse
from support.paths import ROOT

COMMANDS = load_all()
each_command = pytest.mark.parametrize("name", COMMANDS)


def test_the_reference_is_what_the_table_says():
    written = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert written == markdown(), "run: make docs"


@each_command
def test_every_command_has_its_function(name):
    spec = COMMANDS[name]
    takes = ["keeper", "args"] if spec.takes_keeper else ["args"]
    parameters = inspect.signature(spec.run).parameters
    assert [parameter.strip("_") for parameter in parameters] == takes


CHANGES = [name for name, spec in COMMANDS.items() if isinstance(spec.run, ChangeCommand)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_gives_its_method_what_that_takes(name):
    change = COMMANDS[name].run
    values = [parameter.into for parameter in COMMANDS[name].parameters]
    inspect.signature(change.method).bind(None, **dict.fromkeys([*values, *change.kind.target]))


@each_command
def test_examples_are_understood(name):
    for example in COMMANDS[name].examples:
        program, *words = shlex.split(example.partition(" > ")[0])
        assert program == "holdfast"
        assert parse(words)["command"] == name


@each_command
def test_help_names_every_argument_and_option(name):
    text = cli_help.command_help(name)
    spec = COMMANDS[name]
    for item in (*spec.parameters, *COMMON):
        assert item.name in text
        assert item.about in text
    assert spec.about in cli_help.overview()


@each_command
def test_the_grammar_of_a_command_is_sound(name):
    spec = COMMANDS[name]
    assert not any(argument.is_many for argument in spec.arguments[:-1])
    options = (*COMMON, *spec.options)
    names = [name for option in options for name in (option.name, option.short) if name]
    assert len(names) == len(set(names))
    assert all((option.kind == "flag") == (not option.value) for option in options)


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_lists_its_commands(group):
    members = [name for name in COMMANDS if name.startswith(f"{group} ")]
    assert members
    assert all(f"holdfast {name}" in cli_help.help_text(group.split()) for name in members)


@pytest.mark.parametrize(
    ("topic", "hint"),
    [(["tsk"], "holdfast help task"), (["task", "dnoe"], "holdfast help task done")],
)
def test_help_for_an_unknown_command_names_the_one_that_was_meant(topic, hint):
    with pytest.raises(Usage) as caught:
        cli_help.help_text(topic)
    assert caught.value.hint == hint


def test_the_first_page_of_help_fits_a_small_terminal_with_its_prompt():
    lines = cli_help.help_text([]).split("\n")
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80


def test_the_first_page_has_commands_that_exist_and_names_the_way_to_the_others():
    page = cli_help.help_text([])
    for line, _ in [row for rows in cli_help.DAILY.values() for row in rows]:
        assert line in page
        assert parse(line.replace(" N", " 1").split())["command"] in COMMANDS
    assert "holdfast help --all" in page
    assert cli_help.help_text([], everything=True) == cli_help.overview()


def test_help_lines_fit_a_terminal():
    pages = [cli_help.help_text(name.split()) for name in (*GROUPS, *COMMANDS)]
    pages.append(cli_help.overview())
    assert [line for page in pages for line in page.split("\n") if len(line) > 96] == []
