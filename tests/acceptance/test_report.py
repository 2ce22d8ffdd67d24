"""``holdfast report``, as it is typed: printed, written into a file, as JSON."""

import os

import pytest

from support.git_template import run_git

PASSES = ("test", "-d", ".")


@pytest.fixture
def dev(repo):
    repo.ok("start", "dev", "docs/login.md", "--title", "Ask | for", "--task", "Check @ada")
    repo.ok("gate", "run", "lint", "--", *PASSES)
    return repo


def test_a_report_is_printed_as_markdown_and_changes_nothing(dev):
    before = dev.types()
    answer = dev.run("report")
    assert answer.code == 0
    assert answer.out.startswith("# Ask &#124; for\n")
    assert "| `lint` | passed | a run | `test -d .` exit code 0 |" in answer.out
    assert "Check @&#8203;ada" in answer.out
    assert dev.run("report", "--format", "markdown").out == answer.out
    assert dev.types() == before


def test_the_json_has_the_data_and_the_text(dev):
    answer = dev.ok("report", "--format", "pr")
    assert (answer["format"], answer["file"]) == ("pr", None)
    assert answer["text"].startswith("<!-- holdfast:begin -->")
    gates = {gate["name"]: gate for gate in answer["report"]["gates"]}
    assert (gates["lint"]["result"], gates["lint"]["rests_on"]) == ("passed", "run")
    assert answer["report"]["tasks"][0]["description"] == "Check @ada"


def test_a_page_is_written_into_a_file_and_replaced_by_the_next(dev):
    for _ in range(2):
        assert dev.ok("report", "--format", "html", "-o", "../page.html")["file"] == "../page.html"
    path = os.path.join(os.path.dirname(dev.path), "page.html")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    assert page.startswith("<!doctype html>")
    assert "<h1>Ask | for</h1>" in page
    assert dev.run("report", "-o", "../page.md").out == "✓ written to ../page.md\n"


def test_a_file_that_cannot_be_written_is_named(dev):
    error = dev.refused("report", "-o", "nowhere/page.html", exit_code=3)
    assert "nowhere/page.html" in error["message"]


@pytest.mark.parametrize(("place", "file"), [("out", "out/report.html"), ("", "report.html")])
def test_a_folder_is_no_file_and_the_next_command_names_one(dev, place, file):
    os.mkdir(os.path.join(dev.path, "out"))
    error = dev.refused("report", "--format", "html", "-o", place)
    assert error["message"] == f"--output needs a file; '{place}' is none"
    assert error["hint"] == f"holdfast report --format html -o {file}"
    dev.ok(*error["hint"].split()[1:])
    assert os.path.exists(os.path.join(dev.path, file))


def test_a_dash_for_a_file_prints_the_report(dev):
    assert dev.run("report", "-o", "-").out == dev.run("report").out
    assert not os.path.exists(os.path.join(dev.path, "-"))


def test_another_format_is_refused_with_those_there_are(dev):
    error = dev.refused("report", "--format", "pdf", exit_code=2)
    assert "markdown, html, pr" in error["message"]


def test_an_ended_workflow_is_told_by_its_id(dev):
    workflow = dev.ok("abandon", "--reason", "no <b>time</b>")["workflow"]["id"]
    assert "no &lt;b&gt;time&lt;/b&gt;" in dev.run("report", workflow).out
    assert "no &lt;b&gt;time&lt;/b&gt;" in dev.run("report", workflow, "--format", "html").out
    assert dev.refused("report", "nosuch")["code"] == "not_found"


def test_a_workflow_outside_git_has_a_report_too(folder):
    folder.ok("start", "custom", "Tidy", "--task", "one")
    folder.ok("task", "done", "1")
    assert "| 1 | one | completed |" in folder.run("report").out


def test_a_record_from_elsewhere_is_told_before_it_is_adopted(dev):
    clone = dev.at("..", "clone")
    run_git(clone.path, "init", "-q")
    record = dev.state()["record"]
    with open(os.path.join(dev.path, record), encoding="utf-8") as file:
        clone.write(record, file.read())
    text = clone.run("report").out
    assert "| `lint` | **open** | a claim |" in text


def test_a_gate_that_another_tool_calls_an_error_has_failed(dev):
    def fail(record):
        record["checkpoints"]["lint"]["status"] = "error"

    dev.edit(dev.state()["record"], fail)
    dev.ok("remind", "the next change takes the edit in")
    gates = {gate["name"]: gate for gate in dev.ok("report")["report"]["gates"]}
    assert gates["lint"]["result"] == "failed"
    assert dev.run("statusline").out.rstrip().endswith("✗ lint")


@pytest.mark.parametrize("odd", [7, [1], "many", {"failed": 1}])
def test_odd_counts_and_names_of_tests_in_an_edit_stop_no_look(dev, odd):
    tests = {"test_command": "make", "last_result": "failed", "last_run": "2026-01-02T03:04:05Z"}

    def put(record):
        record["test_state"] = {**tests, "counts": odd, "failing_tests": odd}

    dev.edit(dev.state()["record"], put)
    looks = (
        ["report"], ["report", "--format", "pr"], ["show"], ["resume"], ["watch", "--once"],
        ["remind", "the edit is taken in"], ["statusline"], ["green", "--", "false"],
    )  # fmt: skip
    for words in looks:
        answer = dev.run(*words)
        assert "error in Holdfast itself" not in answer.out + answer.err, words


def test_a_loop_has_its_units_and_what_verified_them(repo):
    repo.ok("loop", "new", "tidy", "--outcome", "Tidy up")
    repo.ok("loop", "plan", "--unit", "T1: Sort the imports")
    assert "| T1 | Sort the imports | pending |" in repo.run("report").out
