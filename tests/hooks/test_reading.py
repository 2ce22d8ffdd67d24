"""Required reading is ticked by a real read, and what the team enforces is enforced."""

import json
import os

import pytest

from holdfast.hooks.quick_check import file_id


def unread(client):
    return client.state()["unread"]


def test_reading_the_file_ticks_it(migration):
    assert unread(migration) == ["@docs/guide.md"]
    assert migration.read("docs/guide.md") is None
    assert unread(migration) == []
    assert migration.types()[-1] == "reading_confirmed"
    migration.read("docs/guide.md")
    assert migration.types().count("reading_confirmed") == 1


def test_a_compaction_unticks_it(migration):
    migration.read("docs/guide.md")
    migration.fire("PreCompact", trigger="auto")
    assert unread(migration) == ["@docs/guide.md"]
    assert "@docs/guide.md" in migration.briefed()


def test_a_compaction_that_nobody_could_record_unticks_it_when_the_session_goes_on(migration):
    migration.read("docs/guide.md")
    assert "@docs/guide.md" in migration.briefed("compact")
    assert unread(migration) == ["@docs/guide.md"]
    assert migration.types()[-2:] == ["context_compacted", "briefing_delivered"]


@pytest.mark.parametrize("source", ["startup", "clear"])
def test_a_new_session_reads_for_itself(migration, source):
    migration.read("docs/guide.md")
    assert "@docs/guide.md" in migration.other("session-2").briefed(source)
    assert unread(migration) == ["@docs/guide.md"]
    migration.other("session-2").read("docs/guide.md")
    assert unread(migration) == []


def test_a_session_that_goes_on_has_read_it(migration):
    migration.briefed("startup")
    migration.read("docs/guide.md")
    assert "REQUIRED READING" not in migration.briefed("resume")
    migration.as_session("session-1").ok("resume")
    assert unread(migration) == []


def test_without_hooks_a_session_that_takes_it_up_reads_for_itself(migration):
    migration.read("docs/guide.md")
    answer = migration.as_session("session-2").ok("resume")
    assert "@docs/guide.md" in answer["briefing"]
    assert unread(migration) == ["@docs/guide.md"]


@pytest.mark.parametrize(
    "event",
    [
        {"tool_name": "Grep", "tool_input": {"path": "docs/guide.md"}},
        {"tool_name": "Read", "tool_input": {"file_path": "README.md"}},
        {"tool_name": "Read", "tool_input": {"file_path": "docs/guide.md"}, "agent_id": "a1"},
        {"tool_name": "Read", "tool_input": {}},
        {
            "tool_name": "Read",
            "tool_input": {"file_path": "docs/guide.md"},
            "tool_response": {"error": "no such file"},
        },
    ],
    ids=["another tool", "another file", "a sub-agent", "nothing", "a failure"],
)
def test_anything_else_ticks_nothing(migration, event):
    migration.fire("PostToolUse", **event)
    assert unread(migration) == ["@docs/guide.md"]


def test_a_file_is_the_same_however_it_is_spelled(migration):
    os.symlink("docs", os.path.join(migration.path, "papers"))
    migration.read("papers/../docs/guide.md")
    assert unread(migration) == []


@pytest.mark.parametrize(
    "required",
    ["docs/../docs/other.md", "docs/./other.md", "linked.md", "folder/other.md", "hard.md"],
)
def test_required_reading_is_compared_as_files(client, required):
    client.write("docs/other.md", "x\n")
    client.write("docs/third.md", "x\n")
    os.symlink("docs/other.md", os.path.join(client.path, "linked.md"))
    os.symlink("docs", os.path.join(client.path, "folder"))
    os.link(os.path.join(client.path, "docs/other.md"), os.path.join(client.path, "hard.md"))
    client.ok("start", "custom", "x", "--read", f"@{required}")
    client.read("docs/third.md")
    assert unread(client) == [f"@{required}"]
    client.read("docs/other.md")
    assert unread(client) == []


