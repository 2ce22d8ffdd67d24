"""A workflow in the core alone: commands go in, and the state or a refusal comes out."""

from holdfast.core.refusal import Refusal
from holdfast.core.workflow import decide, evolve
from holdfast.workspace import recipes

AT = "2026-01-02T03:04:05.678Z"
HEAD, NEXT_HEAD = "a" * 40, "b" * 40
MAIN = {"git": True, "branch": "main", "is_main": True, "head": HEAD}
BRANCH = {"git": True, "branch": "feat/x", "is_main": False, "head": HEAD}


class Desk:
    """A workflow in the core alone."""

    def __init__(self, recipe="dev", **args):
        self.state = None
        self.facts = BRANCH
        self.tree = None
        declared = recipes.load(recipe) if isinstance(recipe, str) else recipe
        start = {"recipe": declared, "subject": "s", "title": "t", "base": HEAD, **args}
        self.do("start_workflow", **start)

    def do(self, kind, **args):
        """Carry out a command; return its refusal, or ``None``."""
        facts = self.facts if self.tree is None else {**self.facts, "tree": self.tree}
        args = {"facts": facts, **args}
        if kind == "start_workflow":
            args.pop("facts")
        drafts = decide(self.state, {"type": kind, "at": AT, "args": args})
        if isinstance(drafts, Refusal):
            return drafts
        for draft in drafts:
            self.state = evolve(self.state, {**draft, "at": AT, "stream": "dev-1"})
        return None

    def ok(self, kind, **args):
        refusal = self.do(kind, **args)
        assert refusal is None, refusal

    def refused(self, kind, **args):
        before = self.state
        refusal = self.do(kind, **args)
        assert refusal is not None
        assert self.state == before
        return refusal

    def phases(self):
        return {phase["name"]: phase["status"] for phase in self.state["phases"]}
