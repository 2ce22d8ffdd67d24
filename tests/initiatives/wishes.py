"""What can be asked of an initiative, drawn at random."""

from hypothesis import strategies as st

from holdfast.core.initiatives import decide_initiative, evolve_initiative
from holdfast.core.refusal import Refusal

words = st.text("abcdefg -/é\n", min_size=1, max_size=12)
ids = st.sampled_from(["M1", "M2", "M3", "M9"])


def command(kind, **args):
    return st.fixed_dictionaries({"type": st.just(kind), "args": st.fixed_dictionaries(args)})


WISHES = st.one_of(
    command("start_milestone", milestone=ids),
    command("record_milestone_task", milestone=ids, text=words, done=st.booleans()),
    command("complete_milestone", milestone=ids),
    command("complete_milestone", milestone=ids),
    command("block_initiative", reason=words),
    command("unblock_initiative"),
    command("finish_initiative"),
    command("finish_initiative", force=st.just(True), reason=words),
    command("archive_initiative"),
)


def begun():
    milestones = [{"id": each, "title": f"Part {each}"} for each in ("M1", "M2", "M3")]
    args = {"name": "Tidy up", "milestones": milestones}
    return granted(None, [{"type": "create_initiative", "args": args}])


def granted(state, wishes):
    """The initiative after these; what is refused changes nothing."""
    for each in wishes:
        answer = decide_initiative(state, {**each, "at": "2026-04-01T00:00:00.000Z"})
        for draft in [] if isinstance(answer, Refusal) else answer:
            state = evolve_initiative(state, {**draft, "at": "2026-04-01T00:00:00.000Z"})
    return state
