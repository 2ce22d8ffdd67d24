"""The laws that logs and initiatives share; then interviews and delegations alone."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import diff, initiatives
from holdfast.core.logs import ADOPTED, LOGS
from holdfast.core.refusal import Refusal
from holdfast.formats import initiatives as initiatives_record
from holdfast.formats.logs import RECORDS
from holdfast.formats.schema import Invalid
from initiatives.wishes import WISHES, command

NOON = "2026-04-02T12:00:00.000Z"
ORIGIN = {"at": NOON, "path": "", "worktree": ".", "recipe": lambda _name: None}
interview, delegation, learning, forge = LOGS.values()
interview_record, delegation_record = RECORDS["interview"], RECORDS["delegation"]
PAIRS = [
    pytest.param(initiatives, initiatives_record, id="initiatives"),
    *(pytest.param(log, RECORDS[kind], id=kind) for kind, log in LOGS.items()),
]
each_pair = pytest.mark.parametrize(("core", "record"), PAIRS)

words = st.text("abcdefg -/é\n", min_size=1, max_size=12)
skills = st.sampled_from(["plan", "review", "fix"])
scores = st.floats(0, 1) | st.integers(0, 1)
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
)
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=8), anything)
unknown = st.dictionaries(st.text("xyz", min_size=1), anything, max_size=3)


class initiative:  # noqa: N801
    """One initiative, which commands and events reach through all of them."""

    decide = staticmethod(initiatives.decide_initiative)
    evolve = staticmethod(initiatives.evolve_initiative)


COMMANDS = {
    initiative: WISHES,
    interview: st.one_of(
        command(
            "record_interview",
            skill=skills,
            confidence=scores,
            dimensions=st.dictionaries(words, scores, max_size=2),
            questions_asked=st.integers(0, 9),
        ),
        command("skip_interview", skill=skills, reason=words),
    ),
    delegation: st.one_of(
        command(
            "record_delegation",
            agent=words,
            model=words,
            task_type=words,
            complexity=words,
            outcome=words,
            duration_ms=st.integers(0, 10**6),
        ),
        command("escalate_delegation", **{"from": words, "to": words, "reason": words}),
        command("escalate_delegation", **{"from": words, "to": words, "resolved": st.booleans()}),
        command("override_delegation", suggested=words, chosen=words),
        command("correct_routing", suggested=words, chosen=words, intent=words),
    ),
    learning: st.one_of(
        command("remember", text=words),
        command("remember", text=words, section=words),
    ),
    forge: command("note_forge", key=words, text=words),
}


def at(minute):
    return f"2026-04-{minute // 1440 + 1:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z"


def run(core, state, commands):
    """The state after the commands, the events on the way and the refusals."""
    events, refusals = [], []
    for minute, each in enumerate(commands):
        answer = core.decide(state, {**each, "at": at(minute)})
        if isinstance(answer, Refusal):
            refusals.append(answer)
            continue
        for draft in answer:
            events.append({**draft, "at": at(minute)})
            state = core.evolve(state, events[-1])
    return state, events, refusals


def asked(kind, **args):
    return {"type": kind, "args": args}


COMMANDS[initiatives] = COMMANDS[initiative] | command(
    "use_initiative", name=st.sampled_from(["Tidy up", "Other", "Nobody's"])
)


def begun(core):
    if core not in (initiative, initiatives):
        return core.blank()
    milestones = [{"id": each, "title": f"Part {each}"} for each in ("M1", "M2", "M3")]
    names = ["Tidy up"] if core is initiative else ["Tidy up", "Other"]
    wishes = [asked("create_initiative", name=name, milestones=milestones) for name in names]
    return run(core, None, wishes)[0]


@st.composite
def reachable(draw, core):
    state = run(core, begun(core), draw(st.lists(COMMANDS[core], max_size=30)))[0]
    extra = draw(unknown)
    if core is not initiatives:
        return {**state, "extra": extra}
    current = {**state["all"][state["current"]], "extra": extra}
    return {**state, "all": {**state["all"], state["current"]: current}}


# Laws of all


@each_pair
@given(data=st.data())
def test_a_record_gives_back_the_whole_state(core, record, data):
    state = data.draw(reachable(core))
    document, rest = json.loads(json.dumps(record.render(state)))
    assert record.parse(document, rest, ORIGIN) == state


@each_pair
@given(data=st.data())
def test_unknown_fields_survive_a_change_at_their_place(core, record, data):
    document, rest = record.render(data.draw(reachable(core)))
    added = data.draw(unknown)
    state = record.parse({**document, **added}, rest, ORIGIN)
    after = run(core, state, data.draw(st.lists(COMMANDS[core], max_size=3)))[0]
    written, _ = record.render({**after, "current": state.get("current")})
    assert {key: written[key] for key in added} == added


def assert_parses_or_is_invalid(record, document, rest):
    try:
        state = record.parse(document, rest, ORIGIN)
    except Invalid:
        return
    assert record.parse(*record.render(state), ORIGIN) == state


@each_pair
@given(document=objects, rest=objects)
def test_any_document_parses_or_is_invalid(core, record, document, rest):
    assert_parses_or_is_invalid(record, document, rest)


def places(value):
    """Every list or object inside with each of its positions or keys."""
    found = range(len(value)) if isinstance(value, list) else value
    if isinstance(value, list | dict):
        for key in found:
            yield value, key
            yield from places(value[key])


@each_pair
@given(data=st.data())
def test_a_document_with_one_value_replaced_parses_or_is_invalid(core, record, data):
    halves = json.loads(json.dumps(record.render(data.draw(reachable(core)))))
    inside = [place for half in halves for place in places(half)]
    holder, key = data.draw(st.sampled_from(inside))
    holder[key] = data.draw(anything)
    assert_parses_or_is_invalid(record, *halves)


@each_pair
@given(data=st.data())
def test_the_same_events_give_the_same_state_and_change_nothing_behind_them(core, record, data):
    commands = data.draw(st.lists(COMMANDS[core], max_size=20))
    start = begun(core)
    untouched = copy.deepcopy(start)
    state, events, _ = run(core, start, commands)
    again = copy.deepcopy(start)
    for event in copy.deepcopy(events):
        again = core.evolve(again, event)
    assert json.dumps(again) == json.dumps(state)
    assert start == untouched


def without_times(state):
    found = {key: {**one, "updated_at": 0} for key, one in state.get("all", {}).items()}
    return {**state, "updated_at": 0, "all": found}


def kept_in(state, edited):
    """What an edit comes to: an initiative that it does not speak of stays."""
    return {**edited, "all": {**state.get("all", {}), **edited.get("all", {})}}


@each_pair
@given(data=st.data())
def test_an_edit_by_hand_becomes_the_state(core, record, data):
    state, other = data.draw(reachable(core)), data.draw(reachable(core))
    rest = record.render(state)[1]
    edited = record.parse(record.render(other)[0], rest, ORIGIN)
    changes = json.loads(json.dumps(diff.diff(state, edited)))
    after, _, refusals = run(core, state, [asked("adopt_edit", base=1, changes=changes)])
    if refusals:
        assert refusals[0].code == "wrong_order"
        assert after == state
    else:
        assert without_times({**state, **after}) == without_times(kept_in(state, edited))


@each_pair
@given(data=st.data())
def test_a_record_from_elsewhere_is_adopted_whole(core, record, data):
    state = data.draw(reachable(core))
    adopt = asked("adopt_record", state=state, path="")
    after, events, _ = run(core, None, [adopt])
    assert without_marks(after) == state
    assert [event["type"] for event in events] == ["record_adopted"]


def without_marks(state):
    """Return a log's state without the marks of entries that came from elsewhere."""
    return {
        name: [{key: entry[key] for key in entry if key != ADOPTED} for entry in value]
        if isinstance(value, list)
        else value
        for name, value in state.items()
    }


