"""What the keys of ``watch`` do, and when it reads again: real keepers, and a clock set by hand."""

import gc
import os

import pytest

from holdfast.cli.watching.keys import Pasted
from holdfast.cli.watching.poller import OpenKeepers, Poller, Pollers
from holdfast.cli.watching.viewer import RECENT_MS, Viewer
from holdfast.core.next_step import next_step
from holdfast.core.visible import clean
from holdfast.errors import Refused
from support.workshop import LEDGER, NOON, Workshop, open_workflow


class Now:
    """A clock that shows a time until it is set."""

    def __init__(self):
        self.ms = NOON

    def __call__(self):
        return self.ms


class Counting:
    """A keeper that counts how often it was opened by a look."""

    def __init__(self, keeper):
        self._keeper = keeper
        self.looks = 0

    def __getattr__(self, name):
        self.looks += name == "overview"
        return getattr(self._keeper, name)


class Watching:
    """A viewer of some workshops, in a window."""

    def __init__(self, *shops, keeper=None, size=(100, 40), workflow=None):
        gc.collect()  # A keeper that is collected closes its ledger, which writes it.
        self.now = Now()
        keepers = [keeper or shops[0].keeper(), *(shop.keeper() for shop in shops[1:])]
        opened = {one.workspace.root: one for one in keepers}
        self.keepers = OpenKeepers(opened.__getitem__, keepers[0])
        pollers = [Poller(one.workspace, lambda one=one: one, workflow) for one in keepers]
        self.pollers = Pollers(lambda: pollers, self.now)
        self.viewer = Viewer(self.pollers, self.keepers, self.now, is_everywhere=len(shops) > 1)
        self.size = size

    def press(self, *keys):
        for key in keys:
            assert self.viewer.press(key)
        return self.lines()

    def type(self, text):
        return self.press(*text)

    def lines(self):
        return self.viewer.lines(*self.size)

    def changed(self):
        return [line for line in self.lines() if line.startswith("•")]

    def chosen(self):
        return [line for line in self.lines() if line.startswith("▌")]


def having(lines, text):
    return [line for line in lines if text in line]


def ids(shop):
    return [row["id"] for row in shop.keeper().workflows()[0]]


# When it reads


def test_what_changed_is_marked_for_a_while(dev_shop):
    watching = Watching(dev_shop)
    assert watching.changed() == [], "nothing is a change in the first view, or in the same one"
    watching.now.ms += 1_000
    dev_shop.keeper().complete_task(1)
    marked = watching.changed()
    assert having(marked, "✓ 1  one")
    assert having(marked, "task_completed")
    assert not having(marked, "2  two")
    watching.now.ms += RECENT_MS - 1
    assert watching.changed() == marked
    watching.now.ms += 1
    assert watching.changed() == []
    watching.now.ms = NOON
    assert watching.changed() == [], "a clock that went back marks nothing"


def test_nothing_is_opened_while_nothing_was_written(dev_shop):
    keeper = Counting(dev_shop.keeper())
    watching = Watching(dev_shop, keeper=keeper)
    for _ in range(5):
        watching.press("down", "up")
    assert keeper.looks == 1
    dev_shop.keeper().complete_task(1)
    assert having(watching.lines(), "✓ 1  one")
    assert keeper.looks == 2


def test_of_many_repositories_only_the_written_one_is_read_again(tmp_path):
    shops = [Workshop(tmp_path / name) for name in ("one", "two", "three")]
    keepers = []
    for shop in shops:
        shop.keeper().start("dev", "a.md", tasks=["first"])
        keepers.append(Counting(shop.keeper()))
    gc.collect()
    watched = [Poller(keeper.workspace, lambda one=keeper: one) for keeper in keepers]
    pollers = Pollers(lambda: watched, Now())
    pollers.first_views()
    shops[1].keeper().complete_task(1)
    assert pollers.is_stale()
    views = pollers.views()
    assert [keeper.looks for keeper in keepers] == [1, 2, 1]
    assert [next(iter(view["states"].values()))["tasks"][0]["status"] for view in views] == [
        "pending", "completed", "pending",
    ]  # fmt: skip


