"""Questions of a workspace: who may answer, who is told, and what a look at all of them shows."""

import os

import pytest

from holdfast import Keeper, Pool, Refused
from holdfast.storage.ledger import ASKED
from support.workshop import HOME, Workshop, types


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path / "repository")
    shop.keeper(session="ada").start("oneshot", "Port it", tasks=["one"])
    return shop


def marks(shop):
    return sorted(name for name in os.listdir(shop.path(HOME)) if name.startswith("questions-"))


def told(shop, session="ada"):
    """Return what a session is told now, once."""
    answers = shop.keeper(session=session).new_answers()
    if answers is None:
        return []
    answers.seen()
    return answers.notes


def workflow_of(shop):
    ((row,), _) = shop.keeper().workflows()
    return row["id"]


def test_the_session_that_asked_is_told_the_answer_once(shop):
    shop.keeper(session="ada").ask("Which database?", ["Postgres", "SQLite"])
    assert marks(shop) == ["questions-ada"]
    assert told(shop) == []
    shop.keeper().answer(1, "2")
    assert told(shop) == [
        f"question 1 of {workflow_of(shop)} (Which database?) was answered: SQLite"
    ]
    assert (told(shop), marks(shop)) == ([], [])


def test_an_answer_is_told_again_until_it_was_seen(shop):
    shop.keeper(session="ada").ask("Why?")
    shop.keeper().answer(1, "so")
    first = shop.keeper(session="ada").new_answers()
    assert first.notes == shop.keeper(session="ada").new_answers().notes != []
    first.seen()
    assert shop.keeper(session="ada").new_answers() is None


def test_of_several_questions_each_is_told_when_it_is_answered(shop):
    asker = shop.keeper(session="ada")
    for text in ("first?", "second?", "third?"):
        asker.ask(text)
    shop.keeper().answer(2, "b")
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["b"]
    asker.withdraw_question(1)
    shop.keeper().answer(3, "c")
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["c"]
    assert marks(shop) == []


def test_a_session_that_took_the_work_over_is_told_as_well(shop):
    shop.keeper(session="ada").ask("Why?")
    ben = shop.keeper(session="ben")
    ben.resume(workflow=workflow_of(shop))
    ben.note_briefing(ben.briefing(), "resume", workflow=workflow_of(shop))
    shop.keeper().answer(1, "so")
    assert len(told(shop, "ben")) == len(told(shop, "ada")) == 1


def test_a_session_that_asks_what_another_one_asks_already_is_told_as_well(shop):
    shop.keeper(session="ada").ask("Why?")
    ben = shop.keeper(session="ben")
    with pytest.raises(Refused, match="asks that already"):
        ben.ask("Why?", workflow=workflow_of(shop))
    shop.keeper().answer(1, "so")
    assert len(told(shop, "ben")) == len(told(shop, "ada")) == 1
    assert (told(shop, "ben"), marks(shop)) == ([], [])


def test_an_answer_that_the_briefing_had_is_not_told_again(shop):
    ada = shop.keeper(session="ada")
    for text in ("Why?", "How?", "When?"):
        ada.ask(text)
    shop.keeper().answer(1, "so")
    shop.keeper().answer(2, "long " * 200)
    ada = shop.keeper(session="ada")
    briefing = ada.briefing()
    assert "Why? ANSWER: so" in briefing
    ada.note_briefing(briefing, "compact", workflow=workflow_of(shop))
    assert [note[:10] for note in told(shop)] == ["question 2"], "the briefing cut it"
    shop.keeper().answer(3, "now")
    assert [note[:10] for note in told(shop)] == ["question 3"]


def test_what_a_session_waits_for_since_it_was_told_is_kept(shop):
    """A briefing in between has it wait for what others asked."""
    shop.keeper(session="ada").ask("Why?")
    shop.keeper().answer(1, "so")
    shop.keeper(session="ben").ask("How?", workflow=workflow_of(shop))
    ada = shop.keeper(session="ada")
    answers = ada.new_answers()
    ada.note_briefing(ada.briefing(), "resume", workflow=workflow_of(shop))
    answers.seen()
    shop.keeper().answer(2, "so so")
    assert [note[:10] for note in told(shop)] == ["question 2"]


