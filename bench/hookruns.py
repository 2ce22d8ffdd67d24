"""Hooks and the status line as processes, against an interpreter that does nothing."""

from __future__ import annotations

import json
import os

from measure import interleaved, memory_kb, middle, process, ratio
from results import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop
    from measure import Sample
    from results import Missing
    from sizes import Sizes

SESSION = "bench-session"
_IDLE = "nothing to do"
_LINE = "statusline"
_EVENTS = {
    "Stop": ({"hook_event_name": "Stop", "stop_hook_active": False}, 1.5, _IDLE),
    "UserPromptSubmit": ({"hook_event_name": "UserPromptSubmit", "prompt": "Go on"}, 1.5, _IDLE),
    "PostToolUse": (
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "Read",
            "tool_input": {"file_path": "src/some/module.py"},
            "tool_response": {"file": "x" * 20_000},
        },
        1.5,
        _IDLE,
    ),
    "SessionStart": (
        {"hook_event_name": "SessionStart", "source": "compact"},
        3,
        "with a briefing",
    ),
    "PreCompact": ({"hook_event_name": "PreCompact", "trigger": "auto"}, 4, "saves"),
}


def measure_hooks(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure each event in a workspace with ten workflows, one of them the session's own."""
    work = shop.workspace().open(10)
    work.bind(SESSION)
    start = shop.hook
    samples = {"python": lambda: process(shop.pass_, work.folder, shop.env)}
    for name in _EVENTS:
        samples[name] = hook_sample(shop, start, name, work.folder)
    samples[_LINE] = status_line_sample(shop, start, work.folder)
    os.sync()
    interleaved(2, samples)
    times = interleaved(sizes.process_rounds, samples)
    rows: list[Row | Missing] = [
        Row(
            f"hook {name}, {what} / `python -I -c pass`",
            ratio(times, name, "python"),
            limit,
            medians_ms=middle(times),
        )
        for name, (_, limit, what) in _EVENTS.items()
    ]
    rows.append(
        Row(
            "status line of the session's workflow / `python -I -c pass`",
            ratio(times, _LINE, "python"),
            1.5,
            medians_ms=middle(times),
        )
    )
    idle = _event_file(shop, "Stop", work.folder)
    bare = memory_kb(shop.pass_, work.folder, shop.env, shop.python)
    ours = memory_kb(start, work.folder, shop.env, shop.python, given=idle)
    return [*rows, Row("memory of an idle hook / a bare interpreter's", ours / bare, 1.5)]


def hook_sample(shop: Workshop, start: list[str], name: str, folder: str) -> Sample:
    """Return a sample that sends an event of the session to a hook."""
    event = _event_file(shop, name, folder)
    return lambda: process(start, folder, shop.env, given=event)


def status_line_sample(shop: Workshop, start: list[str], folder: str) -> Sample:
    """Return a sample that asks for the session's status line, as Claude Code does."""
    path = os.path.join(shop.folder, f"{_LINE}-{os.path.basename(folder)}.json")
    told = {"session_id": SESSION, "cwd": folder, "workspace": {"current_dir": folder}}
    with open(path, "w") as file:
        json.dump({**told, "context_window": {"used_percentage": 43}}, file)
    return lambda: process([*start, "statusline"], folder, shop.env, given=path)


def _event_file(shop: Workshop, name: str, folder: str) -> str:
    path = os.path.join(shop.folder, f"{name}-{os.path.basename(folder)}.json")
    with open(path, "w") as file:
        json.dump({**_EVENTS[name][0], "session_id": SESSION, "cwd": folder}, file)
    return path
