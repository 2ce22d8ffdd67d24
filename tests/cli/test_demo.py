"""The demonstration tells the truth: it ends with 0 only if everything it shows really happened."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.cli.screen import wrap
from holdfast.core import json_text
from support.paths import ROOT

STEPS = 5
ESCAPE = "\x1b["


def environment(folder, **more):
    """A user's environment that is as misleading as it can be."""
    strange = {
        "CLAUDE_CODE_SESSION_ID": "somebody-else",
        "GIT_DIR": "nowhere",
        "GIT_AUTHOR_DATE": "no date",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": "src",
        "PYTHONIOENCODING": "utf-8",
        "TERM": "xterm-256color",
    }
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "HOLDFAST_DEMO_KEEP")}
    return {**kept, **strange, **more}


def demo(folder, *words, **more):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "demo", *words],
        cwd=ROOT,
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def demo_on_a_terminal(folder, **more):
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "holdfast", "demo"]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(folder, **more), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while piece := read_or_end(ours):
            shown += piece
    os.close(ours)
    return process.returncode, shown.decode()


def read_or_end(fd):
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """One whole run, without a terminal: where it was, what it said, how long it computed."""
    folder = tmp_path_factory.mktemp("demo")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = demo(folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done, spent


def test_it_tells_the_story_in_numbered_steps_and_checks_each(demo_run):
    steps = re.split(r"^ (\d)  ", demo_run[1].stdout, flags=re.MULTILINE)
    assert steps[1::2] == [str(number) for number in range(1, STEPS + 1)]
    for step in steps[2::2]:
        assert "    $ " in step
        assert "    ✓ " in step
        assert "    → " in step
    checked = len(re.findall(r"^    ✓ ", demo_run[1].stdout, re.MULTILINE))
    assert f"All {checked} facts were checked and held." in demo_run[1].stdout


def test_it_shows_the_real_answers_of_real_commands(demo_run):
    for answer in (
        "│ ▶ started dev-",
        "│ Killed (",
        "│   note: adopted an edit of .claude/workflow-state/active/dev-",
        "│ NEXT: task 4 (Describe it): write a test that fails, then: holdfast red -- COMMAND",
        "│ holdfast: gate record: lint takes a run by Holdfast, not a claim",
        "│ holdfast: complete: dev-",
        "│ sound · ",
    ):
        assert answer in demo_run[1].stdout


def test_it_is_plain_and_quiet_where_there_is_no_terminal(demo_run):
    assert ESCAPE not in demo_run[1].stdout
    assert demo_run[1].stderr == ""
    assert max(len(line) for line in demo_run[1].stdout.splitlines()) <= 120


def test_it_leaves_nothing_behind(demo_run):
    assert os.listdir(demo_run[0]) == []


def test_it_takes_less_than_ten_seconds_of_computing(demo_run):
    assert demo_run[2] < 10


def test_the_folder_is_kept_for_whoever_asks_and_holds_what_was_told(tmp_path):
    done = demo(tmp_path, HOLDFAST_DEMO_KEEP="1")
    assert done.returncode == 0
    (root,) = re.findall(r"^The folder is kept: (.+)$", done.stdout, re.MULTILINE)
    assert Path(root).parent == tmp_path
    keeper = Keeper(root)
    assert keeper.verify().ok
    kinds = [event["type"] for event in keeper.log()]
    (gate,) = [event["data"] for event in keeper.log() if event["type"] == "gate_recorded"]
    assert (gate["gate"], gate["evidence"], gate["fields"]["exit_code"]) == ("test", "run", 0)
    assert kinds.count("task_completed") == 3
    assert kinds.count("record_edited") == 1
    assert kinds[-1] == "workflow_completed"


def test_it_has_colour_on_a_terminal(tmp_path):
    code, shown = demo_on_a_terminal(tmp_path)
    assert code == 0
    assert f"{ESCAPE}1m 1  Start" in shown
    assert f"{ESCAPE}33m  note: adopted an edit of" in shown
    assert os.listdir(tmp_path) == []


def test_it_holds_in_a_narrow_window_too(tmp_path):
    code, shown = demo_on_a_terminal(tmp_path, COLUMNS="24")
    assert code == 0, shown


def test_it_has_none_for_those_who_want_none(tmp_path):
    code, shown = demo_on_a_terminal(tmp_path, NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert code == 0
    assert ESCAPE not in shown
    assert shown.isascii()
    assert "[x] git sees none of it" in shown


def test_as_json_there_is_one_object_and_the_story_moves_aside(tmp_path):
    done = demo(tmp_path, "--json")
    assert (done.returncode, json_text.loads(done.stdout)) == (0, {"ok": True})
    assert "Start a piece of work" in done.stderr


def test_without_git_it_says_so_and_ends_with_3(tmp_path):
    done = demo(tmp_path, PATH=str(tmp_path))
    assert done.returncode == 3
    assert "git was not found" in done.stderr
    assert "install git, then: holdfast demo" in done.stderr
    done = demo(tmp_path, "--json", PATH=str(tmp_path))
    assert json_text.loads(done.stdout)["error"]["code"] == "no_git"
    assert os.listdir(tmp_path) == []


def test_a_git_that_fails_is_a_fault_and_not_a_broken_promise(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\necho 'this git is broken'\nexit 7\n")
    (tools / "git").chmod(0o755)
    done = demo(tmp_path, PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 3
    assert "this git is broken" in done.stderr
    assert os.listdir(tmp_path) == ["tools"]


BROKEN = {
    "an edit is overwritten": """
from holdfast.core import diff
diff.diff = lambda old, new: []
""",
    "a refused edit is deleted": """
import os
from holdfast.storage.record_files import RecordFiles
keep = RecordFiles.set_aside
def delete(self, source, data, path):
    if source != path:
        return keep(self, source, data, path)
    os.unlink(source)
    return path
RecordFiles.set_aside = delete
""",
    "the briefing forgets": """
from holdfast.core import briefing
briefing.briefing = lambda *state, **more: "Go on."
""",
    "what is pending is passed over": """
from holdfast.core import briefing
from holdfast.core.workflow import lifecycle
lifecycle.pending = lambda state, facts=None: {}
""",
    "a gate is taken at its word": """
from holdfast.core.workflow import evidence
evidence._refuse_claim = lambda state, args: None
""",
    "a run is made up": """
from holdfast.keeper.evidence import Evidence
def made_up(self, gate, words, **_):
    values = {"gate": gate, "passed": True, "evidence": "run", "fields": {"command": "none"}}
    return self._session.do("record_gate", values)
Evidence.run_gate = made_up
""",
}
FOUND_OUT_BY = {
    "an edit is overwritten": "a look shows it",
    "a refused edit is deleted": "the file is kept aside",
    "the briefing forgets": "it reads its place",
    "what is pending is passed over": "holdfast complete ends with 1",
    "a gate is taken at its word": "holdfast gate ends with 1",
    "a run is made up": "Holdfast ran the tests itself",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_holdfast_that_breaks_its_word_is_found_out(tmp_path, what):
    site, place = tmp_path / "site", tmp_path / "place"
    site.mkdir()
    place.mkdir()
    (site / "sitecustomize.py").write_text(BROKEN[what])
    done = demo(place, PYTHONPATH=f"{site}{os.pathsep}{ROOT / 'src'}")
    assert done.returncode == 4, done.stdout + done.stderr
    story, found_out, end = done.stdout.partition(f"    ✗ {FOUND_OUT_BY[what]}")
    assert found_out
    assert "    ✗ " not in story
    assert re.search(r"expected:\s+\S", end)
    assert re.search(r"found:\s+\S", end)
    assert "facts were checked and held" not in done.stdout
    assert os.listdir(place) == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("  one two three", ["  one two", "      three"]),
        ("a  b", ["a  b"]),
        ("\x1b[33mone two\x1b[0m three", ["\x1b[33mone two\x1b[0m", "    three"]),
        ("averyverylongword x", ["averyverylongword", "    x"]),
    ],
)
def test_long_lines_are_wrapped_at_words_and_colour_takes_no_room(text, pieces):
    assert list(wrap(text, 10)) == pieces
