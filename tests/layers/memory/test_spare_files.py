"""What becomes of MEMORY.md when its writer is killed, and of odd things in its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.layers.memory import MemorySection

DYING = """
import os, sys
sys.path.insert(0, sys.argv[2])
from install.dying import killed
from holdfast import Keeper

steps = 0
while killed(lambda: Keeper(sys.argv[1]).remember(f"before {steps}"), steps):
    told = Keeper(sys.argv[1]).remember(f"after {steps}")
    assert not told.notes, (steps, told.notes)
    steps += 1
print(steps)
"""


@pytest.fixture
def memory(tmp_path, monkeypatch):
    path = tmp_path / "notes" / "MEMORY.md"
    monkeypatch.setenv("HOLDFAST_MEMORY", str(path))
    (tmp_path / "shop").mkdir()
    path.parent.mkdir()
    return path


@pytest.fixture
def keeper(tmp_path, memory):
    return Keeper(str(tmp_path / "shop"))


def spare(memory, keeper, turn=0):
    key = keeper.memory()._key
    return memory.parent / f".MEMORY.md.holdfast-{key}-{turn}"


def test_a_writer_killed_at_any_step_leaves_a_memory_that_can_be_written(tmp_path, memory):
    memory.write_text("# Mine\n")
    tests = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path / "shop"), tests],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
    assert memory.read_text().startswith("# Mine\n")
    for number in range(int(done.stdout) - 10, int(done.stdout)):
        assert memory.read_text().count(f"- after {number}\n") == 1
    assert os.listdir(memory.parent) == ["MEMORY.md"]


@pytest.mark.parametrize("left", [b"", b"# Mine\n<!-- hold", b"# Mine\n", b"# Mine"])
def test_what_a_killed_writer_left_of_ours_goes(memory, keeper, left):
    memory.write_bytes(b"# Mine\n")
    spare(memory, keeper).write_bytes(left)
    assert keeper.remember("One").notes == []
    assert "- One" in memory.read_text()
    assert os.listdir(memory.parent) == ["MEMORY.md"]


def test_what_somebody_saved_when_a_writer_died_is_kept(memory, keeper):
    memory.write_bytes(b"# Mine\n")
    for text in (b"# Mine\nsaved at that instant\n", b"# Mine\nand once more\n"):
        spare(memory, keeper).write_bytes(text)
        (note,) = keeper.remember(f"One {len(text)}").notes
        assert "when a writer died is kept as" in note
    kept = sorted(memory.parent.glob("MEMORY.md.found-*"))
    assert [path.read_bytes().splitlines()[1] for path in kept] == [
        *(b"saved at that instant", b"and once more")
    ]


def test_a_folder_in_its_place_stays_there(memory, keeper):
    memory.mkdir()
    (memory / "mine").write_text("x")
    assert "unavailable" in keeper.remember("One").notes[0]
    assert (memory / "mine").read_text() == "x"
    (memory / "mine").unlink()
    memory.rmdir()
    assert keeper.remember("Two").notes == []


def test_a_pipe_in_its_place_stays_there(memory, keeper):
    os.mkfifo(memory)
    assert "a pipe" in keeper.remember("One").notes[0]
    assert not memory.is_file()


def test_indents_and_bytes_that_are_no_text_stay_inside_the_section_too(memory, keeper):
    keeper.remember("One")
    theirs = b"  - nested\n\n      code\nlatin \xe9\n"
    raw = memory.read_bytes().replace(b"- One\n", b"- One\n" + theirs)
    memory.write_bytes(raw)
    keeper.remember("Two")
    assert theirs in memory.read_bytes()
    assert keeper.memory().lines()[-1] == "latin �"
    keeper.remember("Three")
    assert memory.read_bytes().count(theirs) == 1


def test_a_section_that_stands_twice_becomes_one(memory, keeper):
    keeper.remember("One")
    raw = memory.read_bytes()
    memory.write_bytes(b"# Mine\n" + raw + b"between\n" + raw.replace(b"- One", b"- Theirs"))
    keeper.remember("Two")
    text = memory.read_text()
    assert text.count("holdfast:begin") == text.count("holdfast:end") == 1
    assert text.count("- One") == text.count("- Two") == text.count("- Theirs") == 1
    assert text.startswith("# Mine\n")
    assert text.endswith("between\n")


def test_without_its_end_a_section_takes_no_paragraph_of_others():
    raw = b"<!-- holdfast:begin k -->\n## Learnings\n- One\n\n## Mine\n\n- x\n"
    found = MemorySection(raw, "k")
    assert found.lines == ["## Learnings", "- One"]
    assert found.with_lines(found.lines).endswith(b"<!-- holdfast:end k -->\n\n## Mine\n\n- x\n")


def test_a_line_about_the_position_reads_no_whole_ledger(keeper, monkeypatch, memory):
    for number in range(3):
        keeper.start("oneshot", f"Typo {number}")
        keeper.advance()
        keeper.complete(f"mended {number}")
    whole = []
    ledger = keeper.store.ledger
    events = ledger.events

    def seen(stream=None, *, after=0, upto=None):
        whole.extend([] if after or stream else ["all"])
        return events(stream, after=after, upto=upto)

    monkeypatch.setattr(ledger, "events", seen)
    keeper.start("apex", "Login")
    keeper.advance()
    assert "- Completed ONESHOT for Typo 1: mended 1" in memory.read_text()
    assert whole == []
