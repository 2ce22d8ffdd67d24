"""The lines of the layered memory: what each layer gets, and what is left when one is missing."""

import json
import os
import time
from pathlib import Path

import pytest

from holdfast import Keeper
from support.workshop import DAY_MS

RECORD = ".claude/workflow-state.json"
EXPIRED = "Workflow state expired (inactive > 24h)"


def ago(hours):
    """Return a time that many hours ago, as a tool writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours * 3_600))


def record_of(**fields):
    """Return a record that another tool wrote."""
    document = {"type": "APEX", "phase": "review", "lastUpdated": ago(1), "context": "Login"}
    return json.dumps({**document, **fields})


def hook(repo, session="s1", source="startup", event="SessionStart"):
    """Return what a hook tells a new context."""
    call = {"hook_event_name": event, "source": source, "session_id": session, "cwd": repo.path}
    answer = repo.run("hook", input=json.dumps(call).encode(), stdin=None).out
    return json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer.strip() else ""


@pytest.fixture
def memory(repo, tmp_path):
    """Return the project's memory, which the repository's commands write."""
    path = tmp_path / "notes" / "MEMORY.md"
    repo.environment["HOLDFAST_MEMORY"] = str(path)
    return path


# Enforcement


@pytest.mark.parametrize(
    ("violations", "codes"),
    [
        ([{"code": "V-1", "severity": "BLOCKER", "details": "x"}], ["V-1"]),
        ([{"code": "V-1", "severity": "LOW", "details": "x"}], ["V-1"]),
        ([], ["enforcement"]),
    ],
    ids=["unknown severity", "lesser severity", "none"],
)
def test_a_record_that_says_blocking_stays_blocking(repo, violations, codes):
    said = {"violations": violations, "blocking": True, "summary": "a review stopped it"}
    repo.write(RECORD, record_of(enforcement=said))
    error = repo.refused("advance")
    assert (error["code"], error["details"]["violations"]) == ("blocking", codes)
    assert repo.record(RECORD)["enforcement"]["blocking"] is True
    repo.ok("violation", "clear", codes[0])
    assert "enforcement" not in repo.record(RECORD)
    repo.ok("advance")


def test_an_unknown_severity_blocks_without_saying_so(repo):
    violation = {"code": "V-1", "severity": "SHOWSTOPPER", "details": "x"}
    repo.write(RECORD, record_of(enforcement={"violations": [violation]}))
    assert repo.refused("advance")["code"] == "blocking"


def test_an_edit_that_says_blocking_blocks_and_one_that_clears_the_list_does_not(repo):
    repo.ok("start", "apex", "Login")
    low = {"code": "V-1", "severity": "LOW", "details": "x"}
    said = {"violations": [low], "blocking": True, "summary": "s"}
    repo.edit(RECORD, lambda record: record.update(enforcement=said))
    assert repo.ok("violation", "list")["blocking_codes"] == ["V-1"]
    repo.ok("advance")
    repo.edit(RECORD, lambda record: record["enforcement"].update(violations=[]))
    assert repo.ok("violation", "list")["violations"] == []


def test_the_list_of_violations_tells_what_was_forced(repo):
    repo.ok("start", "apex", "Login")
    repo.ok("advance")
    Keeper(repo.path).approve_phase("plan")
    for _ in range(2):
        repo.ok("advance")
    repo.ok("violation", "add", "V-SEC-01", "HIGH", "A key in the code")
    assert "the work is not handed over" in repo.run("violation", "list").out
    repo.ok("advance", "--force", "--reason", "the key is a sample")
    listed = repo.ok("violation", "list")
    assert (listed["blocking"], listed["forced"]) == (True, "the key is a sample")
    shown = repo.run("violation", "list").out
    assert "1 HIGH violation (blocking): handed over all the same: the key is a sample" in shown


def test_the_outcome_of_an_escalation_is_added_later(repo):
    for agents in (("scout", "smith"), ("smith", "architect")):
        names = ("--from", agents[0], "--to", agents[1])
        repo.ok("delegation", "escalate", *names, "--reason", "two failures")
    repo.ok("delegation", "resolve", "no")
    repo.ok("delegation", "resolve", "yes", "--from", "scout")
    summary = repo.ok("delegation", "list")["summary"]["escalations"]
    assert [(row["from"], row["resolved"]) for row in summary] == [("scout", 1), ("smith", 0)]
    shown = repo.run("delegation", "list").out
    assert "scout → smith  1 time, 1 resolved" in shown.replace("1 times", "1 time")
    error = repo.refused("delegation", "resolve", "yes")
    assert (error["code"], "waits for its outcome" in error["message"]) == ("not_found", True)
    entry = repo.record(".claude/delegation-log.json")["delegations"][-1]
    assert (entry["kind"], entry["reason"]) == ("outcome", "two failures")


def test_no_question_and_no_duration_are_recorded_as_zero(repo):
    repo.ok("interview", "record", "--skill", "plan", "--confidence", "1", "--questions", "0")
    words = ("--agent", "scout", "--outcome", "success", "--duration-ms", "0")
    repo.ok("delegation", "record", *words)
    assert repo.record(".claude/interview-state.json")["questions_asked"] == 0
    assert repo.ok("delegation", "list")["summary"]["agents"][0]["median_ms"] == 0


@pytest.mark.parametrize("spelling", ["24H", "1h30m", "90 min", "2 days", "1d 12h"])
def test_a_time_to_live_in_any_sensible_spelling(repo, spelling):
    repo.ok("start", "apex", "Login", "--ttl", spelling)
    assert repo.record(RECORD)["ttl"] == spelling
    repo.ok("abandon")
    repo.write(RECORD, record_of(ttl=spelling, context="Logout"))
    assert repo.ok("resume")["workflow"]["ttl"] == spelling


@pytest.mark.parametrize("spelling", ["soon", "24", "24 parsecs", "h", "1h30"])
def test_a_time_to_live_that_makes_no_sense_says_so(repo, spelling):
    error = repo.refused("start", "apex", "Login", "--ttl", spelling)
    assert f"{spelling!r} is not a duration" in error["message"]
    repo.write(RECORD, record_of(ttl=spelling))
    assert "ttl: must be a duration such as 90m, 24h or 7d" in repo.refused("resume")["message"]


def test_the_expiry_is_told_in_hook_and_resume_until_the_work_goes_on(repo):
    repo.write(RECORD, record_of(lastUpdated=ago(30), ttl="24h"))
    assert EXPIRED in hook(repo)
    for _ in range(2):
        error = repo.refused("resume")
        assert EXPIRED in error["message"]
    name = error["hint"].rpartition(" ")[2]
    for _ in range(2):
        assert f"NOTE: {EXPIRED}; it was brought back" in repo.run("resume", name).out
    assert EXPIRED in hook(repo)
    repo.ok("advance", "--force", "--reason", "done")
    assert EXPIRED not in repo.run("resume", name).out


def test_editing_only_the_time_is_a_heartbeat(shop):
    start = shop.clock.ms
    shop.keeper().start("apex", "Login")
    shop.clock.ms = start + 23 * DAY_MS // 24
    moment = "2026-02-18T10:00:00Z"
    shop.edit(RECORD, lambda record: record.update(lastUpdated=moment))
    shop.clock.ms = start + 25 * DAY_MS // 24
    keeper = shop.keeper()
    keeper.advance()
    states = [event["type"] for event in keeper.log()]
    assert "workflow_expired" not in states
    assert "record_edited" in states


def test_the_same_record_without_an_edit_expires(shop):
    shop.keeper().start("apex", "Login")
    shop.clock.ms += 25 * DAY_MS // 24
    assert shop.keeper().workflows()[0] == []


def test_plan_approved_is_written_only_when_it_was(repo, memory):
    repo.ok("start", "apex", "Login")
    repo.ok("advance")
    repo.ok("advance", "--force", "--reason", "nobody is here")
    text = memory.read_text()
    assert "Active APEX workflow: plan skipped, implementing Login" in text
    repo.ok("phase", "start", "plan")
    Keeper(repo.path).approve_phase("plan")
    repo.ok("advance")
    assert "Active APEX workflow: plan approved, implementing Login" in memory.read_text()


def test_resuming_into_a_taken_place_names_commands_that_exist(repo):
    first = repo.ok("start", "apex", "Login")["workflow"]["id"]
    second = repo.ok("start", "apex", "Logout", "--replace")["workflow"]["id"]
    error = repo.refused("resume", first)
    _, _, ends = error["hint"].partition("; or end it first: ")
    assert ends.startswith(f"holdfast complete -w {second}, or holdfast abandon -w {second}, then")
    for line in ends.replace("or ", "").replace("then ", "").split(", ")[1:]:
        repo.ok(*line.split()[1:])
    assert repo.state()["id"] == first


# A layer that cannot be written


def test_where_the_records_cannot_be_written_the_ledger_takes_the_change_and_owes_them(repo):
    repo.ok("start", "apex", "Login", rights=False)
    os.chmod(os.path.join(repo.path, ".claude"), 0o555)
    notes = repo.ok("advance", rights=False)["notes"]
    assert notes[0] == "ERROR: Cannot write state files — workflow state will not persist"
    assert notes[1].startswith(f"{RECORD} is owed, as its folder could not be written")
    repo.ok("remember", "Slowly", rights=False)
    repo.ok("initiative", "create", "Shop", "--milestone", "M1: Map", rights=False)
    assert repo.ok("status", rights=False)["workflows"][0]["phase"] == "plan"
    assert repo.record(RECORD)["phase"] == "analyze"
    os.chmod(os.path.join(repo.path, ".claude"), 0o755)
    repo.ok("remind", "Softly", rights=False)
    assert repo.record(RECORD)["phase"] == "plan"
    assert repo.has(".claude/learnings.json")
    assert repo.has(".claude/initiative.json")
    assert repo.ok("verify", rights=False)["counts"]["behind"] == 0


def test_a_formal_record_that_is_owed_is_not_one_that_was_removed_at_the_end(repo):
    started = repo.ok("start", "planning", "Plan", rights=False)["workflow"]
    folder = os.path.join(repo.path, os.path.dirname(os.path.dirname(started["record"])))
    os.chmod(folder, 0o555)
    other = repo.ok("start", "custom", "Other", "--phase", "Only", rights=False)
    os.chmod(folder, 0o755)
    name = other["workflow"]["id"]
    assert repo.state(name)["status"] == "in_progress"
    repo.ok("remind", "x", "-w", started["id"])
    assert repo.has(other["workflow"]["record"])


# The graph can be searched


def test_the_default_graph_is_searched_without_a_file_name_and_leaves_nothing_behind(repo):
    repo.ok("start", "apex", "Login page")
    repo.ok("remember", "Login needs two factors", "--kind", "insight")
    before = {(folder, *names) for folder, _, names in os.walk(repo.environment["HOME"])}
    found = repo.ok("memory", "search", "login")
    assert found["path"] == "embedded"
    assert {entity["name"] for entity in found["entities"]} == {"workflow-state", "learnings"}
    assert "insight: Login needs two factors" in repo.run("memory", "search", "two factors").out
    shown = repo.run("memory", "search", "nowhere").out
    assert shown == "Nothing in embedded has all of these words.\n"
    after = {(folder, *names) for folder, _, names in os.walk(repo.environment["HOME"])}
    assert before == after
    assert repo.refused("memory", "search", "x", env={**repo.environment, "HOLDFAST_GRAPH": "off"})


def test_the_default_graph_is_searched_over_mcp(repo):
    repo.ok("start", "apex", "Login page")
    calls = [
        {"method": "initialize", "id": 1, "params": {"protocolVersion": "2025-06-18"}},
        {"method": "notifications/initialized"},
        {
            "method": "tools/call",
            "id": 2,
            "params": {"name": "search", "arguments": {"query": "login"}},
        },
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls)
    answers = repo.run("mcp", input=lines.encode(), stdin=None).out.splitlines()
    (result,) = [answer["result"] for answer in map(json.loads, answers) if answer["id"] == 2]
    (entity,) = result["structuredContent"]["entities"]
    assert entity["name"] == "workflow-state"


# What the layers tell


def layer_of(repo, name):
    return next(one for one in repo.ok("context")["layers"] if one["layer"] == name)


def test_context_tells_completed_nothing_yet_and_unavailable_apart(repo, memory):
    fresh = repo.run("context").out
    for name in ("File state", "Auto-memory", "MCP Memory"):
        assert f"{name}: ○ nothing written yet" in fresh
    assert repo.ok("context")["work"] == "none"
    repo.ok("start", "apex", "Login")
    assert repo.ok("context")["work"] == "active"
    repo.ok("complete", "--force", "--reason", "done by hand")
    over = repo.run("context").out
    assert "the work is completed: nothing is left to resume" in over
    assert "File state: ○ completed" in over
    assert "Auto-memory: ✓ completed" in over
    assert "MCP Memory: ○ completed" in over
    memory.unlink()
    memory.mkdir()
    assert layer_of(repo, "L2")["state"] == "unavailable"
    repo.environment["HOLDFAST_GRAPH"] = "mcp:memory"
    assert "MCP Memory: ✗ (degraded mode)" in repo.run("context").out


def test_context_counts_initiatives(repo, memory):
    repo.ok("initiative", "create", "Shop", "--milestone", "M1: Map")
    repo.ok("initiative", "start", "M1")
    answer = repo.ok("context")
    assert (answer["tier"], answer["work"], answer["resume"]) == ("Standard", "active", "yes")
    shown = repo.run("context").out
    assert "File state: ✓ Shop in progress M1" in shown
    assert "MCP Memory: ✓ Shop in progress M1" in shown


def test_the_skill_of_context_sends_nobody_to_resume_what_is_finished():
    page = Path(__file__).parents[2].joinpath("plugin", "skills", "context", "SKILL.md")
    (line,) = [line for line in page.read_text().splitlines() if "the work is completed" in line]
    assert "nothing to resume" in line


def test_doctor_names_a_memory_that_cannot_be_written_and_why(repo, memory):
    def check(what):
        checks = json.loads(repo.run("doctor", "--json").out)["checks"]
        return next(one for one in checks if one["what"] == what)

    assert check("memory")["status"] == "good"
    assert check("graph")["found"] == "the memory graph (embedded) is in the ledger"
    memory.mkdir(parents=True)
    found = check("memory")
    assert found["status"] == "bad"
    assert f"{memory} is in its place; learnings will not persist" in found["found"]
    assert found["hint"] == f"move {memory} away"
    repo.environment["HOLDFAST_GRAPH"] = "mcp:memory"
    found = check("graph")
    assert (found["status"], "does not name" in found["found"]) == ("bad", True)


def test_a_full_briefing_has_what_the_lower_tiers_lack(repo, memory):
    repo.ok("remember", "Ada wants short commits", "--kind", "preference")
    repo.ok("start", "oneshot", "Typo")
    repo.ok("complete", "--outcome", "shipped", "--force", "--reason", "done by hand")
    repo.ok("start", "oneshot", "Comma")
    repo.ok("abandon", "--reason", "not needed")
    for outcome in ("success", "failure"):
        repo.ok("delegation", "record", "--agent", "scout", "--outcome", outcome)
    names = ("--from", "scout", "--to", "smith", "--reason", "stuck", "--resolved", "yes")
    repo.ok("delegation", "escalate", *names)
    repo.ok("start", "oneshot", "Colon")
    full = repo.run("resume").out
    for line in (
        "LEARNED:\n- Ada wants short commits",
        "EARLIER OUTCOMES of this recipe:\n- Completed ONESHOT for Typo: shipped, by force",
        "- Abandoned ONESHOT for Comma: not needed",
        "DELEGATIONS, as they went so far:\n- scout: 1 success, 1 failure\n",
        "- scout: 1 handed over to smith, 1 resolved",
    ):
        assert line in full
    assert "EARLIER OUTCOMES" in hook(repo)
    repo.environment["HOLDFAST_GRAPH"] = "off"
    lower = repo.run("resume").out
    assert "EARLIER OUTCOMES" not in lower
    assert "DELEGATIONS" not in lower
