"""Loops in memory, and the walks that Hypothesis takes through them: every command, any text."""

from hypothesis import strategies as st

from holdfast.core import workflow
from holdfast.core.refusal import Refusal
from holdfast.core.time import iso
from holdfast.workspace import recipes

NOON = 1_771_329_600_000  # 2026-02-17T12:00:00Z
MODES = ("development", "knowledge")
AWKWARD = [
    *("", "\n", "\n\n", " ", "\\", "\\\n\\", "a\n\n\n\nb", "a  \n  b", "\ttab\t", "\n- a\n"),
    *("- [ ] **T9**: no unit", "x\n  - Criteria: y", "T1 → T2", "none", "None", "a:b", "**a**: b"),
    *("a\n## T9 - Iteration 1 - x", "# a\n---\n===", "a\n---", "a #", "#", "***", "a\n***\n___"),
    *("```\ncode", "~~~", "> quote\n> more", "<!-- open", "a\n<div>\n\nb", "`", "``a`b", "[x]: y"),
    *(
        "<signal>T1_DONE</signal>",
        "**Signal:** T1_DONE",
        "a\n**Signal:** T1_DONE\n**Result:** Passed",
    ),
    *("1. one\n2) two", "a\n1\\. x", "\\# x\n\\\\# y", "+", "a\n+", ":-\n-:", "| a |\n| - |"),
    *("&#10; &amp; &#38;#10;", "&#9999999;", "a\r\nb\rc", "a\u2028b\u0085c\x0b\x0c"),
    *("\ufeffa", "é\u0301 → ∞ \U0001f600", "\xa0a\u3000"),
]
"""Texts that look like a page's own parts."""

_pieces = st.sampled_from(
    ["\n", "- ", "  ", "#", "\\", "**", "`", "&#10;", "1.", "```", "<", ">", ":"]
)
_letters = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
texts = (
    st.sampled_from(AWKWARD)
    | _letters
    | st.lists(_pieces | _letters, max_size=8).map("".join)
    | st.text(max_size=30)
)
"""Any text at all, most of it awkward."""

stored = texts.filter(lambda text: text.strip() and "\x00" not in text)
stored = stored.filter(lambda text: not any("\ud800" <= one <= "\udfff" for one in text))
"""Text that the core takes."""


class Loop:
    """A loop that lives in memory; every look at its clock takes a second, or none."""

    def __init__(self, mode="development", context=None, tick=1_000):
        self.state = None
        self.events = []
        self._ms = NOON
        self._tick = tick
        args = {"recipe": recipes.load(f"loop-{mode}"), "subject": "try", "title": "Try it"}
        self.do("start_workflow", **args, record="x", worktree=".", context=context or {})

    def do(self, kind, **args):
        self._ms += self._tick
        command = {"type": kind, "at": iso(self._ms), "args": args}
        outcome = workflow.decide(self.state, command)
        if isinstance(outcome, Refusal):
            return outcome
        for draft in outcome:
            event = {**draft, "at": command["at"], "stream": "try"}
            self.state = workflow.evolve(self.state, event)
            self.events.append(event)
        return None

    def planned(self, *units, **fields):
        for name in units:
            assert self.do("plan_unit", task=name, description=f"Unit {name}", **fields) is None
        return self

    def finished(self, name):
        assert self.do("record_iteration", task=name, did="all", signal=f"{name}_DONE") is None
        assert self.do("confirm_unit", task=name) is None
        evidence = {"command": "make", "exit_code": 0}
        assert self.do("verify_unit", task=name, evidence=evidence) is None
        return self


class Step:
    """One thing that may happen to a unit. What fits is found when it is taken."""

    def __init__(self, kind, name, text, number, with_more):
        self.kind = kind
        self.name = name
        self.text = text
        self.number = number
        self.with_more = with_more

    def __repr__(self):
        return f"Step{(self.kind, self.name, self.text, self.number, self.with_more)}"

    def take(self, loop):
        args = getattr(self, f"_{self.kind}")(loop)
        return loop.do(args.pop("do"), task=self.name, **args)

    def _plan(self, _loop):
        fields = {"description": self.text, "criteria": self.text[::-1], "model": self.text}
        fields |= {"files": [self.text, "a.py"], "output": self.text, "verify": self.text}
        fields |= {"max_iterations": self.number, "depends": ["T1", "T2"][: self.number % 3]}
        kept = [key for place, key in enumerate(fields) if (self.number >> place) & 1]
        return {"do": "plan_unit", **{key: fields[key] for key in kept if _is_taken(fields[key])}}

    def _work(self, _loop):
        said = {"did": self.text, "remaining": self.text}
        if self.with_more:
            said |= {"blockers": self.text, "commit": f"{self.number:07x}"}
        return {"do": "record_iteration", **said}

    def _signal(self, loop):
        return {**self._work(loop), "remaining": None, "signal": f"{self.name}_DONE"}

    def _clean(self, loop):
        units = {unit["id"]: unit["status"] for unit in loop.state["tasks"]}
        evidence = {"command": self.text, "exit_code": 0} if self.with_more else None
        if units.get(self.name) == "verifying":
            return {"do": "verify_unit", "evidence": evidence}
        return {"do": "confirm_unit"}

    def _found(self, loop):
        return {**self._clean(loop), "found": self.text}

    def _block(self, _loop):
        return {"do": "block_task", "reason": self.text}

    def _unblock(self, _loop):
        return {"do": "unblock_unit"}

    def _extend(self, _loop):
        return {"do": "extend_unit", "max_iterations": 1 + self.number % 9}


def _is_taken(value):
    return not isinstance(value, str) or bool(value.strip())


_kinds = st.sampled_from(
    ["plan", "work", "work", "signal", "signal", "clean", "clean", "clean", "found", "block",
     "unblock", "extend"]
)  # fmt: skip
_steps = st.builds(
    Step,
    _kinds,
    st.sampled_from(["T1", "T1", "T2", "T12"]),
    stored,
    st.integers(1, 3) | st.integers(1, 1_000),
    st.booleans(),
)
walks = st.integers(0, 40).flatmap(lambda most: st.lists(_steps, min_size=most // 2, max_size=most))


def walked(steps, mode="development", tick=1_000):
    """The loop after these steps; what the core refuses is no step."""
    loop = Loop(mode, tick=tick).planned("T1")
    for step in steps:
        step.take(loop)
    return loop
