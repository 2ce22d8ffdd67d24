"""Questions of agents to people: ask one, answer it; and how the open ones are shown."""

from __future__ import annotations

from holdfast.cli.answer import Answer, answer_change
from holdfast.cli.parser import Parameter, Usage, command
from holdfast.core.refusal import shell_word
from holdfast.core.visible import clean
from holdfast.core.workflow.questions import ANSWERED, OPEN, find_question, question_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields, Question, Workflow
    from holdfast.keeper import Keeper


@command(
    "ask: ask people something; whoever answers, this session is told",
    Parameter("[TEXT]", "the question"),
    Parameter("--choice TEXT...", "an answer to choose; other answers stay possible"),
    Parameter("--blocking", "nothing can go on before the answer"),
    Parameter(
        "--withdraw N", "a question that needs no answer any more", kind="task", names="question"
    ),
    "holdfast ask 'Which database?' --choice Postgres --choice SQLite",
    "holdfast ask 'May old files be deleted?' --blocking",
    "holdfast ask --withdraw 1",
)
def ask(keeper: Keeper, args: Arguments) -> Answer:
    text, number = args["text"], args["withdraw"]
    if (text is None) == (number is None):
        raise Usage("`holdfast ask` takes either TEXT or --withdraw N", "holdfast help ask")
    if number is not None:
        receipt = keeper.withdraw_question(number, **args["target"])
        return answer_change(args, receipt, f"question {number} withdrawn")
    receipt = keeper.ask(text, args["choice"], blocking=args["blocking"], **args["target"])
    numbers = [q["id"] for q in receipt.state.get("questions", ()) if q["text"] == text]
    asked = " ".join(["question", *map(str, numbers[-1:]), "asked"])
    effect = "work that does not depend on it can go on"
    if args["blocking"]:
        effect = "all of this phase waits for it"
    return answer_change(args, receipt, f"{asked}; {effect}")


@command(
    "answer: answer a question, in words or by the number of a choice",
    Parameter("N", "the question's number", into="number", kind="task", names="question"),
    Parameter("TEXT", "the answer, or the number of a choice"),
    "holdfast answer 1 'Postgres, as everywhere else'",
    "holdfast answer 1 2",
)
def answer(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.answer(args["number"], args["text"], **args["target"])
    question = find_question(receipt.state, args["number"])
    assert question is not None
    done = f"question {question['id']} ({question['text']}) answered: {question['answer']}"
    return answer_change(args, receipt, done)


def waiting_lines(screen: Screen, rows: Sequence[Fields]) -> Iterator[str]:
    """Yield the open questions of several workflows, each with the command that answers it."""
    if rows:
        yield screen.paint("Waiting for a person", "strong")
    for row in rows:
        yield "  " + screen.row("blocked", question_line(row), screen.age(row["asked_at"]))  # type: ignore[arg-type]
        name = f"{row['id']} ANSWER -w {shell_word(row['workflow'])}"
        yield screen.paint(f"      holdfast answer {clean(name)}", "dim")


def question_lines(screen: Screen, state: Workflow) -> Iterator[str]:
    """Yield all questions of one workflow, each with its answer; nothing if there are none."""
    questions = state.get("questions", [])
    if questions:
        yield screen.paint("Questions", "strong")
    for question in questions:
        yield "  " + question_row(screen, question)


def question_row(screen: Screen, question: Question) -> str:
    """Return a question as one line, with its answer or since when it waits."""
    status = question["status"]
    mark = {OPEN: "blocked", ANSWERED: "completed"}.get(status, "pending")
    facts = [f"waiting, asked {screen.age(question['asked_at'])}" if status == OPEN else status]
    if status == OPEN and question.get("blocking"):
        facts.append("blocking")
    if status == ANSWERED:
        facts = [f"answered: {question.get('answer', '')}"]
    return screen.row(mark, f"{question['id']}  {question_line(question)}", *facts)