@each_pair
@given(data=st.data())
def test_every_refusal_names_the_next_command(core, record, data):
    _, _, refusals = run(core, begun(core), data.draw(st.lists(COMMANDS[core], max_size=20)))
    for refusal in refusals:
        assert refusal.code
        assert ": " in refusal.message
        assert refusal.hint.startswith("holdfast ")


# Interviews and delegations


def test_interviews_keep_the_newest_fifty_and_count_the_rest():
    record = asked("record_interview", skill="plan", confidence=0.5)
    skip = asked("skip_interview", skill="plan", reason="in a hurry")
    state = run(interview, None, [record, skip] * 60)[0]
    assert (len(state["interviews"]), state["interviews_earlier"]) == (50, 10)
    assert (len(state["skips"]), state["skips_earlier"]) == (50, 10)
    assert state["interviews"][-1]["timestamp"] == at(118)


def test_the_newest_interview_stands_at_the_top_of_its_record():
    document, _ = interview_record.render(
        run(
            interview,
            None,
            [
                asked("record_interview", skill="plan", confidence=0.5),
                asked(
                    "record_interview",
                    skill="fix",
                    confidence=0.82,
                    dimensions={"clarity": 0.9},
                    questions_asked=3,
                ),
                asked("skip_interview", skill="review", reason="trust me"),
            ],
        )[0]
    )
    assert document == {
        "skill": "fix",
        "confidence": 0.82,
        "dimensions": {"clarity": 0.9},
        "questions_asked": 3,
        "timestamp": at(1),
        "history": [
            {
                "skill": "plan",
                "confidence": 0.5,
                "dimensions": {},
                "questions_asked": 0,
                "timestamp": at(0),
            }
        ],
        "skips": [{"skill": "review", "reason": "trust me", "timestamp": at(2)}],
    }


