"""``holdfast help``: an overview, a group, or one command."""

from __future__ import annotations

from holdfast.cli.answer import Answer
from holdfast.cli.parser import COMMON, GROUPS, SECTIONS, Parameter, command, find_members, load_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Arguments

_MAX_USAGE_COLUMNS = 92
_FOOTER = (
    "  holdfast                 what is going on here, and what is likely next",
    "  holdfast help COMMAND    more about one command",
    "  holdfast --version       the version",
    "",
    "Exit codes: 0 done, 1 refused, 2 usage, 3 storage fault, 4 a gate or test that failed.",
)


@command(
    "help: show help for everything or for one command",
    Parameter("[COMMAND]...", "the command", into="topic", names="command"),
    "holdfast help task done",
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
    from holdfast.cli.suggestions import unknown_command

    inner = topic[0] if find_members(topic[0]) else ""
    raise unknown_command(["help", *topic], 3 if inner else 2, inner)


def overview() -> str:
    lines = [
        "holdfast keeps the state of an agent's work, through anything.",
        "",
        "  holdfast COMMAND [ARGUMENTS] [OPTIONS]",
    ]
    for section, modules in SECTIONS.items():
        rows = [
            (name, spec.about)
            for name, spec in load_all().items()
            if name.partition(" ")[0] in modules
        ]
        lines += ["", section, *_columns(rows)]
    return "\n".join([*lines, "", "Every command", *_rows(COMMON), "", *_FOOTER])


def command_help(name: str) -> str:
    spec = load_all()[name]
    lines = [f"holdfast {name}: {spec.about}", "", *usage(name, "  "), *_below(name)]
    for title, parameters in (("Arguments", spec.arguments), ("Options", spec.options)):
        if parameters:
            lines += ["", title, *_rows(parameters)]
    lines += ["", "Every command", *_rows(COMMON), "", "Examples"]
    return "\n".join([*lines, *[f"  {example}" for example in spec.examples]])


def _below(name: str) -> list[str]:
    """Return the usage of the commands whose names begin with this one."""
    commands = load_all()
    lines = []
    for full in find_members(name):
        lines += ["", *usage(full, "  "), f"      {commands[full].about}"]
    return lines


def usage(name: str, indent: str) -> list[str]:
    """Return ``holdfast task done N [--commit SHA]``, on as many lines as it needs."""
    # The words of another program stand after all options.
    parameters = sorted(load_all()[name].parameters, key=lambda p: (p.into == "words", p.is_option))
    lines = [f"{indent}holdfast {name}"]
    for parameter in parameters:
        part = _slot(parameter)
        if len(lines[-1]) + len(part) < _MAX_USAGE_COLUMNS:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}    {part}")
    return lines


def _slot(parameter: Parameter) -> str:
    """Return a parameter as a usage line shows it, such as ``[--task TEXT]...``."""
    dots = "..." if parameter.is_many else ""
    name = f"{parameter.name} {parameter.value}".rstrip()
    if parameter.into == "words":
        name, dots = f"-- {name}{dots}", ""
    return name + dots if parameter.is_required else f"[{name}]{dots}"


def label(parameter: Parameter) -> str:
    """Return an argument or an option as lists show it: ``-w, --workflow ID``."""
    short = f"{parameter.short}, " if parameter.short else ""
    return f"{short}{parameter.name} {parameter.value}".rstrip()


def about(parameter: Parameter) -> str:
    can_repeat = parameter.is_option and parameter.is_many
    return parameter.about + ("; can be repeated" if can_repeat else "")


def _rows(parameters: Sequence[Parameter]) -> list[str]:
    return _columns([(label(parameter), about(parameter)) for parameter in parameters])


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name:{width}}  {text}" for name, text in rows]