def test_two_repositories_of_one_name_have_two_titles(tmp_path):
    shops = [Workshop(tmp_path / place / "shop") for place in ("here", "there")]
    keepers = [shop.keeper() for shop in shops]
    watched = [Poller(keeper.workspace, lambda one=keeper: one) for keeper in keepers]
    now, listed = Now(), watched[:1]
    pollers = Pollers(lambda: listed, now)
    assert [view["title"] for view in pollers.first_views()] == ["shop on main"]
    listed = watched
    now.ms += 5_000
    assert pollers.is_stale()
    titles = [view["title"] for view in pollers.views()]
    assert titles == ["here/shop on main", "there/shop on main"]


def test_what_files_change_is_seen_after_a_minute(dev_shop):
    keeper = Counting(dev_shop.keeper())
    watching = Watching(dev_shop, keeper=keeper)
    watching.now.ms += 60_000
    watching.lines()
    assert keeper.looks == 1
    watching.now.ms += 1
    watching.lines()
    assert keeper.looks == 2


def test_what_is_written_while_it_looks_is_not_missed(dev_shop):
    class Busy(Counting):
        def watched(self, *args, **kwargs):
            told = self._keeper.watched(*args, **kwargs)
            if self.looks == 2:
                dev_shop.keeper().complete_task(1)
            return told

    busy = Busy(dev_shop.keeper())
    poller = Poller(busy.workspace, lambda: busy)
    before = poller.poll()["seq"]
    assert not poller.is_stale()
    assert poller.poll()["seq"] == before
    assert poller.is_stale()
    assert poller.poll()["seq"] == before + 1


def test_an_edit_of_a_record_wakes_it(dev_shop):
    watching = Watching(dev_shop, size=(120, 24))
    path = f"{dev_shop.root}/{dev_shop.keeper().show().state['record']}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace('"one"', '"two"'))
    assert having(watching.lines(), "its record was edited")


def test_a_fault_is_shown_and_the_last_view_stays(dev_shop):
    watching = Watching(dev_shop)
    os.remove(dev_shop.path(LEDGER))
    dev_shop.write(LEDGER, b"nothing that SQLite could read")
    lines = watching.lines()
    assert having(lines, "1  one")
    assert [line for line in lines if line.lstrip().startswith("✗ the ledger")]
    for key in ("a", "b", "u", "enter"):
        assert having(watching.press(key), "✗ "), key
        watching.press("escape")


def test_a_folder_that_is_gone_is_said_to_be_and_the_last_view_stays(dev_shop):
    watching = Watching(dev_shop, size=(200, 24))
    os.rename(dev_shop.root, f"{dev_shop.root}-away")
    lines = watching.lines()
    assert having(lines, f"✗ the folder {dev_shop.root} is gone")
    assert having(lines, "1  one")
    os.rename(f"{dev_shop.root}-away", dev_shop.root)
    assert not having(watching.lines(), "is gone")


def test_more_workflows_than_are_opened_are_counted_too(dev_shop, monkeypatch):
    monkeypatch.setattr("holdfast.keeper.overview.MAX_OPENED", 2)
    for number in range(4):
        dev_shop.keeper().start("tdd", f"src/{number}.py")
    watching = Watching(dev_shop)
    lines = watching.lines()
    assert "5 workflows · event" in lines[0]
    assert " … and 3 more workflows" in lines
    assert having(lines, "2/2 records, 3 more not looked at")
    one = Watching(dev_shop, workflow=ids(dev_shop)[0]).lines()
    assert "1 workflow · event" in one[0]
    assert having(one, "1/1 records")


def test_a_repository_without_anything_to_see_is_refused_at_the_beginning(dev_shop):
    with pytest.raises(Refused, match="dev-nosuch"):
        Watching(dev_shop, workflow="dev-nosuch")


