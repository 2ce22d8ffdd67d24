"""Recipes: the shipped ones are as promised, and a workspace's own win over them."""

import os
import subprocess
import sys

import pytest

from holdfast.errors import Fault
from holdfast.workspace import recipes
from holdfast.workspace.recipes import BadRecipe, NoRecipe, check, load, names

LOOP = "discover plan execute verify deliver complete"
SHIPPED = {
    "apex": ("verb", "analyze plan implement review git-commit"),
    "oneshot": ("verb", "fix git-commit"),
    "debug": ("verb", "troubleshoot fix implement git-commit"),
    "brainstorm": ("verb", "brainstorm research design"),
    "planning": ("formal", "Research Requirements Design Plan Review Sign-off"),
    "qa-loop": ("formal", "Run_QA Fix_Issues Verify"),
    "implementation": ("formal", "Design Build Test Deploy"),
    "custom": ("formal", "Work"),
    "dev": ("skill", "load_feature create_branch task_execution verification pr_creation"),
    "tdd": ("skill", "red green refactor commit"),
    "loop-development": ("loop", LOOP),
    "loop-knowledge": ("loop", LOOP),
}
NEEDS = {
    "apex": {"plan": ["approval"], "implement": ["tasks"], "git-commit": ["commit"]},
    "oneshot": {"fix": ["tasks"], "git-commit": ["commit"]},
    "debug": {"fix": ["tasks"], "implement": ["tasks"], "git-commit": ["commit"]},
    "planning": {"Sign-off": ["approval"]},
    "qa-loop": {"Fix Issues": ["tasks"], "Verify": ["gates"]},
    "implementation": {"Build": ["tasks"], "Test": ["gates"]},
    "custom": {"Work": ["tasks"]},
    "dev": {
        "create_branch": ["branch"],
        "task_execution": ["tasks"],
        "verification": ["gates"],
        "pr_creation": ["gates"],
    },
    "tdd": {"red": ["failure"], "green": ["tests"], "refactor": ["tests"], "commit": ["commit"]},
}
TTL = {"verb": "24h", "skill": "7d", "formal": None, "loop": None}


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / ".claude" / "workflows").mkdir(parents=True)

    def write(name, text):
        path = tmp_path / ".claude" / "workflows" / f"{name}.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    write.root = str(tmp_path)
    return write


GOOD = 'format = "verb"\n[[phases]]\nname = "only"\n'


# The shipped ones


def test_twelve_recipes_are_shipped():
    assert names() == sorted(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_recipe_has_its_format_phases_and_lifetime(name):
    recipe = load(name)
    form, phases = SHIPPED[name]
    assert (recipe["name"], recipe["format"]) == (name, form)
    assert [phase["name"].replace(" ", "_") for phase in recipe["phases"]] == phases.split()
    assert recipe.get("ttl") == TTL[form]


def test_apex_plan_needs_approval_and_nothing_else_does():
    needs = {phase["name"]: phase.get("needs", []) for phase in load("apex")["phases"]}
    assert [name for name, asked in needs.items() if "approval" in asked] == ["plan"]
    assert not any("approval" in phase for phase in load("apex")["phases"])


def test_shipped_phases_ask_for_what_they_are_about():
    for name in SHIPPED:
        needs = {phase["name"]: phase.get("needs", []) for phase in load(name)["phases"]}
        assert {phase: asked for phase, asked in needs.items() if asked} == NEEDS.get(name, {})


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        (
            "debug",
            {
                "troubleshoot": ["fix", "implement"],
                "fix": ["git-commit"],
                "implement": ["git-commit"],
            },
        ),
        (
            "brainstorm",
            {"brainstorm": ["research", "design"], "research": ["design", "brainstorm"]},
        ),
    ],
)
def test_verb_recipe_branches(name, ways):
    phases = load(name)["phases"]
    assert {phase["name"]: phase["next"] for phase in phases if "next" in phase} == ways


def test_dev_has_gates_steps_sub_phases_and_a_branch_of_its_own():
    dev = load("dev")
    phases = {phase["name"]: phase for phase in dev["phases"]}
    gates = ["lint", "test", "security_review", "code_simplifier", "pr_created"]
    takes = ["run", "run", "claim", "claim", "check"]
    assert dev["gates"] == {
        gate: {"status": "pending", "evidence": evidence}
        for gate, evidence in zip(gates, takes, strict=True)
    }
    assert dev["task_needs"] == {"red": ["failure"], "green": ["tests"], "refactor": ["tests"]}
    assert phases["verification"]["steps"] == gates[:4]
    assert phases["create_branch"]["sets_branch"] is True
    assert dev["task_phases"] == ["red", "green", "refactor"]
    assert dev["subject_key"] == "feature_file"
    assert dev["context"] == {"folder_mode": False, "folder_features": []}


def test_tdd_begins_a_cycle_at_red():
    assert load("tdd")["cycles_at"] == "red"
    assert load("tdd")["subject_key"] == "task_description"


def test_loops_differ_in_mode():
    assert load("loop-development")["mode"] == "development"
    assert load("loop-knowledge")["mode"] == "knowledge"


@pytest.mark.parametrize("name", SHIPPED)
def test_checking_a_checked_recipe_changes_nothing(name):
    recipe = load(name)
    assert check(recipe, name) == recipe


# A workspace's own


