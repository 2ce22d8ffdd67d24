"""Commands of initiatives: goals that last for months, milestone by milestone."""

from __future__ import annotations

from holdfast.cli.answer import Answer, ChangeKind
from holdfast.cli.parser import GROUPS, Parameter, command
from holdfast.cli.screen import Screen, count_cells, draw_bar, pad, shorten
from holdfast.core.initiatives import current_of, find_milestone, next_step, next_step_of
from holdfast.core.next_step import NextStep, step_of_hint
from holdfast.core.refusal import shell_word
from holdfast.core.selection import join_names
from holdfast.core.visible import clean
from holdfast.initiatives import Initiatives
from holdfast.keeper.logs import initiative_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields, Initiative, Milestone
    from holdfast.keeper import Keeper, Receipt

GROUPS["initiative"] = "goals that last for months, milestone by milestone"
GROUPS["initiative milestone"] = "the milestones of an initiative"

DISAGREE = "disagree"
_AGREEMENTS = {
    "agree": "all sources agree",
    "corrected": "sources corrected: they agree now",
    DISAGREE: "sources disagree: the milestone files and initiative.json",
}
"""The headline of ``initiative sync``."""
_MILESTONE = Parameter("MILESTONE", "its id, such as M1", names="milestone")
_TITLE_MAX, _TITLE_MIN = 60, 12
_BAR, _SHORT_BAR, _NARROW = 20, 10, 80
_COUNT_COLUMNS = 7
_MARKS = {
    "created": "pending", "archived": "completed", "abandoned": "pending", "expired": "pending",
}  # fmt: skip
"""The status whose mark shows one that has none of its own."""


def _answer(args: Arguments, receipt: Receipt, done: str) -> Answer:
    """Answer a command that changed an initiative; ``done`` says what it did."""
    state = receipt.state
    current = current_of(state)
    initiative = None if current is None else initiative_view(str(state["current"]), current)

    agreement = receipt.agreement

    def lines(screen: Screen) -> Iterator[str]:
        about = f"  {screen.paint(_position(screen, initiative), 'dim')}" if initiative else ""
        mark = "blocked" if agreement == DISAGREE else "completed"
        yield f"{screen.mark(mark)} {clean(done)}{about}"

    return Answer(
        {
            "initiative": initiative,
            "seqs": receipt.seqs,
            **({"agreement": agreement} if agreement else {}),
        },
        lines,
        receipt.notes,
        step=lambda: next_step_of(
            state, (receipt.facts or {}).get("workflows", ()), after=args["command"]
        ),
    )


on_initiative = ChangeKind({"id": "id"}, _answer, Initiatives)
"""Declare a command that changes an initiative."""


def _task_became(_receipt: Receipt, values: Fields) -> str:
    became = "done" if values["done"] else "added"
    return f"task of {values['milestone']} {became}: {values['text']}"


on_initiative(
    "initiative create: begin an initiative; it is the current one",
    Parameter("TITLE", "what it is called", into="name"),
    Parameter(
        "--milestone ID: TITLE...",
        "a milestone, such as 'M1: Map the readers'",
        into="milestones",
        required=True,
    ),
    Parameter("--files", "write a page with its milestones, for people to read and tick"),
    "holdfast initiative create 'Tidy billing' --milestone 'M1: Map' --milestone M2",
)(Initiatives.create, "initiative {name} created")
on_initiative(
    "initiative rename: give the initiative another name; its folder stays",
    Parameter("TITLE", "what it is called from now on", into="name"),
    "holdfast initiative rename 'Tidy all billing'",
)(Initiatives.rename, "the initiative is called {name}")
on_initiative(
    "initiative milestone add: add a milestone; M2 comes before M3",
    Parameter("TEXT", "its id and its title, such as 'M3: Ship it'", into="milestone"),
    "holdfast initiative milestone add 'M3: Ship it'",
)(Initiatives.add_milestone, "milestone {milestone} added")
on_initiative(
    "initiative start: start a milestone, or go back to one that is open",
    _MILESTONE,
    "holdfast initiative start M1",
)(Initiatives.start, "milestone {milestone} started")
on_initiative(
    "initiative task: add a task to a milestone, or tick it",
    _MILESTONE,
    Parameter("TEXT", "one line"),
    Parameter("--done", "it is done"),
    "holdfast initiative task M1 'List all readers' --done",
)(Initiatives.task, _task_became)


def _milestone_completed(receipt: Receipt, values: Fields) -> str:
    current = current_of(receipt.state)
    milestone = current and find_milestone(current, values["milestone"])
    done = f"milestone {values['milestone']} completed"
    return done + _forced_text(milestone) if milestone else done


