"""``docs/json.md`` tells every error code there is, and none that there is not."""

import ast
import re

import pytest

from handbook.declared import error_codes, name_of, texts, trees
from holdfast.cli.main import failure
from holdfast.errors import Fault, Refused
from holdfast.workspace.recipes import BadRecipe, NoRecipe
from support.paths import ROOT

PAGE = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
ERRORS = PAGE.partition("\n## Errors\n")[2]
DOCUMENTED = {
    code: (int(exit_code), set(re.findall(r"`(\w+)`", details)))
    for code, exit_code, details in re.findall(
        r"^\| `(\w+)` \| (\d) \| .*? \|([^|]*)\|$", ERRORS, re.MULTILINE
    )
}
EXITS = {"Refusal": 1, "Refused": 1, "Fault": 3, "_error": 3}
"""What is called with a code first, and the exit code that follows from it."""
OTHERS = {
    "usage": 2,
    "damaged": 1,
    "failed": 4,
    "bad_file": 1,
    "bad_recipe": 1,
    "no_recipe": 1,
    "ambiguous": 1,
    "bad_settings": 1,
    "unwell": 1,
    "undelivered": 3,
    "forked": 3,
}
"""Codes that are given in another way, or with another exit code."""


def calls():
    for tree in trees().values():
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def used():
    """Every code in the source, with its exit code."""
    found = {}
    for call in calls():
        name = name_of(call.func)
        if name in EXITS and call.args:
            found.update(dict.fromkeys(texts(call.args[0]), EXITS[name]))
    return found | OTHERS


def details():
    """Code to the names of the details that come with it."""
    found = {}
    for call in calls():
        if name_of(call.func) in ("Refusal", "Refused", "Fault") and call.args:
            names = [keyword.arg for keyword in call.keywords if keyword.arg]
            for code in texts(call.args[0]):
                found.setdefault(code, set()).update(names)
    return found


def test_every_error_code_is_documented_with_its_exit_code():
    assert {code: exit_code for code, (exit_code, _) in DOCUMENTED.items()} == used()
    assert list(DOCUMENTED) == sorted(DOCUMENTED)


def test_the_codes_that_are_given_in_another_way_are_really_given():
    assert set(used()) <= set(error_codes())


def test_every_detail_is_documented():
    for code, names in details().items():
        assert names <= DOCUMENTED[code][1], code


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(Refused("a", "b", "c"), 1), (Fault("a", "b", "c"), 3), (OSError(28, "full"), 3)],
)
def test_an_error_has_the_documented_shape(error, exit_code):
    answer = failure(error)
    assert answer.code == exit_code
    assert set(answer.fields()["error"]) == {"code", "message", "hint"}


def test_a_recipe_that_cannot_be_used_is_a_refusal():
    for error in (NoRecipe("x", ["dev"]), BadRecipe("format", "is none")):
        answer = failure(error)
        assert answer.code == 1
        assert set(answer.fields()["error"]["details"]) == DOCUMENTED[error.code][1]
