"""What people see: it fits, it is plain where it must be, and stored text steers no terminal."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import answers as answers_json
from holdfast.cli import answer as cli_answer
from holdfast.cli import screen
from holdfast.cli.answer import Answer, Failure, answer_change
from holdfast.cli.commands import overview, search, upkeep, watch, workflow
from holdfast.cli.parser import parse
from holdfast.cli.screen import Screen, count_cells, pad, shorten
from holdfast.cli.watching import frame, rows
from holdfast.core import json_text
from holdfast.core.next_step import NextStep
from holdfast.core.visible import clean, clean_json
from holdfast.core.workflow import blank
from support.streams import make_file, make_terminal

NOW = "2026-01-02T06:04:05.000Z"
THEN = "2026-01-02T03:04:05.000Z"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 a\nb\r\x9b31m \u202egnp.exe\u2066\u200f\x7f\udcff \u2028 end"
KINDS = (
    *("change", "started", "workflow", "briefing", "workflows", "events", "report", "failure"),
    *("here", "watch", "past", "found"),
)
COLOUR = re.compile("\x1b\\[[0-9]+m")


def workflow_of(word="word"):
    """A workflow in which every text is, or holds, the word."""
    recipe = {
        "name": word,
        "format": "skill",
        "phases": [{"name": "plan"}, {"name": word, "approval": True}, {"name": "review"}],
        "gates": {word: {"status": word, word: word}, "lint": {"status": "passed", "count": 3}},
    }
    state = blank(word, recipe, THEN)
    state.update(title=word, subject=f"on {word}", branch=word, worktree=word, record=word)
    state.update(phase=word, step=word, reason=word, outcome=word, cycle=2)
    state["phases"][0].update(status="completed", completed_at=THEN, approved=True)
    state["phases"][1].update(status="in_progress", reason=word, **{word: [word]})
    state["tasks"] = [
        {"id": 1, "description": "Write it", "status": "completed", "commit": word},
        {"id": 2, "description": word, "status": "in_progress", "phases": {word: word}},
        {"id": word, "description": word, "status": "blocked", "reason": word},
        {"id": 4, "description": "Last", "status": "pending", "depends": [word]},
    ]
    state["violations"] = [{"code": word, "severity": word, "details": word}]
    state["required_reading"], state["read"] = ["@read.md", word], {"@read.md": THEN}
    state["questions"] = [a_question(word), {**a_question(word), "status": "answered"}]
    state["reminders"], state["context"] = [word], {word: word, "nested": {word: [word]}}
    return state


def a_question(word):
    return {
        "id": 1, "text": word, "choices": [word, word], "blocking": True, "asked_at": THEN,
        "by": {"surface": word}, "status": "open", "answer": word,
    }  # fmt: skip


def row(word="word", **fields):
    return {
        **dict.fromkeys(answers_json._ROW),
        **dict.fromkeys(("id", "recipe", "title", "branch", "worktree", "record"), word),
        "status": "in_progress",
        "phase": word,
        "phase_index": 2,
        "phase_total": 3,
        "tasks_done": 1,
        "tasks_total": 4,
        "updated_at": THEN,
        "session": None,
        **fields,
    }


def receipt_of(state, word="word"):
    return SimpleNamespace(
        is_repeat=False,
        output="",
        state=state,
        record=word,
        seqs=[7],
        notes=[word],
        resumed=False,
        facts=None,
    )


def a_keeper(word):
    """A keeper that answers every question with the word."""
    receipt = receipt_of(workflow_of(word), word)
    report = SimpleNamespace(
        ok=False,
        lines=[{"level": "error", "what": word, "message": word}],
        counts={word: 1},
    )
    return SimpleNamespace(
        start=lambda *_args, **_options: receipt,
        show=lambda **_target: receipt,
        resume=lambda **_target: receipt,
        has_initiatives=lambda: False,
        briefing=lambda **_state: f"{word}\nsecond line",
        needs_explicit_id=lambda _state: True,
        missing_reading=lambda _state: [word],
        needs_delivery=lambda _receipt: False,
        session=SimpleNamespace(id=None),
        workspace=SimpleNamespace(branch=lambda: word, project=word),
        open_questions=lambda: [{"workflow": word, **a_question(word)}],
        workflows=lambda **_options: ([row(word), row(word, phase=None)], [word]),
        events=lambda **_options: iter([an_event(word)]),
        follow=lambda **_options: iter([]),
        drain_notes=lambda: [word],
        search=lambda *_words, **_options: found(word),
        state_at=lambda _seq, **_target: SimpleNamespace(
            state=workflow_of(word), event=an_event(word)
        ),
        verify=lambda **_options: report,
    )


ARGS = {
    **parse(["start", "dev"]),
    **dict.fromkeys(("limit", "at", "grep", "since", "types", "task", "by")),
    **dict.fromkeys(("all", "everything", "follow"), False),
}


def answers(word="word"):
    keeper = a_keeper(word)
    fields, view = a_place(word), a_view(word, an_event(word))
    error = {"code": word, "message": word, "hint": word, "details": {word: [word, 1]}}
    return {
        "change": answer_change(ARGS, receipt_of(workflow_of(word), word), word),
        "started": workflow.start(keeper, ARGS),
        "workflow": workflow.show(keeper, ARGS),
        "briefing": workflow.resume(keeper, ARGS),
        "workflows": workflow.status(keeper, ARGS),
        "events": upkeep.log(keeper, ARGS),
        "past": workflow.show(keeper, {**ARGS, "at": 7}),
        "found": search.search(keeper, {**ARGS, "words": [word]}),
        "stream": upkeep.log(keeper, {**ARGS, "follow": True}),
        "report": upkeep.verify(keeper, ARGS),
        "failure": Failure(error, 1),
        "here": Answer(fields, lambda screen: overview._lines(screen, fields), [word]),
        "watch": Answer(
            lambda: watch.json_fields([view], {"all": False}, 1_000),
            lambda screen: frame.list_page(screen, [view], None, changed=set()),
        ),
    }


def an_event(word):
    data = {word: word, "n": [word]}
    return {"seq": 7, "at": word, "stream": word, "type": word, "data": data}


def found(word):
    """What ``search`` finds: a hit here, and one in another repository."""
    hit = {
        **dict.fromkeys(("at", "type", "stream", "kind", "title"), word), "seq": 7,
        "text": f"{word} {word}", "marks": [[0, len(word)]], "open": ["holdfast", "show", word],
    }  # fmt: skip
    hits = [{**hit, "repository": f"/{word}"}, {**hit, "repository": word}]
    return {"query": word, "hits": hits, "repositories": [word]}


def an_initiative(word):
    facts = dict.fromkeys(("name", "current_milestone", "next", "updated_at"), word)
    return {**facts, "status": "in_progress", "completed": 0, "total": 2}


def a_place(word):
    """What ``holdfast`` alone tells."""
    return {
        "folder": f"/somewhere/{word}",
        "git": True,
        "branch": word,
        "workflows": [row(word)],
        "unopened": 3,
        "mine": word,
        "initiative": an_initiative(word),
        "damage": [word],
        "questions": [{"workflow": word, **a_question(word)}],
        "next": [{"command": word, "about": word}],
    }


def a_view(word, event):
    """What ``watch`` shows."""
    return {
        "root": word,
        "name": word,
        "title": word,
        "steps": {word: NextStep(word, [word], NAME=word)},
        "seq": 7,
        "states": {word: workflow_of(word)},
        "unopened": 1,
        "unsettled": [word],
        "mine": word,
        "initiative": an_initiative(word),
        "layers": [{"layer": "L1", "target": word, "status": "behind", "seq": 4}],
        "events": [event],
        "damage": [word],
    }


def shown(answer, encoding="utf-8"):
    return list(answer.text_lines(make_file(encoding)))


def harmless(line):
    return clean(line, is_shown=True) == line


# Stored text cannot steer a terminal


@pytest.mark.promise(14)
@pytest.mark.parametrize("kind", [*KINDS, "stream"])
def test_stored_text_cannot_emit_terminal_escapes(kind):
    lines = shown(answers(HOSTILE)[kind])
    assert lines
    assert [line for line in lines if not harmless(line)] == []
    assert any("<U+001B>[2J" in line for line in lines)
    assert not any("<U+003C>" in line for line in lines), "shown twice"


@pytest.mark.promise(14)
@pytest.mark.parametrize("kind", [*KINDS, "stream"])
def test_json_for_a_terminal_has_the_same_value_and_no_escapes(kind):
    text = "".join(answers(HOSTILE)[kind].json_pieces(ascii_only=False))
    assert [line for line in text.splitlines() if not harmless(line)] == []
    answer = answers(HOSTILE)[kind]
    value = {"ok": not answer.code, **answer.fields()}
    if kind == "stream":
        value = an_event(HOSTILE)
    assert json_text.loads(text.splitlines()[0]) == value


@pytest.mark.promise(14)
def test_the_test_of_escapes_fails_when_text_is_printed_raw(monkeypatch):
    for module in (cli_answer, frame, overview, rows, screen, search, upkeep, workflow):
        monkeypatch.setattr(module, "clean", lambda text, **_: str(text))
    for kind in KINDS:
        assert [line for line in shown(answers(HOSTILE)[kind]) if not harmless(line)] != []


@pytest.mark.promise(14)
def test_colour_is_the_only_escape_on_a_terminal():
    terminal = Screen(colour=True, width=80, now=NOW)
    receipt = receipt_of(workflow_of(HOSTILE), HOSTILE)
    for line in tree_lines(receipt, terminal):
        assert harmless(COLOUR.sub("", line))


@given(st.text(st.characters()))
def test_any_text_becomes_one_printable_line(anything):
    assert harmless(clean(anything))
    assert json_text.loads(clean_json(json_text.dumps(anything))) == anything
    assert clean_json(json_text.dumps(anything), ascii_only=True).isascii()
    assert json_text.loads(clean_json(json_text.dumps(anything), ascii_only=True)) == anything


@pytest.mark.parametrize("line", ["plain", "naïve – 日本語", "👩‍👩‍👧 family"])
def test_ordinary_text_stays_as_it_is(line):
    assert clean(line) == line


# It fits the terminal


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 140])
@pytest.mark.parametrize("word", ["short", "a much longer one, " * 5, "日本語のタイトル" * 4])
def test_the_table_of_workflows_fits_the_terminal(width, word):
    rows = [row(title=word, id="dev-1f2e3d4c", branch=word, worktree="."), row(id="dev-2")]
    for line in workflow.status_table(Screen(width=width, now=NOW), rows):
        assert count_cells(line) <= width
    for line in workflow.status_table(Screen(fancy=False, width=width, now=NOW), rows):
        assert count_cells(line) <= width


def test_the_table_fits_even_with_a_long_id():
    rows = [row(id="x" * 70, phase="y" * 70)]
    assert all(
        count_cells(line) <= 40 for line in workflow.status_table(Screen(width=40, now=NOW), rows)
    )


def test_without_a_terminal_nothing_is_cut_and_there_is_no_heading():
    lines = list(workflow.status_table(Screen(now=NOW), [row(title="long " * 60, worktree=".")]))
    assert lines == ["▶ word  word  2/3 word  1/4  word  3 hours ago  " + ("long " * 60).rstrip()]


def test_events_take_one_line_each():
    event = {
        "seq": 7,
        "at": THEN,
        "stream": "dev-1",
        "type": "task_added",
        "data": {"text": "a" * 99},
    }
    whole = upkeep._event_line(Screen(now=NOW), event)
    assert whole == "    7  2026-01-02 03:04:05Z  dev-1  task_added          text=" + "a" * 99
    assert count_cells(upkeep._event_line(Screen(width=80, now=NOW), event)) <= 80


def events(*pairs):
    return [
        {"seq": seq, "at": THEN, "stream": stream, "type": kind, "data": data}
        for seq, (stream, kind, data) in enumerate(pairs, 1)
    ]


def test_the_log_for_people_says_what_happened_and_no_more():
    recipe = {"name": "dev", "format": "skill", "phases": [{"name": "plan"}]}
    opened = {"recipe": recipe, "subject": "x", "title": "x", "ttl": "7d", "record": "r.json"}
    lines = list(
        upkeep._log_lines(
            Screen(now=NOW),
            events(
                ("dev-1", "workflow_started", {**opened, "branch": None, "session": None}),
                ("dev-22", "workflow_resumed", {"session": {"id": "s", "at": THEN}}),
                ("dev-1", "task_completed", {"task": 1, "commit": "0123456789abcdef"}),
                ("dev-1", "phase_completed", {"phase": "plan", "fields": {"findings": 3}}),
                (
                    "dev-1",
                    "record_edited",
                    {"base": 4, "changes": [[["tasks", 0, "status"], 1, 2]]},
                ),
                ("dev-1", "record_adopted", {"state": {"recipe": recipe, "title": "y"}}),
            ),
        )
    )
    assert [line.partition("Z  ")[2] for line in lines] == [
        "dev-1   workflow_started    recipe=dev title=x",
        "dev-22  workflow_resumed    session=s",
        "dev-1   task_completed      task=1 commit=0123456789ab",
        "dev-1   phase_completed     phase=plan findings=3",
        "dev-1   record_edited       base=4 changed=tasks[0].status",
        "dev-1   record_adopted      recipe=dev title=y",
    ]


def on_terminal(answer, width):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "_terminal_width", lambda _out: width)
        patch.setenv("NO_COLOR", "1")
        return list(answer.text_lines(make_terminal()))


@pytest.mark.parametrize("width", [20, 30, 40, 72, 120])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "briefing"])
def test_every_answer_fits_the_terminal(kind, width):
    lines = on_terminal(answers("some words that take room, " * 6)[kind], width)
    assert [line for line in lines if count_cells(line) > width] == []


def tree_lines(receipt, screen):
    keeper = SimpleNamespace(show=lambda **_target: receipt, missing_reading=lambda _state: [])
    return workflow.show(keeper, ARGS).all_lines(screen)


def tree(state):
    return list(tree_lines(receipt_of(state), Screen(now=NOW)))


def test_a_gate_that_ran_and_failed_is_not_ticked():
    state = {**workflow_of(), "gates": {"lint": {"status": "completed", "passed": False}}}
    assert "  ✗ lint  failed" in tree(state)


@given(st.text(), st.integers(2, 40))
def test_shortened_text_is_no_wider_than_asked(anything, width):
    line = shorten(clean(anything), width)
    assert count_cells(line) <= width
    assert count_cells(pad(line, width)) == width


# It is what the stream can show


def test_a_workflow_is_a_tree_of_phases_and_tasks():
    state = workflow_of("build")
    lines = tree(state)
    start = lines.index("Phases")
    assert lines[start : start + 8] == [
        "Phases",
        "  ✓ plan  approved · 3 hours ago",
        '  ▶ build  step build · build · build=["build"]',
        "    ✓ 1  Write it  commit build",
        "    ▶ 2  build  build build",
        "    ✗ build  build  build",
        "    ○ 4  Last  after build",
        "  ○ review",
    ]
    assert "  ✓ @read.md" in lines
    assert "  ○ build" in lines


def test_tasks_stand_alone_when_no_phase_is_current():
    state = {**workflow_of(), "phase": None}
    assert "Tasks" in tree(state)


def test_an_ascii_stream_gets_ascii():
    for kind, answer in answers("Zoë 日本語").items():
        lines = shown(answer, "ascii")
        assert all(line.isascii() for line in lines), kind
    assert "[>]" in shown(answers()["started"], "ascii")[0]
    json = next(answers("Zoë 😀")["change"].json_pieces(ascii_only=True))
    assert json.isascii()
    assert json_text.loads(json)["workflow"]["title"] == "Zoë 😀"


def test_a_refusal_says_what_and_what_next():
    told = {
        "code": "x",
        "message": "no such task 9",
        "hint": "holdfast show",
        "details": {"t": [1]},
    }
    assert shown(Failure(told, 1)) == [
        "holdfast: no such task 9",
        "  t: 1",
        "  next: holdfast show",
    ]


def test_a_sound_report_has_no_next_step():
    report = SimpleNamespace(
        ok=True,
        lines=[{"level": "behind", "what": "dev-1", "message": "at 3 of 4"}],
        counts={"events": 4},
    )
    answer = upkeep.verify(SimpleNamespace(verify=lambda **_options: report), ARGS)
    assert shown(answer) == ["○ dev-1  behind: at 3 of 4", "sound · 4 events"]
    assert answer.code == 0
    assert answer.fields() == {"lines": report.lines, "counts": report.counts}


def test_damage_is_an_error_with_its_lines():
    answer = answers()["report"]
    assert answer.code == 1
    assert answer.fields()["error"] == {
        "code": "damaged",
        "message": "word: word",
        "hint": "holdfast repair",
    }


def test_the_view_of_a_workflow_names_what_is_unread():
    view = answers_json.workflow_view(workflow_of("build"), "a.json")
    assert view["unread"] == ["build"]
    assert (view["recipe"], view["format"]) == ("build", "skill")
    assert set(workflow_of()) <= set(view)


def test_a_gate_is_ticked_only_when_nothing_is_pending_of_it():
    passed = {"status": "completed", "passed": True}
    gates = {
        "one": passed,
        "two": {"status": "passed"},
        "three": {"status": "skipped"},
        "four": {**passed, "passed": False},
        "claimed": {**passed, "evidence": "claim"},
        "ran": {**passed, "evidence": "run", "command": "x", "exit_code": 0},
        "waived": {"status": "waived", "reason": "no linter"},
        "looked up": {**passed, "evidence": "check"},
    }
    taken = {"claimed": "run", "ran": "run", "waived": "run", "looked up": "check"}
    declared = {name: {"evidence": evidence} for name, evidence in taken.items()}
    state = {**workflow_of(), "gates": gates}
    state["recipe"] = {**state["recipe"], "gates": declared}
    lines = list(workflow.gate_lines(Screen(), state, ""))
    assert [line[0] for line in lines] == ["✓", "○", "○", "✗", "○", "✓", "✓", "✓"]
    assert lines[4] == "○ claimed  completed · claimed; needs a run"
    assert lines[6] == "✓ waived  waived · by a person: no linter"
    assert lines[7] == "✓ looked up  looked up"


def test_a_waived_gate_has_the_age_of_the_waiver():
    ran, waived = "2026-05-01T10:00:00.000Z", "2026-05-03T10:00:00.000Z"
    gate = {"status": "waived", "reason": "none", "last_run": ran, "waived_at": waived}
    screen = Screen()
    screen.now = "2026-05-03T12:00:00.000Z"
    (line,) = workflow.gate_lines(screen, {**workflow_of(), "gates": {"lint": gate}}, "")
    assert line == "✓ lint  waived · by a person: none · 2 hours ago"
