"""The picture of ``watch`` is a function: of what there is, of the window, of the time."""

import os
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.commands.watch import RECENT_MS, Frame, Poller, frame_lines, view_items
from holdfast.cli.screen import Screen, count_cells, count_painted_cells
from holdfast.core.workflow import blank
from support.workshop import LEDGER, NOON

NOW = "2026-01-02T06:04:05.000Z"
THEN = "2026-01-02T03:04:05.000Z"
RECIPE = {"name": "dev", "format": "skill", "phases": [{"name": "plan"}, {"name": "build"}]}
STATUSES = ("pending", "in_progress", "completed", "blocked", "odd")

words = st.text(
    st.sampled_from("ab é日本語👩‍👧\u0301\ufe0f🇫🇷\x1b[2J\n\u202e"), max_size=30
) | st.text(max_size=12)
tasks = st.builds(
    lambda number, text, status, reason: {
        "id": number,
        "description": text,
        "status": status,
        "reason": reason,
    },
    st.integers(1, 99),
    words,
    st.sampled_from(STATUSES),
    st.none() | words,
)
gates = st.dictionaries(
    words, st.fixed_dictionaries({"status": st.sampled_from(STATUSES)}), max_size=4
)


@st.composite
def states(draw):
    state = blank(draw(words), RECIPE, THEN)
    state.update(title=draw(words), status=draw(st.sampled_from(STATUSES)), gates=draw(gates))
    state["tasks"] = draw(st.lists(tasks, max_size=6))
    state["phase"] = draw(st.sampled_from(["plan", "build", None]))
    return state


events = st.builds(
    lambda seq, stream, text: {
        "seq": seq,
        "at": THEN,
        "stream": stream,
        "type": "task_added",
        "data": {"text": text},
    },
    st.integers(1, 10**9),
    words,
    words,
)
initiatives = st.builds(
    lambda name: {
        "name": name,
        "status": "in_progress",
        "current_milestone": name,
        "completed": 0,
        "total": 2,
    },
    words,
)
layers = st.builds(
    lambda target, status: {"layer": "L3", "target": target, "status": status, "seq": 4},
    words,
    st.sampled_from(["current", "behind", "empty", "off", "unavailable"]),
)


@st.composite
def views(draw):
    found = draw(st.lists(states(), max_size=6))
    return {
        "title": draw(words),
        "seq": draw(st.integers(0, 10**9)),
        "states": {str(number): state for number, state in enumerate(found)},
        "unopened": draw(st.sampled_from([0, 7])),
        "unsettled": draw(st.sampled_from([[], ["0"]])),
        "mine": None,
        "initiative": draw(st.none() | initiatives),
        "layers": draw(st.lists(layers, max_size=3)),
        "events": draw(st.lists(events, max_size=12)),
        "damage": draw(st.lists(words, max_size=3)),
        "keys": "q quits",
    }


def a_view(**fields):
    state = blank("dev-1", RECIPE, THEN)
    state["tasks"] = [
        {"id": number, "description": f"task {number}", "status": "pending"} for number in (1, 2)
    ]
    state["gates"] = {"lint": {"status": "pending"}}
    view = {
        "title": "shop on main",
        "seq": 4,
        "states": {"dev-1": state},
        "unopened": 0,
        "unsettled": [],
        "mine": "dev-1",
        "initiative": None,
        "layers": [{"layer": "L1", "target": "1/1 records", "status": "current"}],
        "events": [
            {"seq": 4, "at": THEN, "stream": "dev-1", "type": "task_added", "data": {"task": 2}}
        ],
        "damage": [],
        "keys": "q quits",
    }
    return {**view, **fields}


@given(views(), st.integers(1, 130), st.integers(1, 50), st.booleans(), st.booleans())
def test_it_is_as_high_as_the_window_and_never_wider(view, width, height, colour, fancy):
    encoding = None if fancy else "ascii"
    screen = Screen(colour=colour, fancy=fancy, width=width, now=NOW, encoding=encoding)
    lines = frame_lines(screen, view, height, set(view_items(view)))
    assert len(lines) == height
    assert [line for line in lines if count_painted_cells(line) > width] == []
    assert fancy or all(line.isascii() for line in lines)


