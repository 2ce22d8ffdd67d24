"""What a worker without a person is told for each turn of a unit, and what its answer means.

The words of a prompt are stored text and the worker's answer is a stranger's: both are data. The
tags are described and not written out, since some workers repeat their prompt in what they print.
"""

from __future__ import annotations

from holdfast.core.briefing import quoted
from holdfast.core.loop_turn import lessons
from holdfast.core.workflow import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Task, Workflow

_DOTS = "…"
_MOST = 2_000
_MOST_LESSONS = 40
_CUT = 3_900
_CONFIRMED = ("<confirmed/>", "<confirmed />")


def prompt(state: Workflow, task: Task, turn: str) -> str:
    """The text on the worker's standard input."""
    parts = [_about(state, task), *_MAKERS[turn](task)]
    learned = [f"- {quoted(line, _MOST)}" for line in lessons(state)[-_MOST_LESSONS:]]
    if learned:
        parts.append("\n".join(["Guardrails, learned from what went wrong:", *learned]))
    return "\n\n".join(parts) + "\n"


def _about(state: Workflow, task: Task) -> str:
    folder = state["record"].rpartition("/")[0]
    lines = [
        f"Loop {state['subject']}: {quoted(state['title'])}",
        f"Unit {quoted(task['id'])}: {quoted(task['description'])}",
    ]
    outcome = state["context"].get("outcome")
    if outcome:
        lines.insert(1, f"Outcome needed: {quoted(outcome, _MOST)}")
    if task.get("criteria"):
        lines.append(f"Criteria: {quoted(task.get('criteria'), _MOST)}")
    listed: object = task.get("files")
    if isinstance(listed, list) and listed:
        lines.append(f"Files: {quoted(', '.join(map(str, listed)), _MOST)}")
    if task.get("output"):
        lines.append(f"Output: {quoted(task.get('output'))}")
    lines.append(f"Read first: {folder}/context.md, and {folder}/progress.md for what was done.")
    return "\n".join(lines)


def _work(task: Task) -> list[str]:
    used, most = task.get("iterations_used", 0), units.limit_of(task)
    parts = [f"This is iteration {used + 1} of {most}."]
    if task.get("remaining"):
        parts.append(f"What remains: {quoted(task.get('remaining'), _MOST)}")
    if task.get("blockers"):
        parts.append(f"Blockers so far: {quoted(task.get('blockers'), _MOST)}")
    parts.append(
        "Work on the unit. End with a short account of what you did, and one of these tags, with "
        f"the words in place of the dots. What is left to do: <remaining>{_DOTS}</remaining>. Why "
        f"nobody can go on without a person: <blocked>{_DOTS}</blocked>. Only when every criterion "
        f"is met: <signal>{_DOTS}</signal>, with {units.signal_of(task)} in it."
    )
    return parts


def _confirming(task: Task) -> list[str]:
    return [
        "The unit was declared done. Go over it once more, against every criterion; mend nothing.",
        f"{_VERDICT} ({units.signal_of(task)} in <signal>{_DOTS}</signal> counts as confirmed.)",
    ]


def _verifying(_task: Task) -> list[str]:
    return [
        "The unit was done and confirmed. Verify it: run its tests, review the result.",
        _VERDICT,
    ]


_VERDICT = (
    "When nothing is left, answer with the empty tag <NAME/>, where NAME is the word confirmed. "
    f"Else say what you found: <issues>{_DOTS}</issues>, with your words in place of the dots."
)
_MAKERS = {"iterate": _work, "confirm": _confirming, "verify": _verifying}


def worked(task: Task, output: str, exit_code: int | None) -> Fields:
    """What an iteration came to: the arguments of its record; ``blocked`` says why it stops."""
    signal = units.signal_of(task)
    said: Fields = {"did": _account(output) or "nothing that was told"}
    if f"<signal>{signal}</signal>" in output and exit_code == 0:
        return {**said, "signal": signal}
    remaining = _between(output, "remaining") or task.get("remaining")
    said["remaining"] = remaining or "the criteria are not met yet"
    if exit_code != 0:
        said["blockers"] = _ended(exit_code)
    blocked = _between(output, "blocked")
    return {**said, "blocked": blocked} if blocked else said


def found(task: Task, output: str, exit_code: int | None) -> str | None:
    """What a confirmation or a verification found; ``None`` when it was clean."""
    issues = _between(output, "issues")
    if issues:
        return issues
    if exit_code != 0:
        return _ended(exit_code)
    signalled = f"<signal>{units.signal_of(task)}</signal>" in output
    is_clean = signalled or any(tag in output for tag in _CONFIRMED)
    return None if is_clean else "the worker gave no verdict"


def _ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "the worker was ended at its time limit"
    return f"the worker ended with exit code {exit_code}"


def _between(output: str, tag: str) -> str:
    """What stands in the last tag of this name; the dots of the prompt are nothing."""
    _, opened, rest = output.rpartition(f"<{tag}>")
    text, closed, _ = rest.partition(f"</{tag}>")
    text = _plain(text) if opened and closed else ""
    return "" if text == _DOTS else text


def _account(output: str) -> str:
    """The end of what the worker said beside its tags."""
    text = output
    for tag in ("signal", "remaining", "blocked", "issues"):
        before, opened, rest = text.rpartition(f"<{tag}>")
        _, closed, after = rest.partition(f"</{tag}>")
        text = f"{before}\n{after}" if opened and closed else text
    lines = [line.strip() for line in _plain(text).split("\n") if line.strip()]
    return "\n".join(lines[-8:])[-1_000:]


def _plain(text: str) -> str:
    """Text that the core takes: a program may print anything."""
    kept = text.replace("\x00", "").encode(errors="replace").decode()
    return kept.strip()[-_CUT:]
