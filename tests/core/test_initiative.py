"""The initiative: its milestones in order, its status machine, its record."""

import json

import pytest

from holdfast.core.initiatives import decide_initiative, evolve_initiative, next_step
from holdfast.core.refusal import Refusal
from holdfast.formats.initiatives import parse_initiative, render_initiative
from holdfast.formats.schema import Invalid

NOON = "2026-04-02T12:00:00.000Z"
ORIGIN = {"at": NOON, "path": "", "worktree": ".", "recipe": lambda _name: None}


def asked(kind, **args):
    return {"type": kind, "args": args}


def create(name="Tidy billing", *titles):
    given = enumerate(titles or ("Map", "Move", "Ship"), 1)
    milestones = [{"id": f"M{number}", "title": title} for number, title in given]
    return asked("create_initiative", name=name, milestones=milestones)


def run(state, *commands):
    """The state after the commands, the events on the way and the refusals."""
    events, refusals = [], []
    for second, each in enumerate(commands):
        at = f"2026-04-01T08:00:{second:02}.000Z"
        answer = decide_initiative(state, {**each, "at": at})
        if isinstance(answer, Refusal):
            refusals.append(answer)
            continue
        for draft in answer:
            events.append({**draft, "at": at})
            state = evolve_initiative(state, events[-1])
    return state, events, refusals


def through(*commands):
    return run(None, create(), *commands)


def test_creating_makes_created_and_starting_a_milestone_in_progress():
    assert through()[0]["status"] == "created"
    state = through(asked("start_milestone", milestone="M1"))[0]
    assert (state["status"], state["current_milestone"]) == ("in_progress", "M1")
    assert state["milestones"][0]["started_at"] == state["updated_at"]


def test_completing_a_milestone_moves_to_the_next_and_after_the_last_finish_is_offered():
    work = [asked("start_milestone", milestone="M1"), asked("complete_milestone", milestone="M1")]
    state = through(*work)[0]
    progress = render_initiative(state)[0]["progress"]
    assert progress == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    assert state["current_milestone"] == "M2"
    assert next_step(state).text == "holdfast initiative start M2"
    work += [asked("complete_milestone", milestone=each) for each in ("M3", "M2")]
    state = through(*work)[0]
    assert next_step(state).text == "holdfast initiative finish"
    assert through(*work, asked("finish_initiative"))[0]["status"] == "completed"


def test_a_milestone_that_came_next_can_still_be_started_once():
    work = [asked("start_milestone", milestone="M1"), asked("complete_milestone", milestone="M1")]
    again = asked("start_milestone", milestone="M2")
    state, _, refusals = through(*work, again, again)
    assert "started_at" in state["milestones"][1]
    assert [refusal.code for refusal in refusals] == ["already"]


def workflow(status, milestone="M1"):
    return {"id": "dev-1", "milestone": milestone, "status": status}


def task(text, *, done=False):
    return asked("record_milestone_task", milestone="M1", text=text, done=done)


def test_the_next_step_leads_from_the_first_milestone_to_the_archive():
    begin = asked("start_milestone", milestone="M1")
    state = through(begin)[0]
    assert next_step(through()[0], ()).text == "holdfast initiative start M1"
    start = next_step(state, ())
    assert start.text == "holdfast start RECIPE SUBJECT --milestone M1"
    assert set(start.fill) == {"RECIPE", "SUBJECT"}
    assert next_step(state, [workflow("in_progress")]).text == "holdfast resume dev-1"
    assert next_step(state, [workflow("abandoned")]).text == start.text
    assert next_step(state, [workflow("completed", "M2")]).text == start.text
    assert next_step(state, [workflow("completed")]).text == "holdfast initiative complete M1"
    listed = through(begin, task("list readers"))[0]
    tick = "holdfast initiative task M1 'list readers' --done"
    assert next_step(listed, [workflow("completed")]).text == tick
    done = through(begin, task("list readers"), task("list readers", done=True))[0]
    assert next_step(done, ()).text == "holdfast initiative complete M1"
    over = run(state, asked("finish_initiative", force=True, reason="sold"))[0]
    assert next_step(over, ()).text == "holdfast initiative archive"
    assert next_step(run(over, asked("archive_initiative"))[0], ()) is None


