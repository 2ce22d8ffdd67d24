"""How many instructions of Python a command takes: a number that no busy machine changes.

``python bench/opcodes.py`` prints the counts; with ``--write`` they become the limits of
``bench/opcodes.json``, which ``tests/bench/test_opcodes.py`` holds every change to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "src")
LIMITS = os.path.join(ROOT, "bench", "opcodes.json")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
COUNTER = """\
import sys
count = 0
def inside(frame, event, arg):
    global count
    count += event == "opcode"
    return inside
def entered(frame, event, arg):
    frame.f_trace_opcodes = True
    frame.f_trace_lines = False
    return inside
def main():
    import os
    target = sys.argv[1]
    sys.path.insert(0, {source!r})
    if target.endswith(".py"):
        del sys.argv[1]
        with open(target) as file:
            program = compile(file.read(), target, "exec")
    else:
        program = compile("from holdfast.cli.main import main; sys.exit(main())", "-", "exec")
    code = 0
    os._exit = sys.exit  # Whoever ends at once is counted too.
    sys.settrace(entered)
    try:
        exec(program, {{"__name__": "__main__", "__file__": target, "sys": sys}})
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.settrace(None)
    if not code:
        os.write(2, b"\\nopcodes %d" % count)
main()
"""
"""What an interpreter runs that counts; it does so from the first import of Holdfast on."""
HOOK = os.path.join(SOURCE, "holdfast", "hooks", "entry.py")


class Place:
    """A repository to count in, with as many workflows and events as asked for."""

    def __init__(self, folder: str, workflows: int = 1, events: int = 20) -> None:
        self.folder = os.path.join(folder, f"place-{workflows}-{events}")
        os.makedirs(self.folder)
        subprocess.run(["git", "init", "-q", "-b", "main", self.folder], check=True)
        from holdfast import Keeper

        self._ticks = iter(range(1_771_329_600_000, 10**15, 1_000))
        keeper = Keeper(self.folder, session="mine", clock_ms=lambda: next(self._ticks))
        for number in range(workflows):
            started = keeper.start(
                "custom", f"subject {number}", tasks=["one", "two", "three"],
                phases=["first", "second", "third"],
            )  # fmt: skip
        self.workflow = started.state["id"]
        for number in range(events):
            keeper.set_context({"n": number}, workflow=self.workflow)

    def count(self, *words: str, given: bytes = b"") -> int:
        """The instructions of a command, or of a hook that is given an event."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": self.folder,
            "PYTHONHASHSEED": "0",
            "HOLDFAST_MEMORY": "off",
        }
        ended = subprocess.run(
            [sys.executable, "-I", "-c", COUNTER.format(source=SOURCE), *words],
            cwd=self.folder, env=environment, input=given, capture_output=True, check=False,
        )  # fmt: skip
        told = ended.stderr.rpartition(b"opcodes ")[2]
        assert told.isdigit(), (words, ended.stdout, ended.stderr)
        return int(told)

    def hook(self, event: str, **fields: object) -> int:
        told = {"session_id": "mine", "cwd": self.folder, "hook_event_name": event, **fields}
        return self.count(HOOK, given=json.dumps(told).encode())

    def status_line(self) -> int:
        told = {"session_id": "mine", "cwd": self.folder}
        return self.count(HOOK, "statusline", given=json.dumps(told).encode())


def counted(folder: str) -> dict[str, int]:
    """What the commands and hooks take that run most often."""
    place = Place(folder)
    nothing = Place(os.path.join(folder, "other"), 1, 1)
    aim = ("-w", place.workflow)
    # The first of its kind writes what the interpreter compiled.
    for words in (["task", "done", "1", *aim], ["advance", "--help"], ["status"]):
        place.count(*words)
    for event in ("Stop", "PostToolUse", "SessionStart", "PreCompact"):
        nothing.hook(event)
    place.status_line()
    return {
        "task done": place.count("task", "done", "2", *aim),
        "advance": place.count("advance", *aim),
        "status": place.count("status"),
        "hook Stop": nothing.hook("Stop", stop_hook_active=False),
        "hook PostToolUse": nothing.hook(
            "PostToolUse", tool_name="Read", tool_input={"file_path": "a.md"}
        ),
        "hook SessionStart": place.hook("SessionStart", source="compact"),
        "hook PreCompact": place.hook("PreCompact", trigger="auto"),
        "statusline": place.status_line(),
    }


def main() -> int:
    sys.path.insert(0, SOURCE)
    with tempfile.TemporaryDirectory() as folder:
        found = counted(folder)
    for name, number in found.items():
        print(f"{number:>9,}  {name}")
    if "--write" in sys.argv:
        with open(LIMITS, "w") as file:
            json.dump({"python": VERSION, "opcodes": found}, file, indent=2)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
