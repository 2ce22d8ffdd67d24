"""Several runs in one log, names without end, and text that was made to be slow to read."""

import ast
import re
import re._constants as ops
import re._parser
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.evidence import run, testlogs

MODULES = [run, testlogs]
MEBIBYTE = 1024 * 1024
OUTPUTS = Path(__file__).parent / "outputs"

ENDS = {
    "pytest": "=== 1 passed in 0.12s ===",
    "cargo": "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    "go": "ok  \texample.com/a\t0.01s",
    "jest": "Tests:       1 passed, 1 total",
    "vitest": "      Tests  1 passed (1)",
}


def sample(name):
    return (OUTPUTS / f"{name}.txt").read_text("utf-8")


# Which run is read


@pytest.mark.parametrize(
    "text",
    ["", "\n", "all is well", "3 apples in 2.00s", "make: *** [test] Error 1", "Tests: none", "ok"],
)
def test_unknown_output_tells_nothing(text):
    assert testlogs.parse(text) == {}


@pytest.mark.parametrize("runner", ENDS)
def test_runner_is_known_by_its_summary(runner):
    assert testlogs.parse(f"noise\n{ENDS[runner]}\nmore")["runner"] == runner


@pytest.mark.parametrize("last", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_last_summary_wins(first, last):
    assert testlogs.parse(f"{ENDS[first]}\n{ENDS[last]}\n")["runner"] == last


def test_names_of_another_run_are_not_taken():
    both = sample("vitest-5.1.0-verbose") + sample("jest-30.5.2-verbose")
    assert testlogs.parse(both) == testlogs.parse(sample("jest-30.5.2-verbose"))
    both = sample("jest-30.5.2-verbose") + sample("vitest-5.1.0-verbose")
    assert testlogs.parse(both) == testlogs.parse(sample("vitest-5.1.0-verbose"))


def test_second_run_of_the_same_runner_stands_alone():
    green = "tests/a.py::test_x PASSED [100%]\n=== 1 passed in 0.10s ===\n"
    assert testlogs.parse(sample("pytest-9.2.0-verbose") + green) == {
        "runner": "pytest",
        "passing": ["tests/a.py::test_x"],
        "failed": 0,
        "passed": 1,
        "skipped": 0,
    }


def test_packages_of_one_run_are_added_up_until_another_runner_speaks():
    go_run = "--- FAIL: TestA (0.00s)\nFAIL\texample.com/a\t0.1s\nok  \texample.com/b\t0.1s\n"
    assert testlogs.parse(f"{go_run}{ENDS['pytest']}\n{go_run}{go_run}")["failed"] == 2


@pytest.mark.parametrize(
    ("opening", "runner"),
    [
        ("===== test session starts =====", "pytest"),
        ("running 12 tests", "cargo"),
        ("=== RUN   TestA", "go"),
        ("PASS src/a.test.ts", "jest"),
        (" RUN  v3.2.7 /project", "vitest"),
    ],
)
def test_run_that_was_stopped_is_known_by_how_it_begins(opening, runner):
    assert testlogs.parse(f"noise\n{opening}\nmore")["runner"] == runner


# What the tools at hand could not be made to print; written after their documented formats


def test_panics_of_old_compilers_are_read():
    text = (
        "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n"
        "thread 'a' panicked at 'it's off', src/lib.rs:3:5\n\nfailures:\n    a\n\n"
        "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"
    )
    assert testlogs.parse(text)["error"] == "it's off"


def test_tests_of_one_name_in_two_packages_count_twice_and_do_not_pass():
    text = (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.1s\n"
        "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/b\t0.1s\nFAIL\n"
    )
    assert testlogs.parse(text) == {
        "runner": "go",
        "failing": ["TestA"],
        "failed": 1,
        "passed": 1,
        "skipped": 0,
    }


def test_jest_on_windows_has_other_marks():
    text = f"FAIL src/a.test.js\n  √ fine (1 ms)\n  × broken\n\n{ENDS['jest']}\n"
    result = testlogs.parse(text)
    assert result["passing"] == ["src/a.test.js › fine"]
    assert result["failing"] == ["src/a.test.js › broken"]


def test_jest_names_that_stand_only_in_its_summary_are_taken():
    text = f"Summary of all failing tests\nFAIL ./a.test.js\n  ● t1\n\n    e1\n\n{ENDS['jest']}\n"
    assert testlogs.parse(text)["failing"] == ["./a.test.js › t1"]


# Bounds


def test_names_are_cut_and_their_count_stays_right():
    lines = [f"FAILED t.py::test_{n}[{'x' * 600}] - no" for n in range(1_500)]
    text = "\n".join(["== short test summary info ==", *lines, "== 1500 failed in 3.00s =="])
    result = testlogs.parse(text)
    assert result["failed"] == 1_500
    assert len(result["failing"]) == testlogs.MAX_NAMES
    assert {len(name) for name in result["failing"]} == {testlogs.MAX_NAME_CHARS}


def test_passing_names_are_bounded_too():
    lines = [f"t.py::test_{n} PASSED" for n in range(1_200)]
    result = testlogs.parse("\n".join([*lines, "== 1200 passed in 3.00s =="]))
    assert (len(result["passing"]), result["passed"]) == (testlogs.MAX_NAMES, 1_200)


@pytest.mark.parametrize("digits", [9, 10, 5_000])
def test_endless_numbers_are_no_trouble(digits):
    number = "9" * digits
    for line in (
        f"{number} passed in 0.12s",
        f"test result: ok. {number} passed; 0 failed; 0 ignored; 0 measured",
        f"Tests:  {number} passed, 1 total",
        f"      Tests  {number} passed (1)",
        f"⎯⎯ Failed Suites {number} ⎯⎯\n{ENDS['vitest']}",
    ):
        for count in ("failed", "passed", "skipped"):
            assert testlogs.parse(line).get(count, 0) < 10**9


@pytest.mark.parametrize("event", ["{}", '"x"', "[" * 100_000, '{"Action":', '"\\ud800"', "1e999"])
def test_events_that_are_none_are_left_out(event):
    text = f'{{"Action":"output","Output":{event}}}\n{{"Action":"{event}\nFAIL\texample.com/a\n'
    assert testlogs.parse(text)["failing"] == ["example.com/a"]


PIECES = [
    *ENDS.values(), "=", " ", "\n", "[", "]", " - ", "::", "PASSED", "FAILED", "E  ", "test ",
    " ... ", "ok", "failures:", "    ", "---- ", "--- FAIL: ", "(0.00s)", "a.go:1: ", "FAIL\t",
    '{"Action":"', '","Output":"', '"}', "  ● ", "FAIL ", "✓ ", "× ", "❯ ", " > ", "(1 test)",
    "⎯ Failed Suites 2 ⎯", " FAIL  ", "short test summary info", "FAILURES", "x", "9", "\x1b[1m",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=60).map("".join))
