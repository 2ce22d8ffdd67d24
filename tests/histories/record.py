"""Record a history with this version: ``python tests/histories/record.py VERSION``.

It drives the library through every command of the core, so that the ledger has every event type,
and keeps an export of it, with the states it gives, in a folder named after the version. Every
later version imports it (``test_histories.py``); no folder of a release is written again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from holdfast import Initiatives, Loops
from holdfast.formats import aggregate_of, is_log, is_workflow
from holdfast.hub.pool import Pool
from holdfast.keeper import Keeper

HERE = os.path.dirname(os.path.abspath(__file__))
EXPORT = "export.ndjson"


class Clock:
    """Advances by a minute with every look."""

    def __init__(self) -> None:
        self.ms = 1_767_225_600_000

    def __call__(self) -> int:
        self.ms += 60_000
        return self.ms


def live(root: str) -> Keeper:
    """A history in which everything happens once."""
    keeper = Keeper(root, session="session-1", by="history", clock_ms=Clock())
    dev = keeper.start(
        "dev", "features/login.md", tasks=["Model", "Form"], reminders=["No new dependency"],
        reading=["@docs/auth.md"], context={"ticket": 7},
    ).state["id"]  # fmt: skip
    keeper.advance(workflow=dev)
    keeper.advance(workflow=dev)
    keeper.add_task("Logout", workflow=dev)
    keeper.start_task(1, workflow=dev)
    keeper.start_task_phase(1, "red", workflow=dev)
    keeper.evidence().run_tests(["test", "-e", "model.py"], workflow=dev)
    keeper.start_task_phase(1, "green", workflow=dev)
    with open(os.path.join(root, "model.py"), "w", encoding="utf-8"):
        pass
    keeper.evidence().run_tests(workflow=dev)
    keeper.complete_task(1, "172c0b0", workflow=dev)
    keeper.block_task(2, "waits for the design", workflow=dev)
    keeper.remind("Run the tests", workflow=dev)
    keeper.ask("Which database?", ["Postgres", "SQLite"], workflow=dev)
    keeper.answer(1, "2", workflow=dev)
    keeper.ask("Delete the old forms?", blocking=True, workflow=dev)
    keeper.withdraw_question(2, workflow=dev)
    keeper.ask("Who reviews it?", workflow=dev)
    keeper.require_reading("@docs/forms.md", workflow=dev)
    keeper.do("confirm_reading", {"path": "@docs/auth.md"}, workflow=dev)
    keeper.set_context({"reviewer": "Kim"}, workflow=dev)
    keeper.do("note_compaction", {"trigger": "auto"}, workflow=dev)
    keeper.do("note_briefing", {"digest": "00"}, workflow=dev)
    keeper.evidence().run_gate("test", ["test", "-d", "."], workflow=dev)
    keeper.evidence().record_gate("review", passed=True, workflow=dev)
    keeper.evidence().waive_gate("lint", "there is no linter yet", workflow=dev)
    violation = {"code": "V-1", "severity": "HIGH", "details": "no test"}
    keeper.do("add_violation", violation, workflow=dev)
    keeper.do("clear_violation", {"code": "V-1"}, workflow=dev)
    keeper.evidence().record_tests("make test", passing=["test_login"], workflow=dev)
    keeper.evidence().add_file("a.py", "green", 12, workflow=dev)
    keeper.do("end_session", {"session": "session-1", "reason": "other"}, workflow=dev)
    keeper.skip_phase("task_execution", "the rest comes later", workflow=dev)
    assert keeper.show(workflow=dev).state["phase"] == "verification"
    keeper.start_step("lint", workflow=dev)
    keeper.block_phase("verification", {"reason": "no network"}, workflow=dev)
    keeper.unblock_phase("verification", workflow=dev)
    tdd = keeper.start("tdd", "Add a parser").state["id"]
    said = {"test_file": "t.py", "failure_confirmed": True, "note": "as expected"}
    keeper.start_phase("red", said, workflow=tdd)
    keeper.abandon("not needed", workflow=tdd)
    keeper.resume(workflow=tdd)
    apex = keeper.start("apex", "Cache", ttl="10m").state["id"]
    keeper.advance(workflow=apex)
    keeper.approve_phase("plan", workflow=apex)
    _edit(root, keeper, apex)
    migration = keeper.start("custom", "Migration", phases=["Backup", "Move"]).state["id"]
    keeper.complete("moved", force=True, reason="done by hand", workflow=migration)
    loop = keeper.start("loop-development", "search").state["id"]
    _iterate(keeper, loop)
    keeper.do("note_rebuild", {"found": ["git has no commit '4f5e6d7'"]}, workflow=loop)
    Loops(keeper).archive(loop)
    reopened = keeper.start("loop-knowledge", "survey").state["id"]
    keeper.abandon(workflow=reopened)
    _mend(keeper)
    _adopt(root, keeper)
    _finish_folder(root, keeper)
    _reach(root, keeper)
    return keeper


def _reach(root: str, keeper: Keeper) -> None:
    """Initiatives: one through its life, one recovered from a page."""
    them = Initiatives(keeper)
    them.create("Tidy billing", ["M1: Map", "M2: Move"], files=True)
    them.start("M1")
    them.task("M1", "List readers", done=True)
    them.add_milestone("M3: Ship")
    them.rename("Tidy all billing")
    path = os.path.join(root, "documentation", "milestones", "_active")
    yaml = os.path.join(path, "tidy-billing", "WORKFLOW-STATUS.yaml")
    with open(yaml, encoding="utf-8") as file:
        text = file.read()
    with open(yaml, "w", encoding="utf-8") as file:
        file.write(text.replace("status: in_progress", "status: created"))
    them.sync()
    them.complete("M1")
    them.block("no key")
    them.unblock()
    os.makedirs(os.path.join(path, "found"))
    with open(os.path.join(path, "found", "README.md"), "w", encoding="utf-8") as file:
        file.write("# Found\n\n## M1: Look\n\n- [x] here\n")
    them.recover("found")
    them.use("Tidy billing")


def _mend(keeper: Keeper) -> None:
    """Every correction, and an undone change."""
    mended = keeper.start(
        "oneshot", "Typos", tasks=["Read", "Fix", "Look"], reminders=["Slowly"],
        reading=["@docs/style.md"], context={"pages": 3}, replace=True,
    ).state["id"]  # fmt: skip
    keeper.edit_task(1, "Read all of it", workflow=mended)
    keeper.complete_task(1, "172c0b0", workflow=mended)
    keeper.complete_task(1, "4f5e6d7", workflow=mended)
    keeper.reopen_task(1, workflow=mended)
    keeper.block_task(2, "no editor", workflow=mended)
    keeper.unblock_task(2, workflow=mended)
    keeper.move_task(3, before=1, workflow=mended)
    keeper.remove_task(3, workflow=mended)
    keeper.remove_reminder(1, workflow=mended)
    keeper.remove_reading("@docs/style.md", workflow=mended)
    keeper.unset_context(["pages"], workflow=mended)
    keeper.rename("Typos and commas", workflow=mended)
    Pool(keeper).change(mended, label=["small"])
    keeper.start_task(2, workflow=mended)
    keeper.undo(workflow=mended)


def _iterate(keeper: Keeper, loop: str) -> None:
    work = {"task": "T1", "did": "some", "remaining": "more", "commit": "4f5e6d7"}
    done = {"task": "T1", "did": "all", "signal": "T1_DONE"}
    for kind, args in (
        ("plan_unit", {"task": "T1", "description": "Index", "max_iterations": 1}),
        ("record_iteration", work),
        ("record_iteration", work),
        ("extend_unit", {"task": "T1", "max_iterations": 4}),
        ("block_task", {"task": "T1", "reason": "no disk"}),
        ("unblock_unit", {"task": "T1"}),
        ("record_iteration", done),
        ("confirm_unit", {"task": "T1", "found": "no test"}),
        ("record_iteration", done),
        ("confirm_unit", {"task": "T1"}),
        ("verify_unit", {"task": "T1", "evidence": {"command": "make test", "exit_code": 0}}),
        ("add_guardrail", {"when": "w", "problem": "p", "solution": "s", "name": "n"}),
    ):
        keeper.do(kind, args, workflow=loop)


def _finish_folder(root: str, keeper: Keeper) -> None:
    folder = os.path.join(root, "features")
    os.makedirs(folder)
    for name in ("a.md", "b.md"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(f"# Feature {name}\n")
    both = keeper.start("dev", "features/").state["id"]
    for _ in range(2):
        keeper.complete(force=True, reason="only the history matters", workflow=both)
    keeper.do("clean_record", {}, workflow=both)


def _edit(root: str, keeper: Keeper, workflow_id: str) -> None:
    path = os.path.join(root, keeper.show(workflow=workflow_id).state["record"])
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    record["context"] = "Cache with a limit"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file)
    keeper.settle(workflow=workflow_id)
    for _ in range(12):
        keeper.workflows()
    keeper.clean()


def _adopt(root: str, keeper: Keeper) -> None:
    folder = os.path.join(root, "untracked", "workflow-state", "elsewhere")
    os.makedirs(folder)
    document = {
        "workflow": "From elsewhere", "workflow_type": "custom",
        "phase": {"current": 2, "total": 3, "name": "Build", "status": "in_progress"},
        "required_reading": [], "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    with open(os.path.join(folder, "state-elsewhere-20260101_000000.json"), "w") as file:
        json.dump(document, file)
    keeper.settle(workflow="elsewhere")


def states_of(events: list) -> dict:
    """Return the state of every stream."""
    streams: dict[str, list] = {}
    for event in events:
        streams.setdefault(event["stream"], []).append(event)
    return {
        stream: aggregate_of(stream).replay(lambda own=own: own)[0]
        for stream, own in streams.items()
        if is_workflow(stream) or is_log(stream)
    }


def main(version: str) -> int:
    target = os.path.join(HERE, version)
    os.makedirs(target)
    with tempfile.TemporaryDirectory() as root:
        keeper = live(root)
        events = keeper.log()
        with open(os.path.join(target, EXPORT), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in keeper.export())
    with open(os.path.join(target, "states.json"), "w", encoding="utf-8") as file:
        json.dump(states_of(events), file, indent=1, ensure_ascii=False)
        file.write("\n")
    print(f"{len(events)} events of {len({e['type'] for e in events})} types in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
