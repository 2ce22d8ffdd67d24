"""Promise 9, for every file that Holdfast writes and people or other tools may write, too.

A model: editors save marks into a file by renaming, writing, appending and writing slowly, at any
step of Holdfast's disk. Afterwards each mark is in the file, in the ledger, or in a file that an
answer named. Tried on file systems that can do everything, on those that cannot exchange files,
make hard links or grant leases, on a real FUSE file system, and with real processes.
"""

import os
import random
import subprocess
import sys

import pytest

from support.editors import LIMITS
from support.fuse_folder import mounted
from support.paths import SOURCE
from support.workshop import SEED, Workshop, many
from support.written_files import TARGETS, MemoryFile, crowded_rounds

pytestmark = pytest.mark.promise(9)

ROUNDS = many(15, 500)
ON_FUSE = ("Record", "Learnings", "Index", "MemoryFile", "UnitsPage", "Servers")
AGENTS, WRITES = 6, many(8, 100)
APPENDER = """\
import os, sys, time
path, who = sys.argv[1:]
number = 0
while not os.path.exists(path + ".stop"):
    with open(path, "a") as file:
        if number % 7 == 0:
            file.write("- what follows takes a moment\\n")
            file.flush()
            time.sleep(0.002)
        file.write(f"- line {who}-{number}.\\n")
    number += 1
    time.sleep(0.003)
print(number)
"""


@pytest.mark.parametrize("name", TARGETS)
def test_no_edit_of_any_file_is_lost(name, tmp_path, monkeypatch, tally):
    chance = random.Random(f"{SEED} {name}")
    target = TARGETS[name](Workshop(tmp_path, git=False), monkeypatch)
    for count, lost in crowded_rounds(target, monkeypatch, chance, ROUNDS):
        assert not lost, f"seed {SEED}, {lost}"
        tally("edits of every file", saved=count)


@pytest.mark.parametrize("name", ON_FUSE)
def test_no_edit_is_lost_on_a_fuse_file_system(name, tmp_path, monkeypatch, tally, not_shown):
    """It cannot exchange files; whether the kernel grants leases on it depends on the kernel."""
    chance = random.Random(f"{SEED} {name} on FUSE")
    try:
        with mounted(tmp_path, has_links=True) as point:
            target = TARGETS[name](Workshop(os.path.join(point, "shop"), git=False), monkeypatch)
            rounds = crowded_rounds(target, monkeypatch, chance, many(4, 60), ("all", "no leases"))
            for count, lost in rounds:
                assert not lost, f"seed {SEED}, {lost}"
                tally("edits on FUSE", saved=count)
    except OSError as error:
        not_shown(f"promise 9 on FUSE: it cannot be used on this machine ({error})")


def test_lines_that_agents_append_to_memory_all_stay(tmp_path, monkeypatch, tally):
    """Real processes: ``>>`` from six agents, some in two writes, while Holdfast writes too."""
    target = MemoryFile(Workshop(tmp_path, git=False), monkeypatch)
    agents = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, target.path, str(who)], stdout=subprocess.PIPE
        )
        for who in range(AGENTS)
    ]
    notes = ""
    environment = {"HOLDFAST_MEMORY": "MEMORY.md", "PYTHONPATH": SOURCE}
    for number in range(WRITES):
        answer = target.shop.run("remember", f"learned {number}", **environment)
        assert answer.returncode == 0, answer
        notes += (answer.stdout + answer.stderr).decode()
    target.shop.write("MEMORY.md.stop", b"")
    counts = [int(agent.communicate(timeout=60)[0]) for agent in agents]
    names = [name for name in os.listdir(target.shop.root) if name in notes or name == "MEMORY.md"]
    everything = "".join(target.shop.text(name) for name in names)
    lines = [f"- line {who}-{number}." for who, most in enumerate(counts) for number in range(most)]
    assert [line for line in lines if line not in everything] == []
    written = [n for n in range(WRITES) if f"learned {n}" in target.shop.text("MEMORY.md")]
    tally("lines appended by processes", lines=len(lines), writes=len(written))


def test_every_way_to_limit_a_file_system_is_tried():
    assert set(LIMITS) == {"all", "no exchange", "no links", "no leases", "little"}
