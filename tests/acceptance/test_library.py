"""The library is the same thing: every command has a documented method; time is the caller's."""

import inspect
import os
import subprocess

import pytest

from holdfast import Keeper, Pool, Refused, Sharing
from holdfast.cli.parser import load_all
from holdfast.initiatives import Initiatives
from holdfast.keeper.evidence import Evidence
from holdfast.keeper.logs import Delegations, Interviews
from holdfast.keeper.pull_requests import PullRequests
from holdfast.layers.memory import Memory
from holdfast.loops import Loops
from holdfast.system import kernel

COMMANDS = load_all()
METHODS = {
    "start": "start",
    "recipes": "recipes",
    "recipes show": "recipe",
    "status": "workflows open_questions",
    "show": "show state_at changes",
    "resume": "resume briefing note_briefing needs_delivery missing_reading needs_explicit_id",
    "log": "log follow",
    "search": "search",
    "complete": "complete",
    "report": "report",
    "pr": "pull_requests.plan pull_requests.send",
    "abandon": "abandon abandon_all active_here",
    "advance": "advance",
    "phase start": "start_phase",
    "phase complete": "complete_phase",
    "phase block": "block_phase",
    "phase unblock": "unblock_phase",
    "phase skip": "skip_phase",
    "phase approve": "approve_phase",
    "step": "start_step",
    "task add": "add_tasks add_task",
    "task start": "start_task",
    "task phase": "start_task_phase",
    "task done": "complete_task",
    "task block": "block_task",
    "task unblock": "unblock_task",
    "task edit": "edit_task",
    "task remove": "remove_task",
    "task reopen": "reopen_task",
    "task move": "move_task",
    "remind": "remind remove_reminder",
    "ask": "ask withdraw_question",
    "answer": "answer",
    "read": "require_reading remove_reading",
    "set": "set_context",
    "unset": "unset_context",
    "undo": "undo",
    "rename": "rename",
    "gate run": "evidence.run_gate",
    "gate record": "evidence.record_gate",
    "gate waive": "evidence.waive_gate",
    "gate list": "show",
    "red": "evidence.take_step",
    "green": "evidence.take_step",
    "refactor": "evidence.take_step",
    "commit": "evidence.commit",
    "violation add": "evidence.add_violation",
    "violation clear": "evidence.clear_violation",
    "violation list": "show",
    "tests run": "evidence.run_tests",
    "tests record": "evidence.record_tests",
    "files add": "evidence.add_file",
    "files sync": "evidence.sync_files",
    "context": "context learnings drain_notes",
    "forge add": "note_forge",
    "forge show": "forge",
    "remember": "remember memory.write memory.lines memory.sentences memory.is_available "
    "memory.is_wanted",
    "interview record": "interviews.record",
    "interview skip": "interviews.skip",
    "interview show": "interviews.show",
    "delegation record": "delegations.record",
    "delegation escalate": "delegations.escalate",
    "delegation resolve": "delegations.resolve",
    "delegation override": "delegations.override",
    "delegation routing": "delegations.routing",
    "delegation list": "delegations.list",
    "loop new": "loops.new loops.needs_explicit_id",
    "loop brief": "loops.brief",
    "loop plan": "loops.plan",
    "loop next": "loops.next",
    "loop iterate": "loops.iterate",
    "loop confirm": "loops.confirm",
    "loop verify": "loops.verify loops.run_verification",
    "loop block": "loops.block",
    "loop unblock": "loops.unblock",
    "loop extend": "loops.extend",
    "loop guardrail add": "loops.guardrail",
    "loop phase": "loops.phase",
    "loop status": "loops.show loops.all loops.opening",
    "loop archive": "loops.archive",
    "loop rebuild": "loops.rebuild",
    "loop run": "loops.run loops.settle",
    "initiative create": "initiatives.create",
    "initiative rename": "initiatives.rename",
    "initiative milestone add": "initiatives.add_milestone",
    "initiative start": "initiatives.start",
    "initiative task": "initiatives.task",
    "initiative complete": "initiatives.complete",
    "initiative block": "initiatives.block",
    "initiative unblock": "initiatives.unblock",
    "initiative finish": "initiatives.finish",
    "initiative archive": "initiatives.archive",
    "initiative show": "initiatives.show initiatives.all initiatives.current "
    "initiatives.next_step initiatives.facts",
    "initiative use": "initiatives.use",
    "initiative sync": "initiatives.sync initiatives.resume initiatives.resume_noting "
    "initiatives.summary_lines",
    "initiative recover": "initiatives.recover",
    "pool ready": "pool.ready",
    "pool take": "pool.take",
    "pool give": "pool.give",
    "pool reap": "pool.reap",
    "pool renew": "pool.renew",
    "pool change": "pool.change",
    "hub add": "sharing.plan sharing.add",
    "hub status": "sharing.status",
    "hub sync": "sharing.sync",
    "hub remove": "sharing.remove",
    "conflicts": "sharing.conflicts",
    "conflicts take": "sharing.take",
    "conflicts drop": "sharing.drop",
    "trust": "untrusted_commands approve revoke_trust take_back_ledger",
    "clean": "clean",
    "archive": "archive",
    "sync": "sync",
    "hook": "has_initiatives current_workflow owned_workflows take_in_notes enforced"
    " awaits_briefing workflow_to_brief changed_since_stop note_stop note_unknown renew_leases",
    "verify": "verify",
    "repair": "repair",
    "export": "export",
    "import": "import_file",
}
FOR_PEOPLE = {"completion", "demo", "doctor", "help", "init", "uninstall", "watch"}
OF_ITS_OWN = {"mcp", "mcp memory", "web", "statusline", "memory export", "memory search"}
"""Servers, a line for a client, and the graph of a file, which belongs to no workspace."""
BELOW = {
    "board",
    "search_memory",  # without a file; with one, a graph is read that is no project's
    "lost_work",
    "new_answers",
    "memory.own_entries",
    "do",
    "events",
    "known",
    "overview",
    "peek",
    "pool.exchange",
    "settle",
    "sharing.noted",
    "take_up",
    "transaction",
    "watched",
}
"""The ways of every change, for what has no command yet; what completion looks up; what an
exchange does beside its work; and what ``holdfast`` alone, ``watch`` and ``web`` show."""

