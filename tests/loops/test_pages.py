"""The pages as people see them first, and what reads the same again."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.loops import page_model, pages, progress_log
from loops import walks

CONTEXT = {
    "domain": "feature",
    "outcome": "People can log in with a password.",
    "done_when": ["All tests pass", "A wrong password is refused\nin under a second"],
    "constraints": ["No new dependency"],
    "notes": "Hash with scrypt.\n\n## Open\n- how many rounds?",
    "approach": "Model first, then the service.",
    "patterns": ["Short functions"],
}

BRIEF = """\
# Try it

**Created:** 2026-02-17T12:00:01.000Z
**Mode:** development
**Domain:** feature

## Outcome Needed
People can log in with a password.

## Done When
- All tests pass
- A wrong password is refused
  in under a second

## Constraints
- No new dependency

## Approach / Notes
Model first, then the service.

Hash with scrypt.

\\## Open
\\- how many rounds?
"""

TASKS = """\
# Try it - Tasks

**Created:** 2026-02-17T12:00:01.000Z
**Total:** 4 tasks
**Status:** 1 done, 1 in progress, 1 pending, 1 blocked

## Dependencies

T1 → T2 → T3 (sequential)
T4 (independent)

## Tasks

- [x] **T1**: User model
  - Files: `src/user.py`, `tests/test_user.py`
  - Criteria: tests pass
  - Completion: `<signal>T1_DONE</signal>`
  - Max iterations: 5
  - Depends: none
  - Model: sonnet
- [ ] **T2**: Service
  - Completion: `<signal>T2_DONE</signal>`
  - Max iterations: 8
  - Depends: T1
- [ ] **T3**: Unit T3
  - Completion: `<signal>T3_DONE</signal>`
  - Max iterations: 5
  - Depends: T2
- [ ] **T4**: Unit T4
  - Completion: `<signal>T4_DONE</signal>`
  - Max iterations: 5
  - Depends: none

## Notes

Hash with scrypt.

\\## Open
\\- how many rounds?
"""

PLAN = """\
# Try it - Phases

**Created:** 2026-02-17T12:00:01.000Z
**Domain:** research
**Total:** 1 phase
**Status:** 0 done, 0 in progress, 1 pending

## Phases

- [ ] **R1**: Read the sources
  - Criteria: ten notes
  - Output: `outputs/notes.md`
  - Completion: `<signal>R1_DONE</signal>`
  - Max iterations: 5
  - Depends: none

## Dependencies

R1 (independent)
"""

CONTEXT_PAGE = """\
# Try it Context

**Goal:** People can log in with a password.

**Approach:** Model first, then the service.

**Key files/outputs:**
- `src/user.py` — User model
- `tests/test_user.py` — User model

**Patterns to follow:**
- Short functions

**Signals:**
- T1: tests pass
- T2: Service
"""

GUARDRAILS = """\
# Guardrails

Read before starting any iteration. Append when issues discovered.

## Fixtures leak
- **When**: a test opens the database
- **Problem**: it stays open
  and locks the file
