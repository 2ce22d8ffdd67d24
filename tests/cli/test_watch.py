"""The list of ``watch`` is a function: of what there is, of the window, of the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.screen import Screen, count_cells, count_painted_cells
from holdfast.cli.watching.frame import list_page
from holdfast.cli.watching.lines import Foot
from holdfast.cli.watching.rows import view_items
from holdfast.core.next_step import next_step
from holdfast.core.workflow import blank

NOW = "2026-01-02T06:04:05.000Z"
THEN = "2026-01-02T03:04:05.000Z"
RECIPE = {"name": "dev", "format": "skill", "phases": [{"name": "plan"}, {"name": "build"}]}
STATUSES = ("pending", "in_progress", "completed", "blocked", "odd")
KEYS = Foot("q quits")

words = st.text(
    st.sampled_from("ab é日本語👩‍👧\u0301\ufe0f🇫🇷\x1b[2J\n\u202e"), max_size=30
) | st.text(max_size=12)
tasks = st.builds(
    lambda number, text, status, reason: {
        "id": number,
        "description": text,
        "status": status,
        "reason": reason,
        "started_at": THEN,
    },
    st.integers(1, 99),
    words,
    st.sampled_from(STATUSES),
    st.none() | words,
)
gates = st.dictionaries(
    words,
    st.fixed_dictionaries(
        {"status": st.sampled_from((*STATUSES, "waived", "stale"))},
        optional={"passed": st.booleans(), "evidence": st.sampled_from(["claim", "run"])},
    ),
    max_size=4,
)
questions = st.builds(
    lambda number, text, choices, blocking: {
        "id": number, "text": text, "choices": choices, "blocking": blocking, "asked_at": THEN,
        "by": {}, "status": "open",
    },
    st.integers(1, 9), words, st.lists(words, max_size=3), st.booleans(),
)  # fmt: skip
conflicts = st.builds(
    lambda name, text: {"id": name, "command": text, "from": text, "why": text}, words, words
)


@st.composite
def states(draw):
    state = blank(draw(words), RECIPE, THEN)
    state.update(title=draw(words), status=draw(st.sampled_from(STATUSES)), gates=draw(gates))
    state["tasks"] = draw(st.lists(tasks, max_size=6))
    state["phase"] = draw(st.sampled_from(["plan", "build", None]))
    state["reminders"] = draw(st.lists(words, max_size=2))
    state["questions"] = draw(st.lists(questions, max_size=2))
    state["conflicts"] = draw(st.lists(conflicts, max_size=2))
    if draw(st.booleans()):
        state["tests"] = {
            "last_result": "failed", "exit_code": 1,
            "failing_tests": draw(st.lists(words, max_size=6)),
        }  # fmt: skip
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
def views(draw, root="/shop"):
    found = {str(number): state for number, state in enumerate(draw(st.lists(states())))}
    return {
        "root": root,
        "name": draw(words),
        "title": draw(words),
        "seq": draw(st.integers(0, 10**9)),
        "states": found,
        "steps": {name: next_step(state) for name, state in found.items()},
        "unopened": draw(st.sampled_from([0, 7])),
        "unsettled": draw(st.sampled_from([[], ["0"]])),
        "mine": None,
        "initiative": draw(st.none() | initiatives),
        "layers": draw(st.lists(layers, max_size=3)),
        "events": draw(st.lists(events, max_size=12)),
        "damage": draw(st.lists(words, max_size=3)),
    }


feet = st.builds(
    Foot,
    st.just("q quits"),
    st.tuples(st.sampled_from(["blocked", "completed"]), words),
    st.tuples(words, words),
)


def a_view(**fields):
    state = blank("dev-1", RECIPE, THEN)
    state["tasks"] = [
        {"id": number, "description": f"task {number}", "status": "pending"} for number in (1, 2)
    ]
    state["gates"] = {"lint": {"status": "pending"}}
    view = {
        "root": "/shop",
        "name": "shop",
        "title": "shop on main",
        "seq": 4,
        "states": {"dev-1": state},
        "steps": {"dev-1": next_step(state)},
        "unopened": 0,
        "unsettled": [],
        "mine": "dev-1",
        "initiative": None,
        "layers": [{"layer": "L1", "target": "1/1 records", "status": "current"}],
        "events": [
            {"seq": 4, "at": THEN, "stream": "dev-1", "type": "task_added", "data": {"task": 2}}
        ],
        "damage": [],
    }
    return {**view, **fields}


def a_list(view, height=None, width=60, **choices):
    screen = Screen(width=width, now=NOW)
    return list_page(screen, [view], height, changed=set(), foot=KEYS, **choices)


def with_state(**fields):
    """A view whose only workflow has these fields."""
    view = a_view()
    view["states"]["dev-1"] |= fields
    view["steps"]["dev-1"] = next_step(view["states"]["dev-1"])
    return view


@given(
    st.lists(views(), min_size=1, max_size=2), feet, st.integers(1, 130), st.integers(1, 50),
    st.booleans(), st.booleans(), words,
)  # fmt: skip
def test_it_is_as_high_as_the_window_and_never_wider(
    shown, foot, width, height, colour, fancy, filter_words
):
    encoding = None if fancy else "ascii"
    screen = Screen(colour=colour, fancy=fancy, width=width, now=NOW, encoding=encoding)
    changed = {key for view in shown for key in view_items(view)}
    lines = list_page(
        screen, shown, height, changed=changed, chosen=("/shop", "0"), words=filter_words, foot=foot
    )
    assert len(lines) == height
    assert [line for line in lines if count_painted_cells(line) > width] == []
    assert fancy or all(line.isascii() for line in lines)


@given(views())
def test_where_there_is_room_for_all_nothing_is_left_out(view):
    lines = list_page(Screen(now=NOW), [view], None, changed=set())
    left = [line for line in lines if line.strip().startswith("… and")]
    assert left == ([" … and 7 more workflows"] if view["unopened"] else [])
    shown = sum(len(state["tasks"]) for state in view["states"].values())
    assert len(lines) >= shown + len(view["states"]) + 2


@given(views(), st.integers(20, 90), st.integers(5, 30), feet)
def test_stored_text_cannot_steer_the_terminal(view, width, height, foot):
    screen = Screen(width=width, now=NOW)
    for line in list_page(screen, [view], height, changed=set(), foot=foot):
        assert "\x1b" not in line
        assert "\n" not in line
        assert "\u202e" not in line


def test_a_small_window_keeps_what_is_open():
    done = [
        {"id": number, "description": f"task {number}", "status": "completed"}
        for number in range(1, 20)
    ]
    last = {"id": 20, "description": "the last", "status": "in_progress"}
    lines = a_list(with_state(tasks=[*done, last]), height=11)
    assert [line for line in lines if "the last" in line] == ["     ▶ 20  the last"]
    assert [line for line in lines if "NEXT" in line]
    assert "     … and 19 more" in lines


def test_more_workflows_than_lines_are_counted():
    state = a_view()["states"]["dev-1"]
    many = {f"dev-{number}": {**state, "id": f"dev-{number}"} for number in range(30)}
    steps = dict.fromkeys(many)
    lines = a_list(a_view(states=many, steps=steps), height=12)
    listed = [line for line in lines if "▶ dev-" in line]
    assert f" … and {30 - len(listed)} more workflows" in lines


@pytest.mark.parametrize("number", [0, 3, 17, 29])
def test_the_chosen_workflow_is_in_sight_with_its_details_first(number):
    state = a_view()["states"]["dev-1"]
    many = {f"dev-{n}": {**state, "id": f"dev-{n}"} for n in range(30)}
    steps = {name: next_step(one) for name, one in many.items()}
    view = a_view(states=many, steps=steps)
    lines = a_list(view, height=50, chosen=("/shop", f"dev-{number}"))
    chosen = [line for line in lines if line.startswith("▌")]
    assert chosen[0].startswith(f"▌▶ dev-{number}  ")
    assert [line for line in chosen if "NEXT" in line]
    assert [line for line in chosen if "2  task 2" in line]


def test_several_repositories_have_headings_and_their_events_together():
    later = {"seq": 1, "at": NOW, "stream": "x", "type": "task_added", "data": {}}
    other = a_view(root="/other", name="other", title="other on trunk", events=[later])
    quiet = a_view(root="/quiet", name="quiet", title="quiet on main", states={}, events=[])
    screen = Screen(width=70, now=NOW)
    lines = list_page(screen, [a_view(), other, quiet], 30, changed=set(), foot=KEYS)
    assert lines[0] == " 3 repositories" + " " * 44 + "2 workflows"
    assert [line.split(" ─")[0] for line in lines if "─" in line] == [
        " shop on main", " other on trunk",
    ]  # fmt: skip
    assert [line.split()[2:4] for line in lines if "task_added" in line] == [
        ["shop", "dev-1"], ["other", "x"],
    ]  # fmt: skip


def test_a_repository_that_cannot_be_read_says_why_among_the_others():
    broken = a_view(root="/b", title="broken", states={}, damage=["the ledger is no database"])
    lines = list_page(Screen(width=70, now=NOW), [a_view(), broken], 30, changed=set(), foot=KEYS)
    assert " ✗ the ledger is no database" in lines


def test_what_waits_and_how_long_is_beside_what_it_is_about():
    begun = {"status": "in_progress", "started_at": THEN}
    lines = a_list(
        with_state(
            phase="build",
            phases=[{"name": "plan", "status": "completed"}, {"name": "build", **begun}],
            tasks=[{"id": 1, "description": "write it", "phases": {"red": "in_progress"}, **begun}],
            tests={"last_result": "failed", "exit_code": 1, "failing_tests": [*"abcdef"]},
            reminders=["Never log a password", "Be kind"],
            questions=[{"id": 1, "text": "Which?", "status": "open", "asked_at": THEN}],
            conflicts=[{"id": "c1", "command": "advance", "from": "desk", "why": "both did"}],
            gates={
                "lint": {"status": "passed", "passed": True, "evidence": "claim"},
                "test": {"status": "waived"},
            },
        ),
        width=110,
    )
    assert "   ✓ plan  ▶ build 3 h" in lines
    assert "     ▶ 1  write it  red · 3 h" in lines
    assert "     ✗ 6 tests failing  a · b · c · d · +2" in lines
    assert "     ✗ 1  Which?  waiting, asked 3 hours ago" in lines
    assert "     ✗ conflict c1  advance, from desk  both did" in lines
    assert "   gates      ○ lint claimed  - test waived" in lines
    assert "   reminders  Never log a password · Be kind" in lines
    assert [line for line in lines if line.startswith("   NEXT       holdfast ")]


def test_only_workflows_with_all_of_the_words_are_listed():
    state = a_view()["states"]["dev-1"]
    other = {**state, "id": "dev-2", "title": "Straße", "tasks": []}
    view = a_view(states={"dev-1": state, "dev-2": other}, steps={})
    assert "dev-2" not in "".join(a_list({**view, "events": []}, words="TASK 2"))
    assert "dev-1" not in "".join(a_list({**view, "events": []}, words="strasse dev"))
    nothing = a_list(view, words="nowhere")
    assert " Nothing here has these words." in nothing
    assert "only with: nowhere" in nothing[0]


def test_a_question_or_an_answer_is_seen_in_the_smallest_window():
    screen = Screen(width=20, now=NOW)
    for height in (1, 2, 5):
        asked = Foot("q quits", ("blocked", "no"), ("approve plan? [y/n]", "yes or no"))
        lines = list_page(screen, [a_view()], height, changed=set(), foot=asked)
        assert lines[-1] == " approve plan? [y/n]"
        said = Foot("q quits", ("blocked", "no"))
        assert " ✗ no" in list_page(screen, [a_view()], height, changed=set(), foot=said)


def test_the_end_of_what_is_typed_stays_in_sight():
    foot = Foot("", ("", ""), ("why is phase plan blocked: " + "x" * 60 + "THE END_", "Enter: do"))
    (line,) = list_page(Screen(width=30, now=NOW), [a_view()], 1, changed=set(), foot=foot)
    assert line.endswith("THE END_")


def test_where_nothing_is_active_it_says_so_in_a_window_too():
    assert a_list(a_view(states={}), height=12)[1] == " No workflow is active here."
    for height in range(1, 8):
        assert " No workflow is active here." not in a_list(a_view(), height=height)


def test_phases_that_are_summed_up_are_not_taken_for_one():
    phases = [{"name": name, "status": "completed"} for name in ("ask", "plan", "build")]
    assert "   ✓ 1 before  ✓ plan  ✓ build" in a_list(with_state(phases=phases, phase="build"))


def test_the_lines_are_measured_as_terminals_measure_them():
    assert [count_cells(text) for text in ("日本", "é", "e\u0301", "❤\ufe0f", "🇫🇷")] == [
        4,
        1,
        1,
        2,
        2,
    ]
