"""Lessons of archived loops: those that match, best first."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.loops.archive import matching_lessons
from loops import walks

DATABASE = {
    "name": "Open database",
    "when": "a test opens the database",
    "problem": "it locks",
    "solution": "close it",
    "domain": "feature",
}
SLOW = {"name": "Slow", "when": "on CI", "problem": "a slow database", "solution": "fewer rows",
        "domain": "bug"}  # fmt: skip
STYLE = {"name": "Style", "when": "writing", "problem": "long sentences", "solution": "shorter",
         "domain": "writing"}  # fmt: skip
ARCHIVED = [("docs", STYLE), ("ci", SLOW), ("login", DATABASE)]


def names(domain, words):
    return [loop for loop, _ in matching_lessons(ARCHIVED, domain, words)]


def test_shared_words_rank_and_where_it_applies_counts_twice():
    assert names(None, "Move the DATABASE to another host") == ["login", "ci"]


def test_the_same_domain_counts():
    assert names("bug", "Move the database") == ["ci", "login"]
    assert names("writing", "nothing in common") == ["docs"]


def test_without_a_match_nothing_is_offered():
    assert names(None, "") == []
    assert names("planning", "the when it and on of") == []


def test_the_same_lesson_is_offered_once():
    assert matching_lessons([*ARCHIVED, ("again", DATABASE)], None, "database") == matching_lessons(
        ARCHIVED, None, "database"
    )


lessons = st.fixed_dictionaries(
    {"domain": walks.texts},
    optional={key: walks.texts for key in DATABASE if key != "domain"},
)


@given(st.lists(st.tuples(walks.texts, lessons), max_size=5), st.none() | walks.texts, walks.texts)
def test_anything_can_be_asked(archived, domain, words):
    found = matching_lessons(archived, domain, words)
    assert all(one in archived for one in found)
