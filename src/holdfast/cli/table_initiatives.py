"""The commands of initiatives, as data like those of ``table``."""

from __future__ import annotations

from holdfast.cli.grammar import argument, flag, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Command

_MILESTONE = argument("MILESTONE", "its id, such as M1", values="milestone")
_NAME = argument("NAME", "its name, or that of its folder", values="initiative")
_MAYBE = argument("NAME", "another than the current one", count="maybe", values="initiative")

INITIATIVE_GROUPS = {"initiative": "goals that last for months, milestone by milestone"}
INITIATIVES: dict[str, Command] = {
    "initiative create": {
        "help": "begin an initiative; it is the current one",
        "call": "commands.initiative.create",
        "takes": (argument("TITLE", "what it is called", into="name"),),
        "options": (
            option(
                "--milestone",
                "ID: TITLE",
                "a milestone, such as 'M1: Map the readers'",
                into="milestones",
                many=True,
                required=True,
            ),
            flag("--files", "write a page with its milestones, for people to read and tick"),
        ),
        "examples": (
            "holdfast initiative create 'Tidy billing' --milestone 'M1: Map' --milestone M2",
        ),
    },
    "initiative start": {
        "help": "start a milestone, or go back to one that is open",
        "call": "commands.initiative.start",
        "takes": (_MILESTONE,),
        "examples": ("holdfast initiative start M1",),
    },
    "initiative task": {
        "help": "add a task to a milestone, or tick it",
        "call": "commands.initiative.task",
        "takes": (_MILESTONE, argument("TEXT", "one line")),
        "options": (flag("--done", "it is done"),),
        "examples": ("holdfast initiative task M1 'List all readers' --done",),
    },
    "initiative complete": {
        "help": "complete a milestone; the next one is current",
        "call": "commands.initiative.complete",
        "takes": (_MILESTONE,),
        "examples": ("holdfast initiative complete M1",),
    },
    "initiative block": {
        "help": "say that the initiative cannot go on",
        "call": "commands.initiative.block",
        "options": (option("--reason", "TEXT", "why", required=True),),
        "examples": ("holdfast initiative block --reason 'waits for the contract'",),
    },
    "initiative unblock": {
        "help": "say that it goes on",
        "call": "commands.initiative.unblock",
        "examples": ("holdfast initiative unblock",),
    },
    "initiative finish": {
        "help": "complete the initiative, for good",
        "call": "commands.initiative.finish",
        "options": (
            flag("--force", "although milestones are open"),
            option("--reason", "TEXT", "why, with --force"),
        ),
        "examples": (
            "holdfast initiative finish",
            "holdfast initiative finish --force --reason 'sold'",
        ),
    },
    "initiative archive": {
        "help": "archive an initiative that is completed",
        "call": "commands.initiative.archive",
        "examples": ("holdfast initiative archive",),
    },
    "initiative show": {
        "help": "show where it stands: milestones, tasks, files and workflows",
        "call": "commands.initiative.show",
        "takes": (_MAYBE,),
        "examples": ("holdfast initiative show", "holdfast initiative show 'Tidy billing' --json"),
    },
    "initiative use": {
        "help": "make another initiative the current one",
        "call": "commands.initiative.use",
        "takes": (_NAME,),
        "examples": ("holdfast initiative use tidy-billing",),
    },
    "initiative sync": {
        "help": "compare all that tells where it stands, and mend what is stale",
        "call": "commands.initiative.sync",
        "options": (option("--from", "files", "take what the milestone files say", into="source"),),
        "examples": ("holdfast initiative sync", "holdfast initiative sync --from files"),
    },
    "initiative recover": {
        "help": "make a checkpoint from milestone files, where nothing else is left",
        "call": "commands.initiative.recover",
        "takes": (
            argument(
                "NAME", "its folder, where there are several", count="maybe", values="initiative"
            ),
        ),
        "examples": ("holdfast initiative recover", "holdfast initiative recover tidy-billing"),
    },
}
