"""``loop run``: a loop is driven without a person, and a killed run goes on where it was."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

import pytest

pytestmark = pytest.mark.promise(1)

WORKER = os.path.join(os.path.dirname(__file__), "worker.py")
SLUG = {"development": "user-auth", "knowledge": "survey"}


def planned(place, *titles, mode="development", most="5"):
    mark = "R" if mode == "knowledge" else "T"
    place.ok("loop", "new", SLUG[mode], "--mode", mode, "--outcome", "All of it works")
    for number, title in enumerate(titles, 1):
        unit = f"{mark}{number}: {title}"
        place.ok("loop", "plan", "--unit", unit, "--max", most, "--criteria", "it works")
    return SLUG[mode]


def drive(place, slug, *options, **settings):
    words = ("loop", "run", slug, "--json", *options, "--", sys.executable, WORKER)
    return place.run(*words, **settings)


def asked(place):
    with open(os.path.join(place.path, "asked.txt"), encoding="utf-8") as file:
        return file.read().splitlines()


def units(place, slug):
    return {task["id"]: task for task in place.state(slug)["tasks"]}


def record_without_times(place, slug):
    """What the record tells, without times."""
    document = place.record(f".claude/iterative/{slug}/state.json")
    text = repr({key: document[key] for key in document if key != "_holdfast"})
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


def entries_of(place, slug):
    """The headings of the log, without their times."""
    path = os.path.join(place.path, ".claude/iterative", slug, "progress.md")
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^## .* - ", file.read(), re.MULTILINE)


def test_a_unit_is_worked_on_confirmed_and_verified(repo):
    slug = planned(repo, "needs 2")
    answer = drive(repo, slug)
    assert answer.code == 0, answer
    assert answer.json["run"] == {
        "loop": slug, "turns": 4, "done": ["T1"], "left": [], "stuck": {}, "finished": True,
        "ended": "done", "why": "every unit is done", "cost_usd": None,
    }  # fmt: skip
    assert answer.json["next"]["command"] == ["holdfast", "loop", "archive", "-w", "user-auth"]
    assert asked(repo) == ["T1 iterate 1", "T1 iterate 2", "T1 confirm", "T1 verify"]
    unit = units(repo, slug)["T1"]
    assert (unit["iterations_used"], unit["confirmations_used"]) == (2, 1)
    assert repo.state(slug)["phase"] == "deliver"


def test_what_a_confirmation_or_a_verification_finds_is_worked_on_again(repo):
    slug = planned(repo, "flawed", "fails")
    assert drive(repo, slug).json["run"]["finished"]
    assert asked(repo) == [
        "T1 iterate 1", "T1 confirm", "T1 iterate 2", "T1 confirm", "T1 verify",
        "T2 iterate 1", "T2 confirm", "T2 verify", "T2 iterate 2", "T2 confirm", "T2 verify",
    ]  # fmt: skip


def test_units_wait_for_those_they_depend_on(repo):
    slug = planned(repo, "one", "two", "three")
    repo.ok("loop", "plan", "--unit", "T1", "--depends", "T3")
    assert drive(repo, slug).json["run"]["finished"]
    order = list(dict.fromkeys(line.split()[0] for line in asked(repo)))
    assert order == ["T2", "T3", "T1"]


def test_a_run_stops_at_the_maximum_with_its_choices_and_goes_on_when_it_is_raised(repo):
    slug = planned(repo, "never", "two", most="2")
    answer = drive(repo, slug)
    assert (answer.code, answer.json["error"]["code"]) == (4, "failed")
    assert answer.json["run"]["stuck"] == {"T1": "timeout: it has used its 2 iterations"}
    assert asked(repo) == ["T1 iterate 1", "T1 iterate 2"]
    assert any("simplify" in note for note in answer.json["notes"])
    assert drive(repo, slug).json["run"]["done"] == ["T2"]
    repo.ok("loop", "plan", "--unit", "T1: at last", "--criteria", "easier", "--max", "4")
    assert drive(repo, slug).code == 0


def test_a_run_stops_at_a_block_and_the_next_one_takes_the_next_unit(repo):
    slug = planned(repo, "stuck", "two")
    answer = drive(repo, slug)
    assert answer.code == 4
    assert answer.json["run"]["stuck"] == {"T1": "blocked: no access"}
    assert asked(repo) == ["T1 iterate 1"]
    assert drive(repo, slug).json["run"]["done"] == ["T2"]
    assert "T1 blocked: no access" in repo.run("loop", "next").out


def test_a_worker_that_fails_is_an_iteration_that_says_so(repo):
    slug = planned(repo, "silent", most="1")
    assert drive(repo, slug).code == 4
    unit = units(repo, slug)["T1"]
    assert (unit["status"], unit["iterations_used"]) == ("timeout", 1)
    log = repo.at(".claude/iterative", slug)
    with open(os.path.join(log.path, "progress.md"), encoding="utf-8") as file:
        assert "the worker ended with exit code 3" in file.read()


def test_what_a_worker_commits_is_recorded_with_its_iteration(repo):
    slug = planned(repo, "one")
    script = (
        "cat >/dev/null; git commit -qm 'feat: one' --allow-empty; "
        "echo 'Committed.'; echo '<signal>T1_DONE</signal>'"
    )
    answer = repo.run("loop", "run", slug, "--verify", "true", "--json", "--", "sh", "-c", script)
    assert answer.code == 0, answer
    head = repo.git("rev-parse", "HEAD~1")
    assert repo.state(slug)["commits"][0] == f"{head[:12]}: feat: one"


@pytest.mark.parametrize("echo", ["cat", "tee /dev/stderr", "sed 's/^/> /'"])
def test_a_worker_that_only_repeats_its_prompt_gets_nothing_done(repo, echo):
    slug = planned(repo, "one", most="1")
    answer = repo.run("loop", "run", slug, "--json", "--", "sh", "-c", echo)
    assert answer.code == 4
    assert units(repo, slug)["T1"]["status"] == "timeout"
    repo.ok("loop", "extend", "T1", "--max", "3")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.run("loop", "run", slug, "--json", "--", "sh", "-c", echo)
    assert units(repo, slug)["T1"].get("verification_passed") is None
    assert units(repo, slug)["T1"]["status"] == "timeout"


def test_a_verification_that_was_typed_decides(repo):
    slug = planned(repo, "one", most="2")
    assert drive(repo, slug, "--verify", "echo broken; false").code == 4
    unit = units(repo, slug)["T1"]
    assert (unit["status"], unit["verification_passed"]) == ("timeout", False)
    assert "broken" in unit["remaining"]
    assert "T1 verify" not in asked(repo)


def test_a_stored_verification_runs_when_a_person_approved_exactly_it(repo):
    slug = planned(repo, "one")
    repo.ok("loop", "plan", "--unit", "T1", "--verify", "touch verified")
    error = drive(repo, slug).json["error"]
    assert (error["code"], error["details"]["command"]) == ("untrusted", "touch verified")
    assert not repo.has("asked.txt")
    (wish,) = [w for w in repo.ok("trust", "--list")["commands"] if w["source"] == f"loop {slug}"]
    assert (wish["gate"], wish["command"], wish["approved"]) == ("unit T1", "touch verified", False)
    home = repo.environment["HOME"]
    os.makedirs(os.path.join(home, ".config", "holdfast"))
    with open(os.path.join(home, ".config/holdfast/config.toml"), "w", encoding="utf-8") as file:
        file.write(f'[trust]\nfolders = ["{repo.path}"]\n')
    assert drive(repo, slug).code == 0
    assert repo.has("verified")
    assert "T1 verify" not in asked(repo)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("user-auth", "--", "/nonexistent/worker"), "not_started"),
        (("user-auth", "--timeout", "soon", "--", "true"), "invalid"),
        (("nothing", "--", "true"), "not_found"),
        (("user-auth", "--", ""), "invalid"),
    ],
)
def test_a_run_that_cannot_begin_says_why_and_records_nothing(repo, words, code):
    planned(repo, "one")
    before = repo.types("user-auth")
    assert repo.refused("loop", "run", *words)["code"] == code
    assert repo.types("user-auth") == before


def test_a_finished_or_archived_loop_is_not_driven(repo):
    slug = planned(repo, "one")
    assert drive(repo, slug).code == 0
    assert drive(repo, slug).json["run"]["turns"] == 0
    repo.ok("loop", "archive")
    assert drive(repo, slug).json["error"]["code"] == "ended"


# When it ends, and what is shown


def run_words(slug, *options):
    return ("loop", "run", slug, "--json", *options, "--", "sh", "-c")


def test_the_output_of_workers_is_shown_on_request(repo):
    slug = planned(repo, "one")
    script = "cat >/dev/null; printf 'work\\033[31ming\\n<signal>T1_DONE</signal>\\n'"
    words = ("loop", "run", slug, "--verify", "git diff --check")
    silent = repo.run(*words, "--", "sh", "-c", "cat >/dev/null; echo working")
    assert (silent.err, "working" in silent.out) == ("", False)
    repo.ok("loop", "extend", "T1", "--max", "20")
    shown = repo.run(*words, "--show", "--", "sh", "-c", script)
    assert "0/1 units, T1 iterate 6/20\n" in shown.err
    assert "ing\n<signal>T1_DONE</signal>\n" in shown.err
    assert "\033" not in shown.err
    assert shown.code == 0, shown


def test_a_stop_file_ends_a_run_before_its_next_turn(repo):
    slug = planned(repo, "one")
    stop = f".claude/iterative/{slug}/STOP"
    script = f"cat >/dev/null; touch {stop}; echo '<remaining>more</remaining>'"
    answer = repo.run(*run_words(slug), script)
    run = answer.json["run"]
    assert (answer.code, run["turns"], run["ended"]) == (4, 1, "stopped")
    assert run["why"] == f"{stop} is there; to go on, remove it and run the same command again"
    assert repo.run(*run_words(slug), script).json["run"]["turns"] == 0
    os.remove(os.path.join(repo.path, stop))
    assert drive(repo, slug).code == 0


def test_a_run_ends_at_the_cost_that_was_given(repo):
    slug = planned(repo, "one", most="9")
    result = r'{"result":"Did it.\\n<remaining>more</remaining>","total_cost_usd":0.6}'
    script = f"cat >/dev/null; printf '%s' '{result}'"
    answer = repo.run(*run_words(slug, "--until", "$1", "--until", "2h"), script)
    run = answer.json["run"]
    assert (answer.code, run["turns"], run["ended"], run["cost_usd"]) == (4, 2, "cost", 1.2)
    assert run["why"] == "--until $1: the workers have cost 1.20 USD"
    assert units(repo, slug)["T1"]["remaining"] == "more"
    answer = repo.run(*run_words(slug, "--until", "1 USD"), "cat >/dev/null; echo hello")
    run = answer.json["run"]
    assert (run["turns"], run["ended"], run["cost_usd"]) == (1, "cost", None)
    assert "does not say what it costs" in run["why"]


@pytest.mark.parametrize("until", ["soon", "25:00", "5", "-1h", "", "5eur"])
def test_what_is_neither_a_time_nor_a_cost_is_refused(repo, until):
    slug = planned(repo, "one")
    error = repo.refused("loop", "run", slug, f"--until={until}", "--", "true")
    assert "is neither a time nor a cost" in error["message"]


def test_every_end_of_a_run_says_why(repo):
    slug = planned(repo)
    assert drive(repo, slug).json["run"]["why"] == "no unit is planned"
    repo.ok("loop", "plan", "--unit", "T1: stuck")
    run = drive(repo, slug).json["run"]
    assert (run["ended"], run["why"]) == ("stuck", "T1 waits for a person")
    shown = repo.run("loop", "run", slug, "--", "true").out
    assert shown.startswith(
        "✗ user-auth: 0 turns  done: none · left: T1\n  T1 waits for a person\n"
    )


# Kills


@pytest.mark.parametrize("mode", ["development", "knowledge"])
def test_killed_three_times_a_run_ends_in_the_same_state_as_an_undisturbed_one(repo, mode):
    titles = ("needs 2, flawed", "fails", "needs 3")
    slug = planned(repo, *titles, mode=mode)
    other = f"{repo.path}-undisturbed"
    shutil.copytree(repo.path, other, symlinks=True)
    undisturbed = repo.at(other)
    assert drive(undisturbed, slug).code == 0
    turns = len(asked(undisturbed))
    for number in (2, 7, 11):
        repo.write(f"kill-{number}", "")
        assert drive(repo, slug).code == -signal.SIGKILL
        assert not repo.has(f"kill-{number}")
    answer = drive(repo, slug)
    assert answer.code == 0, answer
    assert len(asked(repo)) == turns + 3
    assert record_without_times(repo, slug) == record_without_times(undisturbed, slug)
    begun = "T2 iterate 2" if mode == "development" else "R2 iterate 2"
    assert begun in asked(repo)
    assert entries_of(repo, slug) == entries_of(undisturbed, slug)
    shutil.rmtree(other)


COMMIT = "git commit -q --allow-empty -m work"


def run_of(repo, slug, script):
    words = ("loop", "run", slug, "--verify", "true", "--json", "--", "sh", "-c")
    return repo.run(*words, f"cat >/dev/null; {script}")


@pytest.mark.parametrize("kills", [1, 2])
def test_what_a_worker_committed_before_a_kill_is_recorded_with_the_turn(repo, kills):
    slug = planned(repo, "one")
    for number in range(kills):
        commit = COMMIT if number == 0 else "true"
        assert run_of(repo, slug, f"{commit}; kill -9 $PPID").code == -signal.SIGKILL
    assert repo.state(slug)["commits"] == []
    assert run_of(repo, slug, "echo There.; echo '<signal>T1_DONE</signal>'").code == 0
    head = repo.git("rev-parse", "HEAD")
    assert repo.state(slug)["commits"] == [f"{head[:12]}: work"]


def test_a_commit_is_not_recorded_with_a_later_turn_again(repo):
    slug = planned(repo, "one", most="3")
    run_of(repo, slug, f"test -e done || {COMMIT}; touch done; echo '<remaining>x</remaining>'")
    assert units(repo, slug)["T1"]["status"] == "timeout"
    assert len(repo.state(slug)["commits"]) == 1


def test_another_branch_that_is_checked_out_after_a_kill_is_no_commit_of_the_turn(repo):
    slug = planned(repo, "one")
    repo.git("switch", "-q", "--orphan", "other")
    repo.git("commit", "-q", "--allow-empty", "-m", "theirs")
    assert run_of(repo, slug, f"{COMMIT}; kill -9 $PPID").code == -signal.SIGKILL
    repo.git("switch", "-q", "main")
    assert run_of(repo, slug, "echo '<signal>T1_DONE</signal>'").code == 0
    assert repo.state(slug)["commits"] == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"turn": 3, "head": "--help"}'])
def test_nonsense_about_the_last_turn_stops_no_run(repo, text):
    slug = planned(repo, "one")
    repo.write(f".git/holdfast/driven/{slug}.json", text)
    assert run_of(repo, slug, f"{COMMIT}; echo '<signal>T1_DONE</signal>'").code == 0
    assert len(repo.state(slug)["commits"]) == 1


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_after_ctrl_c_nothing_of_the_turn_is_recorded_and_the_worker_is_gone(repo, name, code):
    slug = planned(repo, "one")
    script = f"cat >/dev/null; echo $$ >pid; kill -{name} $PPID; exec sleep 600"
    command = [sys.executable, "-m", "holdfast", "loop", "run", slug, "--", "sh", "-c", script]
    done = subprocess.run(
        command, cwd=repo.path, env=repo.environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    by = "Ctrl-C" if name == "INT" else f"SIG{name}"
    said = f"stopped by {by} in T1, iterate 1 of 5: nothing of that turn is recorded"
    assert said in done.stdout.decode()
    assert "user-auth: 0 turns  done: none · left: T1" in done.stdout.decode()
    with open(os.path.join(repo.path, "pid"), encoding="utf-8") as file:
        worker = int(file.read())
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert "iteration_recorded" not in repo.types(slug)
    assert drive(repo, slug).code == 0


def test_a_killed_run_takes_its_worker_along_and_the_next_one_begins(repo):
    slug = planned(repo, "one")
    script = "cat >/dev/null; echo $$ >pid; kill -9 $PPID; exec sleep 600"
    command = [sys.executable, "-m", "holdfast", "loop", "run", slug, "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=repo.path, env=repo.environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    # The worker inherited the lock, so this waits until it is gone.
    assert drive(repo, slug).code == 0
    with open(os.path.join(repo.path, "pid"), encoding="utf-8") as file:
        worker = file.read().strip()
    until = time.monotonic() + 60
    while os.path.exists(f"/proc/{worker}"):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_two_runs_of_one_loop_are_not_at_the_same_turn(repo):
    slug = planned(repo, "one")
    inner = f"{sys.executable} -m holdfast loop run {slug} --json -- true >inner.json"
    script = f"cat >/dev/null; {inner}; echo '<signal>T1_DONE</signal>'"
    env = {**repo.environment, "HOLDFAST_WAIT_MS": "50"}
    words = ("loop", "run", slug, "--verify", "true", "--json", "--", "sh", "-c", script)
    answer = repo.run(*words, env=env)
    assert answer.code == 0, answer
    error = repo.record("inner.json")["error"]
    assert error["code"] == "busy"
    assert "is driven by another process" in error["message"]
    assert units(repo, slug)["T1"]["iterations_used"] == 1


def test_a_turn_that_somebody_else_took_meanwhile_is_not_counted_again(repo):
    slug = planned(repo, "one")
    record = "loop iterate T1 --did mine --signal T1_DONE"
    script = (
        f"grep -q 'This is iteration' && {sys.executable} -m holdfast {record} >/dev/null; "
        "echo '<signal>T1_DONE</signal>'"
    )
    words = ("loop", "run", slug, "--verify", "true", "--json", "--", "sh", "-c", script)
    answer = repo.run(*words)
    assert answer.code == 0, answer
    assert units(repo, slug)["T1"]["iterations_used"] == 1
    assert any("not recorded: loop iterate: T1" in note for note in answer.json["notes"])


@pytest.mark.parametrize("columns", [80, 45])
def test_on_a_terminal_a_bar_shows_how_far_it_is(repo, columns):
    slug = planned(repo, "one", "two")
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    command = [sys.executable, "-m", "holdfast", "loop", "run", slug, "--", sys.executable, WORKER]
    env = {**repo.environment, "TERM": "xterm"}
    done = subprocess.run(
        command, cwd=repo.path, env=env, stdout=subprocess.PIPE, stderr=terminal, check=False
    )
    os.close(terminal)
    shown = os.read(main, 65_536).decode()
    os.close(main)
    assert done.returncode == 0
    lines = re.findall(r"\[[#-]+\][^\r]*", shown)
    wanted = "[############------------] 1/2 units, T2 confirm 1/5"
    assert wanted in lines or (columns == 45 and f"{wanted[:43]}…" in lines)
    assert all(len(line) < columns for line in lines)
    assert b"[##" not in done.stdout
