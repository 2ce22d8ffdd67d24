"""The pool: what can be worked on, and who takes it."""

from __future__ import annotations

from holdfast import answers
from holdfast.cli.answer import Answer, answer_change, step_after
from holdfast.cli.commands.workflow import Summary
from holdfast.cli.parser import GROUPS, Parameter, command
from holdfast.cli.screen import Screen, fit_columns, next_lines, table_lines
from holdfast.core.next_step import next_fields
from holdfast.core.visible import clean
from holdfast.hub.pool import LEASE, Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

GROUPS["pool"] = "work for any number of agents: what is ready, and who takes it"
_OPTIONAL_COLUMNS = ("where", "labels", "recipe")
_TITLE_MIN = 16
_RECIPE = Parameter("--recipe NAME", "only workflows of this recipe", names="recipe")
_LABEL = Parameter("--label LABEL", "only workflows with this label")
_ID = Parameter("ID", "the workflow", kind="id", names="workflow", into="workflow")


@command(
    "pool ready: list the work that nobody holds and nothing blocks, the oldest first",
    _RECIPE,
    _LABEL,
    "holdfast pool ready",
    "holdfast pool ready --label backend --json",
)
def ready(keeper: Keeper, args: Arguments) -> Answer:
    found = Pool(keeper).ready(**args["own"])

    def lines(screen: Screen) -> Iterator[str]:
        if found.rows:
            yield from _table(screen, found.rows)
        else:
            yield "Nothing is ready."
        if found.waiting:
            yield screen.paint("Waiting", "strong")
        for row in found.waiting:
            yield "  " + screen.row("blocked", row["id"], row["why"])
            if row["next"] is not None:
                yield screen.paint(f"    {clean(row['next'])}", "dim")
        if found.rows:
            yield screen.paint("  next: holdfast pool take", "dim")

    return Answer({"ready": found.rows, "waiting": found.waiting}, lines, found.notes)


def _table(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    table = []
    for row in rows:
        machine = f"on {row['machine']}" if row["machine"] else ""
        texts = {
            "id": row["id"],
            "recipe": row["recipe"],
            "phase": row["phase"] or "-",
            "labels": ",".join(row["labels"]) or "-",
            "where": machine or row["branch"] or row["worktree"],
            "title": row["title"] or row["subject"],
        }
        table.append({name: clean(text) for name, text in texts.items()})
    columns, widths = fit_columns(screen, table, _OPTIONAL_COLUMNS, {}, _TITLE_MIN)
    marks = [screen.mark("pending") for _ in rows]
    yield from table_lines(screen, table, columns, widths, marks)


@command(
    "pool take: take the oldest work that is ready, with a lease, and print its briefing",
    _RECIPE,
    _LABEL,
    Parameter("--lease TIME", f"how long it is held without a sign of life (default: {LEASE})"),
    Parameter("--wait [SECONDS]", "wait until something is ready, at most so long", kind="number"),
    "holdfast pool take",
    "holdfast pool take --recipe dev --label backend --wait 600",
)
def take(keeper: Keeper, args: Arguments) -> Answer:
    waits = {"wait": None if args["wait"] == "" else args["wait"] or 0}
    taken = Pool(keeper).take(
        recipe=args["recipe"], label=args["label"], lease=args["lease"] or LEASE, id=args["id"],
        **waits,
    )  # fmt: skip
    receipt, lease = taken.receipt, taken.lease
    summary = Summary(keeper, receipt)
    step = step_after(args, receipt, aimed=keeper.needs_explicit_id(receipt.state))

    def lines(screen: Screen) -> Iterator[str]:
        yield from summary.lines(screen)
        until = f"held until {clean(lease['until'])}; every change goes on holding it"
        yield screen.paint(f"  {until}", "dim")
        if summary.is_for_person(screen):
            yield from next_lines(screen, step())

    def fields() -> Fields:
        changed = answers.change(receipt)
        workflow = {**changed.pop("workflow"), "briefing": summary.briefing}
        return {"workflow": workflow, "lease": lease, **changed, "next": next_fields(step())}

    return Answer(fields, lines, is_wrapped=summary.has_panel)


@command(
    "pool give: give work back, so that it is ready again",
    _ID,
    "holdfast pool give dev-1f2e3d4c",
)
def give(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Pool(keeper).give(args["workflow"], id=args["id"])
    return Answer(
        lambda: answers.change(receipt),
        lambda screen: [screen.row("completed", f"{receipt.state['id']} is given back")],
        receipt.notes,
    )


@command("pool reap: end the leases that ran out, and say whose they were", "holdfast pool reap")
def reap(keeper: Keeper, _args: Arguments) -> Answer:
    rows = Pool(keeper).reap()

    def lines(screen: Screen) -> Iterator[str]:
        for row in rows:
            who = f"held by {row['holder']} until {row['until']}"
            yield screen.row("completed", f"{row['workflow']} is ready again", who)
        if not rows:
            yield "No lease ran out."

    return Answer({"reaped": rows}, lines)


@command(
    "pool renew: renew this session's leases now; changes and hooks do so by themselves",
    "holdfast pool renew --session worker-3",
)
def renew(keeper: Keeper, _args: Arguments) -> Answer:
    rows = Pool(keeper).renew()

    def lines(screen: Screen) -> Iterator[str]:
        for row in rows:
            yield screen.row("completed", row["workflow"], f"until {row['until']}")
        if not rows:
            yield "This session holds nothing."

    return Answer({"leases": rows}, lines)


@command(
    "pool change: change the labels of a workflow, and what has to be completed before it",
    _ID,
    Parameter("--label LABEL...", "add a label"),
    Parameter("--no-label LABEL...", "remove a label"),
    Parameter("--after ID...", "it comes after this workflow", names="workflow"),
    Parameter("--no-after ID...", "it no longer does", names="workflow"),
    "holdfast pool change dev-1f2e3d4c --label backend",
    "holdfast pool change dev-1f2e3d4c --after dev-0a1b2c3d",
)
def change(keeper: Keeper, args: Arguments) -> Answer:
    own = {name: value for name, value in args["own"].items() if name != "workflow"}
    receipt = Pool(keeper).change(args["workflow"], **own, id=args["id"])
    state = receipt.state
    labels = ", ".join(state.get("labels", ())) or "none"
    after = ", ".join(state.get("after", ())) or "nothing"
    return answer_change(args, receipt, f"{state['id']}: labels {labels}; after {after}")