DAY_MS = 86_400_000
FORCED = {"force": True, "reason": "a test"}


BESIDE = {
    "evidence": Evidence,
    "initiatives": Initiatives,
    "interviews": Interviews,
    "delegations": Delegations,
    "loops": Loops,
    "memory": Memory,
    "pool": Pool,
    "pull_requests": PullRequests,
    "sharing": Sharing,
}
"""What a method of the keeper gives for matters of their own, with methods of its own."""


def public():
    kinds = {"": Keeper, **{f"{way}.": kind for way, kind in BESIDE.items()}}
    found = {
        f"{prefix}{name}": member
        for prefix, kind in kinds.items()
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    return {name: member for name, member in found.items() if name not in BESIDE}


def test_every_command_has_a_method_and_every_method_a_command():
    assert set(METHODS) == set(COMMANDS) - FOR_PEOPLE - OF_ITS_OWN
    named = {name for names in METHODS.values() for name in names.split()}
    assert set(public()) == named | BELOW


@pytest.mark.parametrize("name", sorted(public()))
def test_every_method_is_documented(name):
    described = inspect.getdoc(public()[name])
    assert described
    assert described.partition("\n\n")[0].endswith(".")


@pytest.mark.parametrize(
    "name", [name for name in sorted(METHODS) if name not in ("status", "log", "trust", "hook")]
)
def test_a_method_takes_what_its_command_takes(name):
    """Every option and argument of the command has a parameter; spelling may be longer."""
    methods = [public()[method] for method in METHODS[name].split()]
    taken = methods if name in ("loop verify", "remind", "read", "show", "ask") else methods[:1]
    parameters = {key for method in taken for key in inspect.signature(method).parameters}
    spec = COMMANDS[name]
    for_people = {"yes", "dry_run", "format", "output"} if name in ("report", "pr") else {"yes"}
    given = [parameter.into for parameter in spec.parameters if parameter.into not in for_people]
    carried = {"failed": "passed", "remove": "path", "all": "everything"}
    carried |= {"choice": "choices", "withdraw": "number"}
    if name in ("show", "search"):
        carried = {"at": "seq", "all": "everywhere"}
    if name == "abandon":
        given.remove("all")  # It has a method of its own.
    if name in ("phase block", "phase unblock", "phase approve"):
        carried = {"reason": "fields"}
    if name.startswith("loop "):
        carried = {"clean": "issues", "passed": "failed", "run": "command", "words": "command"}
        carried["show"] = "echo"
    if name.startswith("hub "):
        # What is shown and asked first is for people, too; hooks exchange in the background.
        carried = {"dry_run": "kind", "public": "kind", "background": "wait"}
    if name == "status":
        return
    for into in given:
        assert carried.get(into, into) in parameters, (name, into)


class StillClock:
    def __init__(self):
        self.ms = 1_771_329_600_000

    def __call__(self):
        return self.ms


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def open_keeper(repo, clock):
    return lambda **options: Keeper(repo.path, clock_ms=clock, **options)


def test_the_library_and_the_command_line_see_the_same(repo):
    state = Keeper(repo.path).start("tdd", "one", tasks=["a"]).state
    assert repo.state()["id"] == state["id"]
    repo.ok("task", "done", "1")
    assert Keeper(repo.path).show().state["tasks"][0]["status"] == "completed"
    assert [e["by"]["surface"] for e in Keeper(repo.path).log()] == ["library"] * 3 + ["cli"]


@pytest.mark.parametrize(
    ("recipe", "ttl", "days"),
    [("apex", None, 1), ("dev", None, 7), ("tdd", None, 7), ("planning", "3d", 3)],
)
def test_a_workflow_expires_when_it_lay_still_for_its_time(open_keeper, clock, recipe, ttl, days):
    state = open_keeper().start(recipe, "one", tasks=["a"], ttl=ttl).state
    clock.ms += days * DAY_MS
    assert open_keeper().show().state["status"] == "in_progress"
    clock.ms += 1_000
    shown = open_keeper().show(workflow=state["id"])
    assert shown.state["status"] == "expired"
    assert f"holdfast resume {state['id']}" in shown.notes[0]
    assert open_keeper().workflows()[0] == []
    open_keeper().settle(workflow=state["id"])
    assert open_keeper().log()[-1]["type"] == "workflow_expired"


@pytest.mark.parametrize("recipe", ["planning", "loop-development"])
def test_formal_workflows_and_loops_never_expire(open_keeper, clock, recipe):
    open_keeper().start(recipe, "one")
    clock.ms += 5_000 * DAY_MS
    assert open_keeper().show().state["status"] == "in_progress"


def test_resume_brings_an_expired_workflow_back_at_the_same_place(repo, open_keeper, clock):
    state = open_keeper().start("tdd", "one", tasks=["a"], reminders=["this"]).state
    open_keeper().advance(**FORCED)
    before = open_keeper().start_task(1).state
    clock.ms += 30 * DAY_MS
    with pytest.raises(Refused, match="has expired") as caught:
        open_keeper().complete_task(1)
    assert caught.value.hint == f"holdfast resume {state['id']}"
    assert not repo.has(state["record"])
    after = open_keeper().resume(workflow=state["id"]).state
    same = ("phase", "phases", "tasks", "status", "reminders", "current_task", "record")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert repo.has(state["record"])
    assert open_keeper().complete_task(1).state["tasks"][0]["status"] == "completed"


@pytest.mark.parametrize("noticed", [False, True])
def test_resume_by_name_works_whether_the_expiry_was_noticed_or_not(open_keeper, clock, noticed):
    state = open_keeper().start("tdd", "one").state
    clock.ms += 30 * DAY_MS
    if noticed:
        assert open_keeper().workflows()[0] == []
    assert open_keeper().resume(workflow=state["id"]).state["status"] == "in_progress"
    assert open_keeper().advance(**FORCED).state["phase"] == "green"


def test_resume_without_a_name_does_not_wake_what_expired(open_keeper, clock):
    state = open_keeper().start("tdd", "one").state
    clock.ms += 30 * DAY_MS
    with pytest.raises(Refused, match="has expired") as caught:
        open_keeper().resume()
    assert caught.value.hint == f"holdfast resume {state['id']}"


def test_starting_an_expired_subject_begins_a_new_run(open_keeper, clock):
    open_keeper().start("apex", "one", tasks=["a"])
    clock.ms += 2 * DAY_MS
    again = open_keeper().start("apex", "one")
    assert (again.resumed, again.state["tasks"]) == (False, [])
    assert [e["type"] for e in open_keeper().log()].count("workflow_expired") == 1


def test_an_expired_workflow_does_not_keep_its_place_occupied(open_keeper, clock):
    old = open_keeper().start("apex", "one").state
    clock.ms += 2 * DAY_MS
    new = open_keeper().start("apex", "two")
    assert new.state["status"] == "in_progress"
    assert old["id"] in new.notes[0]
    with pytest.raises(Refused) as caught:
        open_keeper().resume(workflow=old["id"])
    assert caught.value.code == "occupied"


def test_a_session_of_an_unknown_process_is_live_for_an_hour(open_keeper, clock):
    open_keeper(session="ada").start("tdd", "one")
    clock.ms += 3_600_000
    with pytest.raises(Refused) as caught:
        open_keeper(session="kim").advance()
    assert caught.value.code == "held"
    clock.ms += 1_000
    assert open_keeper(session="kim").advance(**FORCED).state["phase"] == "green"


def test_a_client_that_got_the_number_of_another_is_not_that_client(open_keeper, monkeypatch):
    one = open_keeper(session="before", pid=os.getpid()).start("tdd", "one").state
    open_keeper().start("tdd", "two")
    assert open_keeper(session="after", pid=os.getpid()).current_workflow()["id"] == one["id"]
    born = kernel.birth(os.getpid())
    monkeypatch.setattr(kernel, "birth", lambda _pid: born + 1)
    assert open_keeper(session="after", pid=os.getpid()).current_workflow().code == "ambiguous"


def test_a_process_is_known_by_when_it_was_started():
    with subprocess.Popen(["sleep", "60"]) as child:
        assert kernel.birth(child.pid) == kernel.birth(child.pid) > kernel.birth(1)
        child.kill()
    assert kernel.birth(child.pid) is None


def test_a_clock_that_went_back_expires_nothing(open_keeper, clock):
    open_keeper().start("apex", "one")
    clock.ms -= 400 * DAY_MS
    assert open_keeper().show().state["status"] == "in_progress"
    assert open_keeper().advance().state["phase"] == "plan"
