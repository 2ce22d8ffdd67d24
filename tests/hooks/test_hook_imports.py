"""What a hook loads that has nothing to do: every import is paid at every turn."""

import json
import subprocess
import sys

import pytest

import holdfast

PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.hooks.quick_check import main
main()
print(*sorted(name for name in sys.modules if name.startswith("holdfast")), file=sys.stderr)
"""
IDLE = {
    "holdfast",
    "holdfast.core",
    "holdfast.core.json_text",
    "holdfast.core.record_formats",
    "holdfast.errors",
    "holdfast.hooks",
    "holdfast.hooks.quick_check",
    "holdfast.workspace",
    "holdfast.workspace.location",
}
STORAGE = {f"holdfast.storage.{name}" for name in ("database", "ledger")}
SYSTEM = {"holdfast.system", *(f"holdfast.system.{name}" for name in ("disk", "kernel"))}
ASKING = {*IDLE, *STORAGE, *SYSTEM, "holdfast.storage"}
"""Whether a file is required reading is asked of the ledger."""


@pytest.mark.parametrize(
    "event",
    [
        {"hook_event_name": "Stop", "stop_hook_active": False},
        {"hook_event_name": "UserPromptSubmit", "prompt": "x"},
        {"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {}},
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "Read",
            "tool_input": {"file_path": "README.md"},
        },
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}},
    ],
)
def test_an_idle_hook_loads_next_to_nothing(migration, event):
    source = holdfast.__path__[0].rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, source],
        input=json.dumps({**event, "cwd": migration.path}).encode(),
        cwd=migration.path, env=migration.environment, capture_output=True, check=True,
    )  # fmt: skip
    is_read = event.get("tool_name") == "Read"
    assert set(done.stderr.decode().split()) == (ASKING if is_read else IDLE)
    assert done.stdout == b""