def test_only_the_ledgers_that_were_used_last_or_written_stay_open(tmp_path):
    opened = []

    def open_keeper(root):
        opened.append(os.path.basename(root))
        return Workshop(root).keeper()

    keepers = OpenKeepers(open_keeper, Workshop(tmp_path / "own").keeper())
    roots = [str(tmp_path / f"shop{number}") for number in range(14)]
    for root in roots:
        os.makedirs(root)
    keepers.to_change(roots[0])
    for root in [*roots, roots[0], roots[13], roots[1]]:
        keepers.keeper(root)
    assert opened == [*(f"shop{number}" for number in range(14)), "shop1"]


# What keys show


def test_keys_choose_a_workflow_and_stay_in_the_list(shop):
    for name in ("one", "two", "three"):
        shop.keeper().start("tdd", name)
    watching = Watching(shop)
    listed = ids(shop)

    def is_at(number, *keys):
        watching.press(*keys)
        assert listed[number] in watching.chosen()[0], keys

    is_at(0)
    is_at(1, "down")
    is_at(2, "j", "j", "j")
    is_at(1, "k")
    is_at(0, "up", "up", "up")
    is_at(2, "G")
    is_at(0, "home")
    is_at(2, "page down")


def test_the_chosen_workflow_stays_chosen_when_another_one_moves_up(shop):
    first = open_workflow(shop.keeper(), "skill", "one")["id"]
    watching = Watching(shop)
    second = open_workflow(shop.keeper(), "skill", "two")["id"]
    assert first in watching.chosen()[0]
    shop.keeper().abandon("enough", workflow=first)
    watching.lines()
    watching.now.ms += RECENT_MS
    assert second in watching.chosen()[0]
    shop.keeper().abandon("enough", workflow=second)
    assert watching.chosen() == []
    assert having(watching.press("a"), "no workflow is chosen")
    assert having(watching.press("enter"), "No workflow is active here.")


def test_an_opened_workflow_shows_everything_and_scrolls(dev_shop):
    keeper = dev_shop.keeper()
    keeper.remind("Never log a password")
    keeper.ask("Which database?", ["Postgres", "SQLite"])
    keeper.evidence().waive_gate("lint", "there is no linter")
    keeper.advance(branch="feat/login")
    watching = Watching(dev_shop, size=(100, 60))
    watching.now.ms = dev_shop.clock.ms + 720_000
    lines = watching.press("enter")
    for text in (
        "NEXT", "load_feature", "took <1 min", "task_execution  for 12 min", "1  one",
        "by a person: there is no linter", "Reminders", "Never log a password",
        "Which database?", "Last events", "question_asked",
    ):  # fmt: skip
        assert having(lines, text), text
    watching.size = (100, 10)
    top = watching.lines()
    assert " 1 to 8 of " in top[0]
    assert watching.press("down")[1:8] == top[2:9]
    assert watching.press("up") == top
    assert " 9 to 16 of " in watching.press(" ")[0]
    assert "task_added" not in "".join(top)
    end = watching.press("G")
    assert having(end, "phase_started")
    assert watching.press("down") == end
    assert watching.press("g") == top
    assert having(watching.press("escape"), "Enter opens")


def test_an_opened_workflow_is_followed_beyond_its_end(dev_shop):
    watching = Watching(dev_shop, size=(100, 60))
    watching.press("enter")
    dev_shop.keeper().complete_task(1)
    assert having(watching.lines(), "✓ 1  one")
    dev_shop.keeper().abandon("enough")
    assert having(watching.lines(), "· abandoned")
    assert having(watching.press("escape"), "No workflow is active here.")


def test_the_keys_are_shown_and_any_page_is_left_by_escape(dev_shop):
    watching = Watching(dev_shop)
    assert having(watching.press("?"), "unblock a phase or a task")
    assert having(watching.press("escape"), "Enter opens")
    assert having(watching.press("enter", "?"), "unblock a phase or a task")
    assert having(watching.press("escape"), "Last events")


@pytest.mark.parametrize("key", ["q", "Q", "end of input"])
@pytest.mark.parametrize("before", [[], ["enter"], ["?"]])
def test_it_ends_from_every_page(dev_shop, before, key):
    watching = Watching(dev_shop)
    watching.press(*before)
    assert not watching.viewer.press(key)


