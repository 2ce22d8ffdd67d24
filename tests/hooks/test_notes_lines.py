"""Notes and records as the hooks meet them: one workflow, its phase, its end, what is rejected."""

import json
import os

import pytest

from holdfast import Keeper
from holdfast.adopt import agent_notes
from support.workshop import DAY_MS, Clock

RECORD = "untracked/workflow-state/feature/state-feature-20251209_143052.json"
PLAN = "CLAUDE/Plan/001-user-auth/PLAN.md"
NOTES = "CLAUDE.local.md"
IN_PROGRESS = "# User Auth\n\nStatus: 🔄 In Progress\n\n"


def record(**fields):
    return json.dumps(
        {
            "workflow": "Feature Implementation (User Auth)",
            "workflow_type": "implementation",
            "phase": {"current": 2, "total": 5, "name": "Build", "status": "in_progress"},
            "required_reading": [f"@{PLAN}"],
            "context": {"plan_number": 1},
            "key_reminders": ["Follow existing patterns"],
            "created_at": "2025-12-09T14:30:52.123456Z",
            **fields,
        }
    )


def notes(phase="4/10 - Texts", *more, name="Pages"):
    return "\n".join(["# Workflow State", f"Workflow: {name}", f"Phase: {phase}", *more, ""])


def compacted(client):
    assert client.fire("PreCompact", trigger="auto") is None


def rows(client):
    return client.ok("status")["workflows"]


# A plan or note that an active record reads is that workflow


@pytest.mark.parametrize("path", [PLAN, NOTES])
def test_what_an_active_record_reads_is_that_workflow(client, path):
    client.write(RECORD, record(required_reading=[f"@{path}"]))
    text = f"{IN_PROGRESS}Current Phase: 3/3 - Ship\n" if path == PLAN else notes("3/3 - Ship")
    client.write(path, text)
    compacted(client)
    (row,) = rows(client)
    assert (row["id"], row["phase_index"], row["phase_total"]) == ("feature", 2, 5)


def test_a_plan_with_as_many_phases_moves_the_record_that_reads_it(client):
    client.write(RECORD, record())
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 3/5 - Try it\n")
    compacted(client)
    (row,) = rows(client)
    assert (row["id"], row["phase_index"], row["phase_total"]) == ("feature", 3, 5)


def test_a_plan_names_a_phase_of_its_record_that_has_no_name(client):
    client.write(RECORD, record())
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 3/5 - Try it\n")
    compacted(client)
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 2/5 - Design\n")
    compacted(client)
    assert [phase["name"] for phase in client.state()["phases"]][1:3] == ["Build", "Try it"]


def test_a_plan_that_a_dev_workflow_reads_is_no_second_workflow(client):
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 3/5\n")
    client.ok("start", "dev", "a.md", "--read", f"@{PLAN}")
    compacted(client)
    assert [row["recipe"] for row in rows(client)] == ["dev"]


def test_the_plan_of_a_record_that_ended_stays_ended_until_it_is_written_again(client):
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 3/5\n")
    client.write(RECORD, record())
    compacted(client)
    client.ok("complete", "--force", "--reason", "done")
    compacted(client)
    assert rows(client) == []
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 1/2 - Extend\n")
    later = os.path.getmtime(client.at().path + f"/{PLAN}") + 60
    os.utime(os.path.join(client.path, PLAN), (later, later))
    compacted(client)
    assert [row["id"] for row in rows(client)] == ["user-auth"]


def test_a_plan_that_another_plan_reads_is_a_workflow_of_its_own(client):
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 1/2\n\n@CLAUDE/Plan/002-more/PLAN.md\n")
    client.write("CLAUDE/Plan/002-more/PLAN.md", "# More\n🔄 In Progress\nPhase: 2/2\n")
    for _ in range(2):
        compacted(client)
    assert sorted(row["title"] for row in rows(client)) == ["More", "User Auth"]


# The phase


