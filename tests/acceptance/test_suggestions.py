"""A name that nobody knows is answered with the one that was probably meant, and the whole line."""

import pytest


@pytest.fixture
def busy(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one", "--phase", "plan", "--phase", "build")
    repo.ok("violation", "add", "V-TEST-03", "LOW", "slow")
    repo.ok("initiative", "create", "Tidy", "--milestone", "M1")
    repo.ok("loop", "new", "survey", "--mode", "knowledge", "--outcome", "Understood")
    repo.ok("loop", "plan", "survey", "--unit", "R1:Sources", "--criteria", "three")
    return repo


DEV = "-w dev-b25a2dc1"


@pytest.mark.parametrize(
    ("line", "hint", "exit_code"),
    [
        ("shwo", "show", 2),
        ("task dnoe 1", "task done 1", 2),
        ("status --jsno", "status --json", 2),
        *((word, "--version", 2) for word in ("--verison", "--ver", "version", "-V", "-v")),
        *((word, "status", 2) for word in ("list", "ls")),
        ("show dev-b25a2dc", "show dev-b25a2dc1", 1),
        ("show dev-b52a2dc1", "show dev-b25a2dc1", 1),
        ("remind x -w dev-b25a2d1", "remind x -w dev-b25a2dc1", 1),
        ("remind x --workflow=Survey", "remind x --workflow=survey", 1),
        ("start dv x", "start dev x", 1),
        ("recipes show planing", "recipes show planning", 1),
        (f"phase start buidl {DEV}", f"phase start build {DEV}", 1),
        (f"task phase 1 gren {DEV}", f"task phase 1 green {DEV}", 1),
        (f"gate run pr_craeted {DEV}", f"gate run pr_created {DEV}", 1),
        (f"violation add A HIHG x {DEV}", f"violation add A HIGH x {DEV}", 1),
        (f"violation clear V-TSET-03 {DEV}", f"violation clear V-TEST-03 {DEV}", 1),
        ("remember x --kind insigth", "remember x --kind insight", 1),
        ("initiative use Tdiy", "initiative use tidy", 1),
        ("initiative start m1", "initiative start M1", 1),
        ("start tdd x --initiative tdiy", "start tdd x --initiative tidy", 1),
        ("loop status surevy", "loop status survey", 1),
        ("loop block r1 --reason x", "loop block R1 --reason x", 1),
        ("init --agent cluade", "init --agent claude", 2),
        ("completion bsah", "completion bash", 2),
    ],
)
def test_the_hint_is_the_line_as_it_was_meant(busy, line, hint, exit_code):
    before = len(busy.types())
    answer = busy.run(*line.split())
    assert (answer.code, answer.out) == (exit_code, "")
    assert "did you mean" in answer.err
    assert answer.err.splitlines()[-1].partition("   ")[0] == f"  next: holdfast {hint}"
    assert len(busy.types()) == before


@pytest.mark.parametrize(
    "line",
    [
        "show nothing-like-it",
        f"task start 9 {DEV}",
        "loop block R2 --reason x",
        "initiative start M2",
        "start nothing-like-it x",
        f"phase start deploy {DEV}",
        "frobnicate",
    ],
)
def test_nothing_is_guessed_where_nothing_is_near(busy, line):
    answer = busy.run(*line.split())
    assert answer.code in (1, 2)
    assert "did you mean" not in answer.err
    assert "  next: " in answer.err


def test_a_guess_is_in_the_json_as_well(busy):
    error = busy.refused("show", "dev-b25a2dc")
    assert error["code"] == "not_found"
    assert error["hint"] == "holdfast show dev-b25a2dc1 --json"
