"""What the real tools printed, read back.

Every file in ``outputs`` was printed by the tool and version in its name, over little projects made
for it; then paths, traces and code frames were taken out. Each project has the same tests for all
versions, so what is expected is written down once, and per file only what that output tells.
"""

from pathlib import Path

import pytest

from holdfast.evidence import testlogs

OUTPUTS = Path(__file__).parent / "outputs"


def read(name):
    return testlogs.parse((OUTPUTS / f"{name}.txt").read_text("utf-8"))


def names(prefix, *rest):
    return {prefix + name for name in rest}


def unordered(result):
    """The order of names is the tool's affair."""
    return {key: set(value) if isinstance(value, list) else value for key, value in result.items()}


# pytest

PY = "tests/test_sum.py::"
PY_FAILING = names(
    PY, "test_fails", "test_many[x[1]]", "test_many[ - ]", "Old::test_sub", "Old::test_unit"
) | names(PY, "test_subt", "test_error", "test_teardown")
PY_PASSING = names(
    PY, "test_adds", "test_many[a b]", "test_many[::]", "test_many[]", "test_many[\\xe4]"
) | names(PY, "test_many[\\x1b[31m]", "test_many[a\\nb]", "TestGroup::test_method")
PY_FAILURES = {"runner": "pytest", "failing": PY_FAILING, "error": "RuntimeError: no fixture"}
PY_COUNTS = {"failed": 10, "passed": 10, "skipped": 1}
PY_ALL = {**PY_FAILURES, **PY_COUNTS, "passing": PY_PASSING}

# The rest has one project each

RUST_FAILING = {"tests::subtracts", "returns_an_error", "does_not_panic"}
RUST_FAILING |= {"src/lib.rs - sub (line 12)"}
RUST_PASSING = {"tests::deep::adds", "tests::panics", "adds_from_outside"}
RUST_PASSING |= {"src/lib.rs - add (line 3)"}
RUST = {
    "runner": "cargo",
    "failing": RUST_FAILING,
    "passing": RUST_PASSING | {"prints"},
    "error": "assertion `left == right` failed: it is off by one",
    "failed": 4,
    "passed": 5,
    "skipped": 1,
}

GO_FAILING = {"TestSub", "TestSub/large/numbers", "TestMsg", "TestPanics"}
GO_FAILING |= names("example.com/shop/", "slow", "exits", "broken")
GO_PASSING = {"TestAdd", "TestSub/small_numbers", "TestPar", "TestUpper", "Example", "TestQuick"}
GO_PASSING |= {"FuzzX", "FuzzX/seed#0", "TestFine"}
GO_PLAIN = {"runner": "go", "failing": GO_FAILING, "failed": 7}
GO = {**GO_PLAIN, "passing": GO_PASSING, "passed": 10, "skipped": 1}
GO_LOG = {"error": "calc_test.go:14: about to fail"}

JEST_SUM = "jest/sum.test.js › "
JEST = {
    "runner": "jest",
    "failing": names(JEST_SUM, "sum › with › odd > names › fails (on purpose)", "throws")
    | {"jest/broken.test.js"},
    "error": "expect(received).toBe(expected) // Object.is equality",
    "failed": 3,
    "passed": 3,
    "skipped": 2,
}
JEST_VERBOSE = {
    **JEST,
    "passing": names(JEST_SUM, "stands alone", "sum › adds") | {"jest/ok.test.js › is fine"},
}

VI_SUM = "src/sum.test.js > "
VI_SLOW = "src/slow.test.js > outer > inner (4) > "
VITEST = {
    "runner": "vitest",
    "failing": names(VI_SUM, "sum > with › odd > names > fails (on purpose)", "throws")
    | {"src/broken.test.js", "src/hook.test.js > hooked"},
    "error": "Error: Cannot find module './missing' imported from /project/src/broken.test.js",
    "failed": 4,
    "passed": 9,
    "skipped": 3,
}
VI_OLD_ERROR = {
    "error": "Error: Failed to load url ./missing (resolved id: ./missing) "
    "in /project/src/broken.test.js. Does the file exist?"
}
VI_QUOTED_ERROR = {
    "error": "Error: Cannot find module './missing' imported from '/project/src/broken.test.js'"
}
VI_UNSKIPPED = {"skipped": 2}
VI_TAKES_TIME = {"src/ok.test.js > takes a while"}
VI_SHOWN = {f"{VI_SLOW}is slow", *VI_TAKES_TIME}
VI_SHOWN_OF_FAILED = {f"{VI_SUM}sum > adds", f"{VI_SUM}stands alone"}
VI_PASSING = {
    *VI_SHOWN,
    *VI_SHOWN_OF_FAILED,
    *names(VI_SLOW, "each 1 > x", "each 2 > x", "flaky"),
    "src/ok.test.js > is fine",
    "src/unhandled.test.js > leaves a promise",
}
VI_ALL = {**VITEST, "passing": VI_PASSING}

