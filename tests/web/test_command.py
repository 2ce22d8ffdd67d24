"""``holdfast web`` as a command: what it prints, what it refuses, and where it looks."""

import html
import json
import os
import re
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.web.snapshots import PAGE
from support.machines import Machine, git
from support.web_site import Visitor, WebSite, until


def test_the_first_line_is_the_address_also_as_json(repo):
    with WebSite(repo) as site:
        assert site.address.startswith(f"http://127.0.0.1:{site.port}/?token=")
        code, out, err = site.end()
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "Ctrl-C ends it."
    with WebSite(repo, "--json") as site:
        fields = json.loads(site.address)
        assert fields == {
            "ok": True, "address": fields["address"], "port": fields["port"], "approvals": False
        }  # fmt: skip
        assert Visitor(fields["port"]).get("/").status == 403
        assert site.end()[0] == 0


def test_it_takes_the_port_it_is_told(repo):
    with WebSite(repo) as site:
        port = site.port
    with WebSite(repo, "--port", str(port)) as site:
        assert site.port == port
    assert repo.refused("web", "--port", "70000")["code"] == "invalid"


@pytest.mark.parametrize("missing", ["jinja2", "starlette", "uvicorn"])
def test_without_the_extra_it_names_the_line_that_installs_it(repo, tmp_path, missing):
    shadows = tmp_path / "shadows"
    shadows.mkdir()
    why = f"raise ModuleNotFoundError('not here', name={missing!r})\n"
    (shadows / f"{missing}.py").write_text(why)
    path = f"{shadows}{os.pathsep}{repo.environment['PYTHONPATH']}"
    error = repo.refused(
        "web", "--no-open", exit_code=3, env={**repo.environment, "PYTHONPATH": path}
    )
    assert (error["code"], error["hint"]) == ("no_extra", "pip install 'holdfast[web]'")
    assert missing in error["message"]


def test_a_folder_without_a_repository_shows_those_of_the_person(repo, folder):
    repo.ok("start", "dev", "login.md", "--task", "Ask for the code")
    elsewhere = folder.at("..", "elsewhere")
    with WebSite(elsewhere) as site:
        assert "login.md" in site.visitor().get("/").text


def test_two_repositories_of_one_name_are_told_apart(repo, folder):
    for place in ("here", "there"):
        shop = folder.at(place, "shop")
        shop.git("init", "-q")
        shop.ok("start", "planning", f"Work {place}")
    with WebSite(repo) as site:
        text = site.visitor().get("/").text
    assert '<span class="repository">here/shop</span>' in text
    assert '<span class="repository">there/shop</span>' in text


def test_nothing_is_listed_that_is_not_there(folder):
    with WebSite(folder) as site:
        answer = site.visitor().get("/")
    assert answer.status == 200
    assert "Nothing is in progress" in answer.text


def test_what_is_begun_later_is_shown_too(repo):
    with WebSite(repo) as site:
        visitor = site.visitor()
        assert "parser.md" not in visitor.get("/").text
        repo.ok("start", "dev", "parser.md", "--task", "Ask for the code")
        until(lambda: "parser.md" in visitor.get("/").text)
        repo.ok("remind", "Keep the old tests")
        page = visitor.path_of("parser.md")
        assert "Keep the old tests" in visitor.get(page).text
        record = repo.state()["record"]
        repo.edit(record, lambda document: document["tasks"][0].update(description="By hand"))
        assert "By hand" in visitor.get("/").text
        assert "By hand" in visitor.get(page).text