def test_words_filter_the_list_while_they_are_typed(shop):
    for name in ("login form", "log rotation"):
        shop.keeper().start("tdd", name)
    watching = Watching(shop)
    assert having(watching.type("/log"), "/log_")
    assert len(having(watching.lines(), "▶ tdd-")) == 2
    (only,) = having(watching.type("in"), "▶ tdd-")
    assert "login form" in only
    assert only.startswith("▌")
    watching.press(*["backspace"] * 2)
    assert len(having(watching.lines(), "▶ tdd-")) == 2
    assert having(watching.press("clear", *"q?a"), "Nothing here has these words.")
    assert len(having(watching.press("escape"), "▶ tdd-")) == 2
    watching.type("/rotation")
    assert having(watching.press("down"), "only with: rotation")
    assert having(watching.press("enter"), "log rotation")
    watching.press("escape")
    assert len(having(watching.press("escape"), "▶ tdd-")) == 2


def test_enter_searches_in_all_that_happened_and_opens_a_hit(dev_shop):
    keeper = dev_shop.keeper()
    keeper.remind("the flaky timeout of the cache")
    keeper.abandon("moved elsewhere")
    watching = Watching(dev_shop)
    watching.type("/flaky timeout")
    assert having(watching.press("enter"), "searching for flaky timeout")
    assert watching.viewer.is_searching
    drawn = []
    watching.viewer.search(lambda: drawn.append(watching.lines()))
    lines = watching.lines()
    assert having(lines, "reminder_added")
    assert lines[1].startswith("▌")
    assert having(watching.press("enter"), "· abandoned")
    assert having(watching.press("escape"), "reminder_added")
    watching.press("escape")
    watching.type("/nothing like this")
    watching.press("enter")
    watching.viewer.search(lambda: None)
    assert having(watching.lines(), "nothing that happened has: nothing like this")


def test_a_search_without_a_word_is_refused(dev_shop):
    watching = Watching(dev_shop)
    watching.type("/!!")
    watching.press("enter")
    watching.viewer.search(lambda: None)
    assert having(watching.lines(), "✗ ")


# What keys change


def test_blocking_asks_for_the_reason_and_is_the_same_as_the_command(dev_shop):
    watching = Watching(dev_shop)
    assert having(watching.press("b"), "why is phase load_feature of ")
    watching.type("waits for  access")
    watching.press("clear word", *"keys")
    assert having(watching.press("enter"), "✓ phase load_feature blocked")
    state = dev_shop.keeper().show().state
    assert (state["phases"][0]["status"], state["phases"][0]["reason"]) == (
        "blocked", "waits for keys",
    )  # fmt: skip
    assert dev_shop.keeper().log()[-1]["type"] == "phase_blocked"
    assert having(watching.press("u"), "unblock phase load_feature of ")
    assert having(watching.press("y"), "✓ phase load_feature unblocked")
    assert dev_shop.keeper().log()[-1]["type"] == "phase_unblocked"


def test_where_a_phase_and_a_task_can_be_blocked_it_asks_which(dev_shop):
    keeper = dev_shop.keeper()
    keeper.advance(branch="feat/x")
    keeper.start_task(1)
    watching = Watching(dev_shop)
    assert having(watching.press("b"), "block which: 1 phase task_execution  2 task 1")
    assert having(watching.press("9", "x"), "block which")
    assert having(watching.press("2"), "why is task 1 of ")
    assert having(watching.press("enter"), "why is task 1 of "), "a reason is needed"
    watching.press(Pasted("pasted\nreason"), "enter")
    task = dev_shop.keeper().show().state["tasks"][0]
    assert (task["status"], task["reason"]) == ("blocked", "pasted reason")


def test_a_unit_of_a_loop_is_blocked_in_its_pages_too(shop):
    state = open_workflow(shop.keeper(), "loop", "clean-cache")
    watching = Watching(shop)
    watching.press("b")
    watching.press("2")
    watching.press(*"stuck", "enter")
    unit = shop.keeper().show(workflow=state["id"]).state["tasks"][0]
    assert (unit["status"], unit["reason"]) == ("blocked", "stuck")


