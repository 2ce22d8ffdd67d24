"""Help, from the table: an overview, a group, or one command."""

from __future__ import annotations

from holdfast.cli.grammar import COMMON
from holdfast.cli.table import COMMANDS, GROUPS, SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments, Option, Positional

_WIDTH = 92


def answer(args: Arguments) -> Answer:
    """``holdfast help [COMMAND]`` and every ``--help``."""
    name = " ".join(args["topic"])
    if not name:
        return {"kind": "text", "data": {"help": overview()}}
    if name in COMMANDS:
        return {"kind": "text", "data": {"help": command(name)}}
    if name in GROUPS:
        return {"kind": "text", "data": {"help": group(name)}}
    from holdfast.cli.usage_errors import unknown_command

    topic = args["topic"]
    inner = topic[0] if _members(topic[0]) else ""
    raise unknown_command(["help", *topic], 3 if inner else 2, inner)


def overview() -> str:
    lines = [
        "holdfast keeps the state of an agent's work, through anything.",
        "",
        "  holdfast COMMAND [ARGUMENTS] [OPTIONS]",
    ]
    for section, commands in SECTIONS.items():
        width = max(len(name) for name in commands)
        rows = [f"  {name:{width}}  {commands[name]['help']}" for name in commands]
        lines += ["", section, *rows]
    return "\n".join([*lines, "", "Every command", *_rows(COMMON), "", *_FOOTER])


_FOOTER = (
    "  holdfast                 what is going on here, and what is likely next",
    "  holdfast help COMMAND    more about one command",
    "  holdfast --version       the version",
    "",
    "Exit codes: 0 done, 1 refused, 2 usage, 3 storage fault, 4 a gate or test that failed.",
)


def group(name: str) -> str:
    return "\n".join([f"holdfast {name}: {GROUPS[name]}", *_below(name)])


def _below(name: str) -> list[str]:
    """The commands whose names begin with this one, each with what it is for."""
    lines = []
    for full in _members(name):
        lines += ["", *usage(full, "  "), f"      {COMMANDS[full]['help']}"]
    return lines


def _members(name: str) -> list[str]:
    return [full for full in COMMANDS if full.startswith(f"{name} ")]


def command(name: str) -> str:
    spec = COMMANDS[name]
    lines = [f"holdfast {name}: {spec['help']}", "", *usage(name, "  "), *_below(name)]
    takes = spec.get("takes", ())
    if takes:
        lines += ["", "Arguments", *_rows(takes)]
    if spec.get("options"):
        lines += ["", "Options", *_rows(spec["options"])]
    lines += ["", "Every command", *_rows(COMMON), "", "Examples"]
    return "\n".join([*lines, *[f"  {example}" for example in spec["examples"]]])


def usage(name: str, indent: str) -> list[str]:
    """``holdfast task done N [--commit SHA]``, on as many lines as it needs."""
    spec = COMMANDS[name]
    takes = spec.get("takes", ())
    parts = [_slot(positional) for positional in takes if positional["into"] != "words"]
    for option in spec.get("options", ()):
        shown = spelled(option)
        parts.append(shown if option.get("required") else f"[{shown}]{_dots(option)}")
    for positional in takes:
        if positional["into"] == "words":
            shown = f"-- {positional['name']}..."
            parts.append(f"[{shown}]" if positional["count"] == "any" else shown)
    lines = [f"{indent}holdfast {name}"]
    for part in parts:
        if len(lines[-1]) + len(part) < _WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}    {part}")
    return lines


def spelled(option: Option) -> str:
    """``-w, --workflow ID`` without its short form."""
    return " ".join([option["name"], *([option["value"]] if "value" in option else [])])


def label(item: Option | Positional) -> str:
    """How an argument or option stands in a list."""
    if "count" in item:
        return item["name"]
    short = f"{item['short']}, " if item["short"] else ""
    return short + spelled(item)


def about(item: Option | Positional) -> str:
    return item["help"] + ("; can be repeated" if item.get("many") else "")


def _dots(option: Option) -> str:
    return "..." if option.get("many") else ""


def _slot(positional: Positional) -> str:
    name, count = positional["name"], positional["count"]
    return {"one": name, "maybe": f"[{name}]", "any": f"[{name}]...", "some": f"{name}..."}[count]


def _rows(items: tuple[Option, ...] | tuple[Positional, ...]) -> list[str]:
    width = max(len(label(item)) for item in items)
    return [f"  {label(item):{width}}  {about(item)}" for item in items]
