"""Merging a file that another program wrote with what changed in the graph: pure values."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.layers.graph.merge import OwnChanges, merge
from support.memory_calls import entity


def link(source, target, kind="of"):
    return {"from": source, "to": target, "relationType": kind}


def graph(*entities, relations=()):
    return {"entities": list(entities), "relations": list(relations)}


def own(*unsaved, recent=(), is_complete=True):
    return OwnChanges(set(unsaved), set(recent), is_complete=is_complete)


A, X = ("entity", "a", "", ""), ("observation", "a", "x", "")


def test_without_changes_of_ours_the_file_is_right():
    theirs = graph(entity("b", "new"), entity("a"), relations=[link("a", "b")])
    ours = graph(entity("a", "x"), entity("c"), relations=[link("a", "c")])
    assert merge(theirs, ours, own()) == theirs


def test_what_is_not_written_yet_is_added_to_what_the_file_has():
    ours = graph(entity("a", "x"), relations=[link("a", "b")])
    theirs = graph(entity("b"))
    merged = merge(theirs, ours, own(A, X, ("relation", "a", "b", "of")))
    assert merged == graph(entity("b"), entity("a", "x"), relations=[link("a", "b")])


def test_a_deletion_that_is_not_written_yet_stays_a_deletion():
    theirs = graph(entity("a", "x", "y"), entity("b"), relations=[link("a", "b")])
    ours = graph(entity("a", "y"))
    merged = merge(theirs, ours, own(X, ("entity", "b", "", ""), ("relation", "a", "b", "of")))
    assert merged == ours


def test_an_observation_that_was_added_brings_its_entity_back_without_the_old_ones():
    ours = graph(entity("a", "old", "x"))
    assert merge(graph(), ours, own(A, X)) == graph(entity("a", "x"))


def test_what_was_written_just_now_is_not_deleted_by_a_writer_that_did_not_see_it():
    ours = graph(entity("a", "x"), entity("old"))
    assert merge(graph(entity("b")), ours, own(recent=[A, X])) == graph(
        entity("b"), entity("a", "x")
    )


def test_a_deletion_that_was_written_does_not_undo_an_addition_there():
    theirs = graph(entity("a", "x"))
    assert merge(theirs, graph(), own(recent=[A, X])) == theirs


def test_a_type_is_the_one_that_was_given_last():
    theirs, ours = graph(entity("a", kind="theirs")), graph(entity("a", kind="ours"))
    assert merge(theirs, ours, own(A)) == theirs
    assert merge(theirs, ours, own(A, ("type", "a", "", ""))) == ours


def test_from_a_file_that_is_not_whole_nothing_counts_as_deleted():
    theirs = graph(entity("a", "new"))
    ours = graph(entity("a", "x"), entity("b"), relations=[link("a", "b")])
    merged = merge(theirs, ours, own(is_complete=False))
    assert merged == graph(entity("a", "new", "x"), entity("b"), relations=[link("a", "b")])


def test_a_name_that_stands_twice_in_the_file_loses_nothing_that_both_have():
    theirs, ours = graph(entity("a"), entity("a", "x")), graph(entity("a", "x"))
    assert merge(theirs, ours, own(A)) == theirs
    assert merge(ours, theirs, own(X)) == ours


names = st.sampled_from("abc")
texts = st.lists(st.sampled_from("xyz"), max_size=3, unique=True)
graphs = st.builds(
    graph,
    st.builds(lambda name, told: entity(name, *told), st.just("a"), texts),
    st.builds(lambda name, told: entity(name, *told), names, texts),
    relations=st.lists(st.builds(link, names, names), max_size=2, unique_by=str),
)
keys = st.one_of(
    st.tuples(st.sampled_from(["entity", "type"]), names, st.just(""), st.just("")),
    st.tuples(st.just("observation"), names, st.sampled_from("xyz"), st.just("")),
    st.tuples(st.just("relation"), names, names, st.just("of")),
)


def items(told):
    for one in told["entities"]:
        yield "entity", one["name"], "", ""
        yield from (("observation", one["name"], text, "") for text in one["observations"])
    for one in told["relations"]:
        yield "relation", one["from"], one["to"], one["relationType"]


@given(graphs, graphs, st.sets(keys), st.sets(keys), st.booleans())
def test_nothing_is_made_up_and_what_both_have_stays(theirs, ours, unsaved, recent, is_complete):
    mine = OwnChanges(unsaved, recent, is_complete=is_complete)
    merged = set(items(merge(theirs, ours, mine)))
    assert merged <= {*items(theirs), *items(ours)}
    assert merged >= {*items(theirs)} & {*items(ours)}
    assert merge(ours, ours, mine) == ours