def test_the_next_step_is_never_the_opposite_of_what_was_typed():
    state = through(
        asked("start_milestone", milestone="M1"), asked("block_initiative", reason="no key")
    )[0]
    assert next_step(state, ()).text == "holdfast initiative unblock"
    assert next_step(state, (), after="initiative block").text == "holdfast initiative show"


def test_a_task_that_looks_like_an_option_can_be_ticked():
    state = through(asked("start_milestone", milestone="M1"), task("--force is gone"))[0]
    assert next_step(state).words == [
        "initiative", "task", "--done", "--", "M1", "--force is gone",
    ]  # fmt: skip


def test_a_milestone_with_open_tasks_completes_by_force_alone_and_shows_it():
    begin = asked("start_milestone", milestone="M1")
    complete = {"milestone": "M1", "reason": "the rest is in M2"}
    tasks = (task("list readers", done=True), task("list writers"), task("list both"))
    state, _, refusals = through(begin, *tasks, asked("complete_milestone", milestone="M1"))
    assert state["milestones"][0]["status"] == "in_progress"
    assert [refusal.code for refusal in refusals] == ["pending"]
    assert "'list writers', 'list both'" in refusals[0].message
    assert refusals[0].details == {"pending": {"tasks": ["list writers", "list both"]}}
    assert refusals[0].hint == "holdfast initiative task M1 'list writers' --done"
    without = asked("complete_milestone", **{**complete, "reason": " "}, force=True)
    assert [refusal.code for refusal in through(begin, *tasks, without)[2]] == ["invalid"]
    unneeded = through(begin, asked("complete_milestone", **complete, force=True))[0]
    assert "forced" not in unneeded["milestones"][0]
    state = through(begin, *tasks, asked("complete_milestone", **complete, force=True))[0]
    forced = {"reason": "the rest is in M2", "open": ["list writers", "list both"]}
    assert state["milestones"][0]["forced"] == forced
    document, rest = render_initiative(state)
    assert parse_initiative(document, json.loads(json.dumps(rest)), ORIGIN) == state


def test_finishing_names_the_open_milestones_and_by_force_it_shows_them():
    begin = asked("start_milestone", milestone="M1")
    refusals = through(begin, asked("finish_initiative"))[2]
    assert "open milestones: M1, M2, M3" in refusals[0].message
    assert refusals[0].details == {"pending": {"milestones": ["M1", "M2", "M3"]}}
    state = through(begin, asked("finish_initiative", force=True, reason="sold"))[0]
    assert state["forced"] == {"reason": "sold", "open": ["M1", "M2", "M3"]}
    document, rest = render_initiative(state)
    assert parse_initiative(document, json.loads(json.dumps(rest)), ORIGIN) == state


def test_a_task_is_ticked_in_its_place():
    state, _, refusals = through(
        task("list readers"),
        task("list writers"),
        task("list readers", done=True),
        task("list readers", done=True),
    )
    expected = [{"text": "list readers", "done": True}, {"text": "list writers", "done": False}]
    assert state["milestones"][0]["tasks"] == expected
    assert [refusal.code for refusal in refusals] == ["already"]


@pytest.mark.parametrize("status", ["completed", "archived"])
@pytest.mark.parametrize(
    "late",
    [
        asked("start_milestone", milestone="M1"),
        asked("record_milestone_task", milestone="M1", text="more"),
        asked("complete_milestone", milestone="M1"),
        asked("block_initiative", reason="waits"),
        asked("unblock_initiative"),
        asked("finish_initiative"),
        create(),
    ],
    ids=lambda late: late["type"],
)
def test_what_is_final_refuses_and_points_to_a_new_initiative(status, late):
    state = {**through()[0], "status": status}
    after, _, refusals = run(state, late)
    assert after == state
    assert refusals[0].hint.startswith("holdfast initiative create ")


def test_finishing_early_needs_force_and_a_reason_and_tells_what_was_skipped():
    state = through(asked("start_milestone", milestone="M1"))[0]
    refusals = run(state, asked("finish_initiative"))[2]
    assert refusals[0].code == "pending"
    forced = asked("finish_initiative", force=True)
    assert run(state, forced)[2][0].code == "invalid"
    forced["args"]["reason"] = "sold"
    data = run(state, forced)[1][0]["data"]
    assert data == {
        "status": "completed", "forced": {"reason": "sold", "open": ["M1", "M2", "M3"]},
    }  # fmt: skip


