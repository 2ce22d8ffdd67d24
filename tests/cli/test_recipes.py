"""Recipes as people see them: within the terminal's width, and steering no terminal."""

import io
from types import SimpleNamespace

import pytest

from holdfast.cli import screen
from holdfast.cli.commands import workflow
from holdfast.cli.screen import Screen, count_cells
from promises.hostile import each_hostile, is_allowed

WORDS = ["short", "a much longer one, " * 5, "日本語のタイトル" * 4]


def whole(word):
    phase = {"name": word, "steps": [word], "next": [word], "approval": True, word: word}
    gates = {word: {"status": "pending", "command": word, word: [word]}}
    more = {"title": word, "ttl": word, "mode": word, "cycles_at": word, "subject_key": word}
    free = {"gates": gates, "task_phases": [word], "context": {word: {word: word}}}
    return {"name": word, "format": word, "phases": [phase], **more, **free}


def row(word, **fields):
    named = dict.fromkeys(("name", "format", "title", "source"), word)
    return {**named, "phases": [word, word], **fields}


def answers(word):
    rows = [row(word), row(word, bad={"key": word, "why": word})]
    keeper = SimpleNamespace(recipes=lambda: rows, recipe=lambda _name: (whole(word), word))
    return [workflow.list_recipes(keeper, {}), workflow.show_recipe(keeper, {"name": word})]


def lines(answer, kind=io.TextIOWrapper):
    return list(answer.text_lines(kind(io.BytesIO(), encoding="utf-8")))


@pytest.mark.promise(14)
@each_hostile
def test_what_a_recipe_says_cannot_steer_a_terminal(text):
    for answer in answers(text):
        for found in (lines(answer), "".join(answer.json_pieces(ascii_only=False)).splitlines()):
            assert found
            assert [line for line in found if not all(map(is_allowed, line))] == []
            assert not any("\n" in line for line in found)


@pytest.mark.promise(14)
def test_the_test_of_escapes_fails_when_text_is_printed_raw(monkeypatch):
    monkeypatch.setattr(workflow, "clean", str)
    for answer in answers("\x1b[2J"):
        assert any("\x1b" in line for line in lines(answer))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("word", WORDS)
def test_the_table_of_recipes_fits_the_terminal(width, word):
    rows = [row("dev", format="skill"), row(word, bad={"key": word, "why": word})]
    for fancy in (True, False):
        for line in workflow.recipe_table(Screen(width=width, fancy=fancy), rows):
            assert count_cells(line) <= width


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [40, 72, 120])
def test_a_recipe_fits_the_terminal(monkeypatch, width):
    monkeypatch.setattr(screen, "_terminal_width", lambda _out: width)
    monkeypatch.setenv("NO_COLOR", "1")
    for answer in answers("some words that take room, " * 6):
        found = lines(answer, Terminal)
        assert [line for line in found if count_cells(line) > width] == []


def test_where_a_recipe_comes_from_is_shown_on_a_usual_terminal():
    rows = [row("dev", source="shipped"), row("own", source=".claude/workflows/own.toml")]
    shown = list(workflow.recipe_table(Screen(width=80), rows))
    assert all("shipped" in line or "own.toml" in line for line in shown[1:])