@pytest.mark.parametrize(
    "lines",
    [
        "Current Phase: 2/3 - Build",
        "**Current Phase**: 2 of 3: Build",
        "Current Phase: Build\n## Phase 1: Design\n## Phase 2: Build\n## Phase 3: Test",
        "Current Phase: Phase 2\n## Phase 1: Design\n## Phase 2: Build\n## Phase 3: Test",
        "## Phase 1: Design\n- [x] a\n- [x] b\n## Phase 2: Build\n- [x] c\n- [ ] d\n## Phase 3",
        "### Phase 1 - Design\n1. [x] a\n### Phase 2 - Build\n### Phase 3\n## Later\n- [ ] x",
        "## Phase 1: Design (done)\n## Phase 2: Build (in progress)\n## Phase 3: Test",
        "## Phase 1: Design\nStatus: Complete\n## Phase 2: Build\nStatus: pending\n## Phase 3",
        "## Phase 1: Design — complete\n## Phase 2: Build\n## Phase 3: Done by whom",
        "- [x] Phase 1: Design\n- [ ] Phase 2: Build\n- [ ] Phase 3: Test",
    ],
)
def test_the_right_phase_of_a_plan_is_found(lines):
    phase = agent_notes.from_plan(f"{IN_PROGRESS}{lines}\n", PLAN)["phase"]
    assert (phase["current"], phase["total"], phase["name"]) == (2, 3, "Build")


def test_notes_may_call_it_the_current_phase(client):
    client.write(NOTES, "WORKFLOW STATE\nCurrent Workflow: Pages\nCurrent Phase: 2/3 - Build\n")
    compacted(client)
    (row,) = rows(client)
    assert (row["title"], row["phase_index"], row["phase"]) == ("Pages", 2, "Build")


# Reminders, context, status and type


FULL = notes(
    "4/10 - Texts",
    "Type: implementation",
    "Status: blocked",
    "@docs/pages.md",
    "",
    "## Key Reminders",
    "- Never skip the review",
    "2. Run **all** tests",
    "- @docs/more.md",
    "",
    "## Context",
    "- page_name: case-studies",
    "**plan number**: 7",
    "",
    "## Other",
    "- Not a reminder",
)


def test_reminders_context_status_and_type_of_notes_are_taken_in(client):
    client.write(NOTES, FULL)
    compacted(client)
    state = client.state()
    assert state["reminders"] == ["Never skip the review", "Run **all** tests"]
    assert state["context"] == {"page_name": "case-studies", "plan_number": 7}
    assert (state["recipe"], state["phases"][3]["status"]) == ("implementation", "blocked")
    assert state["required_reading"] == ["@docs/pages.md", "@docs/more.md"]


def test_labels_without_headings_are_sections_too():
    text = notes("1/2", "Key Reminders:", "- One", "- Two", "Context:", "- key: value")
    document = agent_notes.from_notes(text)
    assert (document["key_reminders"], document["context"]) == (["One", "Two"], {"key": "value"})


def test_notes_add_what_is_new_and_bring_nothing_back(client):
    client.write(NOTES, FULL)
    compacted(client)
    client.ok("remind", "--remove", "1")
    client.ok("set", "page_name=products")
    client.ok("phase", "unblock", "Texts")
    client.write(NOTES, f"{FULL.replace('7', '8')}\n## Reminders\n- A third\n")
    compacted(client)
    state = client.state()
    assert state["reminders"] == ["Run **all** tests", "A third"]
    assert state["context"] == {"page_name": "products", "plan_number": 8}
    assert state["phases"][3]["status"] == "in_progress"


def test_what_was_removed_is_not_brought_back_by_the_same_notes(client):
    keeper = Keeper(client.path)
    client.write(NOTES, FULL)
    keeper.take_in_notes()
    keeper.remove_reminder(1)
    client.write(NOTES, f"{FULL}@docs/other.md\n")
    assert keeper.take_in_notes() == ["pages"]
    assert keeper.show().state["reminders"] == ["Run **all** tests"]


# The end of notes


