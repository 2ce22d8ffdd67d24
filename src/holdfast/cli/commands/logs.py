"""Commands on what a workspace keeps beside its workflows.

These are learnings, the forge context, interviews and delegations.
"""

from __future__ import annotations

from holdfast.cli.answer import Answer, ChangeKind, answer_done
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.cli.screen import Screen, count_cells, counted, draw_bar, pad
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError
from holdfast.keeper import Keeper, Receipt
from holdfast.keeper.logs import Delegations, Interviews

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields

GROUPS["interview"] = "record how sure a skill was, or that nobody let it ask"
GROUPS["forge"] = "add to the forge context, or show it"
GROUPS["delegation"] = "record which agent was given what, and see what can be learned from it"

_SUGGESTED = Parameter("--suggested NAME", "what was suggested", required=True)
_CHOSEN = Parameter("--chosen NAME", "what the person chose", required=True)
_MAX_ROWS = 10


def _answer(key: str, entries: str) -> Callable[[Arguments, Receipt, str], Answer]:
    """Answer with the newest entry; none if the list was emptied before a retry of the command."""

    def answer(_args: Arguments, receipt: Receipt, done: str) -> Answer:
        newest = receipt.state[entries][-1] if receipt.state[entries] else None
        return answer_done(done, {key: newest, "seqs": receipt.seqs}, receipt.notes)

    return answer


_ID = {"id": "id"}
on_forge = ChangeKind(_ID, _answer("entry", "entries"))
on_delegations = ChangeKind(_ID, _answer("entry", "entries"), Keeper.delegations)
on_skips = ChangeKind(_ID, _answer("skip", "skips"), Keeper.interviews)