@pytest.mark.parametrize("keys", [["escape"], [*"why", "escape"], ["end of input"]])
def test_escape_changes_nothing(dev_shop, keys):
    watching = Watching(dev_shop)
    before = dev_shop.files()
    watching.press("b")
    assert having(watching.press(*keys), "nothing was changed")
    assert dev_shop.files() == before
    assert having(watching.press("down"), "q quits")


def test_only_yes_is_yes(dev_shop):
    keeper = dev_shop.keeper()
    keeper.block_phase("load_feature")
    seq = keeper.log()[-1]["seq"]
    watching = Watching(dev_shop)
    watching.press("u")
    for key in ("enter", " ", "q", "u", "down", Pasted("y")):
        assert having(watching.press(key), "unblock phase load_feature of "), key
    assert having(watching.press("n"), "nothing was changed")
    assert keeper.log()[-1]["seq"] == seq


def test_an_approval_without_a_persons_terminal_is_refused_as_by_the_command(dev_shop):
    watching = Watching(dev_shop, size=(200, 40))
    lines = watching.press("a")
    (refusal,) = having(lines, "✗ phase approve load_feature")
    assert "only a person can decide this" in refusal
    assert not having(lines, "[y/n]")
    assert "phase_approved" not in [event["type"] for event in dev_shop.keeper().log()]


def test_what_cannot_be_done_says_why(dev_shop):
    watching = Watching(dev_shop)
    assert having(watching.press("u"), "nothing of it is blocked")
    dev_shop.keeper().block_phase("load_feature")
    assert having(watching.press("b"), "no phase or task of it is in progress")


def test_what_changed_meanwhile_is_refused_by_the_keeper(dev_shop):
    watching = Watching(dev_shop, size=(200, 40))
    watching.press("b")
    dev_shop.keeper().block_phase("load_feature")
    lines = watching.press(*"why", "enter")
    assert having(lines, "✗ phase block: load_feature")
    assert having(lines, "(next: holdfast ")


@pytest.mark.parametrize("text", ["abuq?/", "q", "enter", "up", "escape", "y"])
def test_pasted_text_is_no_command(dev_shop, text):
    watching = Watching(dev_shop)
    before = watching.lines()
    assert watching.press(Pasted(text)) == before
    watching.press("/")
    assert having(watching.press(Pasted(text)), f" /{text}_")


def test_any_keys_in_any_window_leave_whole_frames(dev_shop):
    keys = ["a", "b", "u", "/", "?", "enter", "escape", "x", "down", "G", "1", "n", Pasted("é日")]
    for size in ((1, 1), (20, 3), (80, 24)):
        watching = Watching(dev_shop, size=size)
        for first in keys:
            for second in keys:
                for key in (first, second):
                    assert watching.viewer.press(key)
                    assert len(watching.lines()) == size[1], (size, first, second)
                watching.press("escape", "escape", "escape")


def test_the_next_step_is_that_of_the_worktree_that_the_work_is_in(dev_shop):
    watching = Watching(dev_shop)
    state = dev_shop.keeper().show().state
    step = next_step(state, dev_shop.keeper().session.facts.of_next_step(state))
    assert having(watching.lines(), f"NEXT       {step.text}")


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe\u2066\u200f\x7f \u2028 end"


def test_stored_text_steers_no_page(shop):
    keeper = shop.keeper()
    keeper.start("dev", HOSTILE, title=HOSTILE, tasks=[HOSTILE], reminders=[HOSTILE])
    keeper.ask(HOSTILE, [HOSTILE])
    keeper.block_phase("load_feature", {"reason": HOSTILE})
    watching = Watching(shop, size=(200, 60))
    pages = [watching.lines(), watching.press("enter"), watching.press("u")]
    watching.press("escape", "escape", "/")
    pages += [watching.press(Pasted(HOSTILE)), watching.press("clear", *"owned", "enter")]
    watching.viewer.search(lambda: None)
    pages += [watching.lines(), watching.press("enter")]
    for lines in pages:
        assert having(lines, "<U+202E>") or having(lines, "owned"), lines
        assert [line for line in lines if clean(line, is_shown=True) != line] == []
