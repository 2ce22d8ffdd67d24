"""Whose workflow is meant, as a table: what there is, who asks, and what they get."""

import pytest

from holdfast.core.refusal import Refusal
from holdfast.core.selection import Asker, choose

BOUND = {"id": "ada", "at": "", "seq": 1}
FREE = {
    "id": "free", "status": "in_progress", "worktree": ".", "branch": "main", "floating": False,
    "session": None, "title": "Free", "updated_at": "2026-01-01T00:00:00.000Z",
}  # fmt: skip
ALSO_FREE = {**FREE, "id": "newer", "updated_at": "2026-01-02T00:00:00.000Z"}
HELD = {**FREE, "id": "held", "session": BOUND}
ALSO_HELD = {**HELD, "id": "also", "session": {**BOUND, "id": "kim"}}
ABANDONED = {**HELD, "id": "left", "session": {**BOUND, "id": "dead"}}
ELSEWHERE = {**FREE, "id": "linked", "worktree": "linked"}
ON_SIDE = {**FREE, "id": "side", "branch": "side"}
FLOATING = {**FREE, "id": "floating", "branch": "side", "floating": True}
ENDED = {**FREE, "id": "ended", "status": "completed"}

PERSON = Asker(None, None, None, ".", "main", is_person=True)
GRACE = Asker("grace", None, None, ".", "main")
NAMELESS = Asker(None, None, None, ".", "main")
ADA = Asker("ada", None, None, ".", "main")
EVERYBODY = (PERSON, GRACE, NAMELESS, ADA)
NEITHER_ADA = (PERSON, GRACE, NAMELESS)
CLIENTS = (GRACE, NAMELESS)


@pytest.mark.parametrize(
    ("rows", "askers", "meant"),
    [
        ([], EVERYBODY, "not_found"),
        ([ENDED], EVERYBODY, "not_found"),
        ([FREE], EVERYBODY, FREE),
        ([FREE, ALSO_FREE], EVERYBODY, "ambiguous"),
        ([FREE, ELSEWHERE, ON_SIDE, ENDED], EVERYBODY, FREE),
        ([FLOATING], EVERYBODY, FLOATING),
        ([ELSEWHERE], EVERYBODY, "not_found"),
        ([ON_SIDE], EVERYBODY, "other_branch"),
        ([HELD], [ADA], HELD),
        ([HELD, FREE, ALSO_FREE], [ADA], HELD),
        ([HELD], [PERSON], HELD),
        ([HELD], CLIENTS, "held"),
        ([HELD, FREE], NEITHER_ADA, FREE),
        ([HELD, ALSO_HELD], [PERSON], "ambiguous"),
        ([HELD, ALSO_HELD], CLIENTS, "held"),
        ([ABANDONED], EVERYBODY, ABANDONED),
        ([HELD, ABANDONED], NEITHER_ADA, ABANDONED),
    ],
)
def test_the_one_that_is_meant(rows, askers, meant):
    for asker in askers:
        picked = choose(rows, asker, live={"ada", "kim"})
        assert (picked.code if isinstance(picked, Refusal) else picked) == meant


def test_the_newest_of_several_comes_first():
    picked = choose([FREE, ALSO_FREE], GRACE, live=set())
    assert picked.details["candidates"] == ["newer", "free"]


def test_who_works_there_is_said_with_two_ways_to_act_on_it():
    picked = choose([HELD], GRACE, live={"ada"})
    assert picked.message == "the live session ada works on held (Free)"
    assert picked.hint == (
        "act on this one once: -w held; or take it over: holdfast resume held --session grace"
    )