def test_whatever_is_read_has_its_shape(text):
    result = testlogs.parse(text)
    assert result == {} or result["runner"] in ENDS
    for key, value in result.items():
        if key in ("failing", "passing"):
            assert value
            assert len(value) == len(set(value))
            assert all("\n" not in name and len(name) <= testlogs.MAX_NAME_CHARS for name in value)
        elif key in ("failed", "passed", "skipped"):
            assert value >= 0
        else:
            assert key in ("runner", "error")
            assert value == value.strip() != ""
    assert not set(result.get("failing", ())) & set(result.get("passing", ()))


# Text made to be slow to read


def patterns(module):
    found = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
    return [(module.__name__, name, value.pattern) for name, value in found.items()]


ALL_PATTERNS = [entry for module in MODULES for entry in patterns(module)]


def repeats(parsed):
    """Every quantifier in a parsed expression."""
    for op, value in parsed:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            yield op, value[1]
        inner = value if isinstance(value, list | tuple) else [value]
        for part in inner:
            for deeper in part if isinstance(part, list) else [part]:
                if isinstance(deeper, re._parser.SubPattern):
                    yield from repeats(deeper)


@pytest.mark.parametrize(("module", "name", "pattern"), ALL_PATTERNS)
def test_no_expression_can_go_back(module, name, pattern):
    for op, most in repeats(re._parser.parse(pattern)):
        assert op == ops.POSSESSIVE_REPEAT or most == 1


