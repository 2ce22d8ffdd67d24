"""Repositories that would have files read or written that are none of their business."""

import json
import os
import sqlite3

from promises.clones import ESCAPES, RECORD, SECRET, put, repository


@repository
def reading_outside(clone):
    clone.link("linked", clone.outside)
    clone.link("secret.md", clone.secret)
    reading = [
        "@/etc/shadow", f"@{clone.secret}", "@../outside/secret.txt", "@linked/secret.txt",
        "@secret.md", "@~/.ssh/id", "@$HOME/.ssh/id", "@docs/../../outside/secret.txt",
    ]  # fmt: skip
    common = {"required_reading": reading, "key_reminders": [ESCAPES]}
    phase = {"current": 1, "total": 2, "name": ESCAPES, "status": "in_progress"}
    clone.write(
        "untracked/workflow-state/custom-trap/state-custom-trap-20260217_060504.json",
        json.dumps({"workflow": "Trap", "workflow_type": "custom", "phase": phase, **common}),
    )
    clone.write(RECORD, json.dumps({"type": "APEX", "phase": "plan", "context": ESCAPES, **common}))
    clone.write(
        "CLAUDE.local.md", f"# Workflow state\nWorkflow: {ESCAPES}\nPhase: 1/3\n@{clone.secret}\n"
    )


@repository
def records_that_are_links(clone):
    for name in (
        RECORD, ".claude/workflow-state/index.json", ".claude/initiative.json",
        ".claude/interview-state.json", ".claude/delegation-log.json", ".claude/learnings.json",
        ".claude/forge-context.json", ".claude/holdfast.toml", ".mcp.json", "CLAUDE.local.md",
        ".claude/iterative/trap/state.json", ".claude/workflows/ship.toml", ".claude/settings.json",
        "CLAUDE/Plan/001-x/PLAN.md", ".claude/settings.local.json", "WORKFLOW-STATUS.yaml",
    ):  # fmt: skip
        clone.link(name, clone.record if name.endswith(".json") else clone.secret)
    for name in (".claude/workflow-state/active", "untracked", "documentation"):
        clone.link(name, clone.outside)


@repository
def spares_that_are_links(clone):
    """The names under which Holdfast writes before it puts a file in its place, or looks after."""
    for name in (
        "workflow-state.json", "initiative.json", "settings.json", "learnings.json",
        "interview-state.json", "delegation-log.json", "forge-context.json",
    ):  # fmt: skip
        for end in ("", ".old", "-0", "-saved-1", "-saved-2"):
            clone.link(f".claude/.{name}.holdfast{end}", clone.record)
    for name in (
        "ledger.db.new", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal",
        "ledger.db.recovered", "memory.json",
    ):  # fmt: skip
        clone.link(f".git/holdfast/{name}", clone.secret)


@repository
def locks_and_logs_that_are_links(clone):
    for name in (
        "lock", "hook.log", "installed.json.lock", "graph-mcp.json.lock", "memory.lock",
        "doctor.lock", "initiatives.lock", "cleaned",
    ):  # fmt: skip
        clone.link(f".claude/holdfast/{name}", clone.secret)
        clone.link(f".git/holdfast/{name}", clone.secret)


@repository
def a_ledger_that_is_a_link(clone):
    put(os.path.join(clone.outside, "ledger.ndjson"), f"{SECRET}\n")
    clone.link(".claude/holdfast/ledger.ndjson", os.path.join(clone.outside, "ledger.ndjson"))
    clone.link(".claude/holdfast/ledger.db", clone.secret)
    clone.link(".git/holdfast", clone.outside)


@repository
def a_database_that_is_a_link(clone):
    clone.link(".git/holdfast/ledger.db", clone.secret)
    clone.link(".git/holdfast/recovering", clone.outside)


@repository
def a_folder_of_holdfast_that_is_elsewhere(clone):
    clone.link(".claude", clone.outside)


@repository
def initiatives_elsewhere(clone):
    os.makedirs(os.path.join(clone.outside, "plans", "trap"))
    put(os.path.join(clone.outside, "plans", "trap", "README.md"), f"## M1: {SECRET}\n- [ ] one\n")
    clone.link("documentation/milestones/_active", os.path.join(clone.outside, "plans"))
    clone.link("documentation/milestones/_archive", clone.outside)
    clone.write(".claude/initiative.json", json.dumps({"name": "Trap", "status": "in_progress"}))