def test_whoever_answers_its_own_question_is_not_told(shop):
    """As an agent does that was told by its user."""
    asker = shop.keeper(session="ada")
    asker.ask("Why?")
    asker.answer(1, "so")
    assert (told(shop), marks(shop)) == ([], [])


def test_nobody_waits_for_a_question_that_was_undone_or_whose_work_has_ended(shop):
    asker = shop.keeper(session="ada")
    asker.ask("Why?")
    asker.undo()
    assert (told(shop), marks(shop)) == ([], [])
    asker.ask("Why?")
    asker.abandon()
    assert (told(shop), marks(shop)) == ([], [])


def test_an_answer_is_told_even_if_the_work_was_ended_before_it_was_heard(shop):
    asker = shop.keeper(session="ada")
    asker.ask("Ship it?")
    shop.keeper().answer(1, "no")
    asker.complete(force=True, reason="shipped")
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["no"]
    assert (told(shop), marks(shop)) == ([], [])


def test_the_answer_that_replaces_an_undone_one_is_told(shop):
    shop.keeper(session="ada").ask("Which?", ["red", "blue"])
    shop.keeper().answer(1, "red")
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["red"]
    shop.keeper().undo()
    assert (told(shop), marks(shop)) == ([], ["questions-ada"])
    shop.keeper().answer(1, "blue")
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["blue"]
    assert (told(shop), marks(shop)) == ([], [])


def test_a_mark_that_is_no_list_of_questions_is_nothing(shop):
    shop.keeper(session="ada").ask("Why?")
    for content in (
        "",
        "x",
        "{}",
        "[1]",
        '[["a"]]',
        '[["a", 1]]',
        '[["no-such", "q"]]',
        '[["_learning", "q"]]',
    ):
        shop.write(f"{HOME}/questions-ada", content)
        assert told(shop) == []
    shop.keeper(session="ada").ask("And?")
    shop.keeper().answer(2, "so")
    assert len(told(shop)) == 1


@pytest.mark.parametrize("session", ["a/../../x", "é" * 50, "x" * 200])
def test_a_session_of_any_name_is_told(shop, session):
    shop.keeper(session=session).ask("Why?", workflow=workflow_of(shop))
    shop.keeper().answer(1, "so")
    assert len(told(shop, session)) == 1


def test_an_answer_is_no_claim_to_the_work(shop):
    """Also not of an agent, while another one's lease runs."""
    name = workflow_of(shop)
    shop.keeper(session="ada").ask("Why?")
    shop.keeper(session="ben").answer(1, "so", workflow=name)
    assert shop.keeper().show(workflow=name).state["session"]["id"] == "ada"
    shop.keeper(session="ada").do("end_session", {"session": "ada"}, workflow=name)
    Pool(shop.keeper(session="kim")).take()
    shop.keeper(session="kim").ask("Which?", workflow=name)
    with pytest.raises(Refused) as refused:
        shop.keeper(session="ben").remind("mine", workflow=name)
    assert refused.value.code == "held"
    state = shop.keeper(session="ben").answer(2, "this", workflow=name).state
    assert state["session"]["id"] == "kim"
    assert state["questions"][1]["answered_by"] == {"surface": "library", "session": "ben"}
    assert told(shop, "kim") != []


def test_without_a_name_the_only_workflow_with_open_questions_is_meant(shop):
    first = workflow_of(shop)
    shop.keeper(session="ben").start("tdd", "another")
    shop.keeper(session="ada").ask("Why?")
    assert shop.keeper().answer(1, "so").state["id"] == first
    with pytest.raises(Refused) as refused:
        shop.keeper().answer(1, "so")
    assert refused.value.code == "ambiguous"


def test_all_open_questions_are_listed_without_opening_other_workflows(shop):
    ben = shop.keeper(session="ben")
    other = ben.start("tdd", "another").state["id"]
    shop.keeper(session="ada").ask("first?", blocking=True)
    ben.ask("second?", workflow=other)
    rows = shop.keeper().open_questions()
    assert [(row["text"], row["workflow"]) for row in rows] == [
        ("first?", rows[0]["workflow"]), ("second?", other)
    ]  # fmt: skip
    ben.abandon(workflow=other)
    assert [row["text"] for row in shop.keeper().open_questions()] == ["first?"]
    ben.resume(workflow=other)
    assert len(shop.keeper().open_questions()) == 2
    shop.keeper().answer(1, "x", workflow=other)
    shop.keeper().answer(1, "y")
    assert shop.keeper().open_questions() == []
    assert shop.keeper().store.ledger.fact(ASKED) == ""


