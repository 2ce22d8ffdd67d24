"""Nonsense in place of a page: no exception, no lost byte, and an answer in bounded time."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.loops import page_model, pages, progress_log
from holdfast.loops.rebuild import rebuild_record
from loops import walks

pytestmark = pytest.mark.promise(10)

LONGEST_S = 8
"""Far more than this takes; what is not linear takes minutes."""

LARGE = 150_000
LONG = {
    "one line": "a" * LARGE,
    "one word": "T1 - " * (LARGE // 5),
    "heading of arrows": "## " + "T1 → " * (LARGE // 5),
    "short lines": "a\n" * (LARGE // 2),
    "empty lines": "\n" * LARGE,
    "items": "- a\n" * (LARGE // 4),
    "units": "- [ ] **T1**: x\n  - Depends: T1\n" * (LARGE // 34),
    "open unit": "- [ ] **" + "T" * LARGE,
    "stars": "*" * LARGE,
    "ticks": "  - Files: " + "`a" * (LARGE // 2),
    "fences": "```\n" * (LARGE // 4),
    "quotes": "> " * (LARGE // 2),
    "lazy quotes": ">" * 20 + "a\n" + "b\n" * 30_000,
    "nested items": "- " * (LARGE // 2),
    "nested lists": "".join(" " * 2 * depth + "- a\n" for depth in range(1_000)),
    "entries": "## T1 - Iteration 1 - x\n**Did:** y\n" * (LARGE // 35),
    "comments": "<!--\n" * (LARGE // 5),
    "codes": "&#38;" * (LARGE // 5),
    "backslashes": "\\" * LARGE,
    "colons": "- " + "a:" * (LARGE // 2),
    "spaces": "- Criteria:" + " " * LARGE + "x",
}
SMALL = walks.Loop().planned("T1").planned("T2", depends=["T1"]).finished("T1")


def read_all(text, mode):
    told, complaints = page_model.read_units(text, mode)
    assert all(one.startswith("line ") for one in complaints)
    assert len({unit["id"] for unit in told}) == len(told)
    page_model.read_brief(text)
    page_model.read_guardrails(text)
    pages.count_words(text)
    document, _ = rebuild_record(text, text, text, text, "x", mode, lambda _: None)
    assert document["slug"] == "x"


def patch_all(text, loop):
    once = page_model.patch_units(text, loop.state)
    assert page_model.patch_units(once, loop.state) == once
    state = {**loop.state, "guardrails": [{"name": "a", "when": "b"}]}
    once = page_model.patch_guardrails(text, state)
    assert once.startswith(text)
    assert page_model.patch_guardrails(once, state) == once
    once = page_model.patch_brief(text, loop.state)
    assert page_model.patch_brief(once, loop.state) == once
    log = text + progress_log.LogComparison(text, loop.events).addition()
    assert progress_log.LogComparison(log, loop.events).addition() == ""


@pytest.mark.parametrize("name", LONG)
def test_a_lot_of_nonsense_is_answered_in_time(name):
    started = time.process_time()
    text = LONG[name]
    read_all(text, "development")
    assert page_model.patch_units(text, SMALL.state)
    assert page_model.patch_guardrails(text, SMALL.state) == text
    assert page_model.patch_brief(text, SMALL.state)
    assert progress_log.LogComparison(text, SMALL.events).addition()
    assert time.process_time() - started < LONGEST_S


def test_random_bytes_are_no_trouble():
    drawn = random.Random(7)
    for size in (10, 100, 1_000, 100_000):
        for errors in ("replace", "ignore", "surrogateescape"):
            text = drawn.randbytes(size).decode(errors=errors)
            read_all(text, "knowledge")
            patch_all(text, SMALL)


def test_a_page_cut_off_anywhere_is_read_and_patched():
    whole = pages.render_units(SMALL.state)
    for end in range(0, len(whole), 3):
        read_all(whole[:end], "development")
        patch_all(whole[:end], SMALL)


marks = st.sampled_from(
    [
        *("- [ ] **T1**: ", "- [x] **T2**:", "  - Depends: T2", "  - Criteria:", "- ", "1. ", "  "),
        *(
            "# x",
            "## Tasks",
            "## Dependencies",
            "T1 → T2 (sequential)",
            "**Total:** 3 tasks",
            "---",
        ),
        *("## T1 - Iteration 1 - 2026-02-17T12:00:00Z", "**Did:** a", "**Signal:** T1_DONE", "a"),
        *("## T1 - Verification - x", "**Result:** Passed", "- **When**: x", "\\", "&#10;", "`"),
        *("```", "<!--", "-->", "> ", "\n", "\r\n", "\r", "\t"),
    ]
)


@given(st.lists(marks | st.just("\n") | walks.texts, max_size=40).map("".join))
def test_pieces_of_pages_in_any_order_are_read_and_patched(text):
    read_all(text, "development")
    patch_all(text, SMALL)