def test_a_file_is_identified_however_its_path_is_spelled(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/guide.md").write_text("x")
    (tmp_path / "other.md").write_text("x")
    os.symlink("docs/guide.md", tmp_path / "linked.md")
    folder = str(tmp_path)
    guide = file_id(folder, "docs/guide.md")
    for same in ("docs/../docs/guide.md", "linked.md", f"{folder}/docs/guide.md"):
        assert file_id(folder, same) == guide
    assert file_id(f"{folder}/docs", "guide.md") == guide
    for other in ("other.md", "docs/gone.md", "docs/\0"):
        assert file_id(folder, other) != guide


def test_a_path_is_relative_to_the_folder_that_the_client_works_in(migration):
    folder = os.path.join(migration.path, "docs")
    read = {"tool_name": "Read", "tool_response": {}, "cwd": folder}
    migration.fire("PostToolUse", tool_input={"file_path": "docs/guide.md"}, **read)
    assert unread(migration) == ["@docs/guide.md"]
    migration.fire("PostToolUse", tool_input={"file_path": "guide.md"}, **read)
    assert unread(migration) == []


def test_the_file_of_another_worktree_is_another_file(migration, tmp_path):
    other = tmp_path / "elsewhere" / "docs"
    other.mkdir(parents=True)
    (other / "guide.md").write_text("x\n")
    migration.read(str(other / "guide.md"))
    assert unread(migration) == ["@docs/guide.md"]


def piece(start, lines, total):
    return {"file": {"startLine": start, "numLines": lines, "totalLines": total}}


def test_a_long_file_was_read_when_its_last_piece_was(migration):
    guide = {"tool_name": "Read", "tool_input": {"file_path": "docs/guide.md"}}
    for response in (piece(1, 20, 5_000), piece(21, 2_000, 5_000)):
        migration.fire("PostToolUse", **guide, tool_response=response)
        assert unread(migration) == ["@docs/guide.md"]
    migration.fire("PostToolUse", **guide, tool_response=piece(2_021, 2_980, 5_000))
    assert unread(migration) == []


@pytest.mark.parametrize("file", [piece(1, 12, 12), piece(1, 0, 1), piece("1", None, []), {}])
def test_a_short_file_was_read_at_once(migration, file):
    guide = {"tool_name": "Read", "tool_input": {"file_path": "docs/guide.md"}}
    migration.fire("PostToolUse", **guide, tool_response=file)
    assert unread(migration) == []


@pytest.mark.parametrize("name", ["größe.md", 'so "called".md', "back\\slash.md"])
def test_a_name_that_json_writes_in_several_ways_is_ticked(client, name):
    client.write(f"docs/{name}", "x\n")
    client.ok("start", "custom", "x", "--read", f"@docs/{name}")
    record = client.state()["record"]
    edited = {**client.record(record), "key_reminders": ["by another tool"]}
    client.write(record, json.dumps(edited))
    client.read(f"docs/{name}")
    assert unread(client) == []


def test_a_file_that_is_read_through_a_link_of_another_name_is_ticked(migration):
    os.symlink("docs/guide.md", os.path.join(migration.path, "start-here.md"))
    migration.read("start-here.md")
    assert unread(migration) == []


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("read_file", {"file_path": "docs/guide.md"}),
        ("read_file", {"absolute_path": "docs/guide.md"}),
        ("read_many_files", {"include": ["README.md", "docs/guide.md"]}),
        ("read_many_files", {"paths": ["docs/guide.md"]}),
    ],
)
def test_each_way_in_which_gemini_reads_counts(migration, tool, given):
    migration.fire("AfterTool", tool_name=tool, tool_input=given)
    assert unread(migration) == []


@pytest.mark.parametrize("given", [{"file_path": "\ud800"}, {"paths": [7, "a\0b"]}, {"include": 1}])
def test_paths_that_are_none_stop_nobody(migration, given):
    migration.fire("PostToolUse", tool_name="Read", tool_input=given)
    assert migration.log() == ""