@given(views())
def test_where_there_is_room_for_all_nothing_is_left_out(view):
    lines = frame_lines(Screen(now=NOW), view, None, set())
    left = [line for line in lines if line.strip().startswith("… and")]
    assert left == ([" … and 7 more workflows"] if view["unopened"] else [])
    shown = sum(len(state["tasks"]) for state in view["states"].values())
    assert len(lines) >= shown + len(view["states"]) + 2


@given(views(), st.integers(20, 90), st.integers(5, 30))
def test_stored_text_cannot_steer_the_terminal(view, width, height):
    for line in frame_lines(Screen(width=width, now=NOW), view, height, set()):
        assert "\x1b" not in line
        assert "\n" not in line
        assert "\u202e" not in line


def test_a_small_window_keeps_what_is_open():
    view = a_view()
    state = view["states"]["dev-1"]
    state["tasks"] = [
        {"id": number, "description": f"task {number}", "status": "completed"}
        for number in range(1, 20)
    ]
    state["tasks"].append({"id": 20, "description": "the last", "status": "in_progress"})
    lines = frame_lines(Screen(width=60, now=NOW), view, 9, set())
    assert [line for line in lines if "the last" in line] == ["     ▶ 20  the last"]
    assert "     … and 18 more" in lines


def test_more_workflows_than_lines_are_counted():
    state = a_view()["states"]["dev-1"]
    many = {f"dev-{number}": {**state, "id": f"dev-{number}"} for number in range(30)}
    lines = frame_lines(Screen(width=60, now=NOW), a_view(states=many), 12, set())
    listed = [line for line in lines if "▶ dev-" in line]
    assert f" … and {30 - len(listed)} more workflows" in lines


def test_more_workflows_than_are_opened_are_counted_too(dev_shop, monkeypatch):
    monkeypatch.setattr("holdfast.keeper.overview.MAX_OPENED", 2)
    for number in range(4):
        dev_shop.keeper().start("tdd", f"src/{number}.py")
    view = Poller(dev_shop.keeper(), None).poll()
    assert (len(view["states"]), view["unopened"]) == (2, 3)
    assert view["layers"][0]["target"] == "2/2 records, 3 more not looked at"
    for height in (None, 30):
        lines = frame_lines(Screen(width=60, now=NOW), {**view, "keys": ""}, height, set())
        assert "5 workflows · event" in lines[0]
        assert " … and 3 more workflows" in lines
    one = Poller(dev_shop.keeper(), next(iter(view["states"]))).poll()
    assert (len(one["states"]), one["unopened"]) == (1, 0)
    assert one["layers"][0]["target"] == "1/1 records"


def pointed_at(frame):
    return [line for line in frame.lines(60, 20) if line.startswith("•")]


def frame_of(views, times):
    """A frame that shows one view after the other; its clock shows the last of the times."""
    poller = SimpleNamespace(poll=views.pop, is_stale=lambda: bool(views))
    views.reverse()
    return Frame(poller, lambda: times[-1], 1)


def test_what_changed_is_pointed_at_for_a_while():
    later = a_view()
    later["states"]["dev-1"]["tasks"][1]["status"] = "completed"
    later["states"]["dev-1"]["gates"]["lint"] = {"status": "completed", "passed": True}
    times = [NOON]
    frame = frame_of([a_view(), a_view(), later], times)
    assert pointed_at(frame) == [], "nothing is a change in the first view, or in the same one"
    times.append(NOON + 1_000)
    changed = ["•    ✓ 2  task 2", "•  gates  ✓ lint"]
    assert pointed_at(frame) == changed
    times.append(NOON + 1_000 + RECENT_MS - 1)
    assert pointed_at(frame) == changed
    times.append(NOON + 1_000 + RECENT_MS)
    assert pointed_at(frame) == []
    times.append(NOON)
    assert pointed_at(frame) == [], "a clock that went back points at nothing"


