"""The bench itself, at sizes that measure nothing: it runs, and its results name no place."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

GROUPS = (
    "commands", "lookups", "hooks", "memory", "transitions", "writers", "history", "many", "year",
    "pages",
    "trees", "server", "graph", "postgres", "hubs",
)  # fmt: skip


def bench(*words):
    return subprocess.run(
        [sys.executable, ROOT / "bench" / "run.py", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def module(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / "bench" / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return bench("--tiny", "--out", out), out


def test_the_bench_runs_every_group_and_prints_its_table(run):
    done, _ = run
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if " … " in line] == list(GROUPS)
    assert "budget" in done.stdout
    assert "over, in" in done.stdout


def test_the_results_hold_every_row_with_its_budget_and_verdict(run):
    _, out = run
    results = json.loads((out / "latest.json").read_text())
    assert results["sizes"] == "tiny"
    rows = results["rows"]
    assert len(rows) >= 45
    verdicts = {"ok", "OVER", "info", "not measured"}
    assert {row["verdict"] for row in rows} <= verdicts
    assert all(row["measured"] > 0 for row in rows if row["verdict"] != "not measured")
    table = (out / "costs.md").read_text()
    assert all(row["what"] in table for row in rows)


def test_the_results_name_neither_a_path_nor_a_host(run):
    _, out = run
    text = (out / "latest.json").read_text() + (out / "costs.md").read_text()
    assert [
        path for path in (str(ROOT), str(Path.home()), "/tmp", sys.prefix) if path in text
    ] == []
    assert socket.gethostname() not in text.split()


def test_one_group_can_be_measured_alone(tmp_path):
    done = bench("--tiny", "--only", "memory", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "latest.json").read_text())["rows"]) == 1


@pytest.mark.parametrize(
    ("measured", "limit", "at_least", "verdict"),
    [
        (4.0, 4, False, "ok"),
        (4.01, 4, False, "OVER"),
        (5.0, 5, True, "ok"),
        (4.99, 5, True, "OVER"),
        (9.9, None, False, "info"),
    ],
)
def test_a_row_is_over_its_budget_when_it_says_so(measured, limit, at_least, verdict):
    row = module("results").Row("it", measured, limit, at_least=at_least)
    assert row.verdict == verdict


def test_a_ratio_is_the_median_of_the_rounds_not_of_the_times():
    times = {"ours": [2.0, 20.0, 3.0], "theirs": [1.0, 10.0, 1.0]}
    assert module("measure").ratio(times, "ours", "theirs") == 2.0
