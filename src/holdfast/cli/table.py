"""Every command, as data: parser, help, reference and completion all read it from here."""

from __future__ import annotations

from holdfast.cli import table_beside
from holdfast.cli.grammar import argument, flag, option
from holdfast.cli.table_initiatives import INITIATIVE_GROUPS, INITIATIVES
from holdfast.cli.table_loops import LOOP_GROUPS, LOOPS
from holdfast.cli.table_upkeep import SETUP, UPKEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command

GROUPS: dict[str, str] = {
    "phase": "start, complete, block, unblock or approve a phase",
    "task": "add, start, finish or block a task",
    "gate": "run a gate's command, record a claim about one, or list them",
    "tests": "run the tests and record the result, or record one",
    "files": "record the files that were touched",
    "violation": "record what a review found, clear it, or list what is there",
    **table_beside.GROUPS,
    **LOOP_GROUPS,
    **INITIATIVE_GROUPS,
}

_WORKFLOW = argument(
    "ID",
    "the workflow, the same as -w ID",
    into="workflow",
    kind="id",
    count="maybe",
    values="workflow",
)
_PHASE = (
    argument("NAME", "the phase", values="phase"),
    argument(
        "KEY=VALUE", "a field to keep with the phase", into="fields", kind="pair", count="any"
    ),
)
_TASK = argument("N", "the task's id", into="task", kind="task", values="task")
_REASON = option("--reason", "TEXT", "why")
_FORCE = (flag("--force", "although a grave violation stands in the way"), _REASON)

_WORKFLOWS: dict[str, Command] = {
    "start": {
        "help": "open a workflow, or resume the active one with this subject",
        "call": "commands.workflow.start",
        "takes": (
            argument("RECIPE", "what to open it from, one of `holdfast recipes`", values="recipe"),
            argument(
                "SUBJECT",
                "what it is about: a file, a ticket, a sentence; for dev also a folder of files",
                count="maybe",
                values="file",
            ),
        ),
        "options": (
            option("--title", "TEXT", "a title for people"),
            option("--task", "TEXT", "a task to begin with", into="tasks", many=True),
            option(
                "--phase", "NAME", "a phase, in place of the recipe's own", into="phases", many=True
            ),
            option(
                "--read",
                "@PATH",
                "a file that every resuming session must read first",
                into="reading",
                many=True,
                values="@file",
            ),
            option(
                "--remind",
                "TEXT",
                "a reminder for every resuming session",
                into="reminders",
                many=True,
            ),
            option(
                "--set",
                "KEY=VALUE",
                "a field of the context",
                into="context",
                kind="pair",
                many=True,
            ),
            option("--branch", "NAME", "the branch it belongs to (default: the current one)"),
            option("--ttl", "TIME", "how long it may lie still before it expires: 90m, 24h, 7d"),
            flag("--replace", "abandon the one that has the only place for such a record"),
            option("--initiative", "NAME", "the initiative it is for", values="initiative"),
            option(
                "--milestone",
                "ID",
                "and its milestone (alone: of the current one)",
                values="milestone",
            ),
        ),
        "examples": (
            "holdfast start dev docs/plan.md --task 'Write the parser' --task 'Test it'",
            "holdfast start custom --title 'Move to v2' --phase prepare --phase migrate",
        ),
    },
    "recipes": {
        "help": "list the recipes there are, the shipped ones and this workspace's own",
        "call": "commands.recipes.listed",
        "examples": ("holdfast recipes", "holdfast recipes --json"),
    },
    "recipes show": {
        "help": "show one recipe: phases, gates, task phases, context",
        "call": "commands.recipes.show",
        "takes": (argument("NAME", "the recipe", values="recipe"),),
        "examples": ("holdfast recipes show dev",),
    },
    "status": {
        "help": "list the active workflows of this workspace",
        "call": "commands.workflow.status",
        "options": (flag("--all", "all of them, not only the 200 with the newest activity"),),
        "examples": ("holdfast status", "holdfast status --all --json"),
    },
    "show": {
        "help": "show one workflow: phases, tasks, gates, reading, reminders",
        "call": "commands.workflow.show",
        "takes": (_WORKFLOW,),
        "examples": ("holdfast show", "holdfast show dev-1f2e3d4c --json"),
    },
    "resume": {
        "help": "take a workflow up in this session and print its briefing",
        "call": "commands.workflow.resume",
        "takes": (_WORKFLOW,),
        "examples": ("holdfast resume", "holdfast resume dev-1f2e3d4c"),
    },
    "log": {
        "help": "list events, oldest first; without an ID those of the whole workspace",
        "call": "commands.workflow.log",
        "takes": (_WORKFLOW,),
        "options": (
            option("--limit", "N", "only the newest N", kind="count"),
            flag("--follow", "go on with new events until Ctrl-C (JSON: one event a line)"),
        ),
        "examples": ("holdfast log --limit 20", "holdfast log dev-1f2e3d4c --follow"),
    },
    "watch": {
        "help": "see workflows, tasks, gates and layers move, until q or Ctrl-C; only reads",
        "call": "watch.watch",
        "takes": (_WORKFLOW,),
        "options": (
            option("--every", "SECONDS", "how often to look (default 1)", kind="count"),
            flag("--once", "show it once and end, as without a terminal"),
        ),
        "examples": ("holdfast watch", "holdfast watch dev-1f2e3d4c --every 5"),
    },
    "complete": {
        "help": "finish the workflow; refused while tasks, phases or gates are pending",
        "call": "commands.workflow.complete",
        "options": (
            option("--outcome", "TEXT", "what came of it"),
            flag("--force", "although something is pending; what was skipped is recorded"),
            option("--reason", "TEXT", "why it was forced"),
        ),
        "examples": (
            "holdfast complete --outcome 'Merged'",
            "holdfast complete --force --reason 'the review moved to the next sprint'",
        ),
    },
    "abandon": {
        "help": "give the workflow up; `holdfast resume ID` brings it back",
        "call": "commands.workflow.abandon",
        "options": (_REASON,),
        "examples": ("holdfast abandon --reason 'no longer needed'",),
    },
}

