"""``holdfast search``: find what happened by its words."""

from __future__ import annotations

from holdfast.cli.answer import Answer
from holdfast.cli.parser import Parameter, command
from holdfast.cli.screen import ProgressBar, Screen, next_lines
from holdfast.core.next_step import NextStep
from holdfast.core.refusal import shell_line
from holdfast.core.visible import clean
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

_LIMIT = 20


@command(
    "search: find events, learnings and loops' logs by their words, the best match first",
    Parameter("WORD...", "words that must all be in it, or begin words in it", into="words"),
    Parameter("--limit N", f"at most N (default: {_LIMIT})", kind="count"),
    Parameter("--all", "in all of your repositories, not only in this one"),
    "holdfast search flaky timeout",
    "holdfast search 'clean cache' --all --limit 5",
)
def search(keeper: Keeper, args: Arguments) -> Answer:
    words = " ".join(args["words"])
    if args["workflow"]:
        command = ["holdfast", "log", args["workflow"], "--grep", words]
        message = "search: it looks in all workflows, so -w cannot choose one"
        raise Refused("invalid", message, shell_line(command))
    bar = ProgressBar.on_terminal(args)
    found = keeper.search(
        words,
        limit=args["limit"] or _LIMIT,
        everywhere=args["all"],
        progress=None if bar is None else bar.draw,
    )
    if bar is not None:
        bar.clear()
    here = keeper.workspace.project

    def lines(screen: Screen) -> Iterator[str]:
        for hit in found["hits"]:
            yield from hit_lines(screen, hit, here)
        if not found["hits"]:
            where = f" in {len(found['repositories'])} repositories" if args["all"] else " here"
            yield f"Nothing{where} has all of these words."
        else:
            yield from next_lines(screen, _step_to(found["hits"][0], here))

    return Answer(found, lines, keeper.drain_notes())


def hit_lines(screen: Screen, hit: Fields, here: str) -> Iterator[str]:
    """Yield where a hit is, and below it a piece of its text with the words marked."""
    number = "" if hit["seq"] is None else f"event {hit['seq']}"
    place = "" if hit["repository"] == here else hit["repository"]
    facts = screen.dim(hit["type"], number, screen.age(hit["at"]), place)
    title = clean(hit["title"] or "")
    is_log = hit["stream"].startswith("_")
    name = "" if is_log else screen.paint(clean(hit["stream"]), "strong")
    kind = screen.paint(clean(hit["kind"]), "active")
    yield f"{kind}  {name}  {title}".rstrip()
    yield f"    {facts}"
    yield f"    {_marked(screen, hit['text'], hit['marks'])}"


def _marked(screen: Screen, text: str, marks: list[list[int]]) -> str:
    """Return the text with the words that were found in a colour, or in brackets without one."""
    line, position = "", 0
    for begin, end in marks:
        word = clean(text[begin:end])
        line += clean(text[position:begin])
        line += screen.paint(word, "good") if screen.colour else f"[{word}]"
        position = end
    return line + clean(text[position:])


def _step_to(hit: Fields, here: str) -> NextStep:
    """Return the command that opens a hit, which may be in another repository."""
    if hit["repository"] == here:
        return NextStep("the best match", hit["open"][1:])
    step = NextStep("", hit["open"][1:])
    return NextStep(f"then {step.text}", [hit["repository"]], program="cd")
