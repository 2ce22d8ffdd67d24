"""Pages that people wrote in: what they say, what makes no sense, and that every byte stays."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.loops import page_model, pages
from loops import walks

# Reading

HAND_WRITTEN = """\
# Login

**Total:** two or so

## Dependencies
We begin with T1.
T1 -> T2

## Tasks

Some words first.

* [X] **T1:** The model
  with a second line
  * **Files:** src/a.py, `src/b.py` (new)
  * Criteria:
    - it works
    - it is fast
  * Note: ask Anna
1. [ ] **T2**: The service
   - Max iterations: 12
   - **Model**: opus
- **T3**: No box

  A paragraph about T3.

  - Depends on: T1 and T2
  - Output: docs/login.md

```
- [ ] **T9**: only an example
```

> - [ ] **T8**: quoted

## Notes

- [ ] ask Anna
"""


def test_what_people_write_is_understood():
    told, complaints = page_model.read_units(HAND_WRITTEN, "development")
    assert complaints == []
    assert told == [
        {
            "id": "T1",
            "description": "The model\nwith a second line",
            "checked": True,
            "files": ["src/a.py", "src/b.py"],
            "criteria": "\n- it works\n- it is fast",
        },
        {
            "id": "T2",
            "description": "The service",
            "checked": False,
            "max_iterations": 12,
            "model": "opus",
            "depends": ["T1"],
        },
        {
            "id": "T3",
            "description": "No box",
            "checked": False,
            "depends": ["T1", "T2"],
            "output": "docs/login.md",
        },
    ]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["- [ ] **Setup**: x"], "line 3: 'Setup' is not a name for a unit"),
        (["- [ ] **T0**: x"], "line 3: 'T0' is not a name"),
        (["- [ ] **T12345**: x"], "line 3: 'T12345' is not a name"),
        (["- [ ] forgot the name"], "line 3: a unit is written '- [ ] **T1**: title'"),
        (["- [ ] **T1**: x", "", "- [ ] **T1**: y"], "line 5: T1 stands on line 3 already"),
        (["- [ ] **T1**: x", "  - Max iterations: many"], "line 4: T1: 'many' is not a number"),
        (["- [ ] **T1**: x", "  - Max iterations: 0"], "line 4: T1: '0' is not a number"),
        (["- [ ] **T1**: x", "  - Max iterations: -3"], "line 4: T1: '-3' is not a number"),
        (["- [ ] **T1**: x", "  - Max iterations: 1e9"], "line 4: T1: '1e9' is not a number"),
        (["- [ ] **T1**: x", "  - Max iterations: 5000"], "line 4: T1: '5000' is not a number"),
        (["- [ ] **T1**: x", "  - Max iterations: ٣"], "line 4: T1: '٣' is not a number"),
        (["- [ ] **T1**: x", "  - Model: a", "  - Model: b"], "line 5: T1 has a second Model"),
        (["- [ ] **T1**: x", "  - Depends: T7"], "line 3: T1 depends on 'T7', which is not a unit"),
        (["- [ ] **T1**: x", "  - Depends: T1"], "line 3: T1 would wait for itself, through T1"),
    ],
)
def test_nonsense_is_said_with_its_line(lines, complaint):
    _, complaints = page_model.read_units("\n".join(["## Tasks", "", *lines]), "development")
    assert len(complaints) == 1
    assert complaints[0].startswith(complaint)


def test_a_value_that_makes_no_sense_is_left_out_and_the_rest_is_read():
    page = "- [ ] **T1**: x\n  - Max iterations: ?\n  - Model: opus\n  - Depends: T2\n"
    told, complaints = page_model.read_units(page, "development")
    assert told == [{"id": "T1", "description": "x", "checked": False, "model": "opus"}]
    assert len(complaints) == 2


def test_everyone_in_a_circle_is_named_and_nobody_behind_it():
    waits = {"T1": "none", "T2": "T1, T4", "T3": "T2", "T4": "T3", "T5": "T4"}
    page = "".join(f"- [ ] **{name}**: x\n  - Depends: {on}\n" for name, on in waits.items())
    told, complaints = page_model.read_units(page, "development")
    assert [line.partition(": ")[2][:2] for line in complaints] == ["T2", "T3", "T4"]
    assert [unit["id"] for unit in told if unit.get("depends")] == ["T5"]


def test_a_plan_tells_its_dependencies_by_arrows():
    page = (
        "## Phases\n\n- [ ] **R1**: a\n- [ ] **R2**: b\n\n## Dependencies\n\nR1 → R2 (sequential)\n"
    )
    told, complaints = page_model.read_units(page, "knowledge")
    assert complaints == []
    assert [unit.get("depends") for unit in told] == [None, ["R1"]]


def test_complaints_of_a_plan_name_its_own_units():
    _, complaints = page_model.read_units("## Phases\n- [ ] what", "knowledge")
    assert "**R1**" in complaints[0]


def test_a_page_that_never_ends_is_not_read():
    page = "- [ ] **T1**: x\n" * 30_000
    told, complaints = page_model.read_units(page, "development")
    assert (told, len(complaints)) == ([], 1)


def test_the_command_that_verifies_is_not_taken_from_a_page():
    told, _ = page_model.read_units("- [ ] **T1**: x\n  - Verify: `rm -rf /`\n", "development")
    assert told == [{"id": "T1", "description": "x", "checked": False}]


def test_a_brief_by_hand_is_understood():
    brief = page_model.read_brief(
        "# Login\n**Domain:** bug\n\n## Outcome\n\nIt works.\n\n    as code\n\n## Done when\n"
        "1. tests pass\n2. [ ] reviewed\n\n## Constraints\nNone that we know.\n"
    )
    assert brief == {
        "title": "Login",
        "created": "",
        "mode": "",
        "domain": "bug",
        "outcome": "It works.\n\n    as code",
        "done_when": ["tests pass", "[ ] reviewed"],
        "constraints": ["None that we know."],
        "notes": "",
    }


def test_guardrails_by_hand_are_understood_and_notes_are_none():
    found = page_model.read_guardrails(
        "# Guardrails\n\n## Notes\ntext\n\n## Slow tests\n* **When:** on CI\n* Solution: fewer\n"
    )
    assert found == [{"name": "Slow tests", "when": "on CI", "solution": "fewer"}]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("one", 1),
        ("- one — two", 2),
        ("**Goal:** a b", 3),
        ("`a/b.py`\n\n# x", 2),
        ("→ *", 0),
    ],
)
def test_words_are_counted(text, count):
    assert pages.count_words(text) == count


# Patching


def loop_of_two():
    loop = walks.Loop().planned("T1", criteria="tests pass")
    return loop.planned("T2", depends=["T1"])


EDITED = """\
# My own title

