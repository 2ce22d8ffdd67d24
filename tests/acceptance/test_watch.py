"""``holdfast watch`` on a real terminal: it follows, asks before a change, leaves all as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import termios

import pytest

from support.pseudoterminal import Pseudoterminal, skip_below_client

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
        assert "▌    ○ 1  Check the password" in rows
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
        after = terminal.text[terminal.text.rfind("\x1b[?2004l") :]
        assert after == f"\x1b[?2004l\x1b[?7h\x1b[?25h{LEFT}"
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
        assert [row for row in rows if "NEXT" in row]
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


# Keys that change something


def shown_after(terminal, keys, text):
    """Press the keys, wait for the frame that has the text, and return its rows."""
    place = len(terminal.text)
    terminal.press(keys)
    terminal.wait_for("\x1b[?2026l", terminal.wait_for(text, place))
    return terminal.window().rows


def test_a_person_approves_a_phase_after_a_yes(at_work):
    skip_below_client()
    with watching(at_work, columns=120) as terminal:
        drawn(terminal)
        rows = shown_after(terminal, b"a", "approve phase load_feature of ")
        assert rows[-1].endswith("? [y/n]")
        shown_after(terminal, b"n", "nothing was changed")
        assert "approved" not in at_work.state()["phases"][0]
        shown_after(terminal, b"a", "[y/n]")
        shown_after(terminal, b"y", "phase load_feature approved")
        shown_after(terminal, b"a", "[y/n]")
        rows = shown_after(terminal, b"y", "is approved")
        assert [row for row in rows if "next: holdfast" in row]
        terminal.press(b"q")
        assert terminal.ended() == 0
    assert at_work.state()["phases"][0]["approved"] is True
    event = at_work.ok("log")["events"][-1]
    assert (event["type"], event["by"]) == ("phase_approved", {"surface": "cli"})


@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_CI", "AI_AGENT"])
def test_below_a_client_nothing_is_approved_and_the_rest_is_done(at_work, mark):
    with watching(at_work, columns=120, **{mark: "1"}) as terminal:
        drawn(terminal)
        rows = shown_after(terminal, b"a", "only a person can decide this")
        assert not [row for row in rows if "[y/n]" in row]
        shown_after(terminal, b"b", "why is phase load_feature")
        shown_after(terminal, b"no access\r", "phase load_feature blocked")
        terminal.press(b"q")
        assert terminal.ended() == 0
    phase = at_work.state()["phases"][0]
    assert (phase["status"], phase["reason"]) == ("blocked", "no access")


def test_keys_that_came_before_the_question_are_no_answer(at_work):
    at_work.ok("phase", "block", "load_feature")
    with watching(at_work, columns=120) as terminal:
        drawn(terminal)
        shown_after(terminal, b"uyyyy", "unblock phase load_feature of ")
        shown_after(terminal, b"n", "nothing was changed")
        place = len(terminal.text)
        terminal.press(b"\x1b[200~uy\x1b[201~?")
        terminal.wait_for("list only workflows with the words", place)
        assert "unblock phase" not in terminal.text[place:]
        terminal.press(b"q")
        assert terminal.ended() == 0
    assert at_work.state()["phases"][0]["status"] == "blocked"


def test_keys_in_pieces_and_broken_sequences_are_understood(at_work):
    at_work.ok("start", "tdd", "another")
    with watching(at_work, columns=100) as terminal:
        drawn(terminal)
        first = next(row for row in terminal.window().rows if row.startswith("▌"))
        terminal.press(b"\x1b")
        terminal.press(b"[")
        rows = shown_after(terminal, b"B", "▌")
        assert first[1:] in [row[1:] for row in rows if not row.startswith("▌")]
        terminal.press(b"\x1b[99;99;99\x1b[<0;1;1M\xff\xfe\x1b]")
        shown_after(terminal, b"?", "these keys")
        shown_after(terminal, b"\x1b", "Enter opens")
        terminal.press(b"q")
        assert terminal.ended() == 0


def test_a_workflow_is_opened_searched_and_left_in_a_tiny_window(at_work):
    at_work.ok("remind", "the flaky timeout")
    with watching(at_work, columns=30, lines=5) as terminal:
        terminal.wait_for("workflow")
        shown_after(terminal, b"\r", "dev-")
        shown_after(terminal, b"G", "reminder_added")
        shown_after(terminal, b"/flaky", "/flaky_")
        shown_after(terminal, b"\r", "found: flaky")
        terminal.resize(20, 1)
        terminal.press(b"?")
        terminal.press(b"q")
        assert terminal.ended() == 0


def test_without_colour_what_is_chosen_and_changed_is_seen(at_work):
    with watching(at_work, NO_COLOR="1", LC_ALL="C", PYTHONUTF8="0") as terminal:
        drawn(terminal)
        assert set(re.findall(r"\x1b\[[0-9;]*m", terminal.text)) == {"\x1b[0m"}
        assert [row for row in terminal.window().rows if row.startswith(">[>] dev-")]
        shown_after(terminal, b"b", "blocked: _")
        rows = shown_after(terminal, b"why", "blocked: why_")
        assert all(row.isascii() for row in rows)
        shown_after(terminal, b"\r", "phase load_feature blocked")
        assert [row for row in terminal.window().rows if row.startswith("*")]
        terminal.press(b"q")
        assert terminal.ended() == 0


def test_a_ledger_that_vanishes_ends_nothing(at_work):
    with watching(at_work, columns=120) as terminal:
        drawn(terminal)
        os.rename(at_work.path, f"{at_work.path}-away")
        shown_after(terminal, b"x", "is gone")
        for key in (b"a", b"b", b"u", b"\r"):
            shown_after(terminal, key, "(next: ")
            shown_after(terminal, b"x", "q quits")
        place = len(terminal.text)
        os.rename(f"{at_work.path}-away", at_work.path)
        terminal.wait_for("1  Check the password", place)
        terminal.wait_for("q quits", place)
        assert not [row for row in terminal.window().rows if "✗" in row]
        terminal.press(b"q")
        assert terminal.ended() == 0


# All repositories


def test_all_repositories_are_shown_and_followed(at_work):
    other = at_work.at("..", "other")
    other.git("init", "-q", "-b", "trunk")
    other.ok("start", "tdd", "A faster parser")
    with watching(at_work, "--all", columns=100, lines=30) as terminal:
        drawn(terminal)
        rows = terminal.window().rows
        assert rows[0].startswith(" 2 repositories")
        assert [row for row in rows if row.startswith(" work on main ─")]
        assert [row for row in rows if row.startswith(" other on trunk ─")]
        place = len(terminal.text)
        other.ok("remind", "measure it")
        terminal.wait_for("measure it", place)
        shown_after(terminal, b"/faster", "only with: faster")
        shown_after(terminal, b"\x1b[B", "Esc lists all")
        shown_after(terminal, b"b", "why is phase red of ")
        shown_after(terminal, b"waits\r", "phase red blocked")
        terminal.press(b"q")
        assert terminal.ended() == 0
    assert other.state()["phases"][0]["reason"] == "waits"
    views = at_work.ok("watch", "--all", "--once")["repositories"]
    assert [(view["name"], len(view["workflows"])) for view in views] == [("work", 1), ("other", 1)]
    assert views[0]["progress"][0]["next"]["command"][:2] == ["holdfast", "advance"]


def test_all_and_one_do_not_go_together(at_work):
    error = at_work.refused("watch", "dev-1", "--all", exit_code=2)
    assert "either" in error["message"]
