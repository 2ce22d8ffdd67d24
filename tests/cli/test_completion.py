"""What can be completed where: the table says it, and stored names do no harm on their way."""

import contextlib
import fcntl
import os
import shlex
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.cli.commands import completion
from holdfast.cli.commands.completion import join_pieces, quote, unquote
from holdfast.cli.parser import COMMON, GROUPS, Usage, load_all, parse
from promises.hostile import HOSTILE
from support.workshop import HOME

COMMANDS = load_all()
FREE = {"TEXT", "KEY=VALUE", "COMMAND", "WORD", "CODE", "DETAILS", "SKILL", "KEY", "TITLE", "QUERY"}
"""Arguments in which people write what they like."""


def values(line):
    """What is offered for the last word of the line; a space at its end begins a new one."""
    words = line.split(" ")
    return [value for value, _ in completion.candidates(words)]


def lines(shell, *words):
    return list(completion.answer({"shell": shell, "words": list(words)}).lines(None))


# What the table says


def test_a_name_can_go_on_with_every_command_of_the_table():
    tops = dict.fromkeys(name.partition(" ")[0] for name in COMMANDS)
    assert values("") == list(tops)
    for group in {name.partition(" ")[0] for name in COMMANDS if " " in name}:
        below = [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")]
        inner = list(dict.fromkeys(name.partition(" ")[0] for name in below))
        assert values(f"{group} ")[: len(inner)] == inner
    assert values("loop guardrail ") == ["add"]
    about = dict(completion.candidates([""]))
    tops = [group for group in GROUPS if " " not in group]
    assert all(about[group].rstrip("…") in GROUPS[group] for group in tops)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_offered(name):
    options = [option.name for option in (*COMMON, *COMMANDS[name].options)]
    assert values(f"{name} --") == options


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_names_something_or_is_free(name):
    """A new argument says what its values are (``values`` in the table), or is listed in FREE."""
    for positional in COMMANDS[name].arguments:
        assert positional.names or positional.name in FREE
    kinds = {parameter.names for parameter in (*COMMON, *COMMANDS[name].parameters)}
    assert kinds <= {"", *completion._FINDERS}


def test_an_option_that_was_given_is_not_offered_again_unless_it_can_be_repeated():
    offered = values("start dev --title x --task y --")
    assert "--title" not in offered
    assert "--task" in offered


@pytest.mark.parametrize(
    "line", ["nosuch ", "task nosuch ", "show --nosuch ", "log --limit x ", "show a b"]
)
def test_a_line_that_is_wrong_already_is_not_completed(current_shop, line):
    assert values(line) == []


def test_help_and_completion_know_their_words():
    assert values("help task ") == [n.partition(" ")[2] for n in COMMANDS if n.startswith("task ")]
    assert values("completion ") == list(completion.SHELLS)


# What the workspace says


@pytest.fixture
def current_shop(shop, monkeypatch):
    """A workshop that is the current folder, of nobody's session."""
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDE_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(shop.root)
    return shop


GATES = ["lint", "test", "security_review", "code_simplifier", "pr_created"]


@pytest.fixture
def busy(current_shop):
    keeper = current_shop.keeper()
    phases, tasks = ["plan", "build it"], ["one", "two", "three"]
    old = keeper.start("tdd", "old").state["id"]
    keeper.abandon(workflow=old)
    other = keeper.start("planning", "other", phases=["elsewhere"], branch="b2").state["id"]
    mine = keeper.start("dev", "mine", phases=phases, tasks=tasks).state["id"]
    keeper.complete_task(1, workflow=mine)
    current_shop.ids = {"mine": mine, "other": other, "old": old}
    current_shop.write(".claude/workflows/own.toml", b'format = "verb"\n[[phases]]\nname = "x"\n')
    current_shop.write(".claude/workflows/bad.toml", b"format = 7\n")
    current_shop.write("docs/plan.md", b"")
    current_shop.write("docs/more/deep.md", b"")
    current_shop.write("README.md", b"")
    return current_shop


def test_names_of_the_workspace_are_offered_where_they_belong(busy):
    ids = [busy.ids[name] for name in ("mine", "other", "old")]
    for line in ("show ", "resume ", "log ", "show -w ", "show --workflow ", "-w "):
        assert values(line) == ids
    assert values("show --workflow=") == [f"--workflow={name}" for name in ids]
    assert values("show -w=d") == [f"-w={name}" for name in ids]
    for line in ("start ", "recipes show "):
        assert {"own", "dev", "qa-loop"} < set(values(line))
        assert "bad" not in values(line)
    assert values("phase start ") == ["plan", "build it"]
    assert values("files add x --phase ") == ["plan", "build it"]
    assert values("phase complete -w other ") == ["elsewhere"]
    assert values("task reopen ") == values("task move 1 --before ") == ["1", "2", "3"]
    assert values("task done ") == values("task block --reason x ") == ["2", "3"]
    assert values("gate run ") == GATES
    assert values("gate run -w other ") == []
    assert values("task add ") == values("set ") == values("remind ") == []
    assert values("phase start plan ") == []


def test_steps_are_those_of_the_current_phase(current_shop):
    current_shop.keeper().start("dev", "x")
    assert values("step ") == []
    steps = GATES[:-1]
    assert values("gate run ") == values("gate waive ") == GATES
    for name in ("load_feature", "create_branch", "task_execution"):
        current_shop.keeper().skip_phase(name, "not needed here")
    assert values("step ") == steps


def test_files_are_offered_from_the_root_of_the_worktree(busy, monkeypatch):
    here = ["@README.md", "@docs/", "@untracked/"]
    assert values("read @") == values("read ") == here
    assert values("read @docs/") == ["@docs/more/", "@docs/plan.md"]
    assert values("start dev x --read @docs/more/d") == ["@docs/more/deep.md"]
    assert values("start dev x --read=@docs/more/") == ["--read=@docs/more/deep.md"]
    assert "@.claude/" in values("read @.")
    assert values("read @nosuch/") == values("read @README.md/") == []
    monkeypatch.chdir(busy.path("docs"))
    assert values("read @") == here
    assert values("start dev ") == values("files add ") == [path[1:] for path in here]


def test_where_there_is_no_workspace_there_is_nothing_to_offer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in ("show ", "task done ", "phase start ", "gate run ", "step ", "-w ", "read @"):
        assert values(line) == []
    assert "dev" in values("start ")
    assert os.listdir(tmp_path) == []


def test_completion_changes_nothing_and_waits_for_nobody(busy):
    """Edited records, unknown ones and an expired workflow all stay for a command that is run."""
    record = busy.keeper().show(workflow=busy.ids["mine"]).state["record"]
    busy.edit(record, lambda document: document["context"].update(edited=True))
    busy.write(".claude/workflow-state/active/dev-strange.json", b"{")
    before = busy.files()
    with open(busy.path(HOME, "lock"), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for line in ("show ", "task done ", "phase start ", "start ", "read @", "gate run "):
            assert values(line) != []
    assert busy.files() == before


def test_a_ledger_that_cannot_be_read_completes_nothing(busy):
    os.rename(busy.path(HOME), busy.path("aside"))
    os.symlink("/", busy.path(HOME))
    assert values("show ") == values("task done ") == []


# What strangers say


def test_no_stored_name_gets_out_but_on_one_visible_line(current_shop):
    keeper = current_shop.keeper()
    names = list(dict.fromkeys(text[:100] for text in HOSTILE.values()))
    phases = [name for name in names if name.strip()]
    state = keeper.start("custom", "x", phases=phases, title=HOSTILE["colour"]).state
    for shell in completion.SHELLS:
        for words in (["phase", "start", ""], ["-w", ""]):
            for line in lines(shell, *words):
                assert all(c.isprintable() or c in "\t\u200d" for c in line)
                assert not line.startswith("-")
    found = [line.partition("\t")[0] for line in lines("fish", "phase", "start", "")]
    assert HOSTILE["shell"] in found
    assert HOSTILE["closing tag"] in found
    assert HOSTILE["lines"] not in found
    assert [line for line in lines("bash", "-w", "") if line != state["id"]] == []


def test_a_name_that_looks_like_an_option_is_offered_after_two_dashes_alone(current_shop):
    current_shop.keeper().start("custom", "x", phases=["--force", "calm"])
    assert values("phase start ") == ["calm"]
    assert values("phase start -- ") == ["--force", "calm"]


texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


@given(texts)
@example("$(touch pwned)")
@example('it\'s "quoted" \\ `id` !!')
def test_what_is_quoted_for_bash_is_the_text_again(text):
    assert unquote(quote(text, "")) == (text, "", 0)
    assert shlex.split(quote(text, "")) == [text]


def test_bash_itself_reads_what_was_quoted(tmp_path):
    found = []

    @settings(max_examples=200, database=None)
    @given(texts)
    def collect(text):
        found.append(text)

    collect()
    found += [text for text in HOSTILE.values() if text.isprintable()]
    words = " ".join(quote(text, "") for text in found)
    script = f"printf '%s\\0' {words}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        cwd=tmp_path,
        check=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    assert done.stdout.decode().split("\0")[:-1] == found
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("pieces", "words", "kept", "quote"),
    [
        (["show", ""], ["show", ""], "", ""),
        (["show", "--workflow", "=", "de"], ["show", "--workflow=de"], "--workflow=", ""),
        (["show", "-w", "="], ["show", "-w="], "-w=", ""),
        (["read", "@", "do"], ["read", "@do"], "", ""),
        (["read", "@"], ["read", "@"], "", ""),
        (["start", "--read", "=@", "do"], ["start", "--read=@do"], "--read=", ""),
        (["set", "a", "=", "1", "b"], ["set", "a=1", "b"], "", ""),
        (["step", "a", ":", "b"], ["step", "a:b"], "a:", ""),
        (["step", "'Fix I"], ["step", "Fix I"], "", "'"),
        (["step", '"Fix \\"I'], ["step", 'Fix "I'], "", '"'),
        (["step", "Fix\\ I"], ["step", "Fix I"], "", ""),
        (["step", "'it'\\''s b"], ["step", "it's b"], "it'", "'"),
        (["'a b'", "x"], ["a b", "x"], "", ""),
        (["="], ["="], "=", ""),
    ],
)
def test_the_pieces_of_bash_are_words_again(pieces, words, kept, quote):
    assert join_pieces(pieces) == (words, kept, quote)


@given(st.lists(st.text("ab'\"\\=:@ $-", max_size=6), min_size=1, max_size=5))
def test_any_pieces_are_some_words(pieces):
    words, kept, quote = join_pieces(pieces)
    assert words
    assert words[-1].startswith(kept)
    assert quote in ("", "'", '"')


@example(["help", "", ""])
@given(st.lists(st.text(max_size=6) | st.sampled_from([*COMMANDS, "-w", "--", "="]), min_size=1))
def test_any_line_is_completed_or_not_but_never_crashes(words):
    with contextlib.chdir(os.path.dirname(__file__)):
        for shell in completion.SHELLS:
            lines(shell, *[part for word in words for part in word.split(" ")])


# The command itself


def test_a_shell_that_is_not_known_is_a_usage_error():
    with pytest.raises(Usage) as caught:
        completion.answer(parse(["completion", "tcsh"]))
    assert "bash, zsh, fish" in caught.value.message


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_says_first_how_it_is_installed(shell):
    script = completion.answer(parse(["completion", shell])).fields()["script"]
    head = script.partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert head.count(f"holdfast completion {shell}") == 2


def test_a_keeper_names_the_workflows_that_can_be_meant(busy):
    rows = Keeper(busy.root).known(most=200)
    assert {row["id"] for row in rows} == set(busy.ids.values())
    assert Keeper(busy.root).known(most=1)[0]["id"] in busy.ids.values()
    assert Keeper(busy.root).known(most=200, format="loop") == []
