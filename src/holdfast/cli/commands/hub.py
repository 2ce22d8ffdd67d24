"""Commands that let work travel to other machines, and settle what does not go together."""

from __future__ import annotations

from holdfast.cli.answer import Answer, Silence, answer_done, confirm
from holdfast.cli.parser import GROUPS, Parameter, command
from holdfast.cli.screen import ProgressBar, counted
from holdfast.core.refusal import shell_line
from holdfast.core.selection import join_names, short_id
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError, Refused
from holdfast.hub import Sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields
    from holdfast.hub import Publication
    from holdfast.hub.exchange import Exchanged
    from holdfast.keeper import Keeper

GROUPS["hub"] = "share this repository's work with other machines, over git or PostgreSQL"

_BACKGROUND_S = 300
"""The time after which an exchange in the background is ended, whatever the hub does."""
_MAX_SHOWN = 20
_ADVISORY = "claims over git are advisory: two machines that are offline can take the same work"
_IN_WORDS = {
    True: "everybody can read it there",
    None: "whether everybody can read it there could not be found out",
}


@command(
    "hub add: share this repository's work with other machines; asks first",
    Parameter("KIND", "git or postgres", names="hub"),
    Parameter(
        "[WHERE]",
        "a git remote, URL or folder (default: origin); or a PostgreSQL DSN",
        names="file",
    ),
    Parameter("--name NAME", "what others call this machine (default: its host name)"),
    Parameter("--dry-run", "only show what would be published, and where"),
    Parameter("--public", "also if everybody can read it there"),
    Parameter("--yes", "do not ask: for scripts"),
    "holdfast hub add git origin --dry-run",
    "holdfast hub add git --name laptop",
    "holdfast hub add postgres postgresql://db.example/holdfast?sslmode=verify-full",
)
def add(keeper: Keeper, args: Arguments) -> Answer:
    sharing = Sharing(keeper)
    plan = sharing.plan(args["kind"], args["where"] or "", args["name"] or "")
    fields: Fields = {**plan.fields(), "pushed": 0, "pulled": 0, "added": False}
    if args["dry_run"]:
        return Answer(fields, lambda screen: _plan_lines(screen, plan))
    if not _may_publish(plan, args):
        return Answer(fields, lambda _screen: ["Nothing is shared."])
    done = _with_bar(sharing, args, plan)
    fields |= {"pushed": done.pushed, "pulled": done.pulled, "added": True}

    def lines(screen: Screen) -> Iterator[str]:
        where = f"{plan.settings['kind']} {plan.settings['where']}"
        yield screen.row("completed", f"shared over {where}", *_amounts(done))
        if done.conflicts:
            yield "  next: holdfast conflicts"
        elif done.streams:
            yield "  next: holdfast status"
        else:
            yield "  next: the same command in the repository on another machine"

    return Answer(fields, lines, keeper.drain_notes())


def _may_publish(plan: Publication, args: Arguments) -> bool:
    """Ask whether to publish; raise ``Refused`` if nobody can be asked."""
    listed = plan.listed()
    words = ["hub", "add", plan.settings["kind"], plan.settings["where"]]
    if args["name"]:
        words += ["--name", args["name"]]
    words += [f"--{option}" for option in ("yes", "public") if args[option]]
    tried = shell_line(words)
    if plan.is_public and not args["public"]:
        raise Refused(
            "public_hub",
            f"{tried}: {_IN_WORDS[True]}, what this repository's workflows say included",
            f"holdfast {tried} --public",
        )
    what = f"publish {join_names(listed)}" if listed else "publish what is recorded from now on"
    doubt = f"Note: {_IN_WORDS[plan.is_public]}.\n" if plan.is_doubtful else ""
    share = "Share this, and what is recorded from now on," if listed else "Share what is recorded"
    question = f"{doubt}{share} over {clean(plan.where)} as {clean(plan.settings['name'])}?"
    return confirm(tried, question, listed, args, would=what)


def _plan_lines(screen: Screen, plan: Publication) -> Iterator[str]:
    yield f"{clean(plan.where)} would get, under the name {clean(plan.settings['name'])}:"
    listed = plan.listed()
    for name in listed[:_MAX_SHOWN]:
        yield f"  {clean(name)}"
    if len(listed) > _MAX_SHOWN:
        yield f"  and {len(listed) - _MAX_SHOWN} more"
    if not listed:
        yield "  nothing yet, and what is recorded from now on"
    stays = "folders of this machine, process ids"
    output = "" if plan.settings["output"] else ", the output of gates and tests"
    yield screen.paint(f"  never sent: {stays}{output}", "dim")
    if plan.is_doubtful:
        yield screen.note(_IN_WORDS[plan.is_public])


def _with_bar(sharing: Sharing, args: Arguments, plan: Publication | None = None) -> Exchanged:
    """Exchange, behind a bar on a terminal; add the hub first if there is a plan."""
    bar = ProgressBar.on_terminal(args)
    draw = None if bar is None else bar.draw
    try:
        if plan is not None:
            return sharing.add(plan, progress=draw)
        return sharing.sync(wait=args["wait"], progress=draw)
    finally:
        if bar is not None:
            bar.clear()


def _amounts(done: Exchanged) -> list[str]:
    """Return what was exchanged, in words."""
    facts = [f"{counted(done.pushed, 'events')} sent, {done.pulled} received"]
    if done.streams:
        facts.append(f"changed elsewhere: {join_names(done.streams)}")
    if done.conflicts:
        facts.append(counted(done.conflicts, "conflicts"))
    return facts


