"""Which events ``log`` chooses by text, time, type, task and author, and how few it reads."""

import pytest

from holdfast import Loops
from holdfast.errors import Refused
from holdfast.keeper import event_log
from holdfast.storage.database import Database
from support.machines import Machine, git
from support.workshop import DAY_MS, Workshop


@pytest.fixture
def keeper(shop):
    keeper = shop.keeper(session="ada-1")
    keeper.start("dev", "docs/a.md", tasks=["Parse words", "Measure it"])
    keeper.start_task(1)
    keeper.remind("Never log a Password")
    keeper.set_context({"baseline_ms": 41, "Größe": 'a "quoted" \\ text'})
    shop.keeper(by="hook").remember("the cache is cold")
    return keeper


def types(keeper, **choice):
    return [event["type"] for event in keeper.log(**choice)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("never LOG", ["reminder_added"]),
        ("baseline_ms", ["context_set"]),
        ("baseline_ms=41", ["context_set"]),
        ("baselinexms", []),
        ("grÖSSE", ["context_set"]),
        ('"quoted" \\', ["context_set"]),
        ("%", []),
        ("reminder_", ["reminder_added"]),
        ("nobody wrote this", []),
    ],
)
def test_a_text_is_found_in_any_value_key_or_type_whatever_its_capitals(keeper, text, expected):
    assert types(keeper, grep=text) == expected
    assert types(keeper, grep=text, limit=5) == expected


def test_a_text_of_any_length_is_compared(keeper):
    """SQLite takes patterns of up to 50,000 bytes."""
    long = "a_" * 1_990
    keeper.remind(long)
    assert types(keeper, grep=long) == ["reminder_added"]
    for times in (10, 20, 1_000):
        assert types(keeper, grep=long * times) == []
    assert types(keeper, grep="x" * 100_000, limit=5) == []


def test_the_copy_of_a_recipe_in_an_opening_event_is_not_searched(keeper):
    gate = next(iter(keeper.log()[0]["data"]["recipe"]["gates"]))
    assert types(keeper, grep=gate) == []
    assert types(keeper, grep="recipe=dev") == ["workflow_started"]


def test_a_type_is_a_name_or_the_beginning_of_names(keeper):
    assert types(keeper, types=["task_started"]) == ["task_started"]
    assert types(keeper, types=["task_*"]) == ["task_added", "task_added", "task_started"]
    both = types(keeper, types=["learning_recorded", "context_set"])
    assert both == ["context_set", "learning_recorded"]


@pytest.mark.parametrize("name", ["task_complete", "*ask_added", "nonsense_*", ""])
def test_a_type_that_no_event_has_is_refused_with_a_command_that_works(keeper, name):
    with pytest.raises(Refused) as caught:
        keeper.log(types=[name])
    assert caught.value.code == "invalid"
    assert caught.value.hint.startswith("holdfast log --")
    if name == "task_complete":
        assert caught.value.hint == "holdfast log --type task_completed"


def test_a_mistyped_type_is_refused_with_the_one_that_was_meant(keeper):
    with pytest.raises(Refused) as caught:
        keeper.log(types=["taks_completed"])
    assert "there are task_completed" in caught.value.message
    assert caught.value.hint == "holdfast log --type task_completed"


def test_a_task_is_that_of_any_workflow_also_a_unit_of_a_loop(keeper):
    loops = Loops(keeper)
    loops.new("words", task="go on")
    loops.plan("words", "T1: one")
    assert types(keeper, task=1) == ["task_added", "task_started"]
    assert types(keeper, task="1") == types(keeper, task=1)
    assert types(keeper, task="T1") == ["task_added", "unit_planned"]
    assert types(keeper, task=10) == []


def test_a_time_is_a_date_a_time_or_an_age(shop, keeper):
    shop.clock.ms += 3 * DAY_MS
    keeper.remind("later")
    at = keeper.log()[-1]["at"]
    for since in (at, at[:10], at[:16], "1h", "2d"):
        assert types(keeper, since=since) == ["reminder_added"], since
    assert types(keeper, since="4d") == types(keeper)


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "-1d", "99999999999999d"])
def test_what_is_no_time_is_refused(keeper, since):
    with pytest.raises(Refused, match="neither a time"):
        keeper.log(since=since)


