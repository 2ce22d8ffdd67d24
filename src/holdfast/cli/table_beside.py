"""The commands about what stands beside the workflows, as data like those of ``table``."""

from __future__ import annotations

from holdfast.cli.grammar import argument, option
from holdfast.cli.table_upkeep import MEMORY_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command

GROUPS = {
    "interview": "record how sure a skill was, or that nobody let it ask",
    "memory": "search the graph of `holdfast mcp memory`, or write it as JSONL",
    "forge": "add to the forge context, or show it",
    "delegation": "record which agent was given what, and see what can be learned from it",
}
_SUGGESTED = option("--suggested", "NAME", "what was suggested", required=True)
_CHOSEN = option("--chosen", "NAME", "what the person chose", required=True)

BESIDE: dict[str, Command] = {
    "context": {
        "help": "show all that is going on here, and which layers know of it",
        "call": "commands.context.context",
        "examples": ("holdfast context", "holdfast context --json"),
    },
    "remember": {
        "help": "keep a pattern, a preference or an insight for all later sessions",
        "call": "commands.logs.remember",
        "takes": (argument("TEXT", "one line"),),
        "options": (
            option("--kind", "KIND", "pattern, preference or insight", values="kind"),
            option("--section", "NAME", "the heading it stands under (default: Learnings)"),
        ),
        "examples": ("holdfast remember 'Ada wants short commits' --kind preference",),
    },
    "memory search": {
        "help": "find entities of a memory graph by their words, the likeliest first",
        "call": "commands.memory.search",
        "takes": (argument("QUERY", "words; all of them are in what is found"),),
        "options": (MEMORY_FILE, option("--limit", "N", "only the first N", kind="count")),
        "examples": ("holdfast memory search 'login page' --limit 5",),
    },
    "memory export": {
        "help": "write a memory graph as JSONL, as the reference Memory server reads it",
        "call": "commands.memory.export",
        "takes": (
            argument(
                "PATH", "where to (default: the file it came from)", count="maybe", values="file"
            ),
        ),
        "options": (MEMORY_FILE,),
        "examples": ("holdfast memory export", "holdfast memory export /tmp/memory.jsonl"),
    },
    "forge add": {
        "help": "add a line to the forge context",
        "call": "commands.logs.forge_add",
        "takes": (argument("KEY", "what it is about"), argument("TEXT", "what was found out")),
        "examples": ("holdfast forge add build 'Uses make, not npm'",),
    },
    "forge show": {
        "help": "show the forge context",
        "call": "commands.logs.forge_show",
        "takes": (argument("KEY", "only lines about this", count="maybe"),),
        "examples": ("holdfast forge show", "holdfast forge show build"),
    },
    "interview record": {
        "help": "record how sure a skill was of what it was asked to do",
        "call": "commands.logs.interview_record",
        "options": (
            option("--skill", "NAME", "the skill", required=True),
            option("--confidence", "N", "from 0 to 1", required=True),
            option(
                "--dimension",
                "NAME=N",
                "the same for one side of it, such as clarity=0.9",
                into="dimensions",
                kind="pair",
                many=True,
            ),
            option("--questions", "N", "how many questions were asked", kind="count"),
        ),
        "examples": (
            "holdfast interview record --skill plan --confidence 0.82 --dimension clarity=0.9",
        ),
    },
    "interview skip": {
        "help": "record that the user did not want to be asked",
        "call": "commands.logs.interview_skip",
        "takes": (argument("SKILL", "the skill"),),
        "options": (option("--reason", "TEXT", "what the user said", required=True),),
        "examples": ("holdfast interview skip plan --reason 'just do it'",),
    },
    "interview show": {
        "help": "show the newest interviews",
        "call": "commands.logs.interview_show",
        "examples": ("holdfast interview show",),
    },
    "delegation record": {
        "help": "record what an agent was given, and how it ended",
        "call": "commands.logs.delegation_record",
        "options": (
            option("--agent", "NAME", "the agent", required=True),
            option("--outcome", "TEXT", "how it ended, in a word of your own", required=True),
            option("--model", "NAME", "its model"),
            option("--task-type", "TEXT", "the kind of task", into="task_type"),
            option("--complexity", "TEXT", "how hard it was"),
            option("--duration-ms", "N", "how long it took", into="duration_ms", kind="count"),
        ),
        "examples": (
            "holdfast delegation record --agent tester --task-type tests --outcome success",
        ),
    },
    "delegation escalate": {
        "help": "record that one agent handed over to another",
        "call": "commands.logs.delegation_escalate",
        "options": (
            option("--from", "NAME", "who gave up", into="from_agent", required=True),
            option("--to", "NAME", "who took over", into="to_agent", required=True),
            option("--reason", "TEXT", "why", required=True),
            option("--resolved", "yes|no", "whether that helped"),
        ),
        "examples": (
            "holdfast delegation escalate --from tester --to architect --reason 'two failures'",
        ),
    },
    "delegation override": {
        "help": "record that a person chose another agent than the one suggested",
        "call": "commands.logs.delegation_override",
        "options": (_SUGGESTED, _CHOSEN),
        "examples": ("holdfast delegation override --suggested tester --chosen reviewer",),
    },
    "delegation routing": {
        "help": "record that a person chose another workflow than the one suggested",
        "call": "commands.logs.delegation_routing",
        "options": (
            _SUGGESTED,
            _CHOSEN,
            option("--intent", "TEXT", "what the person wanted", required=True),
        ),
        "examples": (
            "holdfast delegation routing --suggested oneshot --chosen apex --intent feature",
        ),
    },
    "delegation list": {
        "help": "how each agent does, who takes over from whom, what people prefer",
        "call": "commands.logs.delegation_list",
        "options": (option("--agent", "NAME", "only what this agent had part in"),),
        "examples": ("holdfast delegation list", "holdfast delegation list --agent tester"),
    },
}
