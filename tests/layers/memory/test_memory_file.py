"""L2: the project's MEMORY.md says what a next session should know; what is others' stays."""

import json
import os
import re
import stat
import subprocess
import sys
import threading

import pytest

from holdfast import Keeper, Refused

AT_MS = 1_775_000_000_000
DAY_MS = 86_400_000


class MemoryProject:
    """A folder whose clock goes as it is told, and its memory."""

    def __init__(self, root, memory):
        self.root = root
        self.memory = memory
        self.ms = AT_MS

    def keeper(self):
        self.ms += 1_000
        return Keeper(str(self.root), clock_ms=lambda: self.ms)

    def read(self):
        return self.memory.read_bytes().decode() if self.memory.exists() else None

    def lines(self):
        """The lines between our marks."""
        _, _, rest = self.read().partition("<!-- holdfast:begin ")
        return rest.partition("<!-- holdfast:end ")[0].splitlines()[1:]

    def write(self, data):
        self.memory.parent.mkdir(parents=True, exist_ok=True)
        self.memory.write_bytes(data if isinstance(data, bytes) else data.encode())


@pytest.fixture
def project(tmp_path, monkeypatch):
    memory = tmp_path / "notes" / "MEMORY.md"
    monkeypatch.setenv("HOLDFAST_MEMORY", str(memory))
    (tmp_path / "shop").mkdir()
    return MemoryProject(tmp_path / "shop", memory)


def apex(project, upto="plan", subject="Login"):
    keeper = project.keeper()
    keeper.start("apex", subject)
    for phase in ("plan", "implement", "review", "git-commit"):
        if keeper.show().state["phase"] == "plan":
            keeper.approve_phase("plan")
        keeper.advance()
        if phase == upto:
            return keeper
    return keeper


@pytest.mark.parametrize(
    ("recipe", "phase", "sentence"),
    [
        ("apex", "plan", "Active APEX workflow: analyze completed, planning Login"),
        ("apex", "implement", "Active APEX workflow: plan approved, implementing Login"),
        ("apex", "review", "Active APEX workflow: implementation done, reviewing Login"),
        ("debug", "fix", "Active DEBUG workflow: root cause found, fixing Login"),
        ("debug", "implement", "Active DEBUG workflow: root cause found, fixing Login"),
        ("brainstorm", "design", "Active BRAINSTORM workflow: exploring → designing Login"),
    ],
)
def test_each_of_the_five_transitions_leaves_its_sentence(project, recipe, phase, sentence):
    if recipe == "apex":
        apex(project, phase)
    else:
        project.keeper().start(recipe, "Login")
        project.keeper().start_phase(phase)
    assert project.lines() == ["## Active workflows", f"- {sentence}"]


def test_nothing_is_written_before_there_is_something_to_say(project):
    project.keeper().start("apex", "Login")
    project.keeper().remind("look")
    project.keeper().start("tdd", "one")
    project.keeper().add_task("two", workflow=project.keeper().workflows()[0][1]["id"])
    assert project.read() is None


def test_the_newest_position_takes_the_place_of_the_one_before(project):
    keeper = apex(project, "review")
    assert len(project.lines()) == 2
    keeper.advance()
    assert "reviewing Login" in project.read()


def test_a_completion_is_written_in_its_words(project):
    keeper = apex(project, "git-commit")
    keeper.complete("merged as #12")
    assert project.lines() == ["## Ended workflows", "- Completed APEX for Login: merged as #12"]
    project.keeper().start("tdd", "parse")
    project.keeper().complete(force=True, reason="tried")
    forced = "(forced: phase green, phase refactor, phase commit, a test that fails)"
    assert f"- Completed TDD for parse: ended, by force: tried {forced}" in project.lines()


def test_an_expiry_is_written_in_its_words(project):
    apex(project, "implement")
    project.ms += 2 * DAY_MS
    _, notes = project.keeper().workflows()
    assert any(note.startswith("Workflow state expired (inactive > 24h)") for note in notes)
    project.keeper().settle()
    assert project.lines() == [
        "## Ended workflows",
        "- Expired workflow: APEX at implement for Login",
    ]


def test_an_abandoned_workflow_is_no_longer_said_to_be_active(project):
    abandoned = apex(project, "implement").abandon("no time").state["id"]
    assert "Active APEX" not in project.read()
    project.keeper().resume(workflow=abandoned)
    assert "- Active APEX workflow: plan approved, implementing Login" in project.lines()


def test_a_position_that_was_edited_by_hand_is_said_too(project):
    apex(project, "plan")
    record = project.root / ".claude" / "workflow-state.json"
    document = json.loads(record.read_text())
    record.write_text(json.dumps({**document, "phase": "review"}))
    project.keeper().settle()
    assert "- Active APEX workflow: implementation done, reviewing Login" in project.lines()