def test_patterns_are_found_to_be_checked():
    assert len(ALL_PATTERNS) > 20
    assert len(list(repeats(re._parser.parse(r"(?:a(?=b*)|[c]+)?+")))) == 3


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_search_begins_with_a_repetition(module):
    """It would be tried again from every character of what it ran over."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("search", "sub", "finditer"):
            pattern = vars(module)[node.value.id].pattern
            first = re._parser.parse(pattern, re.MULTILINE)[0]
            is_whole_run = len(re._parser.parse(pattern)) == 1  # nothing after it can fail
            assert first[0] != ops.POSSESSIVE_REPEAT or is_whole_run


HOSTILE = {
    "pytest": [
        "=", "1 passed, ", "9", "1 passed, 1 failed in ", "a::b PASSED ", "a::b PASSED [", "E  \n",
        "FAILED a::b[ - ", "] - ", "[gw0] [ 1%] PASSED ", "== FAILURES ==\n", " PASSED    ",
        "== short test summary info ==\nFAILED a::b[] - ] - ] - [[[\nSUBFAILED :: ",
    ],
    "cargo": ["test a ... ", "test a ... \n", "failures:\n    x\n", "---- a\npanicked at '", "', "],
    "go": [
        "x\n", "\n", " ", " \n", "(", "[", "\x1b", "\x1b[", "\x1b]", "\x1b[1;", "--- PASS: ",
        "--- FAIL: T (0.", "    a.go:1: x\n", "a.go:", '{"Action":"\n', '{"Time":"',
    ],
    "jest": ["  ● b\n", "FAIL a\n  b\n    c\n      ✓ d\n", "Tests: ", "Tests:  1 f\n", " (1 ms"],
    "vitest": [
        " ✓ ", " ✓ a > b 1ms\n", "   ✓ a (1)\n", " ❯ (1 test", " ✓ (retry x1)", "⎯", "1 failed | ",
        " ✓ " + " " * 1_000 + "\n",
    ],
}  # fmt: skip
each_hostile_text = pytest.mark.parametrize(
    ("runner", "piece"), [(runner, piece) for runner in HOSTILE for piece in HOSTILE[runner]]
)


def calls(function, *args):
    """How many functions are called; those written in C count too."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(watch)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


@each_hostile_text
def test_twice_the_text_is_twice_the_work(runner, piece):
    once = calls(testlogs.parse, f"{piece * 1_000}\n{ENDS[runner]}")
    twice = calls(testlogs.parse, f"{piece * 2_000}\n{ENDS[runner]}")
    assert twice <= 2 * once + 50


@each_hostile_text
def test_hostile_text_is_read_at_once(runner, piece):
    """Calls do not show how long one takes; a bound this wide shows what is out of proportion."""
    text = piece * (MEBIBYTE // 4 // len(piece))
    begin = time.process_time()
    assert testlogs.parse(f"{text}\n{ENDS[runner]}")["runner"] == runner
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("FAIL {}\n\n", "  ● {}\n"),
        ("FAIL {}\n  suite\n", "    ✓ {}\n"),
        ("FAIL a\n  {}\n", "    ✓ {}\n"),
        (" ❯ {} (1 test)\n", "   ✓ {}\n"),
        (" ❯ a (1 test)\n   ❯ {} (1)\n", "     ✓ {}\n"),
    ],
)
def test_long_suite_is_not_copied_for_each_of_its_tests(long, short):
    half = MEBIBYTE
    lines = "".join(short.format(n) for n in range(half // 16))
    text = long.format("y" * half) + lines
    runner = "jest" if text.startswith("F") else "vitest"
    begin = time.process_time()
    testlogs.parse(text + ENDS[runner])
    assert time.process_time() - begin < 2