@command(
    "remember: keep a pattern, a preference or an insight for all later sessions",
    Parameter("TEXT", "one line"),
    Parameter("--kind KIND", "pattern, preference or insight", names="kind"),
    Parameter("--section NAME", "the heading it stands under (default: Learnings)"),
    "holdfast remember 'Ada wants short commits' --kind preference",
)
def remember(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.remember(**args["own"], id=args["id"])
    verb = "remembered" if receipt.seqs or receipt.is_kept else "known already"
    try:
        path = keeper.memory().path
    except HoldfastError:
        path = None  # The settings cannot be read: a note says so, and the learning is kept.
    fields = {"memory": path, "seqs": receipt.seqs}
    return answer_done(f"{verb}: {args['text']}", fields, receipt.notes)


on_forge(
    "forge add: add a line to the forge context",
    Parameter("KEY", "what it is about"),
    Parameter("TEXT", "what was found out"),
    "holdfast forge add build 'Uses make, not npm'",
)(Keeper.note_forge, "{key}: {text}")


@command(
    "forge show: show the forge context",
    Parameter("[KEY]", "only lines about this"),
    "holdfast forge show",
    "holdfast forge show build",
)
def forge_show(keeper: Keeper, args: Arguments) -> Answer:
    entries = keeper.forge(key=args["key"])

    def lines(screen: Screen) -> Iterator[str]:
        for entry in entries:
            yield screen.row("completed", entry["key"], str(entry.get("text", "")))
        if not entries:
            yield "The forge context is empty."

    return Answer({"entries": entries}, lines, keeper.drain_notes())


@command(
    "interview record: record how sure a skill was of what it was asked to do",
    Parameter("--skill NAME", "the skill", required=True),
    Parameter("--confidence N", "from 0 to 1", required=True),
    Parameter(
        "--dimension NAME=N...",
        "the same for one side of it, such as clarity=0.9",
        into="dimensions",
    ),
    Parameter("--questions N", "how many questions were asked", kind="number"),
    "holdfast interview record --skill plan --confidence 0.82 --dimension clarity=0.9",
)
def interview_record(keeper: Keeper, args: Arguments) -> Answer:
    receipt = keeper.interviews().record(
        args["skill"],
        _score("--confidence", args["confidence"]),
        dimensions={name: _score(name, value) for name, value in args["dimensions"].items()},
        questions=args["questions"] or 0,
        id=args["id"],
    )
    done = f"interview of {args['skill']} recorded"
    return _answer("interview", "interviews")(args, receipt, done)


def _score(name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        message = f"{name} is a number from 0 to 1, not {str(value)[:40]!r}"
        usage = "holdfast interview record --skill SKILL --confidence 0.8"
        raise Usage(message, usage) from None


on_skips(
    "interview skip: record that the user did not want to be asked",
    Parameter("SKILL", "the skill"),
    Parameter("--reason TEXT", "what the user said", required=True),
    "holdfast interview skip plan --reason 'just do it'",
)(Interviews.skip, "{skill} went without an interview")


@command("interview show: show the newest interviews", "holdfast interview show")
def interview_show(keeper: Keeper, _args: Arguments) -> Answer:
    fields: Fields = {**keeper.interviews().show()}
    del fields["extra"]
    return Answer(fields, lambda screen: _interview_lines(screen, fields), keeper.drain_notes())


def _interview_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    interviews, skips = fields["interviews"], fields["skips"]
    if not interviews and not skips:
        yield "No interview was recorded."
        yield screen.paint("  next: holdfast interview record --skill S --confidence 0.8", "dim")
        return
    for entry in interviews[-_MAX_ROWS:]:
        score, questions = entry.get("confidence"), entry.get("questions_asked")
        drawn = "" if score is None else f"  {draw_bar(screen, score)} {score:.2f}"
        facts = [f"{questions} questions"] if questions else []
        facts += [f"{name} {value}" for name, value in (entry.get("dimensions") or {}).items()]
        skill = f"{screen.mark('completed')} {clean(entry['skill'])}"
        yield f"{skill}{drawn}  {screen.dim(*facts)}".rstrip()
    for entry in skips[-_MAX_ROWS:]:
        skill = f"{entry['skill']} was not asked for"
        yield screen.row("pending", skill, str(entry.get("reason", "")))
    hidden = max(0, len(interviews) - _MAX_ROWS) + fields["interviews_earlier"]
    if hidden:
        yield screen.paint(f"  {hidden} earlier: holdfast log", "dim")


on_delegations(
    "delegation record: record what an agent was given, and how it ended",
    Parameter("--agent NAME", "the agent", required=True),
    Parameter("--outcome TEXT", "how it ended, in a word of your own", required=True),
    Parameter("--model NAME", "its model"),
    Parameter("--task-type TEXT", "the kind of task"),
    Parameter("--complexity TEXT", "how hard it was"),
    Parameter("--duration-ms N", "how long it took", kind="number"),
    "holdfast delegation record --agent tester --task-type tests --outcome success",
)(Delegations.record, "delegation to {agent} recorded")


def _escalate(delegations: Delegations, *, resolved: str | None, **values: Any) -> Receipt:
    is_resolved = None if resolved is None else _is_yes("--resolved", resolved, "escalate")
    return delegations.escalate(**values, resolved=is_resolved)


def _resolve(delegations: Delegations, *, resolved: str, **values: Any) -> Receipt:
    return delegations.resolve(_is_yes("RESOLVED", resolved, "resolve"), **values)


def _is_yes(name: str, word: str, command: str) -> bool:
    if word not in ("yes", "no"):
        message = f"{name} is yes or no, not {word[:40]!r}"
        raise Usage(message, f"holdfast help delegation {command}")
    return word == "yes"


on_delegations(
    "delegation escalate: record that one agent handed over to another",
    Parameter("--from NAME", "who gave up", into="from_agent", required=True),
    Parameter("--to NAME", "who took over", into="to_agent", required=True),
    Parameter("--reason TEXT", "why", required=True),
    Parameter("--resolved yes|no", "whether that helped"),
    "holdfast delegation escalate --from tester --to architect --reason 'two failures'",
)(_escalate, "{from_agent} handed over to {to_agent}")
on_delegations(
    "delegation resolve: record whether an escalation helped, once that is known",
    Parameter("RESOLVED", "yes or no", names="yes or no"),
    Parameter("--from NAME", "who gave up (default: anybody)", into="from_agent"),
    Parameter("--to NAME", "who took over (default: anybody)", into="to_agent"),
    Parameter("--reason TEXT", "why (default: that of the escalation)"),
    "holdfast delegation resolve yes",
    "holdfast delegation resolve no --from tester --to architect --reason 'same error'",
)(_resolve, "outcome of the escalation recorded: {resolved}")
on_delegations(
    "delegation override: record that a person chose another agent than the one suggested",
    _SUGGESTED,
    _CHOSEN,
    "holdfast delegation override --suggested tester --chosen reviewer",
)(Delegations.override, "{chosen} was chosen instead of {suggested}")
on_delegations(
    "delegation routing: record that a person chose another workflow than the one suggested",
    _SUGGESTED,
    _CHOSEN,
    Parameter("--intent TEXT", "what the person wanted", required=True),
    "holdfast delegation routing --suggested oneshot --chosen apex --intent feature",
)(Delegations.routing, "{chosen} was chosen instead of {suggested}")


@command(
    "delegation list: how each agent does, who takes over from whom, what people prefer",
    Parameter("--agent NAME", "only what this agent had part in"),
    "holdfast delegation list",
    "holdfast delegation list --agent tester",
)
def delegation_list(keeper: Keeper, args: Arguments) -> Answer:
    fields = keeper.delegations().list(agent=args["agent"])
    return Answer(fields, lambda screen: _delegation_lines(screen, fields), keeper.drain_notes())


def _delegation_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield how each agent does, who takes over from whom, and what people prefer."""
    summary = fields["summary"]
    if not fields["entries"]:
        yield "No delegation was recorded."
        yield screen.paint("  next: holdfast delegation record --agent A --outcome O", "dim")
        return
    widest = max([count_cells(clean(row["agent"])) for row in summary["agents"]], default=0)
    for row in summary["agents"]:
        facts = [f"{row['count']} given"]
        facts += [f"{count} {name}" for name, count in row["outcomes"].items()]
        if row["median_ms"] is not None:
            facts.append(f"half within {_duration(row['median_ms'])}")
        facts += [f"{count} {name}" for name, count in row["task_types"].items()]
        yield screen.row("completed", pad(clean(row["agent"]), widest), *facts)
    yield from _choices(screen, summary["escalations"], "handed over", "from", "to")
    yield from _choices(screen, summary["overrides"], "people chose", "suggested", "chosen")
    yield from _choices(screen, summary["routings"], "people went", "suggested", "chosen")
    if fields["earlier"]:
        yield screen.paint(f"  {fields['earlier']} earlier: holdfast log", "dim")


def _choices(
    screen: Screen, rows: list[Fields], what: str, first: str, second: str
) -> Iterator[str]:
    for row in rows:
        times = counted(row["count"], "times")
        if "resolved" in row:
            times += f", {row['resolved']} resolved"
        choice = f"{clean(row[first])} {screen.arrow} {clean(row[second])}"
        yield f"  {what}: {choice}  {screen.dim(times)}"


def _duration(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    return f"{ms / 1_000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"