def told(client):
    """Return the next step that the briefing, ``resume`` and ``status`` tell."""
    text = client.briefed()
    (note,) = [note for note in client.ok("status")["notes"] if "which this workflow" in note]
    return text[text.index("NEXT") :].splitlines()[0], client.ok("resume")["next"], note


@pytest.mark.parametrize("status", ["complete", "✅ Done", "COMPLETED", "finished"])
def test_notes_that_say_complete_offer_to_end_the_workflow(client, status):
    client.write(NOTES, notes())
    compacted(client)
    client.write(NOTES, notes("4/10 - Texts", f"Status: {status}"))
    compacted(client)
    line, step, note = told(client)
    assert line.endswith("says that it is complete; nothing is left to do: holdfast complete")
    assert step["command"] == ["holdfast", "complete"]
    assert note.endswith("holdfast complete -w pages")
    client.ok(*step["command"][1:])
    compacted(client)
    assert rows(client) == []


@pytest.mark.parametrize("status", ["in progress", "blocked"])
def test_notes_that_say_complete_lead_to_the_gates_and_to_the_end(client, status):
    about = ("Type: implementation", f"Status: {status}")
    client.write(NOTES, notes("4/10 - Texts", *about))
    compacted(client)
    client.write(NOTES, notes("4/10 - Texts", "Type: implementation", "Status: complete"))
    compacted(client)
    assert {phase["status"] for phase in client.state()["phases"]} == {"completed"}
    for _ in range(2):
        words = client.ok("resume")["next"]["command"][1:]
        command = ["git", "diff", "--check"] if words[-1] == "COMMAND" else words[-1:]
        client.ok(*words[:-1], *command)
    assert rows(client) == []


def test_notes_that_are_complete_from_the_beginning_are_no_workflow(client):
    client.write(NOTES, notes("4/4 - Ship", "Status: complete"))
    compacted(client)
    assert rows(client) == []


def test_notes_that_became_complete_without_a_compaction_are_taken_in_by_resume(client):
    client.write(NOTES, notes())
    compacted(client)
    client.write(NOTES, notes("10/10 ✅"))
    assert client.ok("show")["next"]["command"] == ["holdfast", "resume", "pages"]
    assert client.ok("resume")["next"]["command"] == ["holdfast", "complete"]


@pytest.mark.parametrize("gone", ["removed", "of another workflow", "without a workflow"])
def test_notes_that_are_gone_offer_to_end_the_workflow(client, gone):
    client.write(NOTES, notes())
    compacted(client)
    if gone == "removed":
        os.remove(os.path.join(client.path, NOTES))
    else:
        client.write(NOTES, "# Free" if gone == "without a workflow" else notes(name="Other"))
    if gone == "of another workflow":
        assert client.state("pages")
        step = client.ok("show", "pages")["next"]
    else:
        line, step, _ = told(client)
        assert "or go on with holdfast advance: holdfast abandon --reason" in line
    assert step["command"][1:3] == ["abandon", "--reason"]
    client.ok(*step["command"][1:], "-w", "pages")
    assert client.state("pages")["status"] == "abandoned"


def test_a_plan_that_is_complete_offers_to_end_the_workflow(client):
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 2/3 - Build\n")
    compacted(client)
    client.write(PLAN, "# User Auth\n\nStatus: ✅ Complete\nCurrent Phase: 3/3\n")
    compacted(client)
    assert client.ok("resume")["next"]["command"] == ["holdfast", "complete"]


@pytest.mark.parametrize("text", ["", notes("4/10", "Status: complete")])
def test_a_workflow_whose_notes_are_over_expires(client, text):
    client.write(NOTES, notes())
    compacted(client)
    assert client.state()["ttl"] is None
    client.write(NOTES, text)
    compacted(client)
    assert client.state()["ttl"] == "7d"
    clock = Clock()
    clock.ms = Keeper(client.path).store.now_ms() + 8 * DAY_MS
    expired, noted = Keeper(client.path, clock_ms=clock).workflows()
    assert (expired, "expired" in noted[0]) == ([], True)
    client.write(NOTES, notes("5/10"))
    compacted(client)
    assert client.state()["ttl"] is None


