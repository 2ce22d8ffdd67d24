"""Hooks as processes, against an interpreter that does nothing."""

from __future__ import annotations

import json
import os
import subprocess

from measure import interleaved, memory_kb, middle, process, ratio
from results import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop
    from results import Missing
    from sizes import Sizes

_SESSION = "bench-session"
_IDLE = "nothing to do"
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
        2.5,
        "with a briefing",
    ),
    "PreCompact": ({"hook_event_name": "PreCompact", "trigger": "auto"}, 4, "saves"),
}


def measure_hooks(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Each event in a workspace with ten workflows, one of them the session's own."""
    place = shop.workspace().open(10)
    place.bind(_SESSION)
    found = subprocess.run(
        [shop.python, "-c", "import holdfast.hooks.entry as entry; print(entry.__file__)"],
        env=shop.env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    fastest = [shop.python, "-I", "-S", found.stdout.strip()]
    samples = {"python": lambda: process(shop.pass_, place.folder, shop.env)}
    for name, (event, _, _) in _EVENTS.items():
        given = os.path.join(shop.folder, f"{name}.json")
        with open(given, "w") as file:
            json.dump({**event, "session_id": _SESSION, "cwd": place.folder}, file)
        samples[name] = lambda given=given: process(fastest, place.folder, shop.env, given=given)
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
    bare = memory_kb(shop.pass_, place.folder, shop.env, shop.python)
    ours = memory_kb(fastest, place.folder, shop.env, shop.python)
    return [*rows, Row("memory of a hook / a bare interpreter's", ours / bare, 1.5)]
