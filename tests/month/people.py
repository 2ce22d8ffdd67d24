"""Who else has a part in a month: clients that call the hook, and people with their editors."""

import json
import os

from holdfast.hooks import quick_check
from month.effects import Wrong, must
from month.world import AgentDisk
from support.workshop import edit_document

RECORDS = (
    ".claude/workflow-state.json",
    ".claude/workflow-state",
    "untracked",
    ".claude/iterative",
)


class Hook:
    """One call of the hook, as a client makes it; what it answered is kept."""

    def __init__(self, agent, event, **more):
        self.agent = agent
        self.event = {
            "hook_event_name": event, "session_id": agent.session, "cwd": agent.root, **more,
        }  # fmt: skip
        self.answer = self.code = None

    def __call__(self, runner):
        runner.hook = self
        self.code = quick_check.main()
        if not runner.is_dead:
            must(self.code == 0, "the hook ended with", self.code)

    def read(self):
        return json.dumps(self.event).encode()

    def printed(self, answer):
        """What the client gets: it must be JSON, whatever happened."""
        text = json.dumps(answer)
        must(isinstance(json.loads(text), dict | None.__class__), "the hook said", text)
        self.answer = answer

    @property
    def context(self):
        """What the session is told."""
        told = (self.answer or {}).get("hookSpecificOutput", {})
        return told.get("additionalContext", "")


def check_briefing(hook, flow):
    """A session that lost its context is told of its own workflow: phase, task and reading."""
    text = hook.context
    if "has ended or expired" in text:
        # The newest of several that it holds expired with this very look: it is told of that first.
        return
    must(f"id {flow.id} " in text, f"{hook.agent.session} was not told of {flow.id}:", text[:300])
    must(
        f": {flow.phase} (" in text or flow.format == "loop",
        f"the briefing of {flow.id} lacks its phase:",
        text[:500],
    )
    if flow.current_task is not None and flow.format != "loop":
        must(f"({flow.current_task}):" in text, f"{flow.id}: no task {flow.current_task}:", text)
    for path in flow.reading:
        must(path in text, f"the briefing of {flow.id} does not name {path}:", text[:900])


# People


class Hand:
    """A person with an editor: reads a file, thinks, and saves it, in place or by a rename."""

    def __init__(self, month, path, change, *, in_place):
        self.month, self.path, self.change, self.in_place = month, path, change, in_place
        self.saved = False

    def __call__(self, runner):
        disk = AgentDisk(self.month.world, runner)
        before = disk.read(self.path)
        after = None if before is None else self.change(before)
        if after is None:
            return
        try:
            (self._in_place if self.in_place else self._by_rename)(disk, after)
        except OSError:
            return  # The disk is full: the editor says so.
        self.saved = True
        self.taken_out = [t for t in self.month.model.saved_tokens if _lacks(t, before, after)]

    def _by_rename(self, disk, data):
        swap = f"{self.path}.swp~"
        with open(swap, "wb") as file:
            file.write(data)
        disk.world.kept(swap, data)
        disk.move(swap, self.path)
        disk.world.kept(self.path, data)

    def _in_place(self, disk, data):
        with open(self.path, "wb", buffering=0) as file:
            for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
                disk.world.reached(disk, "read", ())
                file.write(piece)
            now_at = os.readlink(f"/proc/self/fd/{file.fileno()}")
        must(not now_at.endswith(" (deleted)"), f"{self.path} was removed while it was written")
        if disk.runner.is_dead:
            raise Wrong("a dead hand wrote")
        disk.world.kept(now_at, data)


def _lacks(token, before, after):
    """Whether a person took out what stood there."""
    return token.encode() in before and token.encode() not in after


def record_edit(token, *, broken):
    """An edit of a record that leaves a word in it; a broken one is no JSON any more."""

    def change(raw):
        try:
            document = json.loads(raw)
        except ValueError:
            return None
        if "_holdfast" not in document:
            return None
        if token.endswith("x"):
            document[f"x-{token}"] = token
        else:
            edit_document(_format_of(document), document, token)
        text = json.dumps(document, indent=2)
        return (text[:-1] + f'"{token}' if broken else text).encode()

    return change


def _format_of(document):
    if "state_machine" in document:
        return "skill"
    if "mode" in document:
        return "loop"
    return "verb" if "enforcement" in document or "type" in document else "formal"


def foreign_edit(line):
    """A line of somebody's own at the top of ``MEMORY.md``."""

    def change(raw):
        return line + b"\n" + raw

    return change


def records_of(root):
    found = []
    for place in RECORDS:
        full = os.path.join(root, place)
        if os.path.isfile(full):
            found.append(full)
        for folder, _, names in os.walk(full):
            found += [
                os.path.join(folder, name)
                for name in sorted(names)
                if name.endswith(".json")
                and name != "index.json"
                and not name.startswith(".")
                and not folder.endswith("/completed")
            ]
    return sorted(found)