_PROGRESS: dict[str, Command] = {
    "advance": {
        "help": "complete the current phase and start the next",
        "call": "commands.progress.advance",
        "options": _FORCE,
        "examples": ("holdfast advance",),
    },
    "phase start": {
        "help": "start a phase",
        "call": "commands.progress.phase_start",
        "takes": _PHASE,
        "options": _FORCE,
        "examples": ("holdfast phase start review",),
    },
    "phase complete": {
        "help": "complete a phase; on the current one the same as advance",
        "call": "commands.progress.phase_complete",
        "takes": _PHASE,
        "options": _FORCE,
        "examples": ("holdfast phase complete review findings=3",),
    },
    "phase block": {
        "help": "say that a phase cannot go on",
        "call": "commands.progress.phase_block",
        "takes": _PHASE,
        "options": (_REASON,),
        "examples": ("holdfast phase block deploy --reason 'waiting for access'",),
    },
    "phase unblock": {
        "help": "let a blocked phase go on",
        "call": "commands.progress.phase_unblock",
        "takes": _PHASE,
        "examples": ("holdfast phase unblock deploy",),
    },
    "phase approve": {
        "help": "record a person's approval of a phase",
        "call": "commands.progress.phase_approve",
        "takes": _PHASE,
        "examples": ("holdfast phase approve plan approver=Ada",),
    },
    "step": {
        "help": "start a step of the current phase",
        "call": "commands.progress.step",
        "takes": (argument("NAME", "the step", values="step"),),
        "examples": ("holdfast step refactor",),
    },
    "task add": {
        "help": "add a task",
        "call": "commands.progress.task_add",
        "takes": (argument("TEXT", "what is to be done"),),
        "examples": ("holdfast task add 'Handle an empty file'",),
    },
    "task start": {
        "help": "start a task",
        "call": "commands.progress.task_start",
        "takes": (_TASK,),
        "examples": ("holdfast task start 2",),
    },
    "task phase": {
        "help": "enter a phase of a task; the earlier ones are completed",
        "call": "commands.progress.task_phase",
        "takes": (
            _TASK,
            argument(
                "PHASE", "red, green or refactor, as the recipe has them", values="task phase"
            ),
        ),
        "examples": ("holdfast task phase 2 green",),
    },
    "task done": {
        "help": "finish a task",
        "call": "commands.progress.task_done",
        "takes": (_TASK,),
        "options": (option("--commit", "SHA", "the commit that did it: an id, HEAD, a branch"),),
        "examples": ("holdfast task done 2 --commit 4f5e6d7",),
    },
    "task block": {
        "help": "say that a task cannot go on",
        "call": "commands.progress.task_block",
        "takes": (_TASK,),
        "options": (option("--reason", "TEXT", "why", required=True),),
        "examples": ("holdfast task block 2 --reason 'needs a decision on the format'",),
    },
    "remind": {
        "help": "leave a reminder for every resuming session",
        "call": "commands.progress.remind",
        "takes": (argument("TEXT", "what to remember"),),
        "examples": ("holdfast remind 'Run the slow tests before the review'",),
    },
    "read": {
        "help": "add a file to what every resuming session must read first",
        "call": "commands.progress.read",
        "takes": (
            argument("@PATH", "the file, from the worktree's root", into="path", values="@file"),
        ),
        "examples": ("holdfast read @docs/plan.md",),
    },
    "set": {
        "help": "set fields of the workflow's context",
        "call": "commands.progress.set_context",
        "takes": (
            argument(
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

_GATE = argument("NAME", "the gate", into="gate", values="gate")
_LIMIT = option("--timeout", "TIME", "how long it may take: 90s, 10m, 2h (default 10m)")
_EVIDENCE: dict[str, Command] = {
    "gate run": {
        "help": "run a gate's command and record what came of it; exit code 4 if it failed",
        "call": "commands.evidence.gate_run",
        "takes": (
            _GATE,
            argument(
                "COMMAND",
                "what to run, after -- (default: the recipe's command, once it is trusted)",
                into="words",
                count="any",
            ),
        ),
        "options": (_LIMIT,),
        "examples": ("holdfast gate run lint -- ruff check .", "holdfast gate run test"),
    },
    "gate record": {
        "help": "record what you know about a gate; it is shown as a claim",
        "call": "commands.evidence.gate_record",
        "takes": (
            _GATE,
            argument(
                "KEY=VALUE", "a field to keep with it", into="fields", kind="pair", count="any"
            ),
        ),
        "options": (flag("--passed", "it passed"), flag("--failed", "it did not")),
        "examples": (
            "holdfast gate record security_review --passed findings=0",
            "holdfast gate record pr_created --passed pr_number=12 pr_url=https://example.org/12",
        ),
    },
    "gate list": {
        "help": "list the gates and what each result rests on",
        "call": "commands.evidence.gate_list",
        "examples": ("holdfast gate list", "holdfast gate list --json"),
    },
    "violation add": {
        "help": "record what a review found; CRITICAL and HIGH hold back the handing over",
        "call": "commands.evidence.violation_add",
        "takes": (
            argument("CODE", "its name, such as V-TEST-03"),
            argument("SEVERITY", "CRITICAL, HIGH, MEDIUM, LOW or INFO", values="severity"),
            argument("DETAILS", "what is wrong"),
        ),
        "examples": ("holdfast violation add V-TEST-03 HIGH 'No test for the empty file'",),
    },
    "violation clear": {
        "help": "say that a violation is mended",
        "call": "commands.evidence.violation_clear",
        "takes": (argument("CODE", "its name", values="violation"),),
        "examples": ("holdfast violation clear V-TEST-03",),
    },
    "violation list": {
        "help": "list the violations, and whether they hold anything back",
        "call": "commands.evidence.violation_list",
        "examples": ("holdfast violation list",),
    },
    "tests run": {
        "help": "run the tests and record which failed; exit code 4 when one did",
        "call": "commands.evidence.tests_run",
        "takes": (argument("COMMAND", "what to run, after --", into="words", count="some"),),
        "options": (_LIMIT,),
        "examples": ("holdfast tests run -- pytest -q",),
    },
    "tests record": {
        "help": "record a test run that you made yourself",
        "call": "commands.evidence.tests_record",
        "options": (
            option("--command", "TEXT", "what was run", into="ran", required=True),
            option("--failing", "A,B", "the tests that failed, with commas between"),
            option("--passing", "A,B", "the tests that passed"),
            option("--error", "TEXT", "what went wrong"),
        ),
        "examples": ("holdfast tests record --command 'cargo test' --failing login --passing a,b",),
    },
    "files add": {
        "help": "record a file that was touched",
        "call": "commands.evidence.files_add",
        "takes": (argument("PATH", "the file", values="file"),),
        "options": (
            option(
                "--phase",
                "NAME",
                "the phase that touched it (default: the current one)",
                values="phase",
            ),
            option("--lines", "N", "how many lines were added", kind="count"),
        ),
        "examples": ("holdfast files add src/login.py --phase green --lines 12",),
    },
    "files sync": {
        "help": "record the files that git says were touched since the workflow began",
        "call": "commands.evidence.files_sync",
        "examples": ("holdfast files sync",),
    },
}

SECTIONS = {
    "Workflows": _WORKFLOWS,
    "Progress": _PROGRESS,
    "Evidence": _EVIDENCE,
    "Loops": LOOPS,
    "Initiatives": INITIATIVES,
    "Beside workflows": table_beside.BESIDE,
    "Setting up": SETUP,
    "Upkeep": UPKEEP,
}
COMMANDS: dict[str, Command] = {
    name: command for section in SECTIONS.values() for name, command in section.items()
}
WITHOUT_WORKSPACE = (
    *("completion", "demo", "help", "hook", "init", "mcp", "mcp memory", "memory export"),
    *("memory search", "uninstall"),
)
