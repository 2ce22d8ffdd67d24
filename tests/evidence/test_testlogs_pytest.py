"""The pytest that runs these tests, run over a tiny project, and read back."""

import subprocess
import sys

import pytest

from holdfast.evidence import testlogs

PROJECT = """
import unittest
import pytest

def test_fine(): pass

def test_wrong():
    print("FAILED tests/other.py::test_made_up - not by pytest")
    assert 1 == 2, "one is not two"

@pytest.mark.parametrize("value", ["plain", "two words", "a - b", "x[1] - y", "::", "PASSED"])
def test_each(value): assert " - " not in value

@pytest.mark.skip
def test_left_out(): pass

@pytest.mark.xfail
def test_known(): raise ValueError

@pytest.fixture
def broken(): raise OSError("no disk")

def test_unready(broken): pass

class TestClass:
    def test_method(self): pass

class Old(unittest.TestCase):
    def test_unit(self): pass
"""
FILE = "test_it.py"
PASSING = ["test_fine", "test_each[plain]", "test_each[two words]", "test_each[::]"]
PASSING += ["test_each[PASSED]", "TestClass::test_method", "Old::test_unit"]
FAILING = ["test_wrong", "test_each[a - b]", "test_each[x[1] - y]", "test_unready"]


@pytest.fixture
def output(tmp_path):
    (tmp_path / FILE).write_text(PROJECT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options):
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return run


def ids(names):
    return sorted(f"{FILE}::{name}" for name in names)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-q", "--color=yes"),
        ("-v", "--tb=line"),
        ("-vv", "-rA", "--color=yes"),
        ("-n1", "-v"),
        ("-rA", "--tb=no"),
    ],
    ids=" ".join,
)
def test_result_is_read_whatever_the_options(output, options):
    result = testlogs.parse(output(*options))
    assert result["runner"] == "pytest"
    assert (result["failed"], result["passed"], result["skipped"]) == (4, 7, 1)
    assert sorted(result["failing"]) == ids(FAILING)
    if {"-v", "-vv", "-rA"} & set(options):
        assert sorted(result["passing"]) == ids(PASSING)
    else:
        assert "passing" not in result
    assert any(word in result["error"] for word in ("no disk", "one is not two", "a - b"))


def test_run_without_failures_has_no_error(output):
    assert testlogs.parse(output("-v", "-k", "fine")) == {
        "runner": "pytest",
        "passing": [f"{FILE}::test_fine"],
        "failed": 0,
        "passed": 1,
        "skipped": 0,
    }


def test_file_that_cannot_be_read_is_named(output, tmp_path):
    (tmp_path / "test_bad.py").write_text("import no_such_module\n")
    result = testlogs.parse(output("-q"))
    assert result["failing"] == ["test_bad.py"]
    assert result["error"] == "ModuleNotFoundError: No module named 'no_such_module'"


def test_selection_of_nothing_is_a_result(output):
    result = testlogs.parse(output("-k", "nothing_of_this_name"))
    assert result == {"runner": "pytest", "failed": 0, "passed": 0, "skipped": 0}
