"""What users see stays as it is: every answer and every file of the golden story.

``HOLDFAST_GOLDEN=update`` writes the pages anew; their diff is what the change does to users.
"""

import difflib
import json
import os
import shlex

import pytest

import holdfast
from golden.chapters import CHAPTERS
from golden.record import pages_of
from golden.stage import Runner
from golden.steps import Fire, Run, Serve
from holdfast.answers import is_command_hint
from holdfast.cli.parser import load_all, parse
from holdfast.hooks.handlers import EVENTS
from holdfast.mcp import memory, workflow_tools

COMMANDS = load_all()
EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected")
IS_UPDATE = os.environ.get("HOLDFAST_GOLDEN") == "update"
SHOWN = 120
STEPS = [
    Run(step) if isinstance(step, str) else step for steps in CHAPTERS.values() for step in steps
]


@pytest.fixture(scope="session")
def runner():
    with Runner(os.path.dirname(os.path.dirname(holdfast.__file__))) as started:
        yield started


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_reads_as_it_did(chapter, runner):
    pages, files, files_with_json = pages_of(chapter, runner)
    assert files_with_json == files
    changes = [line for name, text in pages.items() for line in changed(name, text)]
    assert not changes, "\n".join(["", *changes[:SHOWN], f"({len(changes)} lines of changes)"])


def changed(name, text):
    """Return the difference to the golden page; an update leaves none."""
    path = os.path.join(EXPECTED, name)
    if IS_UPDATE:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return []
    with open(path, encoding="utf-8") as file:
        before = file.read()
    lines = before.splitlines(), text.splitlines()
    return list(difflib.unified_diff(*lines, name, "now", n=2, lineterm=""))


def test_no_page_is_left_of_a_chapter_that_is_no_more():
    assert {name.partition(".")[0] for name in os.listdir(EXPECTED)} == set(CHAPTERS)


def test_every_command_is_in_the_story():
    typed = [shlex.split(step.line) for step in STEPS if isinstance(step, (Run, Serve))]
    names = {" ".join(words[:count]) for words in typed for count in (1, 2, 3)}
    assert set(COMMANDS) <= names


def test_every_event_of_a_client_is_in_the_story():
    assert set(EVENTS) <= {step.event for step in STEPS if isinstance(step, Fire)}


@pytest.mark.parametrize(("line", "known"), [("mcp", workflow_tools), ("mcp memory", memory)])
def test_every_tool_of_a_server_is_in_the_story(line, known):
    talks = [step.requests for step in STEPS if isinstance(step, Serve) and step.line == line]
    called = {params.get("name") for requests in talks for _, params in requests}
    assert {tool["name"] for tool in known.TOOLS} <= called


def answers_of(page):
    """Yield the JSON answers of a golden page."""
    with open(os.path.join(EXPECTED, page), encoding="utf-8") as file:
        shown = [line[2:] if line.startswith("| ") else "" for line in file.read().splitlines()]
    for text in "\n".join(shown).split("\n\n"):
        if text.strip().startswith('{\n  "'):
            yield json.loads(text)


def test_every_next_command_is_one_that_can_be_typed():
    """Also the hint of a refusal, where that is a command: people read it as the next one."""
    pages = [page for page in os.listdir(EXPECTED) if page.endswith(".json.txt")]
    answers = [answer for page in pages for answer in answers_of(page)]
    steps = [answer.get("next") for answer in answers]
    hints = [answer["error"]["hint"] for answer in answers if "error" in answer]
    commands = {tuple(step["command"]) for step in steps if isinstance(step, dict)}
    commands |= {tuple(shlex.split(hint)) for hint in hints if is_command_hint(hint)}
    assert len(commands) > 80
    for program, *words in sorted(commands):
        if program == "holdfast":
            parse(words)
