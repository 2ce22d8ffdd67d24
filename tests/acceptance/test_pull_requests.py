"""The pull request of a workflow's branch: created once, brought up to date, shown before sending.

``gh`` is a real program that behaves as the GitHub CLI does (``support/gh_program.py``), and what
it is asked about are real bare repositories.
"""

import json
import os
import re
import signal

import pytest

from holdfast import Keeper
from holdfast.keeper.pull_requests import BEGIN, END
from support import follower, gh_program
from support.command_line import Folder
from support.git_template import run_git
from support.pseudoterminal import Pseudoterminal, skip_below_client

TITLE = "Ask for a code"
ADDRESS = "https://github.com/octo/shop.git"
BODY = """<!-- holdfast:begin -->

Workflow `dev-ID` (dev), begun TIME, in progress for TOOK. 2 of 2 tasks done. Branch `feat/login`

**Why:** docs/login.md

### Claimed, waived, forced, skipped

- **Waived by a person:** `lint` (the project has no linter)
- **Claimed:** `security_review` (nothing was run)
- **Claimed:** `code_simplifier` (nothing was run)

### Evidence

| gate | result | rests on | how | files | when |
| --- | --- | --- | --- | --- | --- |
| `lint` | **waived** | a person's waiver | the project has no linter |  | TIME |
| `test` | passed | a run | `sh check.sh` exit code 0 | tree `HASH` on commit `HASH` | TIME |
| `security_review` | passed | a claim | findings=0 |  | TIME |
| `code_simplifier` | passed | a claim | findings=0 |  | TIME |

**Tests:** the last run passed: `sh check.sh` Of all runs, 4 passed and 2 failed.

### Done, by task

- **1** Check the password `HASH`
- **2** Ask for a code `HASH`

### Left

Nothing.

Made by Holdfast from its ledger: 31 events up to 31; digest of the gates HASH. Times are UTC.

<!-- holdfast:end -->"""
CHANGING = (
    (re.compile(r"\bdev-[0-9a-f]{8}\b"), "dev-ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "TIME"),
    (re.compile(r"\d+\.\d s"), "TOOK"),
    (re.compile(r"\b(?=\w*\d)[0-9a-f]{7,16}\b"), "HASH"),
)


class Desk(Folder):
    """A repository with a workflow on a pushed branch, and a program ``gh``."""

    def __init__(self, place):
        super().__init__(place.path, place.environment)
        self.hub = f"{place.path}-hub.git"
        run_git(self.path, "init", "-q", "--bare", "-b", "main", self.hub)
        self.git("remote", "add", "origin", ADDRESS)
        self.git("config", "remote.origin.pushurl", self.hub)
        self.git("push", "-q", "origin", "main")
        self.environment = {**self.environment, **gh_program.install(
            f"{place.path}-bin",
            {"repositories": {"octo/shop": {"folder": self.hub, "pulls": []}}},
        )}  # fmt: skip

    def begin(self):
        self.ok("start", "dev", "docs/login.md", "--title", TITLE, "--task", "one")
        self.ok("advance", "--branch", "feat/login")
        self.commit("one.txt", "one\n")
        self.git("push", "-q", "origin", "feat/login")

    @property
    def gh(self):
        with open(self.environment[gh_program.STATE], encoding="utf-8") as file:
            return json.load(file)

    @property
    def shop(self):
        return self.gh["repositories"]["octo/shop"]

    def change_gh(self, **changes):
        self._write_gh({**self.gh, **changes})

    def change_shop(self, **changes):
        state = self.gh
        state["repositories"]["octo/shop"].update(changes)
        self._write_gh(state)

    def change_pull_request(self, **changes):
        pulls = self.shop["pulls"]
        pulls[0].update(changes)
        self.change_shop(pulls=pulls)

    def _write_gh(self, state):
        with open(self.environment[gh_program.STATE], "w", encoding="utf-8") as file:
            json.dump(state, file)

    def by_hand(self):
        """Return a pull request as somebody else creates it."""
        head = {"ref": "feat/login", "label": "octo:feat/login"}
        return {
            "number": 1, "html_url": "https://github.com/octo/shop/pull/1", "state": "open",
            "title": "By hand", "body": "Please look.", "draft": True, "merged_at": None,
            "head": {**head, "sha": self.git("rev-parse", "HEAD")}, "base": {"ref": "main"},
        }  # fmt: skip

    def pr(self, *words):
        return self.ok("pr", "--yes", *words)

    def gate(self):
        return self.state()["gates"]["pr_created"]


@pytest.fixture
def desk(repo):
    return Desk(repo)


@pytest.fixture
def pushed(desk):
    desk.begin()
    return desk


def settled(text):
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    return text


def do_everything(desk):
    """Do a whole workflow of ``dev``, up to the push: evidence, a claim, a waiver."""
    desk.ok(
        "start", "dev", "docs/login.md", "--title", TITLE, "--task", "Check the password",
        "--task", "Ask for a code",
    )  # fmt: skip
    desk.ok("advance", "--branch", "feat/login")
    desk.write("check.sh", "set -e\nfor name in $(cat wanted); do test -f $name; done\n")
    for name in ("one.txt", "two.txt"):
        desk.write("wanted", name)
        desk.ok("red", "--", "sh", "check.sh")
        desk.write(name, f"{name}\n")
        desk.ok("green")
        desk.ok("refactor")
        desk.git("add", ".")
        desk.ok("commit", "-m", f"Add {name}")
    desk.ok("advance")
    Keeper(desk.path).evidence().waive_gate("lint", "the project has no linter")
    desk.ok("gate", "record", "security_review", "--also", "code_simplifier", "--passed",
            "findings=0")  # fmt: skip
    desk.git("push", "-q", "origin", "feat/login")


def test_a_whole_workflow_becomes_a_pull_request_that_tells_what_was_shown(desk):
    do_everything(desk)
    answer = desk.pr()
    (row,) = desk.shop["pulls"]
    assert (row["title"], row["base"]["ref"], row["head"]["label"]) == (
        TITLE, "main", "octo:feat/login",
    )  # fmt: skip
    assert settled(row["body"]) == BODY
    assert answer["pull_request"]["number"] == 1
    assert answer["pull_request"]["became"] == "created"
    gate = desk.gate()
    assert (gate["passed"], gate["evidence"], gate["pr_number"]) == (True, "check", 1)
    assert gate["pr_url"] == row["html_url"]
    assert gate["pushed_to"] == "origin/feat/login"
    assert answer["next"]["command"][1] == "complete"
    (status,) = desk.shop["statuses"]
    assert status["sha"] == desk.git("rev-parse", "HEAD")
    assert (status["context"], status["state"]) == ("holdfast", "success")
    assert re.fullmatch(r"gates [0-9a-f]{16}: 1 run, 2 claimed, 1 waived", status["description"])
    assert status["target_url"] == row["html_url"]
    assert not any(call["asks"] for call in desk.gh["calls"])
    assert desk.ok("complete")["signal"].startswith("DEV_COMPLETE: Ask for a code (waived: lint)")


def test_whoever_follows_next_is_led_to_the_pull_request(desk):
    do_everything(desk)
    desk.ok("advance")
    shown = desk.ok("show")
    assert shown["next"]["command"] == ["holdfast", "pr"]
    assert "NEXT: push the branch, then: holdfast pr" in desk.run("resume").out
    assert desk.run("pr", "--json").json["next"]["command"] == ["holdfast", "pr", "--yes"]
    elsewhere(desk)
    assert desk.ok("show")["next"]["command"][1:3] == ["gate", "record"]
    desk.git("config", "remote.origin.url", ADDRESS)
    without_gh(desk)
    assert desk.ok("show")["next"]["command"][1:3] == ["gate", "record"]


def test_an_agent_that_only_follows_next_creates_the_pull_request(folder):
    follower.repository(folder)
    hub = folder.git("remote", "get-url", "origin")
    folder.git("config", "remote.origin.url", ADDRESS)
    folder.git("config", "remote.origin.pushurl", hub)
    repositories = {"octo/shop": {"folder": hub, "pulls": []}}
    settings = gh_program.install(f"{folder.path}-bin", {"repositories": repositories})
    folder.environment.update(settings)
    agent = follower.Follower(folder, compacts=False)
    last = agent.start("dev", "docs/login.md")
    assert last["workflow"]["status"] == "completed"
    assert ["pr", "--yes"] in [step[:2] for step in agent.steps]
    assert [answer["error"]["code"] for answer in agent.refused] == ["not_pushed", "needs_yes"]
    with open(settings[gh_program.STATE], encoding="utf-8") as file:
        assert len(json.load(file)["repositories"]["octo/shop"]["pulls"]) == 1


def test_a_second_call_creates_nothing_and_brings_the_text_up_to_date(pushed):
    first = pushed.pr()
    assert first["pull_request"]["status"] == "pending"
    again = pushed.pr()
    assert (again["pull_request"]["number"], again["seqs"]) == (1, [])
    pushed.ok("task", "done", "1", "--commit", "HEAD", "--force", "--reason", "by hand")
    updated = pushed.pr()
    assert updated["pull_request"]["became"] == "updated"
    (row,) = pushed.shop["pulls"]
    assert "**1** one `" in row["body"]
    assert pushed.types().count("gate_recorded") == 1


def test_what_people_wrote_around_our_section_stays(pushed):
    pushed.pr()
    body = pushed.shop["pulls"][0]["body"]
    pushed.change_pull_request(title="Better words", body=f"Hello @ada\r\n{body}\r\nFixes #7")
    pushed.ok("remind", "look again")
    pushed.pr()
    row = pushed.shop["pulls"][0]
    assert row["title"] == "Better words"
    assert row["body"].startswith(f"Hello @ada\r\n{BEGIN}\n")
    assert row["body"].endswith(f"{END}\r\nFixes #7")
    assert row["body"].count(BEGIN) == 1


def test_a_pull_request_that_was_created_by_hand_is_taken_and_keeps_its_words(pushed):
    pushed.change_shop(pulls=[pushed.by_hand()])
    answer = pushed.pr()
    assert answer["pull_request"]["became"] == "updated"
    assert answer["pull_request"]["draft"] is True
    (row,) = pushed.shop["pulls"]
    assert row["title"] == "By hand"
    assert row["body"].startswith(f"Please look.\n\n{BEGIN}")
    assert pushed.gate()["pr_number"] == 1


def test_a_kill_between_github_and_the_record_is_repaired_by_the_next_call(pushed):
    pushed.change_gh(faults={"after POST": "kill"})
    killed = pushed.run("pr", "--yes")
    assert killed.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert len(pushed.shop["pulls"]) == 1
    assert pushed.gate().get("pr_number") is None
    pushed.change_gh(faults={})
    assert pushed.pr()["pull_request"]["number"] == 1
    assert len(pushed.shop["pulls"]) == 1
    assert pushed.gate()["pr_number"] == 1


def test_of_two_callers_at_once_one_creates_it_and_the_other_takes_it(pushed):
    pushed.change_shop(pulls=[pushed.by_hand()])
    pushed.change_gh(faults={"hidden": True})
    answer = pushed.pr()
    assert (answer["pull_request"]["number"], answer["pull_request"]["became"]) == (1, "updated")
    (row,) = pushed.shop["pulls"]
    assert row["body"].startswith(f"Please look.\n\n{BEGIN}")
    assert pushed.gate()["pr_number"] == 1


def test_nothing_is_sent_by_a_dry_run(pushed):
    answer = pushed.ok("pr", "--dry-run", "--draft", "--title", "Mine")
    assert (answer["pull_request"]["title"], answer["pull_request"]["draft"]) == ("Mine", True)
    assert answer["pull_request"]["became"] == "planned"
    assert answer["pull_request"]["body"].startswith(BEGIN)
    assert answer["seqs"] == []
    assert pushed.shop["pulls"] == []
    assert all("POST" not in call["words"] for call in pushed.gh["calls"])
    text = pushed.run("pr", "--dry-run").out
    for line in ("title:  Ask for a code", "base:   main of octo/shop", "remote: origin"):
        assert line in text
    assert "head:   octo:feat/login" in text


def test_without_a_terminal_nobody_is_asked_and_nothing_is_sent(pushed):
    error = pushed.refused("pr")
    assert (error["code"], error["hint"]) == ("needs_yes", "holdfast pr --yes")
    assert pushed.shop["pulls"] == []


@pytest.mark.parametrize(("said", "number"), [(b"y\n", 1), (b"n\n", 0)])
def test_a_person_sees_all_of_it_and_decides(pushed, said, number):
    skip_below_client()
    command = [os.sys.executable, "-m", "holdfast", "pr"]
    with Pseudoterminal(command, pushed.path, pushed.environment) as terminal:
        terminal.wait_for("[y/N]")
        for part in ("title:", TITLE, "base:", "octo:feat/login", "origin", "Left"):
            assert part in terminal.text
        terminal.press(said)
        assert terminal.ended() == 0, terminal.text
    assert len(pushed.shop["pulls"]) == number


def test_a_draft_and_a_base_are_what_was_asked_for(pushed):
    pushed.git("push", "-q", "origin", "main:release")
    pushed.pr("--draft", "--base", "release", "--title", "Words of my own: fixes #3")
    (row,) = pushed.shop["pulls"]
    assert (row["draft"], row["base"]["ref"]) == (True, "release")
    assert row["title"] == "Words of my own: fixes #3"


def test_a_status_that_is_not_allowed_is_said_and_does_not_stop_anything(pushed):
    pushed.change_shop(permission="read")
    answer = pushed.pr()
    assert answer["pull_request"]["status"] is None
    assert any("no commit status was set: GitHub answered 403" in n for n in answer["notes"])
    assert pushed.gate()["pr_number"] == 1


def test_no_status_is_set_for_a_commit_that_is_not_what_was_tested(pushed):
    pushed.write("one.txt", "changed\n")
    answer = pushed.pr()
    assert "statuses" not in pushed.shop
    assert any("the work tree has changes that are not in" in note for note in answer["notes"])


def test_a_failed_gate_is_a_failed_status(pushed):
    assert pushed.run("gate", "run", "lint", "--", "test", "-f", "nowhere").code == 4
    assert pushed.pr()["pull_request"]["status"] == "failure"
    assert "| `lint` | **failed** |" in pushed.shop["pulls"][0]["body"]


def test_a_branch_in_a_fork_is_named_with_its_owner(pushed):
    fork = f"{pushed.path}-fork.git"
    run_git(pushed.path, "init", "-q", "--bare", "-b", "main", fork)
    pushed.git("push", "-q", pushed.hub, ":feat/login")
    pushed.git("update-ref", "-d", "refs/remotes/origin/feat/login")
    pushed.git("remote", "add", "mine", "git@github.com:ada/shop.git")
    pushed.git("config", "remote.mine.pushurl", fork)
    pushed.git("push", "-q", "mine", "feat/login")
    state = pushed.gh
    state["repositories"]["ada/shop"] = {"folder": fork, "pulls": []}
    pushed.change_gh(**state)
    assert pushed.pr()["pull_request"]["head"] == "ada:feat/login"
    assert pushed.shop["pulls"][0]["head"]["label"] == "ada:feat/login"
    assert pushed.pr()["pull_request"]["became"] != "created"


def test_an_ended_workflow_brings_its_pull_request_up_to_date_and_gets_no_new_one(pushed):
    done = ("complete", "--force", "--reason", "enough")
    pushed.pr()
    workflow = pushed.ok(*done)["workflow"]["id"]
    answer = pushed.pr(workflow)
    assert (answer["pull_request"]["became"], answer["seqs"]) == ("updated", [])
    assert "Completed by force without:" in pushed.shop["pulls"][0]["body"]
    pushed.change_shop(pulls=[])
    error = pushed.refused("pr", workflow, "--yes")
    assert (error["code"], error["hint"]) == ("ended", f"holdfast resume {workflow}")


def test_what_was_merged_or_closed_is_not_created_again(pushed):
    pushed.pr()
    pushed.change_pull_request(state="closed")
    error = pushed.refused("pr", "--yes")
    assert (error["code"], error["hint"]) == ("already", "gh pr reopen 1")
    pushed.change_pull_request(merged_at="2026-02-17T12:00:00Z")
    assert "is merged" in pushed.refused("pr", "--yes")["message"]
    pushed.commit("more.txt", "more\n")
    pushed.git("push", "-q", "origin", "feat/login")
    assert pushed.pr()["pull_request"]["number"] == 2


def test_a_workflow_without_the_gate_keeps_the_number_in_its_context(desk):
    desk.git("switch", "-q", "-c", "feat/login")
    desk.ok("start", "tdd", "A cycle")
    desk.commit("one.txt", "one\n")
    desk.git("push", "-q", "origin", "feat/login")
    desk.pr()
    assert desk.state()["context"]["pr_number"] == 1
    assert desk.pr()["seqs"] == []


def test_a_repeated_request_gives_the_same_answer(pushed):
    first = pushed.pr("--id", "r-1")
    again = pushed.pr("--id", "r-1")
    assert again["seqs"] == first["seqs"] != []
    assert len(pushed.shop["pulls"]) == 1


def without_gh(desk):
    desk.environment = {**desk.environment, "PATH": os.environ["PATH"]}


def without_remote(desk):
    desk.git("remote", "remove", "origin")


def elsewhere(desk):
    desk.git("config", "remote.origin.url", "https://example.org/octo/shop.git")


def unpushed(desk):
    desk.commit("two.txt", "two\n")


def on_main(desk):
    desk.ok("abandon")
    desk.git("switch", "-q", "main")
    desk.ok("start", "tdd", "On main")


def logged_out(desk):
    desk.change_gh(logged_in=False)


def expired(desk):
    desk.change_gh(faults={"GET": "expired"})


def unreachable(desk):
    desk.change_gh(faults={"POST": "network"})


def forbidden(desk):
    desk.change_shop(permission="none")


@pytest.mark.parametrize(
    ("spoil", "code", "hint"),
    [
        (without_gh, "no_gh", "holdfast report --format pr"),
        (without_remote, "no_remote", "git remote add origin URL"),
        (elsewhere, "no_remote", "holdfast report --format pr"),
        (unpushed, "not_pushed", "git push -u origin feat/login"),
        (on_main, "main_branch", "git switch -c BRANCH"),
        (logged_out, "not_logged_in", "gh auth login"),
        (expired, "not_logged_in", "gh auth login --hostname github.com"),
        (unreachable, "gh", "gh auth status"),
        (forbidden, "gh", "gh auth status"),
    ],
)
def test_each_refusal_has_the_next_command(pushed, spoil, code, hint):
    spoil(pushed)
    before = pushed.types()
    error = pushed.refused("pr", "--yes")
    assert (error["code"], error["hint"]) == (code, hint)
    assert pushed.types() == before
    assert pushed.shop["pulls"] == []


def test_the_text_that_a_refusal_offers_is_of_the_workflow_that_was_named(pushed):
    workflow = pushed.state()["id"]
    pushed.ok("start", "oneshot", "Something else")
    without_gh(pushed)
    error = pushed.refused("pr", workflow, "--yes")
    assert error["hint"] == f"holdfast -w {workflow} report --format pr"
    assert f"`{workflow}`" in pushed.run(*error["hint"].split()[1:]).out


def test_another_branch_than_the_workflows_is_refused(pushed):
    workflow = pushed.state()["id"]
    pushed.git("switch", "-q", "-c", "other")
    error = pushed.refused("pr", workflow, "--yes")
    assert (error["code"], error["hint"]) == ("other_branch", "git switch feat/login")


def test_a_secret_in_what_gh_says_is_not_shown(pushed):
    pushed.change_gh(faults={"GET": "secret"})
    error = pushed.refused("pr", "--yes")
    assert "ghp_" not in error["message"]
    assert "[masked]" in error["message"]


def test_no_stored_text_is_an_argument_of_gh(pushed):
    hostile = "--repo evil/evil; $(touch pwned) `touch pwned`"
    pushed.run("rename", "--", hostile)
    pushed.run("task", "edit", "1", "--", hostile)
    pushed.pr()
    words = [word for call in pushed.gh["calls"] for word in call["words"]]
    assert not [word for word in words if "evil" in word or "touch" in word]
    assert pushed.shop["pulls"][0]["title"] == hostile
    assert not pushed.has("pwned")


def test_a_token_in_a_task_is_not_sent(pushed):
    token = f"ghp_{'a1' * 18}"
    pushed.ok("task", "edit", "1", f"Use {token}")
    pushed.pr()
    assert token not in json.dumps(pushed.gh["repositories"])
    assert "\\[masked\\]" in pushed.shop["pulls"][0]["body"]


def test_a_text_that_leaves_no_room_is_refused(pushed):
    pushed.pr()
    pushed.change_pull_request(body="x" * 65_000)
    assert pushed.refused("pr", "--yes")["code"] == "too_large"
