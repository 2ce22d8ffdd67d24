"""Which texts name a trace, as W3C Trace Context says."""

import pytest

from holdfast.core.trace_parent import parse, trace_in

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_a_valid_one_has_a_trace_a_span_and_whether_it_is_recorded():
    parent = parse(VALID)
    assert (parent.trace, parent.span, parent.is_sampled) == (TRACE, SPAN, True)
    assert parent.text() == VALID
    assert not parse(f"00-{TRACE}-{SPAN}-00").is_sampled
    assert parse(f"00-{TRACE}-{SPAN}-03").is_sampled


def test_a_later_version_may_have_more_fields():
    assert parse(f"01-{TRACE}-{SPAN}-01-more-and-more").text() == VALID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "----",
        None,
        7,
        VALID.upper(),
        f" {VALID}",
        f"{VALID}\n",
        f"{VALID}-",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}x-01",
        f"00-{TRACE}-{SPAN}",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'٣' * 32}-{SPAN}-01",
        "'; rm -rf ~; '",
        "0" * 10_000,
    ],
)
def test_anything_else_is_none(text):
    assert parse(text) is None
    assert trace_in({"TRACEPARENT": text}) == {}


def test_an_event_has_it_only_where_there_is_one():
    assert trace_in({"TRACEPARENT": VALID}) == {"trace": VALID}
    assert trace_in({}) == {}
