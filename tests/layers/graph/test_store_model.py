"""Any calls in any order: the store answers as the model of the reference server does."""

import contextlib
import os
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.layers.graph.store import GraphStore
from support.memory_model import Model, NotThere

ODD = [
    "",
    "a",
    "Ab",
    "ab c",
    "abcd",
    "ABCDE",
    "ß",
    "ΣΑΣ",
    "İx",
    "\0",
    "a\0b",
    "日本語",
    '"',
    "%",
    "😀",
]
TEXT = st.sampled_from(ODD) | st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0x3FF), max_size=5
)
NAME = st.sampled_from(["a", "A", "b", "abc", "ß", ""])
ENTITY = st.fixed_dictionaries(
    {"name": NAME, "entityType": TEXT, "observations": st.lists(TEXT, max_size=3)}
)
RELATION = st.fixed_dictionaries(
    {"from": NAME, "to": NAME, "relationType": st.sampled_from(["x", "y"])}
)
CALLS = st.one_of(
    st.tuples(st.just("create_entities"), st.lists(ENTITY, max_size=3)),
    st.tuples(st.just("create_relations"), st.lists(RELATION, max_size=3)),
    st.tuples(
        st.just("add_observations"),
        st.lists(
            st.fixed_dictionaries({"entityName": NAME, "contents": st.lists(TEXT, max_size=3)}),
            max_size=2,
        ),
    ),
    st.tuples(st.just("delete_entities"), st.lists(NAME, max_size=2)),
    st.tuples(
        st.just("delete_observations"),
        st.lists(
            st.fixed_dictionaries({"entityName": NAME, "observations": st.lists(TEXT, max_size=3)}),
            max_size=2,
        ),
    ),
    st.tuples(st.just("delete_relations"), st.lists(RELATION, max_size=2)),
    st.tuples(st.just("search_nodes"), TEXT),
    st.tuples(st.just("open_nodes"), st.lists(NAME, max_size=3)),
    st.tuples(st.just("read_graph"), st.none()),
)


def answered(graph, call, argument):
    try:
        made = getattr(graph, call)(*(() if argument is None else (argument,)))
    except (NotThere, Refused) as error:
        return str(error)
    return made


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CALLS, min_size=1, max_size=25))
def test_any_calls_are_answered_as_by_the_reference(calls):
    model = Model()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = os.path.join(folder, "graph.db")
        stores = [stack.enter_context(GraphStore(path)) for _ in range(2)]
        for number, (call, argument) in enumerate(calls):
            mine = answered(stores[number % 2], call, argument)
            assert mine == answered(model, call, argument), (call, argument)
        assert stores[0].read_graph() == model.read_graph()
        for text in ODD:
            assert stores[1].search_nodes(text) == model.search_nodes(text), text


@settings(max_examples=100)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8), TEXT)
def test_a_ranked_search_finds_at_least_what_a_plain_one_does(texts, query):
    with (
        tempfile.TemporaryDirectory() as folder,
        GraphStore(os.path.join(folder, "graph.db")) as store,
    ):
        store.create_entities(
            [
                {"name": str(number), "entityType": "", "observations": [text, f"x{query}y"]}
                for number, text in enumerate(texts)
            ]
        )
        plain = {one["name"] for one in store.search_nodes(query)["entities"]}
        ranked = {one["name"] for one in store.search_nodes(query, ranked=True)["entities"]}
    assert plain <= ranked
