"""``holdfast watch`` on a real terminal: it follows, it only reads, it leaves all as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import termios

import pytest

from support.pseudoterminal import Pseudoterminal

ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def at_work(repo):
    repo.ok("start", "dev", "login.md", "--task", "Check the password", "--task", "Ask for a code")
    return repo


def watching(place, *words, columns=80, lines=24, **more):
    command = [sys.executable, "-m", "holdfast", "watch", *words]
    environment = {**place.environment, "TERM": "xterm-256color", **more}
    return Pseudoterminal(command, place.path, environment, columns, lines)


def test_a_change_by_somebody_else_is_seen_and_pointed_at(at_work):
    with watching(at_work) as terminal:
        terminal.wait_for("q quits")
        rows = terminal.window().rows
        assert rows[0].startswith(" work on main")
        assert "     ○ 1  Check the password" in rows
        at_work.ok("task", "done", "1")
        terminal.wait_for("task_completed")
        terminal.wait_for("\x1b[?2026l", len(terminal.text) - 20)
        rows = terminal.window().rows
        assert "•    ✓ 1  Check the password" in rows
        assert next(row for row in rows if "task_completed" in row).startswith("•")
        terminal.press(b"q")
        assert terminal.ended() == 0


def drawn(terminal):
    terminal.wait_for("q quits")


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        (lambda terminal: terminal.press(b"q"), 0),
        (lambda terminal: terminal.press(b"\x04"), 0),
        (lambda terminal: terminal.press(b"\x03"), 130),
        (lambda terminal: os.kill(terminal.pid, signal.SIGINT), 130),
        (lambda terminal: os.kill(terminal.pid, signal.SIGTERM), 143),
        (lambda terminal: os.kill(terminal.pid, signal.SIGHUP), 129),
    ],
    ids=["q", "ctrl-d", "ctrl-c", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_whichever_way_it_ends_the_terminal_is_as_it_was(at_work, leave, code):
    with watching(at_work) as terminal:
        before = terminal.attributes()
        drawn(terminal)
        assert not terminal.attributes()[3] & termios.ICANON
        assert (terminal.window().modes, ENTERED in terminal.text) == ({"2026": False}, True)
        leave(terminal)
        assert terminal.ended() == code
        assert terminal.text.count(ENTERED) == terminal.text.count(LEFT) == 1
        after = terminal.text[terminal.text.rfind("\x1b[?7h") :]
        assert after == f"\x1b[?7h\x1b[?25h{LEFT}"
        assert terminal.attributes() == before


def test_stopped_and_continued_it_gives_the_terminal_back_meanwhile(at_work):
    with watching(at_work) as terminal:
        drawn(terminal)
        cooked = terminal.attributes()[3] | termios.ICANON | termios.ECHO
        terminal.press(b"\x1a")
        place = terminal.wait_for(LEFT)
        _, status = os.waitpid(terminal.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert terminal.attributes()[3] == cooked
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_for("q quits", place)
        terminal.press(b"q")
        assert terminal.ended() == 0


def test_every_line_is_cleared_before_it_is_written(at_work):
    at_work.ok("task", "add", "\U0001f469\u200d\U0001f467" * 30)
    with watching(at_work) as terminal:
        drawn(terminal)
        terminal.press(b"q")
        assert terminal.ended() == 0
        moves = re.findall(
            "\x1b\\[\\d+;1H\x1b\\[0m(.*?)(?=\x1b\\[\\d+;1H|\x1b\\[\\?2026l)", terminal.text
        )
    assert len(moves) > 20
    assert [
        move for move in moves if not move.startswith("\x1b[K") or move.count("\x1b[K") > 1
    ] == []


def test_it_follows_the_size_of_the_window(at_work):
    with watching(at_work) as terminal:
        drawn(terminal)
        place = len(terminal.text)
        terminal.resize(44, 12)
        terminal.wait_for("q quits", place)
        rows = terminal.window().rows
        assert len(rows) == 12
        assert max(map(len, rows)) <= 44
        assert rows[-1].startswith(" q quits")
        terminal.press(b"q")
        assert terminal.ended() == 0


def files(place):
    """All that Holdfast keeps, by its bytes."""
    found = {}
    for top in (".claude", "untracked"):
        for folder, _, names in os.walk(os.path.join(place.path, top)):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.join(folder, name)] = file.read()
    return found


def test_it_only_reads_even_where_there_is_something_to_take_in(at_work):
    record = at_work.state()["record"]
    with open(os.path.join(at_work.path, record), encoding="utf-8") as file:
        at_work.write(record, file.read().replace("Ask for", "Wait for"))
    before = files(at_work)
    with watching(at_work, columns=140) as terminal:
        terminal.wait_for("its record was edited")
        drawn(terminal)
        terminal.press(b"q")
        assert terminal.ended() == 0
    assert files(at_work) == before


def test_nobody_waits_for_somebody_who_watches(at_work):
    with watching(at_work) as terminal:
        drawn(terminal)
        at_work.ok("remind", "look", env={**at_work.environment, "HOLDFAST_WAIT_MS": "0"})
        terminal.press(b"q")
        assert terminal.ended() == 0


def test_between_two_looks_only_a_key_wakes_it(at_work):
    with watching(at_work, "--every", "3600") as terminal:
        drawn(terminal)
        place = terminal.wait_for("\x1b[?2026l")
        terminal.press(b"x\x1b[A")
        at_work.ok("remind", "look")
        terminal.press(b"z")
        terminal.wait_for("reminder_added", place)
        terminal.press(b"xq")
        assert terminal.ended() == 0


def test_a_workflow_that_is_not_there_is_refused_before_the_screen_changes(at_work):
    with watching(at_work, "dev-nosuch") as terminal:
        assert terminal.ended() == 1
        assert ENTERED not in terminal.text
        assert "there is no workflow 'dev-nosuch'" in terminal.text


@pytest.mark.parametrize("words", [["--once"], []])
def test_without_a_terminal_it_is_told_once(at_work, words):
    answer = at_work.run("watch", *words)
    assert answer.code == 0
    assert "     ○ 2  Ask for a code\n" in answer.out
    assert "task_added" in answer.out
    assert "\x1b" not in answer.out


def test_on_a_dumb_terminal_it_is_told_once(at_work):
    with watching(at_work, TERM="dumb") as terminal:
        assert terminal.ended() == 0
        assert "\x1b" not in terminal.text
        assert "Ask for a code" in terminal.text


def test_one_workflow_can_be_watched_alone(at_work):
    other = at_work.ok("start", "tdd", "other")["workflow"]["id"]
    view = at_work.ok("watch", other, "--once")
    assert [one["id"] for one in view["workflows"]] == [other]
    assert {event["stream"] for event in view["events"]} == {other}


def test_in_json_there_is_a_line_for_every_change(at_work):
    watcher = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "watch", "--json"],
        cwd=at_work.path,
        env=at_work.environment,
        stdout=subprocess.PIPE,
    )
    with watcher:
        try:
            first = json.loads(watcher.stdout.readline())
            at_work.ok("task", "done", "1")
            then = json.loads(watcher.stdout.readline())
            while then["seq"] == first["seq"]:
                then = json.loads(watcher.stdout.readline())
        finally:
            watcher.send_signal(signal.SIGINT)
        assert (first["ok"], then["workflows"][0]["tasks"][0]["status"]) == (True, "completed")
    assert watcher.returncode == 130
