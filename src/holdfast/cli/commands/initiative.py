"""Commands of initiatives: goals that last for months, milestone by milestone."""

from __future__ import annotations

from holdfast.answers.text import clean
from holdfast.cli.answer import page
from holdfast.cli.grammar import GROUPS, argument, command, flag, option
from holdfast.cli.screen import bar, cells, padded, shortened
from holdfast.core.initiatives import CREATE, current_of
from holdfast.core.refusal import word
from holdfast.initiatives.initiatives import Initiatives
from holdfast.keeper.initiative_link import initiative_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Answer
    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper, Receipt

GROUPS["initiative"] = "goals that last for months, milestone by milestone"

_MILESTONE = argument("MILESTONE", "its id, such as M1", values="milestone")
_NAME = argument("NAME", "its name, or that of its folder", values="initiative")
_MAYBE = argument("NAME", "another than the current one", count="maybe", values="initiative")

_TITLE_MAX, _TITLE_MIN = 60, 12
_BAR, _SHORT_BAR, _NARROW = 20, 10, 80
_COUNT_COLUMNS = 7


@command(
    "initiative create",
    "begin an initiative; it is the current one",
    argument("TITLE", "what it is called", into="name"),
    option(
        "--milestone",
        "ID: TITLE",
        "a milestone, such as 'M1: Map the readers'",
        into="milestones",
        many=True,
        required=True,
    ),
    flag("--files", "write a page with its milestones, for people to read and tick"),
    examples=("holdfast initiative create 'Tidy billing' --milestone 'M1: Map' --milestone M2",),
)
def create(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).create(
        args["name"], args["milestones"], files=args["files"], id=args["id"]
    )
    return _answer(receipt, f"initiative {args['name']} created")


@command(
    "initiative start",
    "start a milestone, or go back to one that is open",
    _MILESTONE,
    examples=("holdfast initiative start M1",),
)
def start(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).start(args["milestone"], id=args["id"])
    return _answer(receipt, f"milestone {args['milestone']} started")


@command(
    "initiative task",
    "add a task to a milestone, or tick it",
    _MILESTONE,
    argument("TEXT", "one line"),
    flag("--done", "it is done"),
    examples=("holdfast initiative task M1 'List all readers' --done",),
)
def task(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).task(
        args["milestone"], args["text"], done=args["done"], id=args["id"]
    )
    became = "done" if args["done"] else "added"
    return _answer(receipt, f"task of {args['milestone']} {became}: {args['text']}")


@command(
    "initiative complete",
    "complete a milestone; the next one is current",
    _MILESTONE,
    examples=("holdfast initiative complete M1",),
)
def complete(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).complete(args["milestone"], id=args["id"])
    return _answer(receipt, f"milestone {args['milestone']} completed")


@command(
    "initiative block",
    "say that the initiative cannot go on",
    option("--reason", "TEXT", "why", required=True),
    examples=("holdfast initiative block --reason 'waits for the contract'",),
)
def block(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).block(args["reason"], id=args["id"])
    return _answer(receipt, f"blocked: {args['reason']}")


@command("initiative unblock", "say that it goes on", examples=("holdfast initiative unblock",))
def unblock(keeper: Keeper, args: Arguments) -> Answer:
    return _answer(Initiatives(keeper).unblock(id=args["id"]), "it goes on")


@command(
    "initiative finish",
    "complete the initiative, for good",
    flag("--force", "although milestones are open"),
    option("--reason", "TEXT", "why, with --force"),
    examples=("holdfast initiative finish", "holdfast initiative finish --force --reason 'sold'"),
)
def finish(keeper: Keeper, args: Arguments) -> Answer:
    options = {name: args[name] for name in ("force", "reason", "id")}
    return _answer(Initiatives(keeper).finish(**options), "initiative completed")


@command(
    "initiative archive",
    "archive an initiative that is completed",
    examples=("holdfast initiative archive",),
)
def archive(keeper: Keeper, args: Arguments) -> Answer:
    return _answer(Initiatives(keeper).archive(id=args["id"]), "initiative archived")


