"""The skills of the plugin: every command in them is one that Holdfast takes, and those of a block
do, one after the other, what the skill says.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from holdfast import Keeper
from holdfast.cli.parser import load_all, parse
from support.paths import ROOT

COMMANDS = load_all()
SKILLS = {path.parent.name: path for path in sorted((ROOT / "plugin/skills").glob("*/SKILL.md"))}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"([a-z-]+): (.+)")
FIELDS = ["name", "description", "argument-hint", "allowed-tools"]
MAX_WORDS = 1_200
MAX_BYTES = 10_000  # 5,000 tokens, were each no longer than two bytes
MAX_DESCRIPTION = 1_536

ASKS = {
    *("tests run", "gate run", "red", "green", "refactor", "commit"),
    *("phase approve", "phase skip", "gate waive", "abandon", "trust", "repair"),
    *("loop verify", "loop extend", "loop run"),
    *("report", "pr"),
    "initiative finish",
    "initiative archive",
}
"""What a person decides, what runs another program, writes a file or sends anything: a skill must
not do it unasked."""

each_skill = pytest.mark.parametrize("name", SKILLS)


def text_of(name):
    return SKILLS[name].read_text("utf-8")


def front(name):
    """The fields above the text. Each is one line, so that any reader of YAML reads the same."""
    opening, lines, _ = text_of(name).split("---\n", 2)
    assert opening == ""
    pairs = [FIELD.fullmatch(line).groups() for line in lines.splitlines()]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def body(name):
    return text_of(name).split("---\n", 2)[2]


def blocks(name):
    """The lines of the shell blocks, in order."""
    return [
        line
        for language, text in FENCE.findall(body(name))
        if language == "sh"
        for line in text.splitlines()
    ]


def spans(name):
    """What stands between backticks in the text, with its line ends folded."""
    prose = FENCE.sub("", body(name))
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def commands(name):
    """Every command of Holdfast, as words; what is meant to be filled in stands as it is."""
    found = [*blocks(name), *spans(name)]
    return [shlex.split(line)[1:] for line in found if line.startswith("holdfast ")]


def allowed(name):
    """The beginnings of commands that the skill runs without asking."""
    listed = front(name)["allowed-tools"].split(", ")
    matches = [re.fullmatch(r"Bash\(holdfast ([a-z ]+):\*\)", rule) for rule in listed]
    assert all(matches), listed
    return [match[1] for match in matches]


def covered(command, rules):
    return any(command == rule or command.startswith(f"{rule} ") for rule in rules)


# What is written


VERBS = ["apex", "brainstorm", "debug", "oneshot"]


def test_the_skills_are_these():
    others = ["context", "dev", "initiative", "iterate", "resume", "tdd", "workflow"]
    assert sorted(SKILLS) == sorted([*VERBS, *others])


@each_skill
def test_the_skills_that_it_names_exist(name):
    named = re.findall(r"\bholdfast:([a-z]+)", text_of(name))
    assert set(named) <= set(SKILLS) - {name}


@pytest.mark.parametrize("name", VERBS)
def test_a_skill_of_a_verb_workflow_fits_on_two_screens(name):
    assert len(text_of(name).splitlines()) <= 120


@each_skill
def test_it_says_what_it_is_for_and_when(name):
    fields = front(name)
    assert list(fields) == FIELDS
    assert fields["name"] == name
    assert "Use it when" in fields["description"]
    assert len(fields["description"]) <= MAX_DESCRIPTION
    unquoted = [value for value in fields.values() if not value.startswith('"')]
    assert not [value for value in unquoted if ": " in value or " #" in value]


@each_skill
def test_it_is_short_enough_to_survive_a_compaction_whole(name):
    assert len(text_of(name).encode()) <= MAX_BYTES
    assert len(text_of(name).split()) <= MAX_WORDS


@each_skill
def test_nothing_in_it_is_taken_for_an_instruction_of_the_client(name):
    """A client puts arguments in place of ``$1``, and runs what stands in backticks after ``!``."""
    assert not re.search(r"\$\d|!`|\$\{", body(name))
    assert body(name).count("$ARGUMENTS") == 1


@each_skill
def test_every_command_is_understood(name):
    assert commands(name)
    for words in commands(name):
        assert parse(words)["command"] in COMMANDS, words


@each_skill
def test_every_command_stands_where_it_is_checked(name):
    """In a block of its own or between backticks; a block begins no line with anything else."""
    assert not [line for line in blocks(name) if not line.startswith(("holdfast ", "git "))]
    prose = re.sub(r"`[^`]+`", "", FENCE.sub("", body(name)))
    assert not re.search(r"\bholdfast\b", prose)


# What runs unasked


@each_skill
def test_it_runs_unasked_what_only_keeps_state(name):
    rules = allowed(name)
    for rule in rules:
        assert any(covered(command, [rule]) for command in COMMANDS), rule
    unasked = {command for command in COMMANDS if covered(command, rules)}
    assert not unasked & (ASKS | {"hook", "demo", "completion"})


@each_skill
def test_it_asks_for_everything_else_and_for_nothing_else(name):
    used = {parse(words)["command"] for words in commands(name)}
    assert {command for command in used if not covered(command, allowed(name))} <= ASKS


# What the commands do


@pytest.fixture
def project(tmp_path):
    """A repository whose tests pass once there is a file ``code``, and a shell in it."""
    root, tools = tmp_path / "project", tmp_path / "tools"
    for folder in (root / "features", root / "docs", tools):
        folder.mkdir(parents=True)
    (root / "features" / "login.md").write_text("# Login\n\n- [ ] Log people in\n")
    (root / "docs" / "rules.md").write_text("# Rules\n")
    (root / "check").write_text("test -f code\n")
    (tools / "holdfast").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    (tools / "holdfast").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CLAUDE"))}
    person = {"NAME": "Ada", "EMAIL": "ada@example.com"}
    environment = {
        **kept,
        **{f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in person.items()},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(tmp_path),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONIOENCODING": "utf-8",
        "CLAUDE_CODE_SESSION_ID": "session-1",
    }

    def run(line, **more):
        return subprocess.run(
            ["sh", "-c", line],
            cwd=root,
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    begin = (
        "git init -q -b main && git add . && git commit -q -m begin && git init -q --bare ../far"
    )
    begin += " && git remote add origin ../far"
    assert run(begin).returncode == 0
    run.root = root
    return run


FILLED = {
    "FEATURE": "features/login.md",
    "FEATURE_FILE": "features/login.md",
    "BRANCH": "feat/login",
    "N": "1",
    "CMD": "sh check",
    "LINT": "sh -n check",
    "PATHS": ".",
    "PATH": "docs/rules.md",
    "NUMBER": "12",
    "URL": "https://example.org/12",
}
"""What an agent would put in place of the words in capitals; others are text as they are."""
STARTS = {}
"""Lines that the text has written otherwise, for a case that it tells of."""


def play(project, name, meanwhile=("", ""), **filled):
    """Runs the blocks of a skill in their order, doing what the text between them asks for.

    ``meanwhile`` is a command, and what is run before it: a line, or a function of the person's.
    Gives what each command printed.
    """
    values = {**FILLED, **filled}
    said = []
    for written in blocks(name):
        meant = STARTS.get(written, written)
        line = re.sub(r"\b[A-Z_]+\b", lambda word: values.get(word[0], word[0]), meant)
        if meanwhile[0] and line.startswith(meanwhile[0]):
            if callable(meanwhile[1]):
                meanwhile[1]()
            else:
                assert project(meanwhile[1]).returncode == 0
        if line == "holdfast green":
            (project.root / "code").write_text(values["BRANCH"])
        if line.startswith("holdfast gate record pr_created"):
            assert project("git push -q origin HEAD").returncode == 0
        done = project(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
        if line == "git rev-parse HEAD":
            values["SHA"] = done.stdout.strip()
    return said


def approve_plan(project):
    """Approve the plan once there is one, as a person does."""

    def approve():
        keeper = Keeper(str(project.root))
        if keeper.show().state["phase"] == "plan":
            keeper.approve_phase("plan", {"approver": "Ada"})

    return approve


def signal(said):
    """The last line of the last answer."""
    return said[-1].splitlines()[-1]


def test_dev_leads_from_a_feature_file_to_the_signal(project):
    said = play(project, "dev")
    assert said[0].startswith("▶ started dev-")
    assert sum("a test fails, as it must" in answer for answer in said) == 1
    assert signal(said) == "DEV_COMPLETE: Login"
    assert project("git branch --show-current").stdout == "feat/login\n"
    workflow = json.loads(project(f"holdfast show {said[0].split()[2]} --json").stdout)["workflow"]
    assert {phase["status"] for phase in workflow["phases"]} == {"completed"}
    assert {name: gate["evidence"] for name, gate in workflow["gates"].items()} == {
        "lint": "run",
        "test": "run",
        "security_review": "claim",
        "code_simplifier": "claim",
        "pr_created": "check",
    }
    assert project("holdfast verify").returncode == 0


def test_dev_does_the_features_of_a_folder_one_after_the_other(project, monkeypatch):
    (project.root / "features" / "logout.md").write_text("# Logout\n\n- [ ] Log people out\n")
    assert "leave out `--read @FEATURE`" in body("dev")
    assert project("holdfast start dev features --read @features").returncode == 1
    leading = blocks("dev")[0]
    assert leading == "holdfast start dev FEATURE --read @FEATURE"
    monkeypatch.setitem(STARTS, leading, leading.removesuffix(" --read @FEATURE"))
    said = play(project, "dev", FEATURE="features")
    assert "next: features/logout.md" in said[-1]
    assert signal(said) == "DEV_COMPLETE: Login"
    (project.root / "code").unlink()
    second = {"FEATURE_FILE": "features/logout.md", "BRANCH": "feat/logout", "RULE": "Another"}
    said = play(project, "dev", FEATURE="features", **second)
    assert said[0].startswith("▶ resumed dev-")
    assert "next: " not in said[-1]
    assert signal(said) == "DEV_COMPLETE: Logout"


def test_tdd_goes_through_a_cycle_to_the_signal(project):
    said = play(project, "tdd", TASK="Add a login", NAME="test_login")
    assert said[0].startswith("▶ started tdd-")
    assert sum("a test fails, as it must" in answer for answer in said) == 1
    assert signal(said) == "TDD_COMPLETE: Add a login"


def test_tdd_begins_the_next_cycle_with_red(project):
    again = "rm code && holdfast red && ! holdfast complete"
    to_the_end = "echo more > code && holdfast green && holdfast refactor && git add ."
    meanwhile = ("holdfast complete", f"{again} && {to_the_end} && holdfast commit -m More")
    said = play(project, "tdd", meanwhile, TASK="Add a login")
    assert signal(said) == "TDD_COMPLETE: Add a login"
    assert "`holdfast red`, which begins the next cycle" in " ".join(body("tdd").split())
    assert '"cycle_count": 2' in project("cat .claude/workflow-state/completed/tdd-*.json").stdout


def test_workflow_leads_through_phases_of_ones_own_to_the_signal(project):
    head = project("git rev-parse HEAD").stdout.strip()
    ahead = ("holdfast complete", "holdfast advance")
    said = play(project, "workflow", ahead, SHA=head, SUBJECT="Migration")
    assert any(answer.startswith("▶ started migration") for answer in said)
    assert signal(said) == "CUSTOM_COMPLETE: Migration"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_workflow_leads_to_the_signal(project, name):
    (project.root / "code").touch()
    approve = ("holdfast advance", approve_plan(project))
    filled = {"SUBJECT": "Log people in", "CAUSE": "a missing check", "PATHS": "code"}
    said = play(project, name, approve if name == "apex" else ("", ""), **filled)
    assert said[0].startswith(f"▶ started {name}-")
    assert signal(said) == f"{name.upper()}_COMPLETE: Log people in"
    assert project("holdfast verify").returncode == 0


def test_initiative_leads_from_nothing_to_a_completed_milestone(project):
    filled = {"NAME": "Tidy billing", "TITLE": "Map", "TASK": "List readers", "SUBJECT": "Readers"}
    said = play(project, "initiative", **filled)
    assert said[0].startswith("No initiative is known here.")
    assert any(answer.startswith("✓ milestone M1 completed") for answer in said)
    assert "INITIATIVE: Tidy billing, milestone M1" in project("holdfast resume").stdout
    assert project("holdfast verify").returncode == 0


def test_iterate_leads_through_confirmation_and_verification_into_the_archive(project):
    second = [
        "holdfast loop iterate T2 --did all --signal T2_DONE", "holdfast loop confirm T2 --clean",
        "holdfast loop verify T2 --passed",
    ]  # fmt: skip
    meanwhile = ("holdfast loop archive", " && ".join(second))
    said = play(project, "iterate", meanwhile, SLUG="login", CMD="ls")
    assert said[0].startswith("No loop is active here.")
    assert any(answer.startswith("✓ verification of T1: done") for answer in said)
    assert said[-1].startswith("✓ archived: .claude/iterative/archive/login-")
    assert "unfinished" not in said[-1]
    assert project("holdfast verify").returncode == 0


def test_the_words_that_iterate_looks_for_are_those_that_are_said(project):
    project("holdfast loop new login; holdfast loop plan --unit 'T1: One' --max 1")
    project("holdfast loop guardrail add --when w --problem p --solution s")
    project("holdfast loop iterate T1 --did a --remaining b")
    briefing = project("holdfast resume login").stdout
    written = " ".join(body("iterate").split())
    for word in ("GUARDRAILS", "REMAINING", "✅ Workflow restored: ", "NEXT"):
        assert word in briefing
        assert word in written
    assert "ITERATION 1 of 1" in briefing
    project("holdfast loop iterate T1 --did a --remaining b")
    assert "timeout" in project("holdfast loop status").stdout


def test_the_recipe_that_is_shown_is_a_good_one(project):
    (recipe,) = [text for language, text in FENCE.findall(body("workflow")) if language == "toml"]
    folder = project.root / ".claude" / "workflows"
    folder.mkdir(parents=True)
    (folder / "release.toml").write_text(recipe)
    shown = project("holdfast recipes show release")
    assert shown.returncode == 0
    assert "  review  needs approval\n" in shown.stdout


def shown_phases(shown):
    """The names in the list of phases, without what each needs."""
    listed = shown.partition("Phases\n")[2].partition("\nGates")[0]
    return re.findall(r"^  (\S.*?)(?:  .*)?$", listed, re.MULTILINE)


def test_the_phases_that_workflow_names_are_those_of_the_recipes(project):
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|;]+)", body("workflow"), re.MULTILINE)
    named = {recipe: phases.strip().split(", ") for recipe, phases in rows}
    assert list(named) == ["planning", "qa-loop", "implementation", "custom"]
    del named["custom"]
    for recipe, phases in named.items():
        shown = project(f"holdfast recipes show {recipe}").stdout
        assert shown_phases(shown) == phases


def test_resume_takes_up_what_another_session_left(project):
    project("holdfast start dev features/login.md --task One")
    workflow = project("holdfast status").stdout.split()[1]
    for line in blocks("resume"):
        done = project(line.replace("ID", workflow), CLAUDE_CODE_SESSION_ID="session-2")
        assert done.returncode == 0
    assert "✅ Workflow restored: Login, Phase 1/5" in done.stdout


def test_the_words_that_skills_look_for_are_those_that_are_said(project):
    """Each word below stands in a skill, and in what Holdfast prints in that situation."""
    project("holdfast start dev features/login.md --task One --task Two --read @docs/rules.md")
    project("holdfast remind 'Be kind'; holdfast advance; git switch -qc feat/login")
    project("holdfast advance; holdfast gate run lint -- test -e check; touch other")
    project("holdfast task start 1; holdfast gate run test -- test -e nowhere")
    project("holdfast task block 2 --reason 'Ask Ada'")
    project("holdfast task phase 1 red; holdfast tests run -- sh check; git switch -q main")
    briefing = project("holdfast resume").stdout
    written = "".join(" ".join(body(name).split()) for name in SKILLS)
    for word in (
        *("BRANCH MISMATCH", "Resuming task", "NEXT", "BLOCKED", "STALE", "FAILED"),
        *("FAILING TESTS", "REQUIRED READING", "KEY REMINDERS", "✅ Workflow restored: "),
    ):
        assert word in briefing
        assert word in written
    ended = project(
        "git switch -q feat/login && touch code && holdfast green && holdfast refactor"
        " && git add code && holdfast commit -m One && holdfast task start 2"
        " && holdfast task done 2"
    )
    assert ended.returncode == 0, ended
    assert "All tasks complete. " in project("holdfast resume").stdout
    assert "All tasks complete. " in written
    again = project("holdfast start dev features/login.md").stdout
    assert again.startswith("▶ resumed")
    assert "\n  next: " in again
