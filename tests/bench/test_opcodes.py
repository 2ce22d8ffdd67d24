"""No change makes what runs most often slower unseen: instructions are counted, not seconds."""

import importlib.util
import json
import os

from support.paths import ROOT

MORE = 1.05
"""So much more is a slip of the pen."""
OTHER = 1.4
"""So much more may be another interpreter's: its instructions are not the same."""


def _opcodes():
    path = os.path.join(ROOT, "bench", "opcodes.py")
    spec = importlib.util.spec_from_file_location("bench_opcodes", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


opcodes = _opcodes()
AGAIN = "if that is meant: python bench/opcodes.py --write"


def test_what_runs_most_often_takes_no_more_instructions_than_it_did(tmp_path):
    with open(opcodes.LIMITS) as file:
        limits = json.load(file)
    allowed = MORE if limits["python"] == opcodes.VERSION else OTHER
    found = opcodes.counted(str(tmp_path))
    assert set(found) == set(limits["opcodes"])
    over = {
        name: (number, limits["opcodes"][name])
        for name, number in found.items()
        if number > limits["opcodes"][name] * allowed
    }
    assert not over, AGAIN


def test_a_long_history_takes_no_more_instructions_than_a_short_one(tmp_path):
    assert ratio(tmp_path, {"events": 60}, {"events": 1_200}) <= 1.1


def test_many_workflows_take_hardly_more_instructions_than_a_few(tmp_path):
    assert ratio(tmp_path, {"workflows": 10}, {"workflows": 150}) <= 1.5


def ratio(folder, small, large):
    counts = []
    for sizes in (small, large):
        place = opcodes.Place(str(folder), **sizes)
        place.count("task", "done", "1", "-w", place.workflow)
        counts.append(place.count("task", "done", "2", "-w", place.workflow))
    return counts[1] / counts[0]
