"""The commands that set Holdfast up and look after a workspace, as data like those of ``table``."""

from __future__ import annotations

from holdfast.cli.grammar import argument, flag, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command

_SCOPE = (
    option("--agent", "NAME", "the client: claude, codex or gemini", values="agent"),
    flag("--local", "your own settings in this project (.claude/settings.local.json)"),
    flag("--user", "your own settings everywhere (~/.claude/settings.json and its like)"),
)
_DRY_RUN = flag("--dry-run", "only show what would change")
MEMORY_FILE = option(
    "--file",
    "PATH",
    "the memory's JSONL file (default: MEMORY_FILE_PATH, else the person's own)",
    into="memory_file",
    values="file",
)
SETUP: dict[str, Command] = {
    "init": {
        "help": "put the hooks into a client's settings, the team's unless told otherwise",
        "call": "commands.setup.init",
        "options": (
            *_SCOPE,
            flag("--enforce", "also the hooks that hold an agent back: before edits, at its end"),
            _DRY_RUN,
        ),
        "examples": ("holdfast init --dry-run", "holdfast init --agent codex --user"),
    },
    "uninstall": {
        "help": "take the hooks out again: untouched files are restored byte for byte",
        "call": "commands.setup.uninstall",
        "options": (*_SCOPE, _DRY_RUN),
        "examples": ("holdfast uninstall --dry-run", "holdfast uninstall --user"),
    },
    "hook": {
        "help": "answer an event of an agent's client, read from standard input",
        "call": "commands.hook.hook",
        "options": (
            option("--explain", "EVENT", "tell what would be done here, such as SessionStart"),
        ),
        "examples": ("holdfast hook --explain SessionStart",),
    },
    "mcp": {
        "help": "serve the workflows to an agent over MCP, on standard input and output",
        "call": "commands.servers.workflows",
        "examples": ("holdfast mcp",),
    },
    "mcp memory": {
        "help": "serve a memory graph over MCP, in place of the reference Memory server",
        "call": "commands.servers.memory",
        "options": (MEMORY_FILE,),
        "examples": ("holdfast mcp memory", "holdfast mcp memory --file notes/memory.jsonl"),
    },
    "doctor": {
        "help": "see whether all works here; each trouble with the command that mends it",
        "call": "commands.doctor.doctor",
        "examples": ("holdfast doctor",),
    },
}

UPKEEP: dict[str, Command] = {
    "trust": {
        "help": "read and approve the commands that this repository wants to run",
        "call": "commands.approval.trust",
        "options": (
            flag("--list", "only list them, and which are approved"),
            flag("--revoke", "forget every approval for this workspace"),
        ),
        "examples": ("holdfast trust", "holdfast trust --list --json"),
    },
    "clean": {
        "help": "let expired workflows and old ended records go; resume ID brings each back",
        "call": "commands.upkeep.clean",
        "options": (flag("--dry-run", "only say what would go"),),
        "examples": ("holdfast clean --dry-run", "holdfast clean"),
    },
    "sync": {
        "help": "bring MEMORY.md and the memory graph up to date, and say what was delivered",
        "call": "commands.layers.sync",
        "options": (
            flag("--everything", "as if nothing had been delivered yet: for one that was emptied"),
        ),
        "examples": ("holdfast sync", "holdfast sync --everything --json"),
    },
    "verify": {
        "help": "check the ledger, and every view against it; changes nothing",
        "call": "commands.upkeep.verify",
        "options": (
            flag("--everything", "check all events of a long ledger, not only the newest 50,000"),
        ),
        "examples": ("holdfast verify", "holdfast verify --everything"),
    },
    "repair": {
        "help": "put what is damaged aside and rebuild it; deletes nothing",
        "call": "commands.upkeep.repair",
        "examples": ("holdfast repair",),
    },
    "export": {
        "help": "print all events, or those of one workflow, as lines of JSON: a backup",
        "call": "commands.upkeep.export",
        "takes": (
            argument(
                "ID",
                "the workflow (default: all)",
                into="workflow",
                kind="id",
                count="maybe",
                values="workflow",
            ),
        ),
        "examples": ("holdfast export > backup.jsonl", "holdfast export dev-1f2e3d4c"),
    },
    "import": {
        "help": "take in what export printed; what another machine ran counts as a claim",
        "call": "commands.upkeep.import_file",
        "takes": (
            argument(
                "FILE", "an export; - reads it from standard input", into="path", values="file"
            ),
        ),
        "examples": ("holdfast import backup.jsonl", "holdfast import -"),
    },
    "completion": {
        "help": "print a completion script for a shell",
        "call": "completion.answer",
        "takes": (
            argument("SHELL", "bash, zsh or fish", values="shell"),
            argument(
                "WORD",
                "asked by the script: the command line so far, after --",
                into="words",
                count="any",
            ),
        ),
        "examples": ("holdfast completion bash", "holdfast completion zsh -- task ''"),
    },
    "demo": {
        "help": "watch a workflow survive a kill, an edit and a lost context",
        "call": "commands.upkeep.demo",
        "examples": ("holdfast demo",),
    },
    "help": {
        "help": "show help for everything or for one command",
        "call": "help.answer",
        "takes": (argument("COMMAND", "the command", into="topic", count="any", values="command"),),
        "examples": ("holdfast help task done",),
    },
}