@pytest.mark.parametrize(
    "args",
    [
        {"skill": "", "confidence": 0.5},
        {"skill": "plan", "confidence": 1.5},
        {"skill": "plan", "confidence": float("nan")},
        {"skill": "plan", "confidence": 0.5, "dimensions": {"scope": -0.1}},
        {"skill": "plan", "confidence": 0.5, "questions_asked": -1},
    ],
)
def test_an_interview_that_makes_no_sense_is_refused(args):
    state, _, refusals = run(interview, None, [asked("record_interview", **args)])
    assert state is None
    assert refusals[0].code == "invalid"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"history": [{"skill": "plan"}]}, ["skill"]),
        ({"confidence": 0.4}, ["skill"]),
        ({"skill": "plan", "confidence": True}, ["confidence"]),
        ({"skill": "plan", "dimensions": {"scope": "high"}}, ["dimensions", "scope"]),
        ({"skips": [{"reason": "later"}]}, ["skips", 0, "skill"]),
    ],
)
def test_an_invalid_interview_record_is_named_by_its_place(document, path):
    with pytest.raises(Invalid) as caught:
        interview_record.parse(document, {}, ORIGIN)
    assert caught.value.path == path


def test_delegations_keep_the_newest_two_hundred_and_count_the_rest():
    override = asked("override_delegation", suggested="scout", chosen="smith")
    state = run(delegation, None, [override] * 230)[0]
    assert (len(state["entries"]), state["entries_earlier"]) == (200, 30)


def test_a_long_log_of_another_tool_is_adopted_with_its_newest_entries():
    document = {"delegations": [{"agent": "scout", "nr": n} for n in range(250)]}
    parsed = delegation_record.parse(document, {}, ORIGIN)
    state = run(delegation, None, [asked("adopt_record", state=parsed, path="")])[0]
    assert (state["entries"][0]["nr"], state["entries_earlier"]) == (50, 50)


def test_all_kinds_of_delegations_stand_in_one_list():
    state = run(
        delegation,
        None,
        [
            asked(
                "record_delegation",
                agent="scout",
                model="small",
                task_type="search",
                complexity="low",
                outcome="found",
                duration_ms=740,
            ),
            asked("escalate_delegation", **{"from": "scout", "to": "smith", "reason": "stuck"}),
            asked("override_delegation", suggested="scout", chosen="smith"),
            asked("correct_routing", suggested="debug", chosen="apex", intent="feature"),
        ],
    )[0]
    document, _ = delegation_record.render(state)
    kinds = [entry.get("kind") for entry in document["delegations"]]
    assert kinds == [None, "escalation", "override", "routing"]
    assert document["delegations"][0]["duration_ms"] == 740
    assert document["delegations"][1]["from"] == "scout"


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("record_delegation", {"agent": " "}),
        ("record_delegation", {"agent": "scout", "duration_ms": -1}),
        ("escalate_delegation", {"from": "scout", "to": "scout", "reason": "stuck"}),
        ("override_delegation", {"suggested": "scout", "chosen": "scout"}),
        ("correct_routing", {"suggested": "apex", "chosen": "apex", "intent": "feature"}),
    ],
)
def test_a_delegation_that_makes_no_sense_is_refused(kind, args):
    state, _, refusals = run(delegation, None, [asked(kind, **args)])
    assert state is None
    assert refusals[0].hint.startswith("holdfast delegation ")


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"model": "small"}, "agent"),
        ({"agent": "scout", "duration_ms": "long"}, "duration_ms"),
        ({"kind": "escalation", "from": "scout"}, "to"),
        ({"kind": "escalation", "from": "scout", "to": "smith", "resolved": "yes"}, "resolved"),
        ({"kind": "gossip"}, "kind"),
    ],
)
def test_an_invalid_delegation_record_is_named_by_its_place(entry, key):
    with pytest.raises(Invalid) as caught:
        delegation_record.parse({"delegations": [entry]}, {}, ORIGIN)
    assert caught.value.path == ["delegations", 0, key]