def test_the_author_is_a_surface_or_a_session(keeper):
    assert types(keeper, by="hook") == ["learning_recorded"]
    assert types(keeper, by="ada-1") == types(keeper)[:-1]
    assert types(keeper, by="ada") == types(keeper)[:-1]
    assert types(keeper, by="da-1") == []


def test_the_author_is_a_machine_where_there_is_a_hub(tmp_path):
    remote = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(remote))
    desk, laptop = (Machine(tmp_path / name, name, remote) for name in ("desk", "laptop"))
    workflow = desk.keeper.start("dev", "docs/a.md", tasks=["one"]).state["id"]
    desk.share()
    laptop.share()
    desk.keeper.start_task(1, workflow=workflow)
    desk.sync()
    laptop.sync()
    laptop.keeper.remind("from the laptop", workflow=workflow)
    assert set(types(laptop.keeper, by="desk")) == {"events_merged"}
    assert "reminder_added" in types(laptop.keeper, by="laptop")
    assert "events_merged" not in types(laptop.keeper, by="laptop")
    assert set(types(laptop.keeper, grep="start_task", task=1)) == {"events_merged"}


def test_choices_add_up_and_a_limit_takes_the_newest(keeper):
    keeper.start_task(2)
    assert types(keeper, types=["task_*"], task=2) == ["task_added", "task_started"]
    assert [event["data"]["task"] for event in keeper.log(types=["task_*"], limit=2)] == [1, 2]
    workflow = keeper.log()[0]["stream"]
    assert types(keeper, workflow=workflow, grep="cold") == []


def test_archived_events_are_chosen_as_well(shop, keeper):
    keeper.abandon("no more")
    shop.clock.ms += 90 * DAY_MS
    before = keeper.log(types=["task_*"])
    assert keeper.archive("1d").events
    assert shop.keeper().log(types=["task_*"]) == before
    assert shop.keeper().log(types=["task_*"], limit=2) == before[-2:]
    assert shop.keeper().log(workflow=before[0]["stream"], task=1, limit=9) == before[::2]


def test_new_events_are_followed_by_the_same_choice(shop, keeper):
    head = keeper.store.ledger.head_seq
    texts = iter(["first", "not this", "second"])

    def work(_seconds):
        shop.keeper(session="ada-1").remind(next(texts))

    follower = shop.keeper(sleep=work)
    coming = follower.follow(after=head, grep="s", types=["reminder_added"], by="ada-1")
    assert [next(coming)["data"]["text"] for _ in range(3)] == ["first", "not this", "second"]
    coming = follower.follow(after=head, grep="SECOND")
    assert next(coming)["data"]["text"] == "second"


class Counter:
    """Counts the rows that queries of the ledger yield."""

    def __init__(self, monkeypatch):
        self.rows = 0
        original = Database.rows

        def counting(database, statement, values=()):
            for row in original(database, statement, values):
                self.rows += 1
                yield row

        monkeypatch.setattr(Database, "rows", counting)


def test_a_limited_choice_compares_only_the_newest_events_and_says_so(tmp_path, monkeypatch):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.remember("the oldest")
    for number in range(30):
        keeper.remember(f"fact {number}")
    monkeypatch.setattr(event_log, "MAX_LOOKED_AT", 10)
    assert keeper.log(grep="oldest", limit=1) == []
    assert keeper.drain_notes() == [
        "only the newest 10 events were looked at; without --limit all are"
    ]
    assert len(keeper.log(grep="oldest")) == 1
    assert len(keeper.log(grep="fact", limit=10)) == 10
    assert keeper.drain_notes() == []
    counter = Counter(monkeypatch)
    assert [event["data"]["text"] for event in keeper.log(grep="29", limit=1)] == ["fact 29"]
    assert counter.rows < 10
