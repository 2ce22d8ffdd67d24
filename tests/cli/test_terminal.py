"""What a terminal says of itself, what a person says about it, and how lines are made to fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.screen import Screen, count_cells, count_painted_cells, wrap
from holdfast.core.visible import clean
from support.streams import make_file, make_terminal


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_only_on_a_terminal_that_wants_it(monkeypatch, environment, coloured):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Screen.of(make_terminal()).colour is coloured
    assert Screen.of(make_file()).colour is (coloured and "FORCE_COLOR" in environment)


@pytest.mark.parametrize(("said", "forced"), [("1", True), ("0", False), ("", False)])
def test_colour_can_be_asked_for_without_a_terminal(monkeypatch, said, forced):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", said)
    assert Screen.of(make_file()).colour is forced


@pytest.mark.parametrize(
    ("said", "width"), [("100", 100), ("30", 30), ("12", 20), ("0", 80), ("wide", 80), ("", 80)]
)
def test_the_environment_may_say_how_wide_the_terminal_is(monkeypatch, said, width):
    monkeypatch.setenv("COLUMNS", said)
    assert Screen.of(make_terminal()).width == width
    assert Screen.of(make_file()).width is None


@given(
    st.text(st.sampled_from("ab é日本語👩\u200d👧\u0301❤\ufe0f🇫"), max_size=200),
    st.integers(20, 90),
)
def test_wrapped_text_holds_the_width_but_for_a_long_word(anything, width):
    """A path or an address that is longer than the line is left whole."""
    line = clean(anything)
    pieces = list(wrap(line, width))
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")
    for piece in pieces:
        assert count_cells(piece) <= width or not any(count_cells(char) > 1 for char in piece)
        assert count_cells(piece) <= width or len(piece.split()) == 1


def test_writing_without_spaces_is_folded_and_its_colour_goes_on():
    painted = Screen(colour=True).paint("日本語" * 20, "warn")
    pieces = list(wrap(f"  note: {painted}", 40))
    assert [count_painted_cells(piece) for piece in pieces] == [40, 40, 40, 26]
    assert "".join(piece.lstrip() for piece in pieces) == f"note: {painted}"


def test_a_terminal_that_does_not_tell_its_width_has_the_usual_one(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Screen.of(make_terminal()).width == 80
    assert Screen.of(make_file()).width is None