def test_recipe_of_the_workspace_is_found_beside_the_shipped_ones(workspace):
    workspace("release", GOOD)
    assert "release" in names(workspace.root)
    assert "apex" in names(workspace.root)
    assert "release" not in names()
    assert load("release", workspace.root)["phases"] == [{"name": "only"}]


def test_recipe_of_the_workspace_wins_over_the_shipped_one(workspace):
    workspace("apex", GOOD)
    assert [phase["name"] for phase in load("apex", workspace.root)["phases"]] == ["only"]
    assert len(load("apex")["phases"]) == 5


def test_workspace_without_a_folder_has_the_shipped_ones(tmp_path):
    assert names(str(tmp_path)) == names()
    (tmp_path / ".claude").write_text("a file")
    assert names(str(tmp_path)) == names()


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n")])
def test_bom_and_crlf_are_no_trouble(workspace, text):
    workspace("mine", text)
    assert load("mine", workspace.root)["format"] == "verb"


def test_unknown_name_lists_the_known_ones(workspace):
    workspace("release", GOOD)
    with pytest.raises(NoRecipe) as caught:
        load("relaese", workspace.root)
    assert caught.value.name == "relaese"
    assert caught.value.known == names(workspace.root)
    assert "relaese" in caught.value.message
    assert "release" in caught.value.message


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../apex",
        "/apex",
        "a/b",
        "a\0b",
        "-x",
        "apex.toml",
        "a\nb",
        "é",
        "x" * 10_000,
    ],
)
def test_unsafe_name_is_no_recipe_and_never_a_path(workspace, name):
    with pytest.raises(NoRecipe) as caught:
        load(name, workspace.root)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500


def test_file_with_an_unsafe_name_is_not_offered(workspace):
    workspace("with space", GOOD)
    workspace("-dash", GOOD)
    assert names(workspace.root) == names()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("format = ", "is not TOML"),
        ('format = "verb"\nformat = "verb"\n', "is not TOML"),
        (b"\xff\xfe", "is not UTF-8"),
        (f"context = {'[' * 5_000}{']' * 5_000}", "nested too deeply"),
        (f"ttl = {'9' * 10_000}", "too large"),
        ("#" * 300_000, "larger than"),
    ],
)
def test_file_that_cannot_be_read_as_toml_is_refused(workspace, text, why):
    path = workspace("mine", text)
    with pytest.raises(BadRecipe) as caught:
        load("mine", workspace.root)
    assert caught.value.key == "file"
    assert why in caught.value.why
    assert "mine" in caught.value.message
    assert str(path) in caught.value.hint


def test_syntax_error_names_the_line(workspace):
    workspace("mine", 'format = "verb"\n[[phases\n')
    with pytest.raises(BadRecipe, match="line 2"):
        load("mine", workspace.root)


def test_empty_file_misses_its_format(workspace):
    workspace("mine", "")
    with pytest.raises(BadRecipe) as caught:
        load("mine", workspace.root)
    assert (caught.value.key, caught.value.why) == ("format", "is missing")


def test_link_out_of_the_workspace_is_refused_unread(workspace, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.toml"
    secret.write_text("password = 'hunter2'")
    os.symlink(secret, os.path.join(workspace.root, ".claude", "workflows", "mine.toml"))
    with pytest.raises(BadRecipe, match="leads out of the workspace") as caught:
        load("mine", workspace.root)
    assert "password" not in str(caught.value)


def test_link_inside_the_workspace_is_followed(workspace):
    path = workspace("shared", GOOD)
    os.symlink(path, path.with_name("mine.toml"))
    assert load("mine", workspace.root)["name"] == "mine"


def test_folder_or_pipe_in_place_of_a_file_is_refused_at_once(workspace):
    folder = os.path.join(workspace.root, ".claude", "workflows")
    os.mkdir(os.path.join(folder, "mine.toml"))
    os.mkfifo(os.path.join(folder, "pipe.toml"))
    for name in ("mine", "pipe"):
        with pytest.raises(BadRecipe, match="not an ordinary file"):
            load(name, workspace.root)


def test_folder_that_cannot_be_listed_is_a_fault(workspace, monkeypatch):
    scandir = os.scandir

    def denied(path):
        if path.startswith(workspace.root):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(Fault, match="cannot be read"):
        names(workspace.root)


def test_file_that_cannot_be_opened_is_a_fault(workspace, monkeypatch):
    workspace("mine", GOOD)

    opened = os.open

    def denied(path, *flags):
        if path.endswith("mine.toml"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *flags)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(Fault, match=r"mine\.toml cannot be read"):
        load("mine", workspace.root)


# What it costs


def test_importing_recipes_does_not_import_the_toml_parser():
    code = "import sys, holdfast.workspace.recipes; print([m for m in sys.modules if 'toml' in m])"
    source = os.path.dirname(os.path.dirname(os.path.dirname(recipes.__file__)))
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


def test_a_folder_of_very_many_recipes_is_read_in_part(tmp_path):
    folder = tmp_path / ".claude" / "workflows"
    folder.mkdir(parents=True)
    for number in range(3_000):
        (folder / f"r{number:04}.toml").write_text("")
    names = [name for name in recipes.names(str(tmp_path)) if name[1:].isdigit()]
    assert names == [f"r{number:04}" for number in range(500)]
