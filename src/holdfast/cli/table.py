"""The grammar of the command line, as data: parser, help and reference all read it from here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command, Count, Kind, Option, Positional


def _flag(name: str, about: str, short: str = "") -> Option:
    return {"name": name, "short": short, "kind": "flag", "into": name[2:], "help": about}


def _option(
    name: str,
    value: str,
    about: str,
    *,
    into: str = "",
    kind: Kind = "text",
    short: str = "",
    many: bool = False,
    required: bool = False,
) -> Option:
    return {
        "name": name,
        "short": short,
        "value": value,
        "kind": kind,
        "many": many,
        "required": required,
        "into": into or name[2:],
        "help": about,
    }


def _argument(
    name: str, about: str, *, into: str = "", kind: Kind = "text", count: Count = "one"
) -> Positional:
    into = into or name.lower()
    return {"name": name, "kind": kind, "count": count, "into": into, "help": about}


COMMON: tuple[Option, ...] = (
    _flag("--json", "answer with one JSON object"),
    _option(
        "--workflow",
        "ID",
        "the workflow that is meant (default: this session's, else this branch's)",
        short="-w",
        kind="id",
    ),
    _option(
        "--id", "ID", "names this request: a retry with the same one is applied once", kind="id"
    ),
    _option(
        "--session",
        "ID",
        "who is asking (default: CLAUDE_CODE_SESSION_ID; an empty one is nobody)",
    ),
    _flag("--help", "show help for the command", short="-h"),
)

GROUPS: dict[str, str] = {
    "phase": "start, complete, block, unblock or approve a phase",
    "task": "add, start, finish or block a task",
}

_WORKFLOW = _argument(
    "ID", "the workflow, the same as -w ID", into="workflow", kind="id", count="maybe"
)
_PHASE = (
    _argument("NAME", "the phase"),
    _argument(
        "KEY=VALUE", "a field to keep with the phase", into="fields", kind="pair", count="any"
    ),
)
_TASK = _argument("N", "the task's id", into="task", kind="task")
_REASON = _option("--reason", "TEXT", "why")

_WORKFLOWS: dict[str, Command] = {
    "start": {
        "help": "open a workflow, or resume the active one with this subject",
        "call": "workflows.start",
        "takes": (
            _argument("RECIPE", "what to open it from: dev, tdd, apex, planning, custom, …"),
            _argument(
                "SUBJECT", "what the work is about: a file, a ticket, a sentence", count="maybe"
            ),
        ),
        "options": (
            _option("--title", "TEXT", "a title for people"),
            _option("--task", "TEXT", "a task to begin with", into="tasks", many=True),
            _option(
                "--phase", "NAME", "a phase, in place of the recipe's own", into="phases", many=True
            ),
            _option(
                "--read",
                "@PATH",
                "a file that every resuming session must read first",
                into="reading",
                many=True,
            ),
            _option(
                "--remind",
                "TEXT",
                "a reminder for every resuming session",
                into="reminders",
                many=True,
            ),
            _option(
                "--set",
                "KEY=VALUE",
                "a field of the context",
                into="context",
                kind="pair",
                many=True,
            ),
            _option("--branch", "NAME", "the branch it belongs to (default: the current one)"),
            _option("--ttl", "TIME", "how long it may lie still before it expires: 90m, 24h, 7d"),
        ),
        "examples": (
            "holdfast start dev docs/plan.md --task 'Write the parser' --task 'Test it'",
            "holdfast start custom --title 'Move to v2' --phase prepare --phase migrate",
        ),
    },
    "status": {
        "help": "list the active workflows of this workspace",
        "call": "workflows.status",
        "examples": ("holdfast status", "holdfast status --json"),
    },
    "show": {
        "help": "show one workflow: phases, tasks, gates, reading, reminders",
        "call": "workflows.show",
        "takes": (_WORKFLOW,),
        "examples": ("holdfast show", "holdfast show dev-1f2e3d4c --json"),
    },
    "resume": {
        "help": "take a workflow up in this session and print its briefing",
        "call": "workflows.resume",
        "takes": (_WORKFLOW,),
        "examples": ("holdfast resume", "holdfast resume dev-1f2e3d4c"),
    },
    "log": {
        "help": "list events, oldest first; without an ID those of the whole workspace",
        "call": "workflows.log",
        "takes": (_WORKFLOW,),
        "options": (
            _option("--limit", "N", "only the newest N", kind="count"),
            _flag("--follow", "go on with new events until Ctrl-C (JSON: one event a line)"),
        ),
        "examples": ("holdfast log --limit 20", "holdfast log dev-1f2e3d4c --follow"),
    },
    "complete": {
        "help": "finish the workflow; refused while tasks, phases or gates are pending",
        "call": "workflows.complete",
        "options": (
            _option("--outcome", "TEXT", "what came of it"),
            _flag("--force", "although something is pending; what was skipped is recorded"),
            _option("--reason", "TEXT", "why it was forced"),
        ),
        "examples": (
            "holdfast complete --outcome 'Merged'",
            "holdfast complete --force --reason 'the review moved to the next sprint'",
        ),
    },
    "abandon": {
        "help": "give the workflow up; `holdfast resume ID` brings it back",
        "call": "workflows.abandon",
        "options": (_REASON,),
        "examples": ("holdfast abandon --reason 'no longer needed'",),
    },
}

_PROGRESS: dict[str, Command] = {
    "advance": {
        "help": "complete the current phase and start the next",
        "call": "steps.advance",
        "examples": ("holdfast advance",),
    },
    "phase start": {
        "help": "start a phase",
        "call": "steps.phase_start",
        "takes": _PHASE,
        "examples": ("holdfast phase start review",),
    },
    "phase complete": {
        "help": "complete a phase; on the current one the same as advance",
        "call": "steps.phase_complete",
        "takes": _PHASE,
        "examples": ("holdfast phase complete review findings=3",),
    },
    "phase block": {
        "help": "say that a phase cannot go on",
        "call": "steps.phase_block",
        "takes": _PHASE,
        "options": (_REASON,),
        "examples": ("holdfast phase block deploy --reason 'waiting for access'",),
    },
    "phase unblock": {
        "help": "let a blocked phase go on",
        "call": "steps.phase_unblock",
        "takes": _PHASE,
        "examples": ("holdfast phase unblock deploy",),
    },
    "phase approve": {
        "help": "record a person's approval of a phase",
        "call": "steps.phase_approve",
        "takes": _PHASE,
        "examples": ("holdfast phase approve plan approver=Ada",),
    },
    "step": {
        "help": "start a step of the current phase",
        "call": "steps.step",
        "takes": (_argument("NAME", "the step"),),
        "examples": ("holdfast step refactor",),
    },
    "task add": {
        "help": "add a task",
        "call": "steps.task_add",
        "takes": (_argument("TEXT", "what is to be done"),),
        "examples": ("holdfast task add 'Handle an empty file'",),
    },
    "task start": {
        "help": "start a task",
        "call": "steps.task_start",
        "takes": (_TASK,),
        "examples": ("holdfast task start 2",),
    },
    "task done": {
        "help": "finish a task",
        "call": "steps.task_done",
        "takes": (_TASK,),
        "options": (_option("--commit", "SHA", "the commit that did it"),),
        "examples": ("holdfast task done 2 --commit 4f5e6d7",),
    },
    "task block": {
        "help": "say that a task cannot go on",
        "call": "steps.task_block",
        "takes": (_TASK,),
        "options": (_option("--reason", "TEXT", "why", required=True),),
        "examples": ("holdfast task block 2 --reason 'needs a decision on the format'",),
    },
    "remind": {
        "help": "leave a reminder for every resuming session",
        "call": "steps.remind",
        "takes": (_argument("TEXT", "what to remember"),),
        "examples": ("holdfast remind 'Run the slow tests before the review'",),
    },
    "read": {
        "help": "add a file to what every resuming session must read first",
        "call": "steps.read",
        "takes": (_argument("@PATH", "the file, from the worktree's root", into="path"),),
        "examples": ("holdfast read @docs/plan.md",),
    },
    "set": {
        "help": "set fields of the workflow's context",
        "call": "steps.set_context",
        "takes": (
            _argument(
                "KEY=VALUE",
                "a field; a value that is JSON is kept as such, anything else as text",
                into="fields",
                kind="pair",
                count="some",
            ),
        ),
        "examples": ('holdfast set ticket=ABC-12 retries=3 \'hosts=["a", "b"]\'',),
    },
}

_UPKEEP: dict[str, Command] = {
    "verify": {
        "help": "check the ledger, and every view against it; changes nothing",
        "call": "upkeep.verify",
        "examples": ("holdfast verify",),
    },
    "repair": {
        "help": "put what is damaged aside and rebuild it; deletes nothing",
        "call": "upkeep.repair",
        "examples": ("holdfast repair",),
    },
    "demo": {
        "help": "watch a workflow survive a kill, an edit and a lost context",
        "call": "upkeep.demo",
        "examples": ("holdfast demo",),
    },
    "help": {
        "help": "show help for everything or for one command",
        "call": "guide.answer",
        "takes": (_argument("COMMAND", "the command", into="topic", count="any"),),
        "examples": ("holdfast help task done",),
    },
}

SECTIONS = {"Workflows": _WORKFLOWS, "Progress": _PROGRESS, "Upkeep": _UPKEEP}
COMMANDS: dict[str, Command] = {**_WORKFLOWS, **_PROGRESS, **_UPKEEP}
WITHOUT_WORKSPACE = ("demo", "help")