def test_the_same_view_is_no_news():
    frame = frame_of([a_view(), a_view(seq=9)], [NOON])
    assert pointed_at(frame) == []


class Counting:
    """A keeper that counts how often it was opened by a look."""

    def __init__(self, keeper):
        self._keeper = keeper
        self.looks = 0

    def __getattr__(self, name):
        self.looks += name == "overview"
        return getattr(self._keeper, name)


def test_nothing_is_opened_while_nothing_was_written(dev_shop):
    keeper = Counting(dev_shop.keeper())
    picture = Frame(Poller(keeper, None), lambda: NOON, 1)
    for _ in range(5):
        picture.lines(80, 24)
    assert keeper.looks == 1
    dev_shop.keeper().complete_task(1)
    assert [line for line in picture.lines(80, 24) if line.startswith("•    ✓ 1  one")]
    assert keeper.looks == 2


def test_what_is_written_while_it_looks_is_not_missed(dev_shop):
    class Busy(Counting):
        def watched(self, *args, **kwargs):
            told = self._keeper.watched(*args, **kwargs)
            if self.looks == 2:
                dev_shop.keeper().complete_task(1)
            return told

    eye = Poller(Busy(dev_shop.keeper()), None)
    before = eye.poll()["seq"]
    assert not eye.is_stale()
    assert eye.poll()["seq"] == before
    assert eye.is_stale()
    assert eye.poll()["seq"] == before + 1


def test_an_edit_of_a_record_wakes_it(dev_shop):
    keeper = Counting(dev_shop.keeper())
    picture = Frame(Poller(keeper, None), lambda: NOON, 1)
    path = f"{dev_shop.root}/{dev_shop.keeper().show().state['record']}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace('"one"', '"two"'))
    assert [line for line in picture.lines(120, 24) if "its record was edited" in line]


def test_a_fault_is_shown_and_the_last_view_stays(dev_shop):
    picture = Frame(Poller(dev_shop.keeper(), None), lambda: NOON, 1)
    os.remove(dev_shop.path(LEDGER))
    dev_shop.write(LEDGER, b"nothing that SQLite could read")
    lines = picture.lines(80, 24)
    assert [line for line in lines if "1  one" in line]
    assert [line for line in lines if line.lstrip().startswith("✗ the ledger")]


def test_a_folder_that_is_gone_is_said_to_be_and_the_last_view_stays(dev_shop):
    picture = Frame(Poller(dev_shop.keeper(), None), lambda: NOON, 1)
    os.rename(dev_shop.root, f"{dev_shop.root}-away")
    lines = picture.lines(200, 24)
    assert [line for line in lines if f"✗ the folder {dev_shop.root} is gone" in line]
    assert [line for line in lines if "1  one" in line]
    os.rename(f"{dev_shop.root}-away", dev_shop.root)
    assert not [line for line in picture.lines(200, 24) if "is gone" in line]


def test_where_nothing_is_active_it_says_so_in_a_window_too():
    lines = frame_lines(Screen(width=60, now=NOW), a_view(states={}), 12, set())
    assert lines[1] == " No workflow is active here."
    for height in range(1, 8):
        lines = frame_lines(Screen(width=60, now=NOW), a_view(), height, set())
        assert " No workflow is active here." not in lines


def test_phases_that_are_summed_up_are_not_taken_for_one():
    view = a_view()
    state = view["states"]["dev-1"]
    state["phases"] = [{"name": name, "status": "completed"} for name in ("ask", "plan", "build")]
    state["phase"] = "build"
    lines = frame_lines(Screen(width=60, now=NOW), view, None, set())
    assert "   ✓ 1 before  ✓ plan  ✓ build" in lines


def test_the_lines_are_measured_as_terminals_measure_them():
    assert [count_cells(text) for text in ("日本", "é", "e\u0301", "❤\ufe0f", "🇫🇷")] == [
        4,
        1,
        1,
        2,
        2,
    ]
