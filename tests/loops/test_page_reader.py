"""Pages that people wrote: what they say, and what makes no sense, with its line."""

import pytest

from holdfast.loops import page_reader, pages

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
    told, complaints = page_reader.read_units(HAND_WRITTEN, "development")
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
        (["- [ ] **Setup**: x"], "line 3: 'Setup' is no name for a unit"),
        (["- [ ] **T0**: x"], "line 3: 'T0' is no name"),
        (["- [ ] **T12345**: x"], "line 3: 'T12345' is no name"),
        (["- [ ] forgot the name"], "line 3: a unit is written '- [ ] **T1**: title'"),
        (["- [ ] **T1**: x", "", "- [ ] **T1**: y"], "line 5: T1 stands on line 3 already"),
        (["- [ ] **T1**: x", "  - Max iterations: many"], "line 4: T1: 'many' is no number"),
        (["- [ ] **T1**: x", "  - Max iterations: 0"], "line 4: T1: '0' is no number"),
        (["- [ ] **T1**: x", "  - Max iterations: -3"], "line 4: T1: '-3' is no number"),
        (["- [ ] **T1**: x", "  - Max iterations: 1e9"], "line 4: T1: '1e9' is no number"),
        (["- [ ] **T1**: x", "  - Max iterations: 5000"], "line 4: T1: '5000' is no number"),
        (["- [ ] **T1**: x", "  - Max iterations: ٣"], "line 4: T1: '٣' is no number"),
        (["- [ ] **T1**: x", "  - Model: a", "  - Model: b"], "line 5: T1 has a second Model"),
        (["- [ ] **T1**: x", "  - Depends: T7"], "line 3: T1 depends on 'T7', which is no unit"),
        (["- [ ] **T1**: x", "  - Depends: T1"], "line 3: T1 would wait for itself, through T1"),
    ],
)
def test_nonsense_is_said_with_its_line(lines, complaint):
    _, complaints = page_reader.read_units("\n".join(["## Tasks", "", *lines]), "development")
    assert len(complaints) == 1
    assert complaints[0].startswith(complaint)


def test_a_value_that_makes_no_sense_is_left_out_and_the_rest_is_read():
    page = "- [ ] **T1**: x\n  - Max iterations: ?\n  - Model: opus\n  - Depends: T2\n"
    told, complaints = page_reader.read_units(page, "development")
    assert told == [{"id": "T1", "description": "x", "checked": False, "model": "opus"}]
    assert len(complaints) == 2


def test_everyone_in_a_circle_is_named_and_nobody_behind_it():
    waits = {"T1": "none", "T2": "T1, T4", "T3": "T2", "T4": "T3", "T5": "T4"}
    page = "".join(f"- [ ] **{name}**: x\n  - Depends: {on}\n" for name, on in waits.items())
    told, complaints = page_reader.read_units(page, "development")
    assert [line.partition(": ")[2][:2] for line in complaints] == ["T2", "T3", "T4"]
    assert [unit["id"] for unit in told if unit.get("depends")] == ["T5"]


def test_a_plan_tells_its_dependencies_by_arrows():
    page = (
        "## Phases\n\n- [ ] **R1**: a\n- [ ] **R2**: b\n\n## Dependencies\n\nR1 → R2 (sequential)\n"
    )
    told, complaints = page_reader.read_units(page, "knowledge")
    assert complaints == []
    assert [unit.get("depends") for unit in told] == [None, ["R1"]]


def test_complaints_of_a_plan_name_its_own_units():
    _, complaints = page_reader.read_units("## Phases\n- [ ] what", "knowledge")
    assert "**R1**" in complaints[0]


def test_a_page_that_never_ends_is_not_read():
    page = "- [ ] **T1**: x\n" * 30_000
    told, complaints = page_reader.read_units(page, "development")
    assert (told, len(complaints)) == ([], 1)


def test_the_command_that_verifies_is_not_taken_from_a_page():
    told, _ = page_reader.read_units("- [ ] **T1**: x\n  - Verify: `rm -rf /`\n", "development")
    assert told == [{"id": "T1", "description": "x", "checked": False}]


def test_a_brief_by_hand_is_understood():
    brief = page_reader.read_brief(
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
    found = page_reader.read_guardrails(
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
