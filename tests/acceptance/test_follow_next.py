"""Whoever does nothing but follow NEXT finishes the work properly, for every shipped recipe."""

import pytest

from support.follower import Follower, repository

pytestmark = pytest.mark.promise(17)

RECIPES = {
    "dev": ["docs/login.md"],
    "tdd": ["Log in"],
    "apex": ["Log in"],
    "debug": ["It does not start"],
    "oneshot": ["A typo"],
    "brainstorm": ["What next"],
    "planning": ["Move"],
    "implementation": ["Build it"],
    "qa-loop": ["Check it"],
    "custom": ["Tidy up"],
}


@pytest.fixture
def project(folder):
    return repository(folder)


def completed(follower, answer):
    """Check that the workflow was completed by evidence alone."""
    workflow = answer["workflow"]
    assert workflow["status"] == "completed"
    assert "skipped" not in workflow
    assert {phase["status"] for phase in workflow["phases"]} <= {"completed", "pending"}
    assert {task["status"] for task in workflow["tasks"]} <= {"completed"}
    assert follower.refused == []
    assert not any("--force" in words for words in follower.steps)
    return workflow


@pytest.mark.parametrize("recipe", RECIPES)
def test_following_next_completes_every_recipe(project, recipe):
    follower = Follower(project)
    answer = follower.start(recipe, *RECIPES[recipe])
    completed(follower, answer)
    assert answer["signal"].startswith(recipe.upper().replace("-", "_") + "_COMPLETE: ")
    assert "(" not in answer["signal"]
    assert follower.failed == []


def test_the_phases_of_dev_are_passed_by_evidence(project):
    follower = Follower(project)
    workflow = completed(follower, follower.start("dev", "docs/login.md"))
    assert [task["description"] for task in workflow["tasks"]] == [
        "Greet",
        "Plan",
        "Ask for a name",
    ]
    done = dict.fromkeys(("red", "green", "refactor"), "completed")
    assert [task.get("phases") for task in workflow["tasks"]] == [done, None, done]
    assert all(len(workflow["tasks"][number]["commit"]) == 40 for number in (0, 2))
    evidence = {name: gate["evidence"] for name, gate in workflow["gates"].items()}
    assert evidence == {
        "lint": "run", "test": "run", "security_review": "claim", "code_simplifier": "claim",
        "pr_created": "check",
    }  # fmt: skip
    assert workflow["branch"] == "feat/followed"


@pytest.mark.parametrize("stumble", ["red", "green", "refactor", "gate"])
def test_next_leads_out_of_a_failure(project, stumble):
    follower = Follower(project, [stumble])
    completed(follower, follower.start("dev", "docs/login.md"))
    assert [words[0] for words in follower.failed] == [stumble]


def test_next_leads_out_of_failures_in_tdd(project):
    follower = Follower(project, ["red", "green", "refactor"])
    completed(follower, follower.start("tdd", "Log in"))
    assert [words[0] for words in follower.failed] == ["red", "green", "refactor"]


def test_a_folder_of_features_is_followed_to_its_end(project):
    project.write("docs/logout.md", "# Log out\n\n- [ ] Say goodbye\n")
    follower = Follower(project, compacts=False)
    workflow = completed(follower, follower.start("dev", "docs"))
    assert workflow["context"]["folder_done"] == ["docs/login.md"]