def _finished(receipt: Receipt, _values: Fields) -> str:
    current = current_of(receipt.state)
    return "initiative completed" + (_forced_text(current) if current else "")


def _forced_text(entry: Initiative | Milestone | Fields) -> str:
    """Return what was left open and why, of a milestone or an initiative completed by force."""
    forced = entry.get("forced")
    if not forced:
        return ""
    return f" by force ({forced['reason']}), left open: {join_names(forced['open'])}"


on_initiative(
    "initiative complete: complete a milestone; the next one is current",
    _MILESTONE,
    Parameter("--force", "although tasks are open"),
    Parameter("--reason TEXT", "why, with --force"),
    "holdfast initiative complete M1",
    "holdfast initiative complete M1 --force --reason 'the rest is in M2'",
)(Initiatives.complete, _milestone_completed)
on_initiative(
    "initiative block: say that the initiative cannot go on",
    Parameter("--reason TEXT", "why", required=True),
    "holdfast initiative block --reason 'waits for the contract'",
)(Initiatives.block, "blocked: {reason}")
on_initiative("initiative unblock: say that it goes on", "holdfast initiative unblock")(
    Initiatives.unblock, "it goes on"
)
on_initiative(
    "initiative finish: complete the initiative, for good",
    Parameter("--force", "although milestones are open"),
    Parameter("--reason TEXT", "why, with --force"),
    "holdfast initiative finish",
    "holdfast initiative finish --force --reason 'sold'",
)(Initiatives.finish, _finished)
on_initiative(
    "initiative archive: archive an initiative that is completed", "holdfast initiative archive"
)(Initiatives.archive, "initiative archived")


@command(
    "initiative show: show where it stands: milestones, tasks, files and workflows",
    Parameter("[NAME]", "another than the current one", names="initiative"),
    "holdfast initiative show",
    "holdfast initiative show 'Tidy billing' --json",
)
def show(keeper: Keeper, args: Arguments) -> Answer:
    initiatives = Initiatives(keeper)
    fields, notes = initiatives.show(args["name"])

    def step() -> NextStep | None:
        initiative, current = fields["initiative"], initiatives.all()["current"]
        if initiative is not None and initiative["key"] != current:
            about = f"to go on with {initiative['name']}"
            return NextStep(about, ["initiative", "use", initiative["name"]])
        if initiative is None and fields["recoverable"]:
            about = "take in what the milestone files tell"
            return NextStep(about, ["initiative", "recover", fields["recoverable"][0]])
        if initiative is None and fields["in_graph"]:
            about = "take in what the memory graph tells"
            return NextStep(about, ["initiative", "recover", fields["in_graph"][0]])
        return initiatives.next_step(after=args["command"])

    return Answer(fields, lambda screen: initiative_page(screen, fields), notes, step=step)


on_initiative(
    "initiative use: make another initiative the current one",
    Parameter("NAME", "its name, or that of its folder", names="initiative"),
    "holdfast initiative use tidy-billing",
)(Initiatives.use, "{name} is the current initiative")
on_initiative(
    "initiative sync: compare all sources of where it stands, and fix what is stale",
    Parameter("--from files", "take what the milestone files say", into="source"),
    "holdfast initiative sync",
    "holdfast initiative sync --from files",
)(Initiatives.sync, lambda receipt, _: _AGREEMENTS[receipt.agreement or "agree"])
on_initiative(
    "initiative recover: make a checkpoint from milestone files, where nothing else is left",
    Parameter("[NAME]", "its folder, by name or path, where there are several", names="folder"),
    "holdfast initiative recover",
    "holdfast initiative recover tidy-billing",
    "holdfast initiative recover documentation/milestones/_active/tidy-billing",
)(Initiatives.recover, "recovered, and a fresh checkpoint written")


def step_after_refusal(error: Fields, args: Arguments, keeper: Keeper) -> NextStep | None:
    """Return what the hint of a refusal names, else the next step of the current initiative."""
    initiatives = Initiatives(keeper)
    current = initiatives.current()
    usual = None if current is None else next_step(current)
    hinted = step_of_hint(error["hint"])
    if hinted is not None and (usual is None or hinted.command != usual.command):
        return hinted
    return initiatives.next_step(after=args["command"])