@command(
    "initiative show",
    "show where it stands: milestones, tasks, files and workflows",
    _MAYBE,
    examples=("holdfast initiative show", "holdfast initiative show 'Tidy billing' --json"),
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    fields, notes = Initiatives(keeper).show(args["name"])
    return page(fields, lambda screen: initiative_page(screen, fields), notes)


@command(
    "initiative use",
    "make another initiative the current one",
    _NAME,
    examples=("holdfast initiative use tidy-billing",),
)
def use(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).use(args["name"], id=args["id"])
    return _answer(receipt, f"{args['name']} is the current initiative")


@command(
    "initiative sync",
    "compare all that tells where it stands, and mend what is stale",
    option("--from", "files", "take what the milestone files say", into="source"),
    examples=("holdfast initiative sync", "holdfast initiative sync --from files"),
)
def sync(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).sync(source=args["source"], id=args["id"])
    return _answer(receipt, "all sources agree")


@command(
    "initiative recover",
    "make a checkpoint from milestone files, where nothing else is left",
    argument("NAME", "its folder, where there are several", count="maybe", values="initiative"),
    examples=("holdfast initiative recover", "holdfast initiative recover tidy-billing"),
)
def recover(keeper: Keeper, args: Arguments) -> Answer:
    receipt = Initiatives(keeper).recover(args["name"], id=args["id"])
    return _answer(receipt, "recovered, and a fresh checkpoint written")


def _answer(receipt: Receipt, done: str) -> Answer:
    """Answer a command that changed an initiative; ``done`` says what it did."""
    state = receipt.state
    current = current_of(state)
    initiative = None if current is None else initiative_view(str(state["current"]), current)

    def lines(screen: Screen) -> Iterator[str]:
        about = f"  {screen.paint(_position(screen, initiative), 'dim')}" if initiative else ""
        yield f"{screen.mark('completed')} {clean(done)}{about}"
        if initiative:
            yield f"  next: {clean(initiative['next'])}"

    return page({"initiative": initiative, "seqs": receipt.seqs}, lines, receipt.notes)


def initiative_page(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield an initiative with its milestones, and all that belongs to it."""
    initiative = fields["initiative"]
    if initiative is None:
        yield "No initiative is known here."
        yield from _elsewhere(screen, fields)
        if not fields["recoverable"]:
            yield screen.paint(f"  next: {CREATE}", "dim")
        return
    name = screen.paint(clean(initiative["name"]), "strong")
    position = screen.paint(_position(screen, initiative), "dim")
    yield f"{_mark(screen, initiative['status'])} {name}  {position}"
    if initiative.get("reason"):
        yield "  " + screen.paint(f"blocked: {clean(initiative['reason'])}", "warn")
    yield ""
    yield from _milestones(screen, initiative)
    yield from _workflows(screen, fields["workflows"])
    yield from _files(screen, fields)
    yield from _elsewhere(screen, fields)
    yield ""
    yield f"  next: {clean(initiative['next'])}"


def _position(screen: Screen, initiative: Fields) -> str:
    facts = [
        initiative["status"].replace("_", " "),
        f"milestones {initiative['completed']}/{initiative['total']}",
    ]
    if initiative["current_milestone"] and initiative["status"] not in ("completed", "archived"):
        facts.insert(1, f"current {initiative['current_milestone']}")
    return clean(screen.dot().join([*facts, screen.age(initiative["updated_at"])]))


def _mark(screen: Screen, status: str) -> str:
    known = {"created": "pending", "archived": "completed"}
    return screen.mark(known.get(status, status))


def _milestones(screen: Screen, initiative: Fields) -> Iterator[str]:
    widest = max(
        [cells(clean(milestone["id"])) for milestone in initiative["milestones"]], default=0
    )
    length = _BAR if (screen.width or _NARROW) >= _NARROW else _SHORT_BAR
    longest = _TITLE_MAX
    if screen.width is not None:
        free = screen.width - (widest + length + _COUNT_COLUMNS + 8)
        longest = max(_TITLE_MIN, min(_TITLE_MAX, free))
    titles = [
        shortened(clean(milestone["title"]), longest) for milestone in initiative["milestones"]
    ]
    room = max([cells(title) for title in titles], default=0)
    for milestone, title in zip(initiative["milestones"], titles, strict=True):
        done = sum(task["done"] for task in milestone["tasks"])
        total = len(milestone["tasks"])
        is_completed = milestone["status"] == "completed"
        share = 1.0 if is_completed else (done / total if total else 0.0)
        counted = f"{done}/{total}" if total else ("done" if is_completed else "")
        is_current = milestone["id"] == initiative["current_milestone"] and not is_completed
        name = padded(clean(milestone["id"]), widest)
        yield (
            f"  {screen.mark(milestone['status'])} "
            f"{screen.paint(name, 'strong') if is_current else name}  {padded(title, room)}  "
            f"{bar(screen, share, length)} {counted}"
        ).rstrip()
        if is_current:
            for task in milestone["tasks"]:
                mark = screen.mark("completed" if task["done"] else "pending")
                yield f"      {mark} {clean(task['text'])}"


def _workflows(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    if rows:
        yield ""
        yield "  " + screen.paint("Workflows", "strong")
    for row in rows:
        facts = [row["milestone"] or "", row["status"].replace("_", " ")]
        if row["phase"] and row["status"] in ("in_progress", "blocked"):
            facts.append(f"phase {row['phase_index']}/{row['phase_total']} {row['phase']}")
        about = screen.paint(clean(screen.dot().join([fact for fact in facts if fact])), "dim")
        known = {"abandoned": "pending", "expired": "pending"}
        mark = screen.mark(known.get(str(row["status"])) or str(row["status"]))
        yield f"  {mark} {clean(row['id'])}  {clean(row['title'])}  {about}"


def _files(screen: Screen, fields: Fields) -> Iterator[str]:
    paths = [path for path in (fields["status_file"], *fields["pages"]) if path]
    if paths:
        yield ""
        yield "  " + screen.paint("Files", "strong")
    for path in paths:
        yield "  " + screen.paint(clean(path), "dim")
    for text in fields["disagreements"]:
        yield "  " + screen.paint(clean(text), "warn")


def _elsewhere(screen: Screen, fields: Fields) -> Iterator[str]:
    if fields["others"]:
        yield ""
        yield "  " + screen.paint("Other initiatives", "strong")
    for other in fields["others"]:
        about = screen.paint(other["status"].replace("_", " "), "dim")
        yield f"  {_mark(screen, other['status'])} {clean(other['name'])}  {about}"
    if fields["recoverable"]:
        yield ""
        yield "  " + screen.paint("Found in the milestone files", "strong")
    for folder in fields["recoverable"]:
        yield f"  {clean(folder)}: holdfast initiative recover {clean(word(folder))}"