SAMPLES = {
    "pytest-9.2.0-default": {**PY_FAILURES, **PY_COUNTS},
    "pytest-9.2.0-quiet": PY_FAILURES,
    "pytest-9.2.0-verbose": PY_ALL,
    "pytest-9.2.0-report-all": PY_ALL,
    "pytest-9.2.0-xdist": {**PY_ALL, "error": "RuntimeError: late"},
    "pytest-9.2.0-colour": PY_ALL,
    "pytest-7.4.4-verbose": {**PY_ALL, "failed": 8, "passed": 9},
    "pytest-6.2.5-verbose": {**PY_ALL, "failed": 8, "passed": 9},
    "pytest-9.2.0-collection": {
        "runner": "pytest",
        "failing": {"tests/test_bad.py"},
        "error": "ModuleNotFoundError: No module named 'nosuchmodule'",
        "failed": 1,
        "passed": 0,
        "skipped": 0,
    },
    "pytest-9.2.0-no-such-file": {
        "runner": "pytest",
        "error": "file or directory not found: nosuch.py",
        "failed": 0,
        "passed": 0,
        "skipped": 0,
    },
    "cargo-1.95.0-default": RUST,
    "cargo-1.95.0-colour": RUST,
    "cargo-1.95.0-quiet": {key: RUST[key] for key in RUST if key != "passing"},
    "cargo-1.95.0-one-thread": {
        **{key: RUST[key] for key in RUST if key != "error"},
        "passing": RUST_PASSING,
    },
    "cargo-1.95.0-doc": {
        "runner": "cargo",
        "failing": {"src/lib.rs - add (line 3)", "src/lib.rs - sub (line 12)"},
        "error": "error[E0425]: cannot find function `nosuch` in crate `shop`",
        "failed": 2,
        "passed": 0,
        "skipped": 0,
    },
    "cargo-1.95.0-does-not-compile": {
        "runner": "cargo",
        "error": "error[E0599]: no method named `frobnicate` found for struct `Vec<i32>` "
        "in the current scope",
    },
    "cargo-1.95.0-abort": {
        "runner": "cargo",
        "failing": {"--test docbad"},
        "failed": 1,
        "error": "process didn't exit successfully: `target/debug/deps/docbad-4b7fe8bc4372c29d` "
        "(signal: 6, SIGABRT: process abort signal)",
    },
    "go-1.19.8-default": {**GO_PLAIN, **GO_LOG},
    "go-1.27.3-default": {**GO_PLAIN, **GO_LOG},
    "go-1.19.8-verbose": {**GO, **GO_LOG},
    "go-1.27.3-verbose": {**GO, **GO_LOG},
    "go-1.19.8-json": {**GO, **GO_LOG},
    "go-1.27.3-json": {**GO, **GO_LOG},
    "jest-27.5.1-default": JEST,
    "jest-30.5.2-default": JEST,
    "jest-27.5.1-verbose": JEST_VERBOSE,
    "jest-30.5.2-verbose": JEST_VERBOSE,
    "jest-30.5.2-colour": JEST_VERBOSE,
    "jest-30.5.2-many": {
        "runner": "jest",
        "failing": {"many/a22.test.js › t22", "many/a11.test.js › t11"},
        "error": "e22",
        "failed": 2,
        "passed": 20,
        "skipped": 0,
    },
    "vitest-1.6.1-default": {**VITEST, **VI_OLD_ERROR, **VI_UNSKIPPED},
    "vitest-2.1.9-default": {**VITEST, **VI_OLD_ERROR, "passing": VI_SHOWN},
    "vitest-3.2.7-default": {
        **VITEST,
        **VI_QUOTED_ERROR,
        "passing": VI_SHOWN | VI_SHOWN_OF_FAILED,
    },
    "vitest-4.1.12-default": {
        **VITEST,
        "passing": VI_TAKES_TIME | {f"{VI_SUM}stands alone"},
    },
    "vitest-5.1.0-default": {**VITEST, "passing": VI_SHOWN | VI_SHOWN_OF_FAILED},
    "vitest-1.6.1-verbose": {**VI_ALL, **VI_OLD_ERROR, **VI_UNSKIPPED},
    "vitest-2.1.9-verbose": {**VI_ALL, **VI_OLD_ERROR},
    "vitest-3.2.7-verbose": {**VI_ALL, **VI_QUOTED_ERROR},
    "vitest-4.1.12-verbose": VI_ALL,
    "vitest-5.1.0-verbose": VI_ALL,
    "vitest-5.1.0-tree": VI_ALL,
    "vitest-5.1.0-colour": {**VITEST, "passing": VI_SHOWN | VI_SHOWN_OF_FAILED},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_is_read(name):
    assert unordered(read(name)) == SAMPLES[name]


def test_every_sample_is_expected():
    assert {path.stem for path in OUTPUTS.iterdir()} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_with_other_line_ends_is_read_the_same(name):
    text = (OUTPUTS / f"{name}.txt").read_text("utf-8")
    assert testlogs.parse(text.replace("\n", "\r\n")) == testlogs.parse(text)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_that_stops_anywhere_is_no_trouble(name):
    text = (OUTPUTS / f"{name}.txt").read_text("utf-8")
    whole = testlogs.parse(text)
    for end in range(0, len(text), max(1, len(text) // 40)):
        part = testlogs.parse(text[:end])
        assert part.get("runner", whole["runner"]) == whole["runner"]
        assert set(part) <= {*whole, "passing", "failing", "error", "failed"}


def test_passing_tests_are_known_before_the_end():
    text = (OUTPUTS / "pytest-9.2.0-verbose.txt").read_text("utf-8")
    part = testlogs.parse(text.partition("= ERRORS =")[0])
    assert unordered(part) == {
        "runner": "pytest",
        "passing": PY_PASSING | names(PY, "Old::test_sub"),
        "failing": PY_FAILING - names(PY, "Old::test_sub"),
    }