@command(
    "hub sync: exchange with the hub now; hooks do it when a session starts and ends",
    Parameter("--wait", "wait for another exchange that is at work"),
    Parameter("--background", "say nothing, and end after five minutes: for hooks"),
    "holdfast hub sync",
    "holdfast hub sync --wait",
)
def sync(keeper: Keeper, args: Arguments) -> Answer:
    sharing = Sharing(keeper)
    if args["background"]:
        return _sync_in_background(sharing)
    done = _with_bar(sharing, args)
    fields = {name: getattr(done, name) for name in ("pulled", "pushed", "streams", "conflicts")}

    def lines(screen: Screen) -> Iterator[str]:
        yield screen.row("completed", "in step with the hub", *_amounts(done))
        if done.conflicts:
            yield "  next: holdfast conflicts"

    return Answer(fields, lines, keeper.drain_notes())


def _sync_in_background(sharing: Sharing) -> Answer:
    """Exchange once. What fails is kept for ``hub status``, and tried again later."""
    import signal

    # The signal ends the process, which is safe at any moment.
    signal.alarm(_BACKGROUND_S)
    try:
        sharing.sync()
    except HoldfastError:
        pass
    finally:
        signal.alarm(0)
    return Silence()


@command(
    "hub status: the hub, the machines that share over it, and what waits to be sent",
    "holdfast hub status",
)
def status(keeper: Keeper, _args: Arguments) -> Answer:
    fields = Sharing(keeper).status()
    return Answer(fields, lambda screen: _status_lines(screen, fields), keeper.drain_notes())


def _status_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    hub = fields["hub"]
    if hub is None:
        yield "This repository has no hub: what is recorded stays on this machine."
        yield "  next: holdfast hub add git origin --dry-run"
        return
    yield f"{clean(hub['kind'])} {clean(hub['where'])}{screen.dot}here: {clean(hub['name'])}"
    for row in fields["replicas"]:
        whose = "this machine" if row["own"] else f"last change {screen.age(row['at'])}"
        yield screen.row("completed", row["name"], counted(row["n"], "events"), whose)
    last = fields["last"]
    if last.get("failed"):
        yield screen.row("blocked", f"the last exchange failed {screen.age(last['at'])}")
        yield f"    {clean(last['failed'])}"
    elif last:
        yield screen.row("completed", f"last exchange {screen.age(last['at'])}")
    else:
        yield screen.row("pending", "no exchange yet")
    if fields["unsent"]:
        yield screen.row("pending", f"{counted(fields['unsent'], 'events')} to be sent")
    for stream in fields["held"]:
        yield screen.row("blocked", f"{stream} waits for a newer Holdfast on this machine")
    if fields["conflicts"]:
        yield screen.row("blocked", counted(fields["conflicts"], "conflicts"))
        yield "  next: holdfast conflicts"
    elif fields["unsent"] or last.get("failed"):
        yield "  next: holdfast hub sync"
    if not hub["fences"]:
        yield screen.note(_ADVISORY)


@command(
    "hub remove: share nothing any more; what was shared stays where it is",
    "holdfast hub remove",
)
def remove(keeper: Keeper, _args: Arguments) -> Answer:
    settings = Sharing(keeper).remove()
    done = f"{settings['kind']} {settings['where']} is no hub of this repository any more"
    removed = {name: settings[name] for name in ("kind", "where", "name")}
    return answer_done(done, {"removed": removed}, keeper.drain_notes())


@command(
    "conflicts: list what several machines did that does not go together",
    "holdfast conflicts",
    "holdfast conflicts --json",
)
def list_conflicts(keeper: Keeper, _args: Arguments) -> Answer:
    rows = Sharing(keeper).conflicts()
    return Answer({"conflicts": rows}, lambda screen: _conflict_lines(screen, rows))


def _conflict_lines(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    for row in rows:
        facts = [f"from {row['from']}", screen.age(row["at"])]
        about = f"{short_id(row['id'])}  {row['workflow']}  {row['command']}"
        yield screen.row("blocked", about, *facts)
        only = "" if row["can_take"] else " (can only be dropped)"
        yield f"    {clean(row['why'])}{only}"
    if not rows:
        yield "There are no conflicts."
        return
    first = clean(short_id(rows[0]["id"]))
    drop = f"holdfast conflicts drop {first} --reason TEXT   let it go"
    if not rows[0]["can_take"]:
        yield f"  next: {drop}"
        return
    yield f"  next: holdfast conflicts take {first}   carry it out after all"
    yield f"    or: {drop}"


_CONFLICT = Parameter(
    "ID", "the conflict, or the beginning of its id", into="conflict", kind="id", names="conflict"
)


@command(
    "conflicts take: carry out after all what a conflict is about",
    _CONFLICT,
    "holdfast conflicts take 6e583dfe",
)
def take(keeper: Keeper, args: Arguments) -> Answer:
    conflict = Sharing(keeper).take(args["conflict"])
    done = f"{conflict['workflow']}: {conflict['command']}, from {conflict['from']}, carried out"
    return answer_done(done, {"conflict": conflict}, keeper.drain_notes())


@command(
    "conflicts drop: let go of what a conflict is about",
    _CONFLICT,
    Parameter("--reason TEXT", "why", required=True),
    "holdfast conflicts drop 6e583dfe --reason 'done on the other machine'",
)
def drop(keeper: Keeper, args: Arguments) -> Answer:
    conflict = Sharing(keeper).drop(args["conflict"], args["reason"])
    done = f"{conflict['workflow']}: {conflict['command']}, from {conflict['from']}, let go"
    return answer_done(done, {"conflict": conflict}, keeper.drain_notes())
