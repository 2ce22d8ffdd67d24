"""The prompts for the worker of ``loop run``, one for each turn, and the meaning of its answers.

Stored text in a prompt is quoted as data, and so is a worker's answer. The prompt describes tags
instead of showing them, because some workers repeat their prompt in what they print.
"""

from __future__ import annotations

from holdfast.core.briefing import quoted
from holdfast.core.next_step import lessons
from holdfast.core.workflow.tasks import limit_of, signal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Task, Workflow

_DOTS = "…"
_MAX_QUOTED = 2_000
_MAX_LESSONS = 40
_MAX_ANSWER = 3_900
"""Characters of an answer that are kept; the core takes 4,000."""
_CONFIRMED_TAGS = ("<confirmed/>", "<confirmed />")


def prompt(state: Workflow, task: Task, turn: str) -> str:
    """Return the prompt for a turn: ``iterate``, ``confirm`` or ``verify``."""
    parts = [_about(state, task), *_INSTRUCTIONS[turn](task)]
    learned = [f"- {quoted(line, _MAX_QUOTED)}" for line in lessons(state)[-_MAX_LESSONS:]]
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
        lines.insert(1, f"Outcome needed: {quoted(outcome, _MAX_QUOTED)}")
    if task.get("criteria"):
        lines.append(f"Criteria: {quoted(task.get('criteria'), _MAX_QUOTED)}")
    listed: object = task.get("files")
    if isinstance(listed, list) and listed:
        lines.append(f"Files: {quoted(', '.join(map(str, listed)), _MAX_QUOTED)}")
    if task.get("output"):
        lines.append(f"Output: {quoted(task.get('output'))}")
    lines.append(f"Read first: {folder}/context.md, and {folder}/progress.md for what was done.")
    return "\n".join(lines)


def _iterate(task: Task) -> list[str]:
    number = task.get("iterations_used", 0) + 1
    parts = [f"This is iteration {number} of {limit_of(task)}."]
    if task.get("remaining"):
        parts.append(f"What remains: {quoted(task.get('remaining'), _MAX_QUOTED)}")
    if task.get("blockers"):
        parts.append(f"Blockers so far: {quoted(task.get('blockers'), _MAX_QUOTED)}")
    parts.append(
        "Work on the unit. End with a short account of what you did, and one of these tags, with "
        f"the words in place of the dots. What is left to do: <remaining>{_DOTS}</remaining>. Why "
        f"nobody can go on without a person: <blocked>{_DOTS}</blocked>. Only when every criterion "
        f"is met: <signal>{_DOTS}</signal>, with {signal_of(task)} in it."
    )
    return parts


def _confirm(task: Task) -> list[str]:
    return [
        "The unit was declared done. Go over it once more, against every criterion; mend nothing.",
        f"{_VERDICT} ({signal_of(task)} in <signal>{_DOTS}</signal> counts as confirmed.)",
    ]


def _verify(_task: Task) -> list[str]:
    return [
        "The unit was done and confirmed. Verify it: run its tests, review the result.",
        _VERDICT,
    ]


_VERDICT = (
    "When nothing is left, answer with the empty tag <NAME/>, where NAME is the word confirmed. "
    f"Else say what you found: <issues>{_DOTS}</issues>, with your words in place of the dots."
)
_INSTRUCTIONS = {"iterate": _iterate, "confirm": _confirm, "verify": _verify}


def parse_work(task: Task, output: str, exit_code: int | None) -> Fields:
    """Return the arguments that record an iteration; ``blocked`` is why the unit cannot go on."""
    signal = signal_of(task)
    args: Fields = {"did": _account(output) or "nothing that was told"}
    if f"<signal>{signal}</signal>" in output and exit_code == 0:
        return {**args, "signal": signal}
    remaining = _last_tag(output, "remaining") or task.get("remaining")
    args["remaining"] = remaining or "the criteria are not met yet"
    if exit_code != 0:
        args["blockers"] = _exit_text(exit_code)
    blocked = _last_tag(output, "blocked")
    return {**args, "blocked": blocked} if blocked else args


def parse_verdict(task: Task, output: str, exit_code: int | None) -> str | None:
    """Return the issues that a confirmation or a verification found; ``None`` if it was clean."""
    issues = _last_tag(output, "issues")
    if issues:
        return issues
    if exit_code != 0:
        return _exit_text(exit_code)
    signalled = f"<signal>{signal_of(task)}</signal>" in output
    is_clean = signalled or any(tag in output for tag in _CONFIRMED_TAGS)
    return None if is_clean else "the worker gave no verdict"


def _exit_text(exit_code: int | None) -> str:
    if exit_code is None:
        return "the worker was ended at its time limit"
    return f"the worker ended with exit code {exit_code}"


def _last_tag(output: str, tag: str) -> str:
    """Return the content of the last tag of this name; the dots of the prompt are no content."""
    _, opened, rest = output.rpartition(f"<{tag}>")
    text, closed, _ = rest.partition(f"</{tag}>")
    text = _clean(text) if opened and closed else ""
    return "" if text == _DOTS else text


def _account(output: str) -> str:
    """Return the last lines of an answer without its tags."""
    text = output
    for tag in ("signal", "remaining", "blocked", "issues"):
        before, opened, rest = text.rpartition(f"<{tag}>")
        _, closed, after = rest.partition(f"</{tag}>")
        text = f"{before}\n{after}" if opened and closed else text
    lines = [line.strip() for line in _clean(text).split("\n") if line.strip()]
    return "\n".join(lines[-8:])[-1_000:]


def _clean(text: str) -> str:
    """Return output as text that the core accepts."""
    kept = text.replace("\x00", "").encode(errors="replace").decode()
    return kept.strip()[-_MAX_ANSWER:]
