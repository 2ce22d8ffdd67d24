"""What each call does, where the reference server's way is easy to get wrong."""

import os
import stat
import unicodedata

import pytest

from holdfast.errors import Refused
from holdfast.layers.graph.store import GraphStore
from support.memory_calls import entity


def relation(source, target, kind="knows"):
    return {"from": source, "to": target, "relationType": kind}


def names(graph):
    return [one["name"] for one in graph["entities"]]


def test_a_name_that_was_there_is_left_as_it_is(store):
    assert store.create_entities([entity("a", "one")]) == [entity("a", "one")]
    again = store.create_entities([entity("a", "two", kind="Other"), entity("b")])
    assert again == [entity("b")]
    assert store.read_graph()["entities"] == [entity("a", "one"), entity("b")]


def test_a_name_twice_in_one_call_becomes_two_entities(store):
    both = [entity("a", "one"), entity("a", "two")]
    assert store.create_entities(both) == both
    assert store.open_nodes(["a"])["entities"] == both
    store.add_observations([{"entityName": "a", "contents": ["three"]}])
    store.delete_observations([{"entityName": "a", "observations": ["one", "two"]}])
    assert store.read_graph()["entities"] == [entity("a", "three"), entity("a", "two")]
    store.delete_entities(["a"])
    assert store.read_graph() == {"entities": [], "relations": []}


def test_observations_are_added_once_except_within_one_list(store):
    store.create_entities([entity("a", "one", "one")])
    added = store.add_observations(
        [
            {"entityName": "a", "contents": ["two", "two", "one"]},
            {"entityName": "a", "contents": ["two", "three"]},
        ]
    )
    assert [one["addedObservations"] for one in added] == [["two", "two"], ["three"]]
    told = store.open_nodes(["a"])["entities"][0]["observations"]
    assert told == ["one", "one", "two", "two", "three"]


def test_an_unknown_entity_refuses_the_whole_call_in_the_reference_words(store):
    store.create_entities([entity("a")])
    with pytest.raises(Refused) as caught:
        store.add_observations(
            [{"entityName": "a", "contents": ["x"]}, {"entityName": "b", "contents": []}]
        )
    assert caught.value.message == "Entity with name b not found"
    assert store.read_graph()["entities"] == [entity("a")]


def test_relations_need_no_entities_and_go_with_any_name(store):
    wanted = [relation("x", "y"), relation("x", "y"), relation("y", "x")]
    assert store.create_relations(wanted) == wanted
    assert store.create_relations([relation("x", "y"), relation("x", "y", "likes")]) == [
        relation("x", "y", "likes")
    ]
    store.delete_relations([relation("x", "y")])
    assert store.read_graph()["relations"] == [relation("y", "x"), relation("x", "y", "likes")]
    store.delete_entities(["y"])
    assert store.read_graph()["relations"] == []


def test_one_end_is_enough_for_a_relation_to_be_told(store):
    store.create_entities([entity("a"), entity("b"), entity("c")])
    store.create_relations([relation("b", "c"), relation("c", "a"), relation("b", "b")])
    found = store.open_nodes(["a", "nobody", "a"])
    assert names(found) == ["a"]
    assert found["relations"] == [relation("c", "a")]
    assert store.open_nodes(["c", "a"])["relations"] == [relation("b", "c"), relation("c", "a")]
    assert names(store.open_nodes(["c", "a"])) == ["a", "c"]


def test_empty_lists_are_harmless(store):
    assert store.create_entities([]) == []
    assert store.create_relations([]) == []
    assert store.add_observations([]) == []
    store.delete_entities([])
    store.delete_observations([])
    store.delete_relations([])
    assert store.open_nodes([]) == {"entities": [], "relations": []}