def test_notes_on_another_branch_are_not_gone(client):
    client.git("switch", "-qc", "work")
    client.commit(PLAN, f"{IN_PROGRESS}Current Phase: 2/3 - Build\n")
    compacted(client)
    client.git("switch", "-q", "-")
    assert not client.has(PLAN)
    assert "notes" not in client.ok("status")
    compacted(client)
    assert client.state("user-auth")["ttl"] is None


def test_a_record_that_names_another_file_as_its_notes_reads_nothing(client):
    client.write("docs/plan.md", f"{IN_PROGRESS}Current Phase: 1/2\n")
    client.write("CLAUDE/PLAN.md", f"{IN_PROGRESS}Current Phase: 1/2\n")
    for path in ("docs/plan.md", "CLAUDE/Plan/../PLAN.md", "CLAUDE/Plan/../../docs/plan.md", ""):
        assert agent_notes.why_over(client.path, path, "User Auth") == "no longer tells of it"
    client.write(PLAN, f"{IN_PROGRESS}Current Phase: 1/2\n")
    assert agent_notes.why_over(client.path, PLAN, "User Auth") == ""


# What hooks reject


BAD = [
    (record(phase={"current": 7, "total": 5, "name": "x"}), "must be a number from 1 to 5"),
    (record(required_reading=["docs/a.md"]), "must start with @"),
    ("{", "line 1"),
]


def everywhere(client):
    """Return what the hook's context, its log, and three commands say of the records."""
    return {
        "briefing": client.briefed(),
        "hook.log": client.log(),
        "status": str(client.ok("status").get("notes")),
        "verify": str(client.ok("verify")["lines"]),
        "doctor": client.run("doctor").out,
    }


@pytest.mark.parametrize("has_workflow", [False, True], ids=["none", "active"])
@pytest.mark.parametrize(("text", "why"), BAD, ids=["current > total", "no @", "no JSON"])
def test_a_first_record_that_is_rejected_is_said_everywhere(client, text, why, has_workflow):
    if has_workflow:
        client.ok("start", "custom", "Move", "--phase", "Pack")
    client.write(RECORD, text)
    for place, said in everywhere(client).items():
        assert f"{RECORD}" in said, place
        assert why in said, place


def test_a_compaction_logs_what_it_could_not_take_in(client):
    client.write(RECORD, BAD[0][0])
    compacted(client)
    assert "note: " in client.log()
    assert BAD[0][1] in client.log()


@pytest.mark.parametrize("text", ["{x", None])
def test_an_edit_that_a_hook_refused_or_a_record_it_rebuilt_is_said_everywhere(migration, text):
    path = migration.state()["record"]
    if text is None:
        os.remove(os.path.join(migration.path, path))
    else:
        migration.write(path, text)
    compacted(migration)
    said = everywhere(migration)
    what = "rebuilt" if text is None else "was refused"
    assert what in said["briefing"]
    assert what in said["hook.log"]


def test_what_a_hook_rebuilt_is_said_until_a_session_is_briefed(migration):
    os.remove(os.path.join(migration.path, migration.state()["record"]))
    compacted(migration)
    assert "rebuilt" in str(migration.ok("status")["notes"])
    assert "rebuilt" in str(migration.ok("verify")["lines"])
    assert "rebuilt" in migration.run("doctor").out
    assert "rebuilt" in migration.briefed()
    assert "rebuilt" not in str(migration.ok("status").get("notes"))


def test_a_missing_required_file_is_named_as_missing(migration):
    os.remove(os.path.join(migration.path, "docs/guide.md"))
    assert "@docs/guide.md (missing: there is no such file)" in migration.briefed()
    assert "@docs/guide.md  missing" in migration.run("show").out
    assert "required files are missing: @docs/guide.md" in migration.run("doctor").out