def test_a_damaged_ledger_is_told_and_the_others_are_shown(repo, folder):
    other = folder.at("..", "other")
    other.git("init", "-q", "-b", "main")
    for place, name in ((repo, "mine.md"), (other, "theirs.md")):
        place.ok("start", "dev", name, "--task", "one")
    path = os.path.join(other.path, ".git/holdfast/ledger.db")
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)
    for end in ("-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)
    with WebSite(repo) as site:
        text = site.visitor().get("/").text
    assert "mine.md" in text
    assert "theirs.md" not in text
    assert "other: " in text


def test_every_action_is_the_command_of_the_terminal(repo):
    repo.ok("start", "dev", "login.md", "--task", "Ask for the code", "--task", "Send it")
    repo.ok("ask", "Which database?", "--choice", "Postgres")
    name = repo.ok("status")["workflows"][0]["id"]
    phase, reminded = "load_feature", "Every later session reads this reminder."
    actions = [
        ("add_task", {"text": "Lock after five"}, "task_added", "The task is added."),
        ("remind", {"text": "Never log a code"}, "reminder_added", reminded),
        ("block_task", {"task": "1", "text": "no logs"}, "task_blocked", "Task 1 is blocked."),
        ("unblock_task", {"task": "1"}, "task_unblocked", "Task 1 goes on."),
        ("answer", {"question": "1", "text": "Postgres"}, "question_answered", "is recorded"),
        ("block_phase", {"phase": phase, "text": "no plan"}, "phase_blocked", "is blocked."),
        ("unblock_phase", {"phase": phase}, "phase_unblocked", f"Phase {phase} goes on."),
        ("abandon", {"text": "enough"}, "workflow_abandoned", "is abandoned"),
    ]
    with WebSite(repo) as site:
        visitor = site.visitor()
        page = visitor.path_of("login.md")
        for action, fields, kind, done in actions:
            answer = visitor.do(page, action, **fields)
            assert "said is-good" in answer.text, (action, answer)
            assert done in answer.text, action
            event = repo.ok("log", name, "--limit", "1")["events"][0]
            assert (event["type"], event["by"]["surface"]) == (kind, "web"), action
        refused = visitor.do(page, "add_task", text="one more")
        assert "said is-bad" in refused.text
        assert "holdfast resume" in refused.text
        ended = visitor.get(page).text.partition("<main")[2]
        assert "<p>enough</p>" in ended
        assert f"<code>holdfast resume {name}</code>" in ended


def test_a_workflow_that_was_completed_by_force_names_what_was_skipped(repo):
    repo.ok("start", "planning", "Checkout")
    repo.ok("complete", "--force", "--reason", "the pilot was enough", "-w", "checkout")
    with WebSite(repo) as site:
        visitor = site.visitor()
        board = visitor.get("/").text
        page = re.search(r'href="(/w/[^"]+)">Checkout</a>', board)[1]
        text = visitor.get(page).text
    assert ">Completed</h2>" in text
    assert "<p>completed by force, skipped: phases Requirements, Design" in text


def test_a_unit_of_a_loop_is_blocked_and_goes_on(repo):
    repo.ok("loop", "new", "limits")
    repo.ok("loop", "plan", "limits", "--unit", "T1: List the endpoints")
    with WebSite(repo) as site:
        visitor = site.visitor()
        page = visitor.path_of("limits")
        assert (
            "Unit T1 is blocked." in visitor.do(page, "block_task", task="T1", text="no list").text
        )
        assert repo.state("limits")["tasks"][0]["reason"] == "no list"
        assert "Unit T1 goes on." in visitor.do(page, "unblock_task", task="T1").text
        log = repo.ok("loop", "status", "limits")["loops"][0]
        assert log["tasks"][0]["status"] == "pending"


def test_the_history_of_a_loop_names_the_unit(repo):
    repo.ok("loop", "new", "limits")
    for unit in ("T1: List the endpoints", "T2: Limit them"):
        repo.ok("loop", "plan", "limits", "--unit", unit)
    for unit in ("T1", "T2", "T2"):
        repo.ok("loop", "iterate", unit, "--did", "a part", "--remaining", "more")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    with WebSite(repo) as site:
        visitor = site.visitor()
        text = visitor.get(f"{visitor.path_of('limits')}/history").text
    what = re.findall(r'<span class="what">([^<]+)</span>', text)[::-1]
    assert [words for words in what if words.startswith("unit")] == [
        "unit T1 planned", "unit T2 planned", "unit T1 iteration 1 recorded",
        "unit T2 iteration 1 recorded", "unit T2 iteration 2 recorded",
        "unit T1 iteration 2 recorded", "unit T1 confirmation recorded",
    ]  # fmt: skip


def test_a_blocked_initiative_says_why(repo):
    repo.ok("initiative", "create", "Checkout", "--milestone", "M1: Measure")
    repo.ok("initiative", "start", "M1")
    repo.ok("initiative", "block", "--reason", "no budget")
    with WebSite(repo) as site:
        visitor = site.visitor()
        assert '<p class="bad">no budget</p>' in visitor.get("/").text
        repo.ok("initiative", "unblock")
        until(lambda: '<p class="bad">no budget</p>' not in visitor.get("/").text)


def test_a_linked_worktree_is_shown_with_its_name(repo):
    repo.ok("start", "dev", "main.md", "--task", "one")
    repo.git("worktree", "add", "-q", "../beside", "-b", "beside")
    repo.at("..", "beside").ok("start", "dev", "beside.md", "--task", "one")
    with WebSite(repo) as site:
        text = site.visitor().get("/").text
    assert "beside.md" in text
    assert '<span class="machine">beside</span>' in text


def test_the_pages_of_a_board_show_every_workflow_once(repo):
    repo.ok("start", "planning", "number 0")
    with WebSite(repo) as site:
        visitor = site.visitor()
        keeper = Keeper(repo.path)
        keeper.ask("Is it old?", workflow="number-0")
        for number in range(1, PAGE + 12):
            keeper.start("planning", f"number {number}", again=True)
        seen, address = [], "/"
        while address:
            text = visitor.get(address).text
            seen.append(set(re.findall(r">(number \d+)</a></h4>", text)))
            older = re.search(r'href="(/\?repository=[^"]+before=[^"]+)"', text)
            address = older and html.unescape(older[1])
        assert [len(page) for page in seen] == [PAGE, 12]
        assert "Is it old?" in visitor.get("/").text, "it waits, though it is on the second page"
        assert seen[0] | seen[1] == {f"number {number}" for number in range(PAGE + 12)}


def test_a_command_that_waits_for_approval_is_shown(repo, monkeypatch):
    repo.write(".claude/holdfast.toml", '[gates.lint]\ncommand = "make <lint>"\n')
    repo.ok("start", "dev", "login.md", "--task", "one")
    with WebSite(repo) as site:
        visitor = site.visitor()
        text = visitor.get("/").text
        assert "wants to run <code>make &lt;lint&gt;</code>" in text
        assert "<title>(1) Board" in text
        monkeypatch.setenv("HOME", repo.environment["HOME"])
        Keeper(repo.path).approve(["make <lint>"])
        until(lambda: "wants to run" not in visitor.get("/").text)


def test_work_and_conflicts_of_other_machines_are_shown_and_settled(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder.environment['HOME']}/.local/state")
    remote = tmp_path / "remote.git"
    git("init", "-q", "--bare", str(remote))
    desk = Machine(tmp_path / "desk", "desk", remote).share()
    desk.keeper.start("planning", "shared", tasks=["one"])
    desk.sync()
    laptop = Machine(tmp_path / "laptop", "laptop", remote).share()
    laptop.keeper.abandon("not needed", workflow="shared")
    desk.keeper.remind("Go on", workflow="shared")
    desk.sync()
    laptop.sync()
    desk.sync()
    with WebSite(folder) as site:
        visitor = site.visitor()
        text = visitor.get("/").text
        assert '<span class="machine">@desk</span>' in text
        assert "<b>@laptop</b>" in text
        key = re.search(r'href="/\?repository=(\w+)"[^>]*>desk', text)[1]
        page = f"/w/{key}/shared"
        (conflict,) = desk.sharing.conflicts()
        assert "/take_conflict" in visitor.get(page).text
        assert "<b>1 conflict</b>" in text
        answer = visitor.do(page, "take_conflict", conflict=conflict["id"])
        assert "is carried out" in answer.text, answer
        history = visitor.get(f"{page}/history").text
        assert '<span class="what">conflict settled</span>' in history
        assert "desk: take conflict" in history
    assert desk.sharing.conflicts() == []
    assert desk.keeper.peek(workflow="shared")["status"] == "abandoned"


def test_a_conflict_that_can_only_be_dropped_offers_nothing_else(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder.environment['HOME']}/.local/state")
    remote = tmp_path / "remote.git"
    git("init", "-q", "--bare", str(remote))
    desk = Machine(tmp_path / "desk", "desk", remote).share()
    desk.keeper.start("planning", "shared", tasks=["one"])
    desk.sync()
    laptop = Machine(tmp_path / "laptop", "laptop", remote).share()
    for machine in (laptop, desk):
        machine.keeper.advance(workflow="shared")
    for machine in (laptop, desk, laptop):
        machine.sync()
    (conflict,) = desk.sharing.conflicts()
    assert not conflict["can_take"]
    with WebSite(folder) as site:
        visitor = site.visitor()
        board = visitor.get("/").text
        key = re.search(r'href="/\?repository=(\w+)"[^>]*>desk', board)[1]
        for text in (board, visitor.get(f"/w/{key}/shared").text):
            assert "/take_conflict" not in text
            assert "/drop_conflict" in text
            assert "(can only be dropped)" in text


def test_looking_at_every_page_writes_nothing(repo):
    repo.ok("start", "dev", "login.md", "--task", "Ask for the code")
    repo.ok("loop", "new", "limits")
    repo.ok("initiative", "create", "Checkout", "--milestone", "M1: Measure")
    repo.edit(repo.state("limits")["record"], lambda document: document.update(task="By hand"))
    before = contents(repo.path)
    with WebSite(repo) as site:
        visitor = site.visitor()
        page = visitor.path_of("login.md")
        loop = visitor.path_of("By hand")
        for path in ("/", page, loop, "/pair", "/nowhere"):
            for end in ("", "/history", "/briefing", "/at", "/compare?a=1&b=3"):
                visitor.get(path if path in ("/", "/pair", "/nowhere") else path + end)
    assert contents(repo.path) == before


def contents(root):
    """Return the bytes of every file below a folder, but for what readers of SQLite touch."""
    return {
        path: path.read_bytes()
        for path in Path(root).rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "lock", "index"))
    }