def test_learnings_stand_under_their_headings_and_never_twice(project):
    noted = project.keeper().remember("Short commits", kind="preference")
    assert noted.seqs == [1]
    project.keeper().remember("Tests first", kind="pattern", section="Initiative Patterns")
    project.keeper().remember("Plain one")
    again = project.keeper().remember("short   COMMITS")
    assert again.seqs == []
    assert project.lines() == [
        "## Learnings",
        "- Plain one",
        "- Preference: Short commits",
        "## Initiative Patterns",
        "- Pattern: Tests first",
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [("", {}), ("a\nb", {}), ("x", {"kind": "rumour"}), ("x", {"section": "a\nb"})],
)
def test_a_learning_that_is_none_is_refused(project, text, options):
    with pytest.raises(Refused):
        project.keeper().remember(text, **options)
    assert project.read() is None


@pytest.mark.parametrize(
    "before",
    [
        "# Notes\n\n- mine\n",
        "# Notes\n- no end of the line",
        "# Windows\r\n\r\n- mine\r\n",
        "\ufeff# With a mark\n",
        "\n\n\n",
        "",
    ],
)
def test_not_a_byte_outside_the_section_is_touched(project, before):
    project.write(before)
    project.keeper().remember("One")
    project.keeper().remember("Two")
    raw = project.memory.read_bytes()
    assert raw.startswith(before.encode())
    assert raw.count(b"holdfast:begin") == 1
    assert (b"\r\n- Two\r\n" in raw) == ("\r\n" in before)
    after = raw + b"\r\nAnd after it\n"
    project.write(after)
    project.keeper().remember("Three")
    assert project.memory.read_bytes().endswith(b"\r\nAnd after it\n")


def test_at_the_end_of_a_long_file_nobody_would_see_it(project):
    long = "".join(f"line {number}\n" for number in range(300))
    project.write(long)
    project.keeper().remember("One")
    project.keeper().remember("Two")
    assert project.read().startswith("<!-- holdfast:begin ")
    assert project.read().endswith(f"-->\n\n{long}")


def test_bytes_that_are_no_text_survive(project):
    project.write(b"caf\xe9 \xff\n")
    project.keeper().remember("One")
    assert project.memory.read_bytes().startswith(b"caf\xe9 \xff\n")


def test_what_the_agent_wrote_into_the_section_is_kept(project):
    project.keeper().remember("One")
    project.write(project.read().replace("- One\n", "- One\n- my own line\n## my heading\n"))
    for word in ("Two", "Three"):
        project.keeper().remember(word)
    assert project.lines() == [
        *("## Learnings", "- Three", "- Two", "- One", "- my own line", "## my heading")
    ]


def test_what_the_agent_took_out_stays_out(project):
    project.keeper().remember("One")
    project.keeper().remember("Two")
    project.write(project.read().replace("- One\n", ""))
    project.keeper().remember("Three")
    apex(project, "plan")
    assert "- One" not in project.lines()
    assert "- Two" in project.lines()


def test_a_line_that_the_agent_changed_is_its_own_and_not_doubled(project):
    project.keeper().remember("Use tabs")
    project.write(project.read().replace("- Use tabs", "- Use tabs, except in YAML"))
    project.keeper().remember("Two")
    assert project.lines() == ["## Learnings", "- Two", "- Use tabs, except in YAML"]


def test_a_section_that_was_removed_whole_comes_back_when_there_is_news(project):
    project.keeper().remember("One")
    project.write("# Mine\n")
    project.keeper().remember("Two")
    assert project.lines() == ["## Learnings", "- Two", "- One"]


def test_a_section_without_its_end_is_mended(project):
    project.write("# Mine\n")
    project.keeper().remember("One")
    project.write(re.sub("<!-- holdfast:end.*\n", "Theirs after it\n", project.read()))
    project.keeper().remember("Two")
    assert project.read().startswith("# Mine\n")
    assert project.read().endswith("Theirs after it\n")
    assert project.read().count("- One\n") == 1
    assert project.read().count("holdfast:begin") == 1


def test_forty_lines_are_the_most_and_the_oldest_completions_leave_first(project):
    for number in range(30):
        project.keeper().remember(f"Learning {number}")
    apex(project, "plan")
    for number in range(15):
        project.keeper().start("tdd", f"task {number}")
        project.keeper().complete(workflow=f"{self_id(project, number)}", force=True, reason="x")
    assert len(project.lines()) + 2 == 40
    assert sum(line.startswith("- Learning ") for line in project.lines()) == 30
    assert any(line.startswith("- Active APEX") for line in project.lines())
    ended = [line for line in project.lines() if "ended, by force: x (forced: " in line]
    assert any(line.startswith("- Completed TDD for task 14: ") for line in ended)
    assert not any(line.startswith("- Completed TDD for task 0: ") for line in ended)


