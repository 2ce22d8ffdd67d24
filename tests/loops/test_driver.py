"""What a worker's words mean."""

import time

import pytest

from holdfast.loops import driver

TASK = {"id": "T1", "description": "One", "status": "in_progress", "remaining": "the rest"}


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        ("Did it.\n<signal>T1_DONE</signal>\n", 0, {"did": "Did it.", "signal": "T1_DONE"}),
        ("<signal>T1_DONE</signal>", 0, {"did": "nothing that was told", "signal": "T1_DONE"}),
        ("<signal>T1_DONE</signal>\nAll there.", 0, {"did": "All there.", "signal": "T1_DONE"}),
        ("Did it. <signal>T2_DONE</signal>", 0, {"did": "Did it.", "remaining": "the rest"}),
        ("A\n<remaining>B</remaining>", 0, {"did": "A", "remaining": "B"}),
        ("A <remaining>…</remaining>", 0, {"did": "A", "remaining": "the rest"}),
        ("<remaining>B", 0, {"did": "<remaining>B", "remaining": "the rest"}),
        ("A\n<blocked>no key</blocked>", 0,
         {"did": "A", "remaining": "the rest", "blocked": "no key"}),
        ("A\n<signal>T1_DONE</signal>", 1,
         {"did": "A", "remaining": "the rest", "blockers": "the worker ended with exit code 1"}),
        ("", None, {"did": "nothing that was told", "remaining": "the rest",
                    "blockers": "the worker was ended at its time limit"}),
    ],
)  # fmt: skip
def test_an_iteration_is_what_the_worker_says_of_it(output, code, said):
    assert driver.parse_work(TASK, output, code) == said


@pytest.mark.parametrize(
    ("output", "code", "found"),
    [
        ("<confirmed/>", 0, None),
        ("All is well. <confirmed />", 0, None),
        ("<signal>T1_DONE</signal>", 0, None),
        ("<signal>T2_DONE</signal>", 0, "the worker gave no verdict"),
        ("", 0, "the worker gave no verdict"),
        ("<issues>no test</issues>", 0, "no test"),
        ("<confirmed/> <issues>no test</issues>", 0, "no test"),
        ("<issues>…</issues> <confirmed/>", 0, None),
        ("<confirmed/>", 2, "the worker ended with exit code 2"),
        ("<confirmed/>", None, "the worker was ended at its time limit"),
        ("<issues>a\x00b</issues>", 0, "ab"),
        ("I looked.\nCONFIRMED\n", 0, None),
        ("I looked.\n**CONFIRMED**.", 0, None),
        ("ISSUES: none\nCONFIRMED", 0, None),
        ("CONFIRMED", 1, "the worker ended with exit code 1"),
        ("CONFIRMED\nor not", 0, "the worker gave no verdict"),
        ("It is not CONFIRMED", 0, "the worker gave no verdict"),
        ("I looked.\nISSUES: no test\nand no docs", 0, "no test\nand no docs"),
        ("I looked.\n**ISSUES:** no test", 0, "no test"),
        ("say ISSUES: if so", 0, "the worker gave no verdict"),
    ],
)
def test_a_verdict_is_clean_only_when_it_says_so(output, code, found):
    assert driver.parse_verdict(TASK, output, code) == found


STATE = {
    "id": "x", "subject": "x", "title": "X", "record": ".claude/iterative/x/state.json",
    "context": {"outcome": "People can log in"}, "tasks": [TASK], "guardrails": [],
}  # fmt: skip


def test_the_confirm_prompt_is_in_plain_words_and_is_no_answer_to_itself():
    for turn in ("confirm", "verify"):
        text = driver.prompt(STATE, TASK, turn)
        assert "If you find nothing, end your answer with the word CONFIRMED alone" in text
        assert "<" not in text
        assert driver.parse_verdict(TASK, text, 0) == "the worker gave no verdict"
        quoted = "".join(f"> {line}\n" for line in text.splitlines())
        assert driver.parse_verdict(TASK, quoted, 0) == "the worker gave no verdict"


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("a\nb\n", ("a\nb\n", None)),
        ('log\n{"result": "a\\nb", "total_cost_usd": 0.25}\n', ("log\na\nb", 0.25)),
        ('{"result": "a"}', ("\na", None)),
        ('{"total_cost_usd": true}', ('{"total_cost_usd": true}', None)),
        ('{"total_cost_usd": -1}', ('{"total_cost_usd": -1}', None)),
        ('{"total_cost_usd": 1e999}', ('{"total_cost_usd": 1e999}', None)),
        ("{broken", ("{broken", None)),
        ("[1]", ("[1]", None)),
    ],
)
def test_a_worker_may_answer_with_an_object_that_says_what_it_cost(output, answer):
    assert driver.parse_answer(output) == answer


NOON_MS = int(time.mktime((2026, 1, 14, 12, 0, 0, 0, 0, -1))) * 1_000


@pytest.mark.parametrize(
    ("until", "minutes"), [("90s", 1.5), ("2h", 120), ("12:30", 30), ("0:05", 725), ("12:00", 1440)]
)
def test_a_run_ends_at_the_time_that_was_given(until, minutes):
    limits, end_ms = driver.Limits([until], NOON_MS), NOON_MS + int(minutes * 60_000)
    assert limits.reached(end_ms - 1, None) is None
    assert limits.reached(end_ms, None) == ("time", f"--until {until}: the time is up")
