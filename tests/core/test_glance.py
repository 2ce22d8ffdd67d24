"""The text of a status line: what it has, what leaves it first, and that it fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.glance import Style, other_line, workflow_line
from holdfast.core.visible import count_cells

PLAIN = {"colour": False, "fancy": True}
ROW = {
    "status": "in_progress", "phase": "green", "phase_status": "in_progress", "phase_index": 2,
    "phase_total": 5, "tasks_done": 2, "tasks_total": 7, "branch": "login", "floating": 0,
    "title": "Login",
}  # fmt: skip
GLANCE = {
    "task": [3, "Check the password", "in_progress"], "failing": 2, "is_red_asked": False,
    "gates": [2, 1, 1, 6], "failed": ["lint"],
}  # fmt: skip


def line_of(width=200, branch="login", context=43.2, style=None, **glance):
    row = {**ROW, "glance": {**GLANCE, **glance}}
    return workflow_line(row, branch, context, style or Style(width, **PLAIN))


def test_everything_is_on_one_line_where_there_is_room():
    assert line_of() == (
        "▶ 2/5 green · task 3/7 Check the password · ✗ 2 failing"
        " · gates 3/6 (1 claimed, 1 waived) ✗ lint · context 43%"
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (100, "▶ 2/5 green · task 3/7 Check the password · ✗ 2 failing · gates 3/6 ✗1 · 43%"),
        (70, "▶ 2/5 green · task 3/7 Check the p… · ✗ 2 failing · gates 3/6 ✗1 · 43%"),
        (58, "▶ 2/5 green · task 3/7 · ✗ 2 failing · gates 3/6 ✗1 · 43%"),
        (51, "▶ 2/5 green · task 3/7 · ✗ 2 failing · gates 3/6 ✗1"),
        (50, "▶ 2/5 green · task 3/7 Check the pa… · ✗ 2 failing"),
        (40, "▶ 2/5 green · task 3/7 · ✗ 2 failing"),
        (22, "▶ 2/5 green · task 3/7"),
        (12, "▶ 2/5 green"),
        (8, "▶ 2/5 g…"),
    ],
)
def test_what_matters_least_leaves_first(width, line):
    shown = line_of(width)
    assert len(shown) <= width
    assert shown == line


def test_what_holds_up_the_work_comes_first():
    assert line_of(questions=1, conflicts=2, approval=True, branch="main").startswith(
        "✗ for branch login, not main · 1 question · 2 conflicts · waits for approval · ▶ 2/5 green"
    )
    assert line_of(branch=None).startswith("✗ for branch login, not no branch · ")
    row = {**ROW, "status": "blocked", "glance": {**GLANCE, "blocked": "no key"}}
    line = workflow_line(row, "login", None, Style(200, **PLAIN))
    assert line.startswith("✗ blocked no key · ▶ 2/5 green")


def test_a_branch_that_the_work_has_yet_to_make_is_no_other_one():
    row = {**ROW, "floating": 1, "glance": GLANCE}
    assert workflow_line(row, "main", None, Style(200, **PLAIN)).startswith("▶ 2/5 green")


def test_a_row_of_an_older_holdfast_has_its_counts_alone():
    row = {**ROW, "glance": None}
    assert workflow_line(row, "login", None, Style(200, **PLAIN)) == "▶ 2/5 green · tasks 2/7"


def test_plain_signs_are_ascii():
    style = Style(70, colour=False, fancy=False)
    assert line_of(style=style) == (
        "> 2/5 green | task 3/7 Check the p~ | ! 2 failing | gates 3/6 !1 | 43%"
    )


def test_colours_take_no_room():
    plain, painted = (line_of(style=Style(70, colour=c, fancy=True)) for c in (False, True))
    assert painted.startswith("\x1b[36m▶ 2/5 green\x1b[0m\x1b[2m · \x1b[0mtask 3/7 Check")
    for code in ("36", "2", "31", "33", "32", "0"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == plain


@pytest.mark.parametrize(("used", "code"), [(10, "2"), (70, "33"), (89.9, "33"), (90, "31")])
def test_a_context_that_fills_up_changes_its_colour(used, code):
    line = line_of(context=used, style=Style(300, colour=True, fancy=True))
    assert line.endswith(f"\x1b[{code}mcontext {used:.0f}%\x1b[0m")


TEXT = st.text(max_size=60) | st.sampled_from(
    ["宽" * 40, "\x1b[2J", "\u202eabc", "a\nb", "👩‍💻" * 9]
)


@given(
    width=st.integers(20, 200),
    task=TEXT,
    phase=TEXT,
    gate=TEXT,
    branch=TEXT | st.none(),
    reason=TEXT,
)
def test_no_text_breaks_out_of_the_line(width, task, phase, gate, branch, reason):
    glance = {**GLANCE, "task": [1, task, "blocked"], "failed": [gate] * 4, "blocked": reason}
    row = {**ROW, "status": "blocked", "phase": phase, "branch": branch, "glance": glance}
    style = Style(width, **PLAIN)
    for line in (workflow_line(row, "main", 50.0, style), other_line(task, 50.0, style)):
        assert count_cells(line) <= width
        assert not any(char < " " or "\x7f" <= char < "\xa0" for char in line)
        assert "\u202e" not in line