@repository
def an_initiative_whose_files_are_links(clone):
    folder = "documentation/milestones/_active/trap"
    put(os.path.join(clone.outside, "page.md"), f"# {SECRET}\n\n## M1: Map\n\n- [ ] one\n")
    clone.link(f"{folder}/README.md", os.path.join(clone.outside, "page.md"))
    clone.link(f"{folder}/M1-map.md", clone.secret)
    clone.link(f"{folder}/WORKFLOW-STATUS.yaml", clone.secret)
    clone.write(
        ".claude/initiative.json",
        json.dumps(
            {"name": "Trap", "status": "in_progress", "milestones": {"M1": {"status": "x"}}}
        ),
    )


@repository
def settings_that_lead_out(clone):
    clone.link("plans", clone.outside)
    clone.write(
        ".claude/holdfast.toml",
        'milestones = "plans"\nworkflow_status = "plans/secret.txt"\nmemory = "plans/MEMORY.md"\n',
    )


@repository
def a_memory_that_is_elsewhere(clone):
    put(os.path.join(clone.outside, "MEMORY.md"), f"# {SECRET}\n")
    clone.link("MEMORY.md", os.path.join(clone.outside, "MEMORY.md"))
    clone.write(".claude/holdfast.toml", 'memory = "../home/.ssh/id"\n')


@repository
def a_memory_by_local_settings(clone):
    told = {"autoMemoryDirectory": clone.outside, "autoMemoryEnabled": True}
    for name in (".claude/settings.local.json", ".claude/settings.json"):
        clone.write(name, json.dumps(told))
    clone.git("add", "-f", ".claude")
    clone.git("commit", "-q", "-m", "settings")


@repository
def a_memory_by_local_settings_of_an_archive(clone):
    told = {"autoMemoryDirectory": clone.outside, "autoMemoryEnabled": True}
    clone.write(".claude/settings.local.json", json.dumps(told))


@repository
def a_memory_by_settings_and_a_link(clone):
    put(os.path.join(clone.outside, "MEMORY.md"), f"# {SECRET}\n")
    clone.link("docs/MEMORY.md", os.path.join(clone.outside, "MEMORY.md"))
    clone.write(".claude/settings.json", json.dumps({"autoMemoryDirectory": "docs"}))


@repository
def a_loop_whose_pages_are_links(clone):
    clone.holdfast("loop", "new", "trap", "--mode", "development", "--outcome", "x")
    clone.holdfast("loop", "plan", "trap", "--unit", "T1:Go")
    for name in ("progress.md", "tasks.md", "brief.md", "context.md", "guardrails.md"):
        path = clone.path(".claude/iterative/trap", name)
        if os.path.exists(path):
            os.unlink(path)
        put(os.path.join(clone.outside, name), f"# {SECRET}\n")
        clone.link(f".claude/iterative/trap/{name}", os.path.join(clone.outside, name))
    os.rmdir(clone.path(".claude/iterative/archive"))
    clone.link(".claude/iterative/archive", clone.outside)


@repository
def a_journal_that_names_others_files(clone):
    empty = os.path.join(clone.home, "empty")
    os.makedirs(empty)
    entry = {"original": "owned\n", "written": [], "before": ""}
    files = {
        "./.claude/settings.json": entry, "./../outside/secret.txt": entry, clone.secret: entry,
    }  # fmt: skip
    told = {"version": 1, "folders": [empty, clone.outside], "files": files}
    clone.write(".claude/holdfast/installed.json", json.dumps(told))
    clone.write(".claude/settings.json", json.dumps({"hooks": {}}))


@repository
def a_database_with_a_mind_of_its_own(clone):
    clone.holdfast("start", "apex", "it")
    path = clone.path(".git/holdfast/ledger.db")
    with sqlite3.connect(path) as database:
        tables = [
            row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for number, table in enumerate(tables):
            for when in ("INSERT", "UPDATE", "DELETE"):
                try:
                    database.execute(
                        f'CREATE TRIGGER evil{number}{when} AFTER {when} ON "{table}" BEGIN '
                        "SELECT load_extension('/x'), writefile('ran', 'x'), readfile('/etc/x'),"
                        f" fts3_tokenizer('simple'), edit('{clone.canary}'); END"
                    )
                except sqlite3.Error:
                    continue
        database.execute("CREATE VIEW evil AS SELECT load_extension('/x')")
    database.close()


@repository
def a_database_with_views_for_tables(clone):
    clone.holdfast("start", "apex", "it")
    path = clone.path(".git/holdfast/ledger.db")
    with sqlite3.connect(path) as database:
        for table in ("events", "streams", "states", "records", "facts"):
            try:
                database.execute(f'ALTER TABLE "{table}" RENAME TO "old_{table}"')
                database.execute(
                    f'CREATE VIEW "{table}" AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL '
                    "SELECT x + 1 FROM n) SELECT x FROM n"
                )
            except sqlite3.Error:
                continue
    database.close()
