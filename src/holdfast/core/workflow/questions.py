"""Questions to people: an agent asks in a workflow, anybody answers, and anybody withdraws.

A question has a number in its workflow. Work that does not depend on the answer goes on. A
``blocking`` question holds up the whole phase: it cannot be left, nor the workflow completed,
before there is an answer. The state keeps the newest ``MAX_QUESTIONS``.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, first_bad_text
from holdfast.core.workflow import decides, evolves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Question, Workflow
    from holdfast.core.workflow import Decision

OPEN, ANSWERED, WITHDRAWN = "open", "answered", "withdrawn"
STATUSES = (OPEN, ANSWERED, WITHDRAWN)
MAX_QUESTIONS = 100
"""The maximum number of questions in a state; the oldest ones that are not open leave it first."""
MAX_OPEN = 50
MAX_CHOICES = 20
_MAX_SHOWN = 60


def open_questions(state: Workflow) -> list[Question]:
    """Return the questions that wait for an answer, oldest first."""
    return [question for question in state.get("questions", ()) if question["status"] == OPEN]


def blocking_questions(state: Workflow) -> list[Question]:
    """Return the questions that hold up the phase until they are answered."""
    return [question for question in open_questions(state) if question.get("blocking")]


def answered_questions(state: Workflow) -> list[Question]:
    """Return the questions that were answered, the last answer at the end."""
    answered = [q for q in state.get("questions", ()) if q["status"] == ANSWERED]
    return sorted(answered, key=lambda question: question.get("answered_at", ""))


def find_question(state: Workflow, number: object) -> Question | None:
    own = str(number)
    return next((q for q in state.get("questions", ()) if str(q["id"]) == own), None)


def question_line(question: Question) -> str:
    """Return a question with its choices: ``Which database? [1 Postgres, 2 SQLite]``."""
    listed = [f"{number} {text}" for number, text in enumerate(question.get("choices", ()), 1)]
    return f"{question['text']} [{', '.join(listed)}]" if listed else question["text"]


@decides("ask_question")
def ask(state: Workflow, args: Fields) -> Decision:
    """Ask; ``by`` has the surface and the session that ask."""
    text, choices = args["text"], list(args.get("choices", ()))
    if refusal := bad_text("question", text) or first_bad_text(choice=choices):
        return refusal
    choices = list(dict.fromkeys(choices))
    waiting = open_questions(state)
    same = next((question for question in waiting if question["text"] == text), None)
    if same is not None:
        why = f"ask: question {same['id']} of {state['id']} asks that already"
        return Refusal("already", why, f"holdfast show {state['id']}", asked_in=state["id"])
    if len(choices) > MAX_CHOICES:
        why = f"ask: {len(choices)} choices are too many; the limit is {MAX_CHOICES}"
        return Refusal("too_many", why, "leave some out: an answer can be any text")
    if len(waiting) >= MAX_OPEN:
        why = f"ask: {len(waiting)} questions of {state['id']} are open, which is the limit"
        return Refusal("too_many", why, f"holdfast ask --withdraw {waiting[0]['id']}")
    number = max((question["id"] for question in state.get("questions", ())), default=0) + 1
    data: Fields = {"question": number, "text": text, "by": args.get("by") or {}}
    if choices:
        data["choices"] = choices
    if args.get("blocking"):
        data["blocking"] = True
    return [{"type": "question_asked", "data": data}]


@evolves("question_asked")
def _asked(state: Workflow, data: Fields, at: str) -> Workflow:
    asked: Question = {
        "id": data["question"],
        "text": data["text"],
        "choices": list(data.get("choices", ())),
        "blocking": bool(data.get("blocking")),
        "asked_at": at,
        "by": data.get("by", {}),
        "status": OPEN,
    }
    questions = [*state.get("questions", ()), asked]
    closed = [question for question in questions if question["status"] != OPEN]
    leaving = closed[: max(0, len(questions) - MAX_QUESTIONS)]
    kept = [question for question in questions if question not in leaving]
    return {**state, "questions": kept}


def _not_open(state: Workflow, tried: str, number: object) -> Refusal | None:
    """Return the refusal if no open question has this number; ``None`` if one has it."""
    question = find_question(state, number)
    if question is not None and question["status"] == OPEN:
        return None
    waiting = [str(other["id"]) for other in open_questions(state)]
    if question is not None:
        said = f" ({_short(question.get('answer', ''))})" if question["status"] == ANSWERED else ""
        why = f"{tried}: question {question['id']} of {state['id']} is {question['status']}{said}"
        return Refusal("already", why, f"holdfast show {state['id']}")
    has = f"open are {', '.join(waiting)}" if waiting else "none is open"
    why = f"{tried}: {state['id']} has no question {str(number)[:40]!r}; {has}"
    return Refusal("not_found", why, f"holdfast show {state['id']}")


@decides("answer_question")
def answer(state: Workflow, args: Fields) -> Decision:
    """Answer the ``question`` of a number with any text, or a choice by its text or number."""
    text, number = args["text"], args["question"]
    if refusal := bad_text("answer", text) or _not_open(state, "answer", number):
        return refusal
    question = find_question(state, number)
    assert question is not None
    chosen = _chosen(question, text)
    if isinstance(chosen, Refusal):
        return chosen
    data = {"question": question["id"], "answer": chosen, "by": args.get("by") or {}}
    return [{"type": "question_answered", "data": data}]


def _chosen(question: Question, text: str) -> str | Refusal:
    """Return the choice that an answer names; the answer itself if it names none."""
    choices = question.get("choices", [])
    for choice in choices:
        if choice.strip().casefold() == text.strip().casefold():
            return choice
    if not (choices and text.isascii() and text.isdigit() and len(text) < 10):
        return text
    if 1 <= int(text) <= len(choices):
        return choices[int(text) - 1]
    why = f"answer: question {question['id']} has choices 1 to {len(choices)}, and no {text}"
    return Refusal("not_found", why, "give the number of a choice, or an answer in words")


@evolves("question_answered")
def _answered(state: Workflow, data: Fields, at: str) -> Workflow:
    fields = {"answer": data["answer"], "answered_at": at, "answered_by": data.get("by", {})}
    return _closed(state, data, {"status": ANSWERED, **fields})


@decides("withdraw_question")
def withdraw(state: Workflow, args: Fields) -> Decision:
    """Withdraw a question that needs no answer any more."""
    number = args["question"]
    if refusal := _not_open(state, "ask --withdraw", number):
        return refusal
    question = find_question(state, number)
    assert question is not None
    return [{"type": "question_withdrawn", "data": {"question": question["id"]}}]


@evolves("question_withdrawn")
def _withdrawn(state: Workflow, data: Fields, _at: str) -> Workflow:
    return _closed(state, data, {"status": WITHDRAWN})


def _closed(state: Workflow, data: Fields, fields: Fields) -> Workflow:
    questions = [
        {**question, **fields} if question["id"] == data["question"] else question
        for question in state.get("questions", ())
    ]
    return {**state, "questions": questions}  # type: ignore[typeddict-item]


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