def test_a_block_keeps_its_reason_until_it_is_lifted():
    blocked = through(
        asked("start_milestone", milestone="M1"), asked("block_initiative", reason="no key")
    )[0]
    assert blocked["reason"] == "no key"
    assert run(blocked, asked("start_milestone", milestone="M2"))[2]
    free = run(blocked, asked("unblock_initiative"))[0]
    assert free["status"] == "in_progress"
    assert "reason" not in free


@pytest.mark.parametrize(
    ("name", "milestones"),
    [
        ("", ["M1"]),
        ("  ", ["M1"]),
        ("a\nb", ["M1"]),
        ("a\x00b", ["M1"]),
        ("\ud800", ["M1"]),
        ("x" * 10_000, ["M1"]),
        ("Fine", []),
        ("Fine", [""]),
        ("Fine", ["M 1"]),
        ("Fine", ["M1\x1b"]),
        ("Fine", ["M1", "M1"]),
    ],
)
def test_an_initiative_without_a_proper_name_or_milestones_is_not_created(name, milestones):
    given = [{"id": each, "title": ""} for each in milestones]
    state, _, refusals = run(None, asked("create_initiative", name=name, milestones=given))
    assert state is None
    assert refusals[0].code == "invalid"


def test_without_an_initiative_the_hint_creates_one():
    refusals = run(None, asked("archive_initiative"))[2]
    assert refusals[0].hint.startswith("holdfast initiative create ")


def test_an_event_without_its_beginning_is_an_error():
    with pytest.raises(ValueError, match="first event"):
        evolve_initiative(None, {"type": "milestone_started", "at": NOON, "data": {}})


# The initiative's record


@pytest.mark.parametrize("status", ["in_progress", "completed", "blocked", "created", "archived"])
def test_a_checkpoint_of_another_tool_renders_back_with_the_same_values(status):
    document = {
        "name": "Move the warehouse",
        "status": status,
        "currentMilestone": "M2",
        "lastUpdated": "2026-03-09T17:20:00Z",
        "progress": {"M1": "completed", "M2": "in_progress"},
    }
    state = parse_initiative(document, {}, ORIGIN)
    written, rest = render_initiative(state)
    assert written == document
    assert list(written) == list(document)
    assert parse_initiative(written, rest, ORIGIN) == state


def test_a_milestone_that_only_is_current_is_listed_too():
    document = {"name": "Move", "status": "in_progress", "currentMilestone": "M2"}
    state = parse_initiative({**document, "progress": {"M1": "completed"}}, {}, ORIGIN)
    assert [each["status"] for each in state["milestones"]] == ["completed", "in_progress"]
    assert state["updated_at"] == NOON


def test_a_document_that_names_no_current_milestone_goes_on_with_the_first_open_one():
    document = {
        "name": "Move",
        "status": "in_progress",
        "progress": {"M1": "completed", "M2": "pending"},
    }
    assert parse_initiative(document, {}, ORIGIN)["current_milestone"] == "M2"


def test_sorted_keys_do_not_disturb_the_order_of_milestones():
    titles = [f"Part {n}" for n in range(1, 12)]
    state = run(None, create("Long", *titles))[0]
    document, rest = json.loads(json.dumps(render_initiative(state), sort_keys=True))
    assert list(document["progress"])[1] == "M10"
    assert parse_initiative(document, rest, ORIGIN) == state


def test_a_status_changed_by_hand_leaves_the_old_reason_behind():
    state = through(
        asked("start_milestone", milestone="M1"), asked("block_initiative", reason="no key")
    )[0]
    document, rest = render_initiative(state)
    assert "reason" not in parse_initiative({**document, "status": "in_progress"}, rest, ORIGIN)


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("name", " ", ["name"]),
        ("status", "done", ["status"]),
        ("lastUpdated", "yesterday", ["lastUpdated"]),
        ("currentMilestone", "M7", ["currentMilestone"]),
        ("progress", {"M1": "half"}, ["progress", "M1"]),
        ("progress", ["M1"], ["progress"]),
    ],
)
def test_an_invalid_edit_of_an_initiative_is_named_by_its_place(key, value, path):
    document, rest = render_initiative(through()[0])
    changed = {**document, key: value}
    if path == ["progress", "M1"]:
        changed["currentMilestone"] = "M1"
    with pytest.raises(Invalid) as caught:
        parse_initiative(changed, rest, ORIGIN)
    assert caught.value.path == path
