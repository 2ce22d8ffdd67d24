"""Every page on real terminals: narrow and wide, with writing of every kind."""

import sys

import pytest

from holdfast.cli.screen import count_painted_cells
from support.command_line import Folder, clean_environment
from support.git_template import make_repository
from support.pseudoterminal import Pseudoterminal

TITLE = "日本語のとても長い題名で空白がないもの 👩‍👩‍👧‍👧 e\u0301cole ❤️ и русский"
LONG = "a task with many words that does not fit into a narrow terminal at all"
PAGES = [
    *("", "status", "show dev-b25a2dc1", "show survey", "log", "watch --once", "recipes"),
    *("recipes show dev", "gate list", "violation list", "context", "forge show"),
    *("interview show", "delegation list", "initiative show", "loop status", "loop next"),
    *(
        "verify",
        "help",
        "help start",
        "trust --list",
        "resume dev-b25a2dc1",
        "show nosuch",
        "nosuch",
    ),
]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    folder = tmp_path_factory.mktemp("width")
    repo = Folder(folder, clean_environment(folder)).at("work")
    make_repository(repo.path)
    start = [
        "start",
        "dev",
        "feature.md",
        "--title",
        TITLE,
        "--remind",
        TITLE,
        "--set",
        f"k={TITLE}",
    ]
    repo.ok(*start, "--task", TITLE, "--task", LONG)
    repo.ok("violation", "add", "V-1", "LOW", TITLE)
    repo.ok("gate", "record", "spelling", "--passed", f"about={TITLE}")
    repo.ok("initiative", "create", TITLE[:20], "--milestone", f"M1:{TITLE}")
    repo.ok("loop", "new", "survey", "--mode", "knowledge", "--outcome", TITLE)
    repo.ok("loop", "plan", "survey", "--unit", f"R1:{TITLE}", "--criteria", TITLE)
    repo.ok("interview", "record", "--skill", TITLE, "--confidence", "0.8")
    repo.ok("delegation", "record", "--agent", TITLE, "--outcome", "ok")
    repo.ok("forge", "add", "build", TITLE)
    return repo


def on_terminal(place, words, columns, **more):
    command = [sys.executable, "-m", "holdfast", *words]
    environment = {**place.environment, "TERM": "xterm-256color", **more}
    with Pseudoterminal(command, place.path, environment, columns) as terminal:
        terminal.ended()
    assert terminal.code in (0, 1, 2), terminal.text
    return terminal.text.replace("\r\n", "\n").split("\n")


def is_one_word(line):
    """A path that cannot be broken: the terminal folds it, so that it can be copied."""
    return len(line.split()) == 1 and line.isascii()


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_holds_the_width_of_its_terminal(full, page, columns):
    lines = on_terminal(full, page.split(), columns)
    assert [
        line for line in lines if count_painted_cells(line) > columns and not is_one_word(line)
    ] == []


def test_the_environment_has_a_say_in_width_and_colour(full):
    plain = on_terminal(full, ["status"], 200, COLUMNS="60", NO_COLOR="1")
    assert max(map(count_painted_cells, plain)) <= 60
    assert "\x1b" not in "".join(plain)
    assert "\x1b" in "".join(on_terminal(full, ["status"], 60))
    assert "\x1b" not in "".join(on_terminal(full, ["status"], 60, TERM="dumb"))
