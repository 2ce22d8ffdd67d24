"""What a worker's words mean."""

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
    ],
)
def test_a_verdict_is_clean_only_when_it_says_so(output, code, found):
    assert driver.parse_verdict(TASK, output, code) == found
