"""Pages that people wrote in too: Holdfast's own parts follow the state, every other byte stays."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.loops import page_patcher, page_reader, pages
from loops import walks


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
    assert page_patcher.patch_units(EDITED, loop.state) == expected


@pytest.mark.parametrize("end", ["\n", ""])
def test_line_ends_stay_as_they_are(end):
    loop = loop_of_two()
    text = pages.render_units(loop.state).removesuffix("\n").replace("\n", "\r\n") + end
    loop.finished("T1").planned("T3").do("plan_unit", task="T2", criteria="a\nb")
    expected = pages.render_units(loop.state).removesuffix("\n").replace("\n", "\r\n") + end
    assert page_patcher.patch_units(text, loop.state) == expected


@given(walks.walks, walks.walks, st.sampled_from(walks.MODES))
def test_a_page_that_nobody_edited_is_as_if_made_anew(before, after, mode):
    loop = walks.walked(before, mode)
    text = pages.render_units(loop.state)
    assert page_patcher.patch_units(text, loop.state) == text
    for step in after:
        step.take(loop)
    assert page_patcher.patch_units(text, loop.state) == pages.render_units(loop.state)


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
    once = page_patcher.patch_units(text, loop.state)
    assert page_patcher.patch_units(once, loop.state) == once
    told, _ = page_reader.read_units(once, "development")
    assert {task["id"] for task in loop.state["tasks"]} <= {unit["id"] for unit in told}


def adopted(loop, text):
    """Takes in what the page says otherwise, as whoever keeps loops does first."""
    told, complaints = page_reader.read_units(text, "development")
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
    after = page_patcher.patch_units(text, loop.state)
    assert note in after
    kept = [line for line in lines if not line.startswith(("**", "- [ ] **T1", "T"))]
    found = iter(after.splitlines(keepends=True))
    assert all(line in found for line in kept)


@given(walks.walks, walks.texts)
def test_a_note_below_a_heading_of_its_own_stays_byte_for_byte(steps, note):
    loop = walks.walked(steps[: len(steps) // 2])
    assume("\r" not in note and not page_reader.read_units(note, "development")[0])
    text = pages.render_units(loop.state) + "\n## Zettel\n\n" + note
    for step in steps[len(steps) // 2 :]:
        step.take(loop)
    after = page_patcher.patch_units(text, loop.state)
    if "## " not in note:
        assert after == pages.render_units(loop.state) + "\n## Zettel\n\n" + note


def test_values_stay_as_long_as_something_is_not_understood():
    loop = loop_of_two()
    text = pages.render_units(loop.state).replace("tests pass", "tests pass twice")
    broken = text.replace("Max iterations: 5", "Max iterations: five", 1)
    assert page_patcher.patch_units(broken, loop.state) == broken
    assert "twice" not in page_patcher.patch_units(text, loop.state)


def test_a_box_that_somebody_ticked_is_not_believed():
    loop = loop_of_two()
    text = pages.render_units(loop.state)
    assert page_patcher.patch_units(text.replace("- [ ] **T1", "- [x] **T1"), loop.state) == text


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
    after = page_patcher.patch_units(text, loop.state)
    assert after.split("## Tasks")[0].split() == [
        *("##", "Dependencies", "T1", "→", "T2", "→", "T3", "(sequential)"),
    ]


@pytest.mark.parametrize(
    "drawn", ["T1, then T2.", "T1 → T2", "T2 → T1 (sequential)\nmaybe", "- T1 (independent)"]
)
def test_arrows_that_somebody_drew_stay(drawn):
    text = f"## Dependencies\n\n{drawn}\n\n## Tasks\n"
    assert page_patcher.patch_units(text, loop_of_two().state).startswith(text)


def test_arrows_alone_say_enough():
    loop = walks.Loop("knowledge").planned("R1").planned("R2", depends=["R1"])
    text = (
        "## Phases\n\n- [ ] **R1**: Unit R1\n- [ ] **R2**: Unit R2\n\n## Dependencies\n\nR1 → R2\n"
    )
    assert page_patcher.patch_units(text, loop.state) == text


@pytest.mark.parametrize(
    "text",
    ["", "text", "# Title\n", "```\nopen", "<!-- open\n", "## Tasks", "## Tasks\n```\nopen\n"],
)
def test_units_find_a_place_on_any_page(text):
    loop = loop_of_two()
    after = page_patcher.patch_units(text, loop.state)
    assert after.startswith(text)
    assert [unit["id"] for unit in page_reader.read_units(after, "development")[0]] == ["T1", "T2"]
    assert page_patcher.patch_units(after, loop.state) == after


def test_a_page_that_never_ends_stays():
    text = "a\n" * 30_000
    assert page_patcher.patch_units(text, loop_of_two().state) == text
    assert page_patcher.patch_guardrails(text, loop_of_two().state) == text


def lesson(name, **fields):
    return {"name": name, "when": "w", "problem": f"p of {name}", "solution": "s", **fields}


def with_lessons(*lessons):
    return {**walks.Loop().state, "guardrails": list(lessons)}


@pytest.mark.parametrize("end", ["\n", ""])
def test_lessons_that_are_missing_are_appended(end):
    one, two, three = lesson("One"), lesson("Two"), lesson("Three")
    text = pages.render_guardrails(with_lessons(one, two)).removesuffix("\n") + end
    after = page_patcher.patch_guardrails(text, with_lessons(one, two, three))
    assert after.removesuffix("\n") == pages.render_guardrails(
        with_lessons(one, two, three)
    ).rstrip("\n")


def test_lessons_that_somebody_edited_or_renamed_are_not_missing():
    one, two = lesson("One"), lesson("Two")
    text = pages.render_guardrails(with_lessons(one, two))
    text = text.replace("## One", "## The first").replace("p of Two", "something else")
    assert page_patcher.patch_guardrails(text, with_lessons(one, two)) == text


@pytest.mark.parametrize("note", ["```\nopen", "<!-- open", "\n## Notes\r\ntext", "- x\n"])
def test_notes_on_guardrails_stay_and_hide_nothing(note):
    text = pages.render_guardrails(with_lessons(lesson("One"))) + note
    state = with_lessons(lesson("One"), lesson("Two"))
    after = page_patcher.patch_guardrails(text, state)
    assert after.startswith(text)
    assert [one["name"] for one in page_reader.read_guardrails(after)] == ["One", "Two"]
    assert page_patcher.patch_guardrails(after, state) == after


lessons = st.fixed_dictionaries({"name": walks.texts, "when": walks.texts, "problem": walks.texts})


@given(st.lists(lessons, max_size=4, unique_by=str), walks.texts)
def test_any_lessons_are_appended_once(found, note):
    text = pages.render_guardrails(with_lessons(*found[:2])) + note
    after = page_patcher.patch_guardrails(text, with_lessons(*found))
    assert after.startswith(text)
    assert page_patcher.patch_guardrails(after, with_lessons(*found)) == after