def test_nothing_is_enforced_by_default(migration):
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "a.py"}}
    assert migration.fire("PreToolUse", **edit) is None
    assert migration.fire("Stop", stop_hook_active=False) is None


def test_enforced_reading_denies_edits_until_it_was_read(migration):
    migration.write(".claude/holdfast.toml", 'enforce = ["reading"]\n')
    edit = {"tool_name": "Write", "tool_input": {"file_path": "a.py"}}
    told = migration.fire("PreToolUse", **edit)["hookSpecificOutput"]
    assert told["permissionDecision"] == "deny"
    assert "@docs/guide.md" in told["permissionDecisionReason"]
    migration.read("docs/guide.md")
    assert migration.fire("PreToolUse", **edit) is None


def test_a_file_that_is_not_there_cannot_be_insisted_on(client):
    client.write(".claude/holdfast.toml", 'enforce = ["reading"]\n')
    client.ok("start", "custom", "x", "--read", "@docs/later.md")
    assert client.fire("PreToolUse", tool_name="Edit", tool_input={}) is None


@pytest.mark.parametrize("more", ['graf = "off"', "graph = ["])
def test_settings_that_cannot_be_used_enforce_nothing_and_the_briefing_says_so(migration, more):
    migration.write(".claude/holdfast.toml", f'enforce = ["reading"]\n{more}\n')
    assert migration.fire("PreToolUse", tool_name="Edit", tool_input={"file_path": "a.py"}) is None
    assert "NOT ENFORCED: .claude/holdfast.toml" in migration.briefed()
    migration.write(".claude/holdfast.toml", 'enforce = ["reading"]\n')
    assert "NOT ENFORCED" not in migration.briefed()


def test_enforced_stopping_sends_the_agent_back_once(client):
    client.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    mine = client.as_session("session-1")
    mine.ok("start", "dev", "a.md", "--task", "one")
    answer = client.fire("Stop", stop_hook_active=False)
    assert answer["decision"] == "block"
    assert "task 1" in answer["reason"]
    assert "gates lint" in answer["reason"]
    mine.ok("remind", "it goes on")
    assert client.fire("Stop", stop_hook_active=True) is None
    mine.ok("remind", "and on")
    assert client.fire("Stop") is None
    mine.ok("complete", "--force", "--reason", "x")
    assert client.fire("Stop", stop_hook_active=False) is None


def test_in_gemini_a_change_without_a_session_may_be_the_agents(client):
    """The commands of its agents do not tell their session."""
    client.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    client.ok("start", "dev", "a.md", "--task", "one")
    assert client.fire("AfterAgent", stop_hook_active=False)["decision"] == "block"
    assert client.fire("AfterAgent", stop_hook_active=True) is None
    assert client.fire("AfterAgent", stop_hook_active=False) is None


def test_a_session_that_was_asked_something_else_may_stop(client):
    client.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    client.ok("start", "dev", "a.md", "--task", "one")
    mine = client.as_session("session-1")

    def is_held(**fields):
        return client.fire("Stop", **{"stop_hook_active": False, **fields}) is not None

    # Somebody else began it; this session was briefed, and looks.
    client.briefed("startup")
    mine.ok("show")
    mine.ok("resume")
    assert not is_held()
    mine.ok("task", "start", "1")
    client.fire("PreCompact", trigger="auto")
    client.briefed("compact")
    assert is_held()
    mine.ok("remind", "sent back, it goes on")
    assert not is_held(stop_hook_active=True)
    # The next turn is about something else.
    assert not is_held()
    client.ok("remind", "a person's own change")
    assert not is_held()
    mine.ok("task", "phase", "1", "red")
    assert is_held()


def test_a_bad_setting_stops_nobody(migration):
    migration.write(".claude/holdfast.toml", 'enforce = ["everything"]\n')
    assert migration.fire("Stop", stop_hook_active=False) is None
    assert "enforce" in migration.log()