def test_fields_that_nobody_knows_are_left_out(store):
    given = {**entity("a"), "colour": "red"}
    assert store.create_entities([given]) == [entity("a")]
    assert store.create_relations([{**relation("a", "b"), "weight": 1}]) == [relation("a", "b")]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Zürich", "ZÜRICH"),
        ("ΟΔΟΣ", "οδος"),
        ("İstanbul", "i̇st"),
        ("straße", "STRASSE"),
        ('say "hello" AND * NEAR(x)', '"hello" and * near('),
        ("a\0bcdef", "\0bcd"),
        ("%_\\", "%_"),
        ("日本語のテキスト", "本語"),
        ("日本語のテキスト", "本語のテ"),
        ("😀😃😄😁", "😃😄😁"),
        ("line\nbreak", "e\nb"),
        ("x", "x"),
        ("anything", ""),
        ("case -- note", "-- n"),
    ],
)
@pytest.mark.parametrize("place", ["name", "type", "observation"])
def test_a_query_is_found_as_a_substring_in_any_case(store, text, query, place):
    found = query.lower() in text.lower()
    parts = {"name": "plain", "type": "plain", "observation": "plain", place: text}
    store.create_entities([entity(parts["name"], parts["observation"], kind=parts["type"])])
    assert bool(names(store.search_nodes(query))) is found


def test_every_letter_is_found_by_its_other_case(store):
    letters = [chr(code) for code in range(0x80, 0x2FFFF) if chr(code).lower() != chr(code)]
    letters = [one for one in letters if unicodedata.category(one) != "Cs"]
    store.create_entities([entity(f"n{ord(one):x}", f"ab{one}cd") for one in letters])
    for one in letters[::7]:
        assert f"n{ord(one):x}" in names(store.search_nodes(f"B{one}C")), hex(ord(one))


def test_what_was_deleted_is_not_found_any_more(store):
    store.create_entities([entity("Alpha", "one Thing", "other"), entity("Beta", "one thing")])
    store.delete_observations([{"entityName": "Alpha", "observations": ["one Thing", "none"]}])
    assert names(store.search_nodes("one thing")) == ["Beta"]
    store.delete_entities(["Beta"])
    assert names(store.search_nodes("one thing")) == []
    assert names(store.search_nodes("beta")) == []
    store.create_entities([entity("Beta", "new")])
    assert names(store.search_nodes("one thing")) == []
    assert names(store.search_nodes("new")) == ["Beta"]


def test_a_ranked_search_has_the_likeliest_first_and_takes_words_apart(store):
    store.create_entities(
        [
            entity("notes", "a bug was seen, and the login page was slow"),
            entity("page", "the login bug is known"),
            entity("login bug", "solved"),
            entity("login", "nothing else"),
        ]
    )
    assert names(store.search_nodes("login bug")) == ["page", "login bug"]
    assert names(store.search_nodes("Login  bug", ranked=True)) == ["login bug", "page", "notes"]
    assert names(store.search_nodes("login", ranked=True, limit=1)) == ["login"]
    assert len(names(store.search_nodes(" ", ranked=True))) == 4


def test_half_a_character_is_refused_and_nothing_of_the_call_is_kept(store):
    with pytest.raises(Refused, match="surrogate"):
        store.create_entities([entity("a"), entity("b", "\ud800")])
    assert store.read_graph()["entities"] == []


def test_a_second_process_sees_what_the_first_wrote(path):
    with GraphStore(path) as one, GraphStore(path) as other:
        one.create_entities([entity("a")])
        assert names(other.read_graph()) == ["a"]
    with GraphStore(path) as again:
        assert names(again.search_nodes("a")) == ["a"]


def test_nobody_else_can_read_the_files(path):
    old = os.umask(0)
    try:
        with GraphStore(path) as store:
            store.create_entities([entity("a")])
            folder = os.path.dirname(path)
            modes = {
                name: stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
                for name in os.listdir(folder)
            }
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}, modes
    assert "graph.db-wal" in modes


def test_many_names_in_one_call(store):
    many = [entity(f"n{number}", f"told {number}") for number in range(2_000)]
    store.create_entities(many)
    assert store.open_nodes([one["name"] for one in reversed(many)])["entities"] == many
    store.delete_entities([one["name"] for one in many[1:]])
    assert store.read_graph()["entities"] == many[:1]
    assert names(store.search_nodes("told")) == ["n0"]


def test_marks_are_kept_with_the_graph(store):
    store.set_marks(seq="3", ledger="x")
    store.set_marks(seq="4")
    assert store.marks() == {"seq": "4", "ledger": "x"}
