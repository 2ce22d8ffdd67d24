"""``holdfast help``: an overview, a group, or one command."""

from __future__ import annotations

from holdfast.cli.answer import Answer
from holdfast.cli.grammar import COMMON, GROUPS, argument, command, load_all, load_sections, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.types import Arguments, Option, Positional

_MAX_USAGE_COLUMNS = 92
_FOOTER = (
    "  holdfast                 what is going on here, and what is likely next",
    "  holdfast help COMMAND    more about one command",
    "  holdfast --version       the version",
    "",
    "Exit codes: 0 done, 1 refused, 2 usage, 3 storage fault, 4 a gate or test that failed.",
)


@command(
    "help",
    "show help for everything or for one command",
    argument("COMMAND", "the command", into="topic", count="any", values="command"),
    examples=("holdfast help task done",),
    workspace=False,
)
def answer(args: Arguments) -> Answer:
    text = help_text(args["topic"])
    return Answer(lambda: {"help": text}, lambda _screen: text.split("\n"))


def help_text(topic: list[str]) -> str:
    """Return the help for these words; raise ``Usage`` if no command has them."""
    name = " ".join(topic)
    if not name:
        return overview()
    if name in load_all():
        return command_help(name)
    if name in GROUPS:
        return "\n".join([f"holdfast {name}: {GROUPS[name]}", *_below(name)])
    from holdfast.cli.usage_errors import unknown_command

    inner = topic[0] if members(topic[0]) else ""
    raise unknown_command(["help", *topic], 3 if inner else 2, inner)


def overview() -> str:
    lines = [
        "holdfast keeps the state of an agent's work, through anything.",
        "",
        "  holdfast COMMAND [ARGUMENTS] [OPTIONS]",
    ]
    for section, commands in load_sections().items():
        width = max(len(name) for name in commands)
        rows = [f"  {name:{width}}  {commands[name]['help']}" for name in commands]
        lines += ["", section, *rows]
    return "\n".join([*lines, "", "Every command", *_rows(COMMON), "", *_FOOTER])


def _below(name: str) -> list[str]:
    """Return the usage of the commands whose names begin with this one."""
    lines = []
    for full in members(name):
        lines += ["", *usage(full, "  "), f"      {load_all()[full]['help']}"]
    return lines


def command_help(name: str) -> str:
    spec = load_all()[name]
    lines = [f"holdfast {name}: {spec['help']}", "", *usage(name, "  "), *_below(name)]
    if spec["takes"]:
        lines += ["", "Arguments", *_rows(spec["takes"])]
    if spec["options"]:
        lines += ["", "Options", *_rows(spec["options"])]
    lines += ["", "Every command", *_rows(COMMON), "", "Examples"]
    return "\n".join([*lines, *[f"  {example}" for example in spec["examples"]]])


def usage(name: str, indent: str) -> list[str]:
    """Return ``holdfast task done N [--commit SHA]``, on as many lines as it needs."""
    spec = load_all()[name]
    takes = spec["takes"]
    parts = [_slot(positional) for positional in takes if positional["into"] != "words"]
    for option in spec["options"]:
        shown = spelled(option)
        parts.append(
            shown if option.get("required") else f"[{shown}]{'...' if option.get('many') else ''}"
        )
    for positional in takes:
        if positional["into"] == "words":
            shown = f"-- {positional['name']}..."
            parts.append(f"[{shown}]" if positional["count"] == "any" else shown)
    lines = [f"{indent}holdfast {name}"]
    for part in parts:
        if len(lines[-1]) + len(part) < _MAX_USAGE_COLUMNS:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}    {part}")
    return lines


def spelled(option: Option) -> str:
    """Return ``--workflow ID``."""
    return " ".join([option["name"], *([option["value"]] if "value" in option else [])])


def label(item: Option | Positional) -> str:
    """Return an argument or an option as lists show it: ``-w, --workflow ID``."""
    if "count" in item:
        return item["name"]
    short = f"{item['short']}, " if item["short"] else ""
    return short + spelled(item)


def about(item: Option | Positional) -> str:
    return item["help"] + ("; can be repeated" if item.get("many") else "")


def _slot(positional: Positional) -> str:
    name, count = positional["name"], positional["count"]
    return {"one": name, "maybe": f"[{name}]", "any": f"[{name}]...", "some": f"{name}..."}[count]


def _rows(items: tuple[Option, ...] | tuple[Positional, ...]) -> list[str]:
    width = max(len(label(item)) for item in items)
    return [f"  {label(item):{width}}  {about(item)}" for item in items]
