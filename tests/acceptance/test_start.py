"""Starting work: what a workflow is called, where it stands, and when it is one that exists."""

import os


def test_starting_an_active_subject_again_resumes_it(repo):
    first = repo.ok("start", "dev", "feature.md", "--task", "one")
    again = repo.ok("start", "dev", "feature.md")
    assert (first["resumed"], again["resumed"]) == (False, True)
    assert again["workflow"]["id"] == first["workflow"]["id"]
    assert again["seqs"] == []
    assert repo.run("start", "dev", "feature.md").out.startswith("▶ resumed dev-")
    assert repo.types() == ["workflow_started", "phase_started", "task_added"]


def test_what_a_second_start_gives_is_left_out_and_said(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one")
    again = repo.ok("start", "dev", "feature.md", "--task", "two", "--remind", "this")
    assert [task["description"] for task in again["workflow"]["tasks"]] == ["one"]
    assert "tasks, reminders" in again["notes"][0]


def test_a_subject_is_another_workflow_under_another_recipe(repo):
    dev = repo.ok("start", "dev", "feature.md")["workflow"]
    tdd = repo.ok("start", "tdd", "feature.md")["workflow"]
    assert dev["id"] != tdd["id"]
    assert repo.ok("start", "tdd", "feature.md")["resumed"]


def test_names_that_look_alike_on_disk_get_folders_of_their_own(repo):
    names = ["Rework the menu!", "rework the menu", "Rework/the/menu", "re-work THE menu"]
    started = [repo.ok("start", "custom", name)["workflow"] for name in names]
    assert [workflow["id"] for workflow in started] == [
        "rework-the-menu",
        "rework-the-menu-2",
        "rework-the-menu-3",
        "re-work-the-menu",
    ]
    folders = {os.path.dirname(workflow["record"]) for workflow in started}
    assert len(folders) == len(names)
    assert all(repo.has(workflow["record"]) for workflow in started)
    for name, workflow in zip(names, started, strict=True):
        assert repo.ok("start", "custom", name)["workflow"]["id"] == workflow["id"]


def test_an_ended_subject_begins_a_new_run_under_the_same_id(repo):
    old = repo.ok("start", "tdd", "a stack", "--task", "one")["workflow"]
    repo.ok("red", "--", "test", "-f", ".")
    assert repo.ok("advance")["workflow"]["phase"] == "green"
    repo.ok("abandon", "--reason", "another idea")
    new = repo.ok("start", "tdd", "a stack")
    assert new["resumed"] is False
    assert new["workflow"]["id"] == old["id"]
    assert (new["workflow"]["phase"], new["workflow"]["tasks"]) == ("red", [])
    assert repo.types(old["id"]).count("workflow_started") == 2


def test_a_completed_formal_workflow_can_be_run_again(repo):
    for _ in range(2):
        started = repo.ok("start", "custom", "release", "--phase", "all")
        assert (started["workflow"]["id"], started["resumed"]) == ("release", False)
        repo.ok("complete")
        assert not repo.has(started["workflow"]["record"])
    assert repo.types("release").count("workflow_completed") == 2


def test_a_worktree_has_one_place_for_a_verb_workflow(repo):
    repo.ok("start", "oneshot", "a typo")
    error = repo.refused("start", "apex", "a redesign")
    assert error["code"] == "occupied"
    assert "holdfast complete -w oneshot-" in error["hint"]
    repo.ok("abandon")
    assert repo.ok("start", "apex", "a redesign")["workflow"]["record"] == (
        ".claude/workflow-state.json"
    )


def test_everything_that_start_is_given_is_kept(repo):
    words = ["--title", "Import", "--task", "one", "--task", "two", "--read", "@README.md"]
    words += ["--remind", "slowly", "--set", "ticket=7", "--set", "hosts=[1, 2]"]
    words += ["--branch", "feat/x", "--ttl", "90m", "--session", "s1"]
    workflow = repo.ok("start", "dev", "feature.md", *words)["workflow"]
    told = ("subject", "title", "required_reading", "reminders", "branch", "ttl")
    assert [workflow[name] for name in told] == [
        "feature.md",
        "Import",
        ["@README.md"],
        ["slowly"],
        "feat/x",
        "90m",
    ]
    assert [task["description"] for task in workflow["tasks"]] == ["one", "two"]
    assert (workflow["context"]["ticket"], workflow["context"]["hosts"]) == (7, [1, 2])
    assert workflow["session"]["id"] == "s1"


def test_phases_of_your_own_replace_the_recipes(repo):
    phases = ["--phase", "prepare", "--phase", "move", "--phase", "check"]
    workflow = repo.ok("start", "custom", "--title", "Move to v2", *phases)["workflow"]
    assert [phase["name"] for phase in workflow["phases"]] == ["prepare", "move", "check"]
    assert (workflow["id"], workflow["subject"]) == ("move-to-v2", "Move to v2")
    error = repo.refused("start", "custom", "x", "--phase", "a", "--phase", "a")
    assert "named twice" in error["message"]


def test_an_unknown_recipe_is_refused_with_the_known_ones(repo):
    error = repo.refused("start", "develop", "x")
    assert error["code"] == "no_recipe"
    assert "dev" in error["details"]["known"]
    assert "dev, " in error["message"]


def test_a_recipe_of_the_workspace_is_used_and_a_wrong_one_named(repo):
    repo.write(".claude/workflows/release.toml", 'format = "skill"\n[[phases]]\nname = "tag"\n')
    workflow = repo.ok("start", "release", "1.0")["workflow"]
    assert (workflow["format"], workflow["phase"]) == ("skill", "tag")
    repo.write(".claude/workflows/broken.toml", 'format = "skull"\n[[phases]]\nname = "tag"\n')
    error = repo.refused("start", "broken", "1.0")
    assert (error["code"], error["details"]["key"]) == ("bad_recipe", "format")


def test_a_loop_counts_its_units_in_its_own_way(repo):
    code = repo.ok("start", "loop-development", "engine", "--task", "one")["workflow"]
    text = repo.ok("start", "loop-knowledge", "survey", "--task", "one")["workflow"]
    assert [code["tasks"][0]["id"], text["tasks"][0]["id"]] == ["T1", "R1"]
    assert repo.ok("task", "start", "T1", "-w", code["id"])
    assert repo.ok("task", "add", "two", "-w", code["id"])["workflow"]["tasks"][1]["id"] == "T2"


def test_git_does_not_see_what_is_kept(repo):
    repo.ok("start", "dev", "x")
    repo.ok("start", "oneshot", "y")
    repo.ok("start", "custom", "z")
    repo.ok("start", "loop-development", "w")
    assert repo.git("status", "--porcelain") == ""
