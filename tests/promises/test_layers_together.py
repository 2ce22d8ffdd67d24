"""Eight processes on all layers at once, some of them killed: nothing is lost or doubled in any."""

import os
import random
import signal
import subprocess
import sys

import pytest

from holdfast import Keeper
from holdfast.layers.graph import projection

pytestmark = pytest.mark.promise(1, 6, 8)

WRITERS, ROUNDS = 8, 12
WRITER = """
import sys
from holdfast import Keeper
root, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(rounds):
    word = f"{name}-{number}"
    keeper = Keeper(root)
    keeper.remember(word, id=f"l-{word}")
    keeper.delegations().record(word, outcome="ok", model="m", task_type="t", complexity="c",
                                duration_ms=5, id=f"d-{word}")
    keeper.interviews().record(word, 0.5, id=f"i-{word}")
    started = keeper.start("tdd", word, id=f"s-{word}").state["id"]
    keeper.complete(f"did {word}", force=True, reason="over", workflow=started, id=f"c-{word}")
    print(word, flush=True)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MEMORY", str(tmp_path / "MEMORY.md"))
    (tmp_path / "MEMORY.md").write_text("# Mine\n")
    (tmp_path / "work").mkdir()
    return tmp_path


def run_all(place, seed):
    """Starts the writers and kills some at a random word of theirs; gives what was acknowledged."""
    chance = random.Random(seed)
    root = str(place / "work")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, root, f"w{number}", str(ROUNDS)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    doomed = {number: chance.randrange(1, ROUNDS) for number in chance.sample(range(WRITERS), 4)}
    told = []
    for number, process in enumerate(running):
        for count, line in enumerate(process.stdout, 1):
            told.append(line.strip())
            if doomed.get(number) == count:
                process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait(120)
    return told, len(doomed)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_doubled_in_any_layer(place, seed, tally):
    told, killed = run_all(place, seed)
    keeper = Keeper(str(place / "work"))
    keeper.memory().write()

    # The ledger and L1.
    events = keeper.log()
    for kind, key in (("learning_recorded", "text"), ("delegation_recorded", "agent")):
        words = [event["data"][key] for event in events if event["type"] == kind]
        assert len(words) == len(set(words)), kind
        assert set(told) <= set(words), kind
    learned = [entry["text"] for entry in keeper.learnings()]
    assert sorted(learned) == sorted(set(learned))
    assert set(told) <= set(learned)
    assert {entry["agent"] for entry in keeper.delegations().list()["entries"]} >= set(told)
    ended = [e["stream"] for e in events if e["type"] == "workflow_completed"]
    assert len(ended) == len(set(ended)) >= len(told)
    assert keeper.verify().ok

    # L2: as many as there is room for, the newest, each once; what is others' untouched.
    raw = (place / "MEMORY.md").read_text()
    assert raw.startswith("# Mine\n")
    assert raw.count("holdfast:begin") == raw.count("holdfast:end") == 1
    bullets = [line[2:] for line in raw.splitlines() if line.startswith("- ")]
    assert len(bullets) == len(set(bullets))
    assert raw.count("\n") <= 42
    newest = learned[::-1][: len([line for line in bullets if line in learned])]
    assert [line for line in bullets if line in learned] == newest

    # L3: every history once.
    updates = projection.read_changes(keeper.store)[0]
    graph = {one["name"]: list(dict.fromkeys(one["observations"])) for one in updates}
    assert sorted(graph["learnings"]) == sorted(learned)
    given = [line.split()[1] for line in graph["delegation-log"]]
    assert len(given) == len(set(given))
    assert set(told) <= set(given)
    tally("writers on all layers", writers=WRITERS, killed=killed, rounds=len(told))
