"""What happened, for people: each prompt and briefing, each call of a tool and its answer."""

from pathlib import Path

from briefings import briefings
from stub import prompts

LINES = 6


def answers(requests):
    """What each call was answered, by the number of the reply that made it."""
    parts = [part for request in requests for part in request.parts]
    return {part.number: part.text for part in parts if part.kind == "result"}


def transcript(requests):
    """The lines that tell what a client asked its model, and what the model did."""
    found = answers(requests)
    is_asked, known = True, ""
    for request in requests:
        if request.sums_up:
            yield "\n=== summed up ==="
            continue
        if is_asked:
            prompt = request.parts[prompts(request.parts)[-1]].text
            yield from ("\n=== asked ===", *_indented(prompt.splitlines(), LINES))
        briefing = (briefings(request) or [""])[-1]
        if briefing not in ("", known):
            yield from ("\n=== briefed ===", *_indented(briefing.splitlines()))
        is_asked, known = request.reply.call is None, briefing
        yield from _done(request.reply, found.get(request.reply.number, "(never told)"))


def _done(reply, answer):
    """What the model did, and how the answer begins."""
    if reply.hangs:
        yield "\n=== killed ==="
    elif reply.call is None:
        yield f"\n> {reply.text}"
    elif reply.call[0] == "Bash":
        yield from (f"\n$ {reply.call[1]['command']}", *_indented(answer.splitlines(), LINES))
    else:
        yield f"\n{reply.call[0]} {Path(reply.call[1]['file_path']).name}"


def _indented(lines, most=None):
    yield from (f"    {line}" for line in lines[:most])
    if most is not None and len(lines) > most:
        yield f"    … and {len(lines) - most} lines more"