def self_id(project, number):
    rows, _ = project.keeper().workflows()
    return next(row["id"] for row in rows if row["title"] == f"task {number}")


def test_how_many_lines_there_may_be_is_set(project):
    (project.root / ".claude").mkdir()
    (project.root / ".claude" / "holdfast.toml").write_text("memory_lines = 6\n")
    for number in range(9):
        project.keeper().remember(f"Learning {number}")
    assert project.lines() == ["## Learnings", "- Learning 8", "- Learning 7", "- Learning 6"]


def test_what_people_prefer_is_learned(project):
    log = project.keeper().delegations()
    log.override("tester", "reviewer")
    log.override("tester", "reviewer")
    log.routing("oneshot", "apex", "feature")
    project.keeper().interviews().skip("plan", "no time")
    assert project.lines() == [
        "## Preferences",
        "- The user chose reviewer instead of tester (2 times)",
        "- The user chose apex instead of oneshot for feature",
        "- The user wanted no interview for plan",
    ]


def test_stored_text_cannot_break_out_of_its_line(project):
    project.keeper().start("apex", "Login <!-- holdfast:end x -->\u2028# Heading")
    project.keeper().advance()
    assert len(project.lines()) == 2
    assert "<!-- holdfast:end x -->" not in project.read()


def test_unavailable_memory_is_a_warning_and_nothing_else(project):
    project.memory.parent.write_text("a file in the way")
    keeper = project.keeper()
    keeper.start("apex", "Login")
    receipt = keeper.advance()
    assert receipt.state["phase"] == "plan"
    (note,) = receipt.notes
    assert note.startswith("Auto-memory unavailable — learnings will not persist (")
    noted = project.keeper().remember("One")
    assert any("Auto-memory unavailable" in note for note in noted.notes)
    assert not keeper.memory().is_available()
    project.memory.parent.unlink()
    project.keeper().remember("Two")
    assert "- One" in project.lines()
    assert "planning Login" in project.read()


def test_a_link_stays_a_link_and_rights_stay(project, tmp_path):
    real = tmp_path / "real.md"
    real.write_text("# Mine\n")
    real.chmod(0o640)
    project.memory.parent.mkdir()
    project.memory.symlink_to(real)
    project.keeper().remember("One")
    assert project.memory.is_symlink()
    assert "- One" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_switched_off_nothing_is_written(project, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", "off")
    noted = project.keeper().remember("One")
    assert noted.notes == []
    assert project.read() is None


def test_what_was_missed_is_made_up_for(project, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", "off")
    project.keeper().remember("One")
    monkeypatch.setenv("HOLDFAST_MEMORY", str(project.memory))
    assert project.keeper().memory().write()
    assert project.lines() == ["## Learnings", "- One"]
    before = os.stat(project.memory).st_mtime_ns
    assert not project.keeper().memory().write()
    assert os.stat(project.memory).st_mtime_ns == before


def test_two_workspaces_share_a_file_and_not_a_section(project, tmp_path):
    (tmp_path / "other" / "shop").mkdir(parents=True)
    other = MemoryProject(tmp_path / "other" / "shop", project.memory)
    project.keeper().remember("Ours")
    other.keeper().remember("Theirs")
    project.keeper().remember("More")
    assert project.read().count("holdfast:begin") == 2
    assert all(project.read().count(f"- {word}\n") == 1 for word in ("Ours", "Theirs", "More"))


WRITER = """
import sys
from holdfast import Keeper
for number in range(5):
    Keeper(sys.argv[1]).remember(f"{sys.argv[2]} {number}")
"""


def test_many_processes_at_once_lose_nothing_and_double_nothing(project):
    project.write("# Mine\n")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(project.root), f"writer-{number}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number in range(6)
    ]
    assert [process.wait(120) for process in running] == [0] * 6
    bullets = [line for line in project.lines() if line.startswith("- ")]
    assert sorted(bullets) == sorted(f"- writer-{w} {n}" for w in range(6) for n in range(5))
    assert project.read().startswith("# Mine\n")


def test_an_agent_that_saves_at_the_same_time_loses_nothing(project):
    project.write("# Notes\n")
    done = threading.Event()

    def agent():
        while not done.is_set():
            raw = project.memory.read_bytes()
            if b"holdfast:begin" in raw:
                head, _, tail = raw.partition(b"# Notes\n")
                project.memory.write_bytes(head + b"# Notes\n" + b"x" + tail.lstrip(b"x"))

    # The agent rewrites the whole file over and over; ours must always be found whole afterwards.
    thread = threading.Thread(target=agent)
    thread.start()
    try:
        for number in range(5):
            project.keeper().remember(f"Learning {number}")
    finally:
        done.set()
        thread.join()
    project.keeper().memory().write()
    assert project.read().startswith("# Notes\n")