- **Solution**: close it in the fixture
- **Learned**: T1 iteration 2
"""


def two():
    loop = walks.Loop(context=CONTEXT)
    loop.do("plan_unit", task="T1", description="User model", criteria="tests pass", model="sonnet",
            files=["src/user.py", "tests/test_user.py"])  # fmt: skip
    loop.do("plan_unit", task="T2", description="Service", depends=["T1"], max_iterations=8)
    return loop


def test_a_brief_looks_like_this():
    assert pages.render_brief(two().state) == BRIEF


def test_tasks_look_like_this():
    loop = two().planned("T3", depends=["T2"]).planned("T4").finished("T1")
    loop.do("record_iteration", task="T2", did="half", remaining="half")
    loop.do("block_task", task="T4", reason="no key")
    assert pages.render_units(loop.state) == TASKS


def test_a_plan_looks_like_this():
    loop = walks.Loop("knowledge", {"domain": "research"})
    loop.do("plan_unit", task="R1", description="Read the sources", criteria="ten notes",
            output="outputs/notes.md")  # fmt: skip
    assert pages.render_units(loop.state) == PLAN


def test_the_context_looks_like_this():
    assert pages.render_context(two().state) == CONTEXT_PAGE
    assert pages.count_words(CONTEXT_PAGE) == 36


def test_guardrails_look_like_this():
    loop = walks.Loop()
    loop.do("add_guardrail", name="Fixtures leak", when="a test opens the database",
            problem="it stays open\nand locks the file", solution="close it in the fixture",
            learned="T1 iteration 2")  # fmt: skip
    assert pages.render_guardrails(loop.state) == GUARDRAILS


def test_a_log_begins_like_this():
    assert progress_log.HEADER == "# Progress Log\n"


@pytest.mark.parametrize(
    ("depends", "lines"),
    [
        ({}, []),
        ({"T1": []}, ["T1 (independent)"]),
        ({"T2": ["T10"], "T10": []}, ["T10 → T2 (sequential)"]),
        ({"T1": ["T2"], "T2": ["T3"], "T3": []}, ["T3 → T2 → T1 (sequential)"]),
        (
            {"T1": [], "T2": ["T1"], "T3": ["T1"], "T4": ["T2", "T3"], "T5": []},
            ["T1 → T2 → T4 (sequential)", "T1 → T3 → T4 (sequential)", "T5 (independent)"],
        ),
    ],
)
def test_dependencies_are_drawn_as_chains(depends, lines):
    loop = walks.Loop().planned(*depends)
    for name, waits in depends.items():
        assert loop.do("plan_unit", task=name, depends=waits) is None
    page = pages.render_units(loop.state)
    assert page.partition("## Dependencies\n")[2].partition("## Tasks")[0].split() == (
        " ".join(lines).split()
    )


contexts = st.fixed_dictionaries(
    {"domain": walks.texts, "outcome": walks.texts, "notes": walks.texts},
    optional={
        "done_when": st.lists(walks.texts, max_size=3),
        "constraints": st.lists(walks.texts, max_size=3),
    },
)


@given(walks.texts, contexts, st.sampled_from(walks.MODES))
def test_any_brief_is_read_as_it_was_written(title, context, mode):
    state = {**walks.Loop(mode).state, "title": title, "context": context}
    found = page_model.read_brief(pages.render_brief(state))
    empty = {"done_when": [], "constraints": []}
    assert found == {
        "title": title,
        "mode": mode,
        "created": state["created_at"],
        **empty,
        **context,
    }


lessons = st.fixed_dictionaries(
    {"name": walks.texts, "when": walks.texts},
    optional={"problem": walks.texts, "solution": walks.texts, "learned": walks.texts},
)


@given(st.lists(lessons, max_size=3))
def test_any_guardrails_are_read_as_they_were_written(found):
    state = {**walks.Loop().state, "guardrails": found}
    assert page_model.read_guardrails(pages.render_guardrails(state)) == found


@given(walks.walks, st.sampled_from(walks.MODES))
def test_any_units_are_read_as_they_were_written(steps, mode):
    state = walks.walked(steps, mode).state
    told, complaints = page_model.read_units(pages.render_units(state), mode)
    assert complaints == []
    assert [unit["id"] for unit in told] == [task["id"] for task in state["tasks"]]
    for unit, task in zip(told, state["tasks"], strict=True):
        assert unit.pop("checked") == (task["status"] == "completed")
        assert unit.pop("max_iterations") == task.get("max_iterations", 5)
        assert unit.pop("files", []) == task.get("files", [])
        assert unit.pop("depends") == task.get("depends", [])
        keys = ("id", "description", "criteria", "output", "model")
        assert unit == {key: task[key] for key in keys if key in task}


@given(
    walks.texts, st.dictionaries(walks.texts, st.none() | walks.texts | st.integers(), max_size=2)
)
@example("# :", {})
@example("1.", {})
def test_pages_of_a_loop_that_came_from_elsewhere_can_be_made(name, said):
    """Another tool's units may be called anything, and context is everybody's."""
    state = walks.Loop().state
    task = {"id": name or 7, "description": "", "status": "pending", "depends": [3, name]}
    context = {**said, "done_when": said, "patterns": 3, "outcome": said, "notes": 4.5}
    state = {**state, "context": context, "tasks": [task]}
    for make in (
        pages.render_brief,
        pages.render_context,
        pages.render_units,
        pages.render_guardrails,
    ):
        assert isinstance(make(state), str)
    assert page_model.patch_units(pages.render_units(state), state) == pages.render_units(state)