def test_an_edit_of_the_record_answers_and_undo_takes_an_answer_back(shop):
    asker = shop.keeper(session="ada")
    asker.ask("Why?", blocking=True)
    record = asker.show().record
    answered = {
        "status": "answered", "answer": "by hand", "answered_at": "2026-02-18T00:00:00Z",
    }  # fmt: skip

    def answer(document):
        document["_holdfast"]["rest"]["questions"][0] |= answered

    shop.edit(record, answer)
    assert shop.keeper().open_questions() == []
    assert shop.keeper(session="ada").show().state["questions"][0]["answer"] == "by hand"
    shop.keeper().settle()
    assert [note.rpartition(": ")[2] for note in told(shop)] == ["by hand"]
    asker.ask("Again?")
    shop.keeper().answer(2, "yes")
    undone = shop.keeper().undo().undone
    assert undone["back"] == ["question 2 is open again"]
    assert [row["id"] for row in shop.keeper().open_questions()] == [2]


def test_an_edit_and_a_command_that_answer_apart_are_merged_or_one_is_refused(shop):
    asker = shop.keeper(session="ada")
    asker.ask("first?")
    asker.ask("second?")
    record = asker.show().record
    old = shop.read(record)
    shop.keeper().answer(2, "by command")
    shop.write(record, old)

    def answer(document):
        document["_holdfast"]["rest"]["questions"][0] |= {
            "status": "answered", "answer": "by hand", "answered_at": "2026-02-18T00:00:00Z",
        }  # fmt: skip

    shop.edit(record, answer)
    shop.keeper().settle()
    questions = shop.keeper().show(workflow=workflow_of(shop)).state["questions"]
    assert [question["answer"] for question in questions] == ["by hand", "by command"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("status", "answered", "answer is missing"),
        ("status", "gone", "must be one of open, answered, withdrawn"),
        ("text", " ", "must not be empty"),
        ("choices", "a", "must be a list"),
        ("id", "1", "must be a whole number"),
        ("asked_at", "soon", "must be a time"),
        ("by", {"session": 7}, "must be text"),
    ],
)
def test_an_edit_that_makes_no_question_is_refused(shop, field, value, why):
    asker = shop.keeper(session="ada")
    asker.ask("Why?")
    record = asker.show().record
    shop.edit(record, lambda d: d["_holdfast"]["rest"]["questions"][0].update({field: value}))
    notes = shop.keeper().settle().notes
    assert why in " ".join(notes)
    assert len(shop.keeper().open_questions()) == 1


def test_a_clone_with_the_record_alone_has_the_questions(shop, tmp_path):
    asker = shop.keeper(session="ada")
    asker.ask("Why?", ["a"], blocking=True)
    record = asker.show().record
    clone = Workshop(tmp_path / "clone")
    clone.write(record, shop.read(record))
    keeper = clone.keeper(session="kim")
    keeper.resume()
    assert [row["text"] for row in keeper.open_questions()] == ["Why?"]
    assert clone.keeper().answer(1, "1").state["questions"][0]["answer"] == "a"


def test_a_question_of_a_session_without_a_name_leaves_no_mark(tmp_path):
    shop = Workshop(tmp_path / "repository")
    keeper = shop.keeper()
    keeper.start("oneshot", "Port it")
    keeper.ask("Why?")
    assert marks(shop) == []
    assert keeper.new_answers() is None
    assert types(keeper)[-1] == "question_asked"


def test_a_question_that_cannot_be_marked_is_asked_all_the_same(shop):
    keeper = shop.keeper(session="ada")
    os.mkdir(shop.path(HOME, "questions-ada"))
    keeper.ask("Why?")
    assert len(keeper.open_questions()) == 1
    assert told(shop) == []
    assert isinstance(keeper, Keeper)
