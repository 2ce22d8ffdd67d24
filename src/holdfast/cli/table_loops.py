"""The commands of loops, as data like those of ``table``."""

from __future__ import annotations

from holdfast.cli.grammar import argument, flag, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command

_SLUG = argument(
    "SLUG",
    "the loop's name (default: the one that is active)",
    kind="id",
    count="maybe",
    values="loop",
)
_NEW = argument(
    "SLUG", "the loop's name: lower case letters, digits and -", kind="id", values="loop"
)
_UNIT = argument("UNIT", "the unit: T1, or R1 in knowledge mode", values="unit")
_LIMIT = option("--timeout", "TIME", "how long one run may take: 90s, 10m, 2h (default 30m)")

LOOP_GROUPS: dict[str, str] = {
    "loop": "units of work in bounded iterations, confirmed and verified",
    "loop guardrail": "lessons that every iteration is told",
}
LOOPS: dict[str, Command] = {
    "loop new": {
        "help": "open a loop with its pages, or go on with the active one of this name",
        "call": "commands.loop.new",
        "takes": (_NEW,),
        "options": (
            option(
                "--mode", "MODE", "development (tasks T1…, the default) or knowledge (phases R1…)"
            ),
            option("--task", "NAME", "what it is called"),
            option("--domain", "NAME", "feature, bug, refactor, research, writing, analysis, …"),
            option("--outcome", "TEXT", "what is needed"),
            option("--done-when", "TEXT", "a criterion of the whole", into="done_when", many=True),
            option("--constraint", "TEXT", "a limit to keep", into="constraints", many=True),
            option("--notes", "TEXT", "approach, open questions"),
            flag("--inherit", "take the lessons of archived loops that match"),
        ),
        "examples": (
            "holdfast loop new user-auth --outcome 'People can log in' --done-when 'tests pass'",
            "holdfast loop new survey --mode knowledge --domain research",
        ),
    },
    "loop plan": {
        "help": "plan a unit, or say anew what it is about",
        "call": "commands.loop.plan",
        "takes": (_SLUG,),
        "options": (
            option(
                "--unit", "TEXT", "its id and title, such as 'T1: Add the model'", required=True
            ),
            option("--criteria", "TEXT", "when it is done, measurably"),
            option("--files", "A,B", "the files it touches"),
            option("--output", "PATH", "what it makes (knowledge mode)"),
            option("--max", "N", "how many iterations it may take (default 5)", kind="count"),
            option(
                "--depends",
                "UNIT",
                "a unit that has to be done before, or none",
                many=True,
                values="unit",
            ),
            option("--model", "NAME", "the model that should do it"),
            option("--verify", "COMMAND", "what verifies it; runs once a person approved it"),
        ),
        "examples": ("holdfast loop plan user-auth --unit 'T2: Log in' --depends T1 --max 8",),
    },
    "loop next": {
        "help": "what to do now: the unit, its criteria, what remains, the guardrails",
        "call": "commands.loop.next_turn",
        "takes": (_SLUG,),
        "examples": ("holdfast loop next", "holdfast loop next user-auth --json"),
    },
    "loop iterate": {
        "help": "record an iteration; with the unit's signal it goes on to be confirmed",
        "call": "commands.loop.iterate",
        "takes": (_UNIT,),
        "options": (
            option("--did", "TEXT", "what was done", required=True),
            option("--remaining", "TEXT", "what is left"),
            option("--blockers", "TEXT", "what is in the way"),
            option("--commit", "SHA", "the commit that holds it"),
            option("--signal", "SIGNAL", "T1_DONE, when every criterion is met"),
        ),
        "examples": (
            "holdfast loop iterate T1 --did 'The model' --remaining 'Its tests'",
            "holdfast loop iterate T1 --did 'Its tests' --commit 4f5e6d7 --signal T1_DONE",
        ),
    },
    "loop confirm": {
        "help": "record the pass that confirms a unit",
        "call": "commands.loop.confirm",
        "takes": (_UNIT,),
        "options": (
            flag("--clean", "nothing was found"),
            option("--issues", "TEXT", "what was found; it goes back to work"),
        ),
        "examples": (
            "holdfast loop confirm T1 --clean",
            "holdfast loop confirm T1 --issues 'No test for an empty name'",
        ),
    },
    "loop verify": {
        "help": "record a unit's verification, or run it; only what passes is done",
        "call": "commands.loop.verify",
        "takes": (
            _UNIT,
            argument(
                "COMMAND",
                "what verifies it, after -- (default with --run: the unit's own command)",
                into="words",
                count="any",
            ),
        ),
        "options": (
            flag("--passed", "it holds"),
            option("--failed", "TEXT", "why it does not; it goes back to work"),
            flag("--run", "run what verifies it; exit code 4 when it does not pass"),
            _LIMIT,
        ),
        "examples": (
            "holdfast loop verify T1 --passed",
            "holdfast loop verify T1 --run -- pytest -q tests/auth",
        ),
    },
    "loop block": {
        "help": "say that a unit cannot go on; the next one is free",
        "call": "commands.loop.block",
        "takes": (_UNIT,),
        "options": (option("--reason", "TEXT", "why", required=True),),
        "examples": ("holdfast loop block T3 --reason 'waits for access'",),
    },
    "loop unblock": {
        "help": "let a blocked unit go on",
        "call": "commands.loop.unblock",
        "takes": (_UNIT,),
        "examples": ("holdfast loop unblock T3",),
    },
    "loop extend": {
        "help": "allow a unit more iterations",
        "call": "commands.loop.extend",
        "takes": (_UNIT,),
        "options": (option("--max", "N", "how many altogether", kind="count", required=True),),
        "examples": ("holdfast loop extend T1 --max 10",),
    },
    "loop guardrail add": {
        "help": "add a lesson that every later iteration is told",
        "call": "commands.loop.guardrail",
        "options": (
            option("--when", "TEXT", "when it applies", required=True),
            option("--problem", "TEXT", "what went wrong", required=True),
            option("--solution", "TEXT", "how to avoid it", required=True),
            option("--name", "TEXT", "what to call it"),
            option("--learned", "TEXT", "where, such as 'T1 iteration 2'"),
        ),
        "examples": (
            "holdfast loop guardrail add --when 'dates' --problem 'local time' --solution 'UTC'",
        ),
    },
    "loop phase": {
        "help": "move the loop's own phase by hand; it follows its units by itself",
        "call": "commands.loop.phase",
        "takes": (argument("NAME", "discover, plan, execute, verify or deliver", values="phase"),),
        "examples": ("holdfast loop phase verify",),
    },
    "loop status": {
        "help": "show one loop with its units, or list the active ones",
        "call": "commands.loop.status",
        "takes": (_SLUG,),
        "examples": ("holdfast loop status", "holdfast loop status user-auth"),
    },
    "loop archive": {
        "help": "move a loop's folder into the archive, finished or not",
        "call": "commands.loop.archive",
        "takes": (_SLUG,),
        "examples": ("holdfast loop archive user-auth",),
    },
    "loop rebuild": {
        "help": "make a loop's state anew from its log, its pages and git",
        "call": "commands.loop.rebuild",
        "takes": (_SLUG,),
        "examples": ("holdfast loop rebuild user-auth",),
    },
    "loop run": {
        "help": "drive a loop without a person: a worker for each turn, until done or stuck",
        "call": "commands.loop.run",
        "takes": (
            argument("SLUG", "the loop's name", kind="id", values="loop"),
            argument(
                "COMMAND",
                "the worker, after --; it gets the prompt on standard input",
                into="words",
                count="some",
            ),
        ),
        "options": (
            option(
                "--verify",
                "COMMAND",
                "what verifies a unit without a command of its own (default: one more run)",
            ),
            _LIMIT,
        ),
        "examples": ("holdfast loop run user-auth --verify 'make test' -- claude -p",),
    },
}
