"""What a command on one machine means on the others, and that no order of arrival matters."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import sharing
from holdfast.core.json_text import dumps
from holdfast.core.selection import has_run_out
from holdfast.formats import aggregate_of
from support.workflow_desk import AT

RECIPE = {
    "name": "plain", "format": "formal", "title": "Plain",
    "phases": [{"name": "first"}, {"name": "second"}, {"name": "third"}],
}  # fmt: skip
OPENING = {
    "id": "work", "recipe": RECIPE, "subject": "work", "title": "work", "branch": "main",
    "worktree": "", "record": "", "tasks": [{"text": "one"}],
}  # fmt: skip
FORCED = {"force": True, "reason": "because", "facts": {}, "fields": {}}
CORE = aggregate_of("work")


class Replica:
    """One machine's part of a shared workflow, in the core alone."""

    def __init__(self, name):
        self.name = name
        self.events = []

    def do(self, kind, **args):
        """Carry out a command on what is known here; return its shared event."""
        before = self.fold().state
        own = CORE.decide(before, {"type": kind, "at": AT, "args": args})
        assert isinstance(own, list), own
        kind, args = sharing.cause_of(kind, args, own, before, lambda: None, output=False)
        seen = {}
        for event in self.events:
            seen[event["replica"]] = max(seen.get(event["replica"], 0), event["n"])
        n = seen.get(self.name, 0) + 1
        lamport = max((event["lamport"] for event in self.events), default=0) + 1
        by = {"name": self.name, "surface": "cli"}
        cause = {"id": f"{self.name}-{n}", "at": AT, "type": kind, "args": args, "by": by}
        event = {"replica": self.name, "n": n, "lamport": lamport, "seen": seen, "rules": 1}
        self.events.append({**event, "stream": "work", "cause": cause})
        return self.events[-1]

    def hear(self, *others):
        for other in others:
            self.events += [event for event in other.events if event not in self.events]

    def fold(self):
        return sharing.fold(CORE, sorted(self.events, key=sharing.position_of))

    def settle(self, kind, conflict):
        """Take or drop a conflict, which nothing is decided about beforehand."""
        self.do("add_reminder", text=f"{self.name} {kind}s {conflict}")
        self.events[-1]["cause"] |= {"type": kind, "args": {"conflict": conflict}}


def two_replicas():
    first, second = Replica("a"), Replica("b")
    first.do("start_workflow", **OPENING)
    second.hear(first)
    return first, second


def test_a_task_is_known_by_its_text_where_another_has_its_number():
    first, second = two_replicas()
    first.do("add_tasks", tasks=[{"text": "of a"}])
    second.do("add_tasks", tasks=[{"text": "of b"}])
    second.do("complete_task", task=2, commit=None)
    first.hear(second)
    done = [
        task["description"] for task in first.fold().state["tasks"] if task["status"] != "pending"
    ]
    assert done == ["of b"]


def test_a_task_that_cannot_be_told_is_a_conflict():
    first, second = two_replicas()
    first.do("edit_task", task=1, description="another")
    second.do("complete_task", task=1, commit=None)
    first.hear(second)
    fold = first.fold()
    assert [one["why"] for one in fold.conflicts] == ["task 1 was 'one', and no task is that now"]
    assert fold.state["tasks"][0]["status"] == "pending"


def test_a_question_is_known_by_its_text_where_another_has_its_number():
    first, second = two_replicas()
    first.do("ask_question", text="of a?", by={"surface": "cli", "session": "ada"})
    second.do("ask_question", text="of b?", blocking=True, by={"surface": "cli", "session": "ben"})
    second.do("answer_question", question=1, text="yes", by={"surface": "web"})
    first.do("withdraw_question", question=1)
    first.hear(second)
    questions = {q["text"]: q for q in first.fold().state["questions"]}
    assert [questions[text]["id"] for text in ("of a?", "of b?")] == [1, 2]
    assert questions["of a?"]["status"] == "withdrawn"
    assert (questions["of b?"]["answer"], questions["of b?"]["answered_by"]) == (
        "yes", {"surface": "web"}
    )  # fmt: skip
    assert questions["of b?"]["by"] == {"surface": "cli"}


def test_a_question_that_both_machines_answer_has_the_first_answer_and_a_conflict():
    first, second = two_replicas()
    first.do("ask_question", text="why?")
    second.hear(first)
    first.do("answer_question", question=1, text="so")
    second.do("answer_question", question=1, text="otherwise")
    first.hear(second)
    fold = first.fold()
    assert fold.state["questions"][0]["answer"] == "so"
    assert [one["why"] for one in fold.conflicts] == ["answer: question 1 of work is answered (so)"]