**Total:** 2 tasks, I hope
**Status:** 0 done, 0 in progress, 2 pending (as of Monday)
**Owner:** Anna

## Dependencies

First T1, because I say so.

## Tasks

Read this first.

* [ ] **T1**: Unit T1
  * Criteria: tests pass
  * Reviewer: Anna
- [ ] **T2:** Unit T2
    - depends on: T1
    - Remark: none

## Log

- [ ] **Anna**: look at it
\tindented by a tab
"""


def test_only_what_is_holdfasts_own_is_changed():
    loop = loop_of_two().finished("T1")
    loop.do("plan_unit", task="T2", criteria="docs are\nwritten", max_iterations=7)
    loop.planned("T3")
    expected = (
        EDITED.replace("2 tasks, I hope", "3 tasks, I hope")
        .replace("0 done, 0 in progress, 2 pending (", "1 done, 0 in progress, 2 pending (")
        .replace("* [ ] **T1**", "* [x] **T1**")
        .replace(
            "Unit T2\n",
            "Unit T2\n    - Criteria: docs are\n      written\n    - Max iterations: 7\n",
        )
        .replace(
            "    - Remark: none\n",
            "    - Remark: none\n"
            "- [ ] **T3**: Unit T3\n"
            "  - Completion: `<signal>T3_DONE</signal>`\n"
            "  - Max iterations: 5\n"
            "  - Depends: none\n",
        )
    )
    assert page_model.patch_units(EDITED, loop.state) == expected


@pytest.mark.parametrize("end", ["\n", ""])
def test_line_ends_stay_as_they_are(end):
    loop = loop_of_two()
    text = pages.render_units(loop.state).removesuffix("\n").replace("\n", "\r\n") + end
    loop.finished("T1").planned("T3").do("plan_unit", task="T2", criteria="a\nb")
    expected = pages.render_units(loop.state).removesuffix("\n").replace("\n", "\r\n") + end
    assert page_model.patch_units(text, loop.state) == expected


@given(walks.walks, walks.walks, st.sampled_from(walks.MODES))
def test_a_page_that_nobody_edited_is_as_if_made_anew(before, after, mode):
    loop = walks.walked(before, mode)
    text = pages.render_units(loop.state)
    assert page_model.patch_units(text, loop.state) == text
    for step in after:
        step.take(loop)
    assert page_model.patch_units(text, loop.state) == pages.render_units(loop.state)


notes = st.sampled_from(
    [
        *(
            "a note\n",
            "  - Reviewer: Anna\n",
            "  more\n",
            "\n",
            "- an item\n",
            "    code\n",
            "---\n",
        ),
        *("```\nopen\n", "```\n- [ ] **T7**: x\n```\n", "> quote\n", "<!-- hidden\n", "-->\n"),
        *("# Title\n", "## Mine\n", "- [ ] **T1**: twice\n", "  - Max iterations: lots\n"),
        *("\ttab\r\n", "T1 → T2 (sequential)\n"),
    ]
)


@settings(max_examples=200)
@given(walks.walks, st.data())
def test_what_people_put_in_stays_and_patching_again_changes_nothing(steps, data):
    loop = walks.walked(steps[: len(steps) // 2])
    lines = pages.render_units(loop.state).splitlines(keepends=True)
    added = []
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines)))
        added.append(data.draw(notes))
        lines.insert(place, added[-1])
    if data.draw(st.booleans()):
        del lines[data.draw(st.integers(0, len(lines) - 1))]
    text = "".join(lines)
    for step in steps[len(steps) // 2 :]:
        step.take(loop)
    # What could not be understood before may be with the units that the first patch adds.
    once = page_model.patch_units(page_model.patch_units(text, loop.state), loop.state)
    assert page_model.patch_units(once, loop.state) == once
    told, _ = page_model.read_units(once, "development")
    assert {task["id"] for task in loop.state["tasks"]} <= {unit["id"] for unit in told}


def adopted(loop, text):
    """Takes in what the page says otherwise, as whoever keeps loops does first."""
    told, complaints = page_model.read_units(text, "development")
    for unit in told if not complaints else []:
        known = {task["id"]: task for task in loop.state["tasks"]}.get(unit["id"], {})
        said = {k: v for k, v in unit.items() if k not in ("id", "checked") and v != known.get(k)}
        assume(loop.do("plan_unit", task=unit["id"], **said) is None)


@settings(max_examples=200)
@given(walks.walks, st.data())
def test_every_line_that_people_put_in_stays_where_they_put_it(steps, data):
    loop = walks.walked([step for step in steps if step.kind == "plan"])
    lines = pages.render_units(loop.state).splitlines(keepends=True)
    note = data.draw(notes.filter(lambda text: "T1" not in text))
    place = data.draw(st.integers(0, len(lines)))
    text = "".join([*lines[:place], note, *lines[place:]])
    adopted(loop, text)
    loop.finished("T1").planned("T3")
    after = page_model.patch_units(text, loop.state)
    assert note in after
    kept = [line for line in lines if not line.startswith(("**", "- [ ] **T1", "T"))]
    found = iter(after.splitlines(keepends=True))
    assert all(line in found for line in kept)


@given(walks.walks, walks.texts)
def test_a_note_below_a_heading_of_its_own_stays_byte_for_byte(steps, note):
    loop = walks.walked(steps[: len(steps) // 2])
    assume("\r" not in note and not page_model.read_units(note, "development")[0])
    text = pages.render_units(loop.state) + "\n## Zettel\n\n" + note
    for step in steps[len(steps) // 2 :]:
        step.take(loop)
    after = page_model.patch_units(text, loop.state)
    if "## " not in note:
        assert after == pages.render_units(loop.state) + "\n## Zettel\n\n" + note


def test_values_stay_as_long_as_something_is_not_understood():
    loop = loop_of_two()
    text = pages.render_units(loop.state).replace("tests pass", "tests pass twice")
    broken = text.replace("Max iterations: 5", "Max iterations: five", 1)
    assert page_model.patch_units(broken, loop.state) == broken
    assert "twice" not in page_model.patch_units(text, loop.state)


def test_a_box_that_somebody_ticked_is_not_believed():
    loop = loop_of_two()
    text = pages.render_units(loop.state)
    assert page_model.patch_units(text.replace("- [ ] **T1", "- [x] **T1"), loop.state) == text


@pytest.mark.parametrize(
    "drawn",
    [
        "",
        "\nT1 (independent)\nT2 (independent)\n",
        "\n\nT1 → T2 (sequential)\nT9 (independent)\n\n",
    ],
)
def test_arrows_that_are_holdfasts_own_follow(drawn):
    loop = loop_of_two().planned("T3", depends=["T2"])
    text = f"## Dependencies\n{drawn}\n## Tasks\n"
    after = page_model.patch_units(text, loop.state)
    assert after.split("## Tasks")[0].split() == [
        *("##", "Dependencies", "T1", "→", "T2", "→", "T3", "(sequential)"),
    ]


@pytest.mark.parametrize(
    "drawn", ["T1, then T2.", "T1 → T2", "T2 → T1 (sequential)\nmaybe", "- T1 (independent)"]
)
def test_arrows_that_somebody_drew_stay(drawn):
    text = f"## Dependencies\n\n{drawn}\n\n## Tasks\n"
    assert page_model.patch_units(text, loop_of_two().state).startswith(text)


def test_arrows_alone_say_enough():
    loop = walks.Loop("knowledge").planned("R1").planned("R2", depends=["R1"])
    text = (
        "## Phases\n\n- [ ] **R1**: Unit R1\n- [ ] **R2**: Unit R2\n\n## Dependencies\n\nR1 → R2\n"
    )
    assert page_model.patch_units(text, loop.state) == text


@pytest.mark.parametrize(
    "text",
    ["", "text", "# Title\n", "```\nopen", "<!-- open\n", "## Tasks", "## Tasks\n```\nopen\n"],
)
def test_units_find_a_place_on_any_page(text):
    loop = loop_of_two()
    after = page_model.patch_units(text, loop.state)
    assert after.startswith(text)
    assert [unit["id"] for unit in page_model.read_units(after, "development")[0]] == ["T1", "T2"]
    assert page_model.patch_units(after, loop.state) == after


def test_a_page_that_never_ends_stays():
    text = "a\n" * 30_000
    assert page_model.patch_units(text, loop_of_two().state) == text
    assert page_model.patch_guardrails(text, loop_of_two().state) == text


def lesson(name, **fields):
    return {"name": name, "when": "w", "problem": f"p of {name}", "solution": "s", **fields}


def with_lessons(*lessons):
    return {**walks.Loop().state, "guardrails": list(lessons)}


@pytest.mark.parametrize("end", ["\n", ""])
def test_lessons_that_are_missing_are_appended(end):
    one, two, three = lesson("One"), lesson("Two"), lesson("Three")
    text = pages.render_guardrails(with_lessons(one, two)).removesuffix("\n") + end
    after = page_model.patch_guardrails(text, with_lessons(one, two, three))
    assert after.removesuffix("\n") == pages.render_guardrails(
        with_lessons(one, two, three)
    ).rstrip("\n")


def test_lessons_that_somebody_edited_or_renamed_are_not_missing():
    one, two = lesson("One"), lesson("Two")
    text = pages.render_guardrails(with_lessons(one, two))
    text = text.replace("## One", "## The first").replace("p of Two", "something else")
    assert page_model.patch_guardrails(text, with_lessons(one, two)) == text


@pytest.mark.parametrize("note", ["```\nopen", "<!-- open", "\n## Notes\r\ntext", "- x\n"])
def test_notes_on_guardrails_stay_and_hide_nothing(note):
    text = pages.render_guardrails(with_lessons(lesson("One"))) + note
    state = with_lessons(lesson("One"), lesson("Two"))
    after = page_model.patch_guardrails(text, state)
    assert after.startswith(text)
    assert [one["name"] for one in page_model.read_guardrails(after)] == ["One", "Two"]
    assert page_model.patch_guardrails(after, state) == after


lessons = st.fixed_dictionaries({"name": walks.texts, "when": walks.texts, "problem": walks.texts})


@given(st.lists(lessons, max_size=4, unique_by=str), walks.texts)
def test_any_lessons_are_appended_once(found, note):
    text = pages.render_guardrails(with_lessons(*found[:2])) + note
    after = page_model.patch_guardrails(text, with_lessons(*found))
    assert after.startswith(text)
    assert page_model.patch_guardrails(after, with_lessons(*found)) == after