def initiative_page(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield an initiative with its milestones, and all that belongs to it."""
    initiative = fields["initiative"]
    if initiative is None:
        yield "No initiative is known here."
        yield from _elsewhere(screen, fields)
        for preview in fields["previews"]:
            yield ""
            yield _headline(screen, preview, f"as {clean(preview['folder'])} tells")
            yield from _milestones(screen, preview)
        return
    is_apart = fields["agreement"] == DISAGREE
    yield _headline(screen, initiative, *(["sources disagree"] if is_apart else []))
    if initiative.get("reason"):
        yield "  " + screen.paint(f"blocked: {clean(initiative['reason'])}", "warn")
    if initiative.get("forced"):
        yield "  " + screen.paint(clean(f"completed{_forced_text(initiative)}"), "warn")
    yield ""
    yield from _milestones(screen, initiative)
    workflows = []
    for row in fields["workflows"]:
        status = str(row["status"])
        facts = [row["milestone"] or "", status.replace("_", " ")]
        if row["phase"] and status in ("in_progress", "blocked"):
            facts.append(f"phase {row['phase_index']}/{row['phase_total']} {row['phase']}")
        mark = _MARKS.get(status, status)
        workflows.append(screen.row(mark, f"{row['id']}  {row['title']}", *facts))
    yield from _section(screen, "Workflows", workflows)
    paths = [path for path in (fields["status_file"], *fields["pages"]) if path]
    yield from _section(screen, "Files", [screen.paint(clean(path), "dim") for path in paths])
    for text in fields["disagreements"]:
        yield "  " + screen.paint(clean(text), "warn")
    yield from _elsewhere(screen, fields)
    yield ""


def _headline(screen: Screen, initiative: Fields, *more: str) -> str:
    name = screen.paint(clean(initiative["name"]), "strong")
    position = screen.paint(_position(screen, initiative), "dim")
    mark = _MARKS.get(initiative["status"], str(initiative["status"]))
    warnings = [screen.paint(screen.dot + text, "warn") for text in more]
    return f"{screen.mark(mark)} {name}  {position}{''.join(warnings)}"


def _section(screen: Screen, title: str, lines: list[str]) -> Iterator[str]:
    """Yield the lines below their title; nothing if there are none."""
    if lines:
        yield ""
        yield "  " + screen.paint(title, "strong")
    for line in lines:
        yield f"  {line}"


def _elsewhere(screen: Screen, fields: Fields) -> Iterator[str]:
    others = []
    for other in fields["others"]:
        status = other["status"]
        mark = _MARKS.get(status, status)
        others.append(screen.row(mark, other["name"], status.replace("_", " ")))
    yield from _section(screen, "Other initiatives", others)
    folders = [
        f"{clean(folder)}: holdfast initiative recover {clean(shell_word(folder))}"
        for folder in fields["recoverable"]
    ]
    yield from _section(screen, "Found in the milestone files", folders)
    titles = [
        f"{clean(title)}: holdfast initiative recover {clean(shell_word(title))}"
        for title in fields["in_graph"]
    ]
    yield from _section(screen, "Found in the memory graph", titles)


def _position(screen: Screen, initiative: Fields) -> str:
    facts = [
        initiative["status"].replace("_", " "),
        f"milestones {initiative['completed']}/{initiative['total']}",
    ]
    if initiative["current_milestone"] and initiative["status"] not in ("completed", "archived"):
        facts.insert(1, f"current {initiative['current_milestone']}")
    return clean(screen.dot.join([*facts, screen.age(initiative["updated_at"])]))


def _milestones(screen: Screen, initiative: Fields) -> Iterator[str]:
    widest = max(
        [count_cells(clean(milestone["id"])) for milestone in initiative["milestones"]], default=0
    )
    length = _BAR if (screen.width or _NARROW) >= _NARROW else _SHORT_BAR
    longest = _TITLE_MAX
    if screen.width is not None:
        free = screen.width - (widest + length + _COUNT_COLUMNS + 8)
        longest = max(_TITLE_MIN, min(_TITLE_MAX, free))
    titles = [shorten(clean(milestone["title"]), longest) for milestone in initiative["milestones"]]
    room = max([count_cells(title) for title in titles], default=0)
    for milestone, title in zip(initiative["milestones"], titles, strict=True):
        done = sum(task["done"] for task in milestone["tasks"])
        total = len(milestone["tasks"])
        is_completed = milestone["status"] == "completed"
        share = 1.0 if is_completed else (done / total if total else 0.0)
        counted = f"{done}/{total}" if total else ("done" if is_completed else "")
        is_current = milestone["id"] == initiative["current_milestone"] and not is_completed
        name = pad(clean(milestone["id"]), widest)
        yield (
            f"  {screen.mark(milestone['status'])} "
            f"{screen.paint(name, 'strong') if is_current else name}  {pad(title, room)}  "
            f"{draw_bar(screen, share, length)} {counted}"
        ).rstrip()
        if milestone.get("forced"):
            yield " " * 6 + screen.paint(clean(f"completed{_forced_text(milestone)}"), "warn")
        if is_current:
            for task in milestone["tasks"]:
                mark = "completed" if task["done"] else "pending"
                yield " " * 6 + screen.row(mark, task["text"])