def test_sessions_of_questions_stay_at_home_and_come_back_there():
    caller = {"surface": "cli", "session": "ada"}
    asked = {
        "id": 1, "text": "why?", "choices": [], "blocking": False, "asked_at": AT, "by": caller,
        "status": "answered", "answer": "so", "answered_at": AT, "answered_by": caller,
    }  # fmt: skip
    first, _ = two_replicas()
    local = {**first.fold().state, "session": None, "questions": [asked]}
    shared = sharing.shared_state(local)
    assert "ada" not in dumps(shared)
    back = sharing.localised(shared, local, "a", {"worktree": ".", "record": "r"}, [])
    assert back["questions"] == [asked]
    new = {**shared, "questions": [{**shared["questions"][0], "answer": "else"}]}
    back = sharing.localised(new, local, "a", {"worktree": ".", "record": "r"}, [])
    assert back["questions"] == new["questions"]


def test_two_machines_that_leave_a_phase_leave_it_once():
    first, second = two_replicas()
    first.do("advance", **FORCED)
    second.do("advance", **FORCED)
    first.hear(second)
    fold = first.fold()
    assert fold.state["phase"] == "second"
    assert [one["why"] for one in fold.conflicts] == ["first was left elsewhere"]


def test_machines_that_let_the_same_work_expire_ask_one_question():
    first, second = two_replicas()
    third = Replica("c")
    third.hear(first)
    first.do("add_reminder", text="mind the gap")
    second.do("expire_workflow")
    third.do("expire_workflow")
    first.hear(second, third)
    fold = first.fold()
    assert [one["command"] for one in fold.conflicts] == ["expire workflow"]
    state = {**fold.state, "ttl": "1d", "conflicts": fold.shown()}
    a_year_later = 1_800_000_000_000
    assert not has_run_out(state, a_year_later)
    assert has_run_out({**state, "conflicts": []}, a_year_later)


def test_what_one_drops_and_two_take_is_asked_once_more_and_done_once():
    first, second = two_replicas()
    third = Replica("c")
    third.hear(first)
    first.do("add_reminder", text="mind the gap")
    second.do("abandon_workflow", reason="enough")
    everybody = [first, second, third]
    for replica in everybody:
        replica.hear(*everybody)
    (conflict,) = first.fold().conflicts
    first.settle(sharing.DROP, conflict["id"])
    second.settle(sharing.TAKE, conflict["id"])
    third.settle(sharing.TAKE, conflict["id"])
    for replica in everybody:
        replica.hear(*everybody)
    (again,) = first.fold().conflicts
    assert again["why"] == "it was dropped elsewhere"
    first.settle(sharing.TAKE, again["id"])
    fold = first.fold()
    assert (fold.state["status"], fold.conflicts) == ("abandoned", [])


commands = st.sampled_from(
    [
        ("add_tasks", {"tasks": [{"text": "more"}]}),
        ("add_reminder", {"text": "mind the gap"}),
        ("set_context", {"values": {"key": 1}}),
        ("complete_task", {"task": 1, "commit": None}),
        ("advance", FORCED),
        ("abandon_workflow", {"reason": "enough"}),
    ]
)


@st.composite
def histories(draw):
    """Draw what three machines do, which hear of each other now and then."""
    first = Replica("a")
    first.do("start_workflow", **OPENING)
    replicas = [first, Replica("b"), Replica("c")]
    for other in replicas[1:]:
        other.hear(first)
    for _ in range(draw(st.integers(1, 8))):
        replica = draw(st.sampled_from(replicas))
        kind, args = draw(commands)
        refused = CORE.decide(replica.fold().state, {"type": kind, "at": AT, "args": args})
        if isinstance(refused, list) and refused:
            replica.do(kind, **args)
        if draw(st.booleans()):
            replica.hear(draw(st.sampled_from(replicas)))
    first.hear(*replicas[1:])
    return first.events


@given(histories(), st.randoms(use_true_random=False))
def test_any_order_of_arrival_and_any_batches_give_the_same_fold(events, lots):
    whole = sharing.fold(CORE, sorted(events, key=sharing.position_of))
    arriving, known, kept = list(events), [], sharing.Fold()
    lots.shuffle(arriving)
    while arriving:
        count = lots.randrange(1, len(arriving) + 1)
        batch, arriving = arriving[:count], arriving[count:]
        known = sorted([*known, *batch], key=sharing.position_of)
        batch.sort(key=sharing.position_of)
        goes_on = kept.can_continue(batch)
        kept = sharing.fold(CORE, batch, kept) if goes_on else sharing.fold(CORE, known)
    assert dumps(kept.fields()) == dumps(whole.fields())


@given(histories())
def test_every_event_counts_or_is_a_conflict(events):
    fold = sharing.fold(CORE, sorted(events, key=sharing.position_of))
    added = [event for event in events if event["cause"]["type"] == "add_reminder"]
    refused = {one["id"] for one in fold.conflicts}
    counted = [event for event in added if event["cause"]["id"] not in refused]
    assert fold.state["reminders"] == ["mind the gap"] * min(1, len(counted))
