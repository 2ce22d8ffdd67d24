"""Which keys a terminal's bytes are, in whatever pieces they come."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.watching.keys import Keys, Pasted

NAMED = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[1;5B": "down", b"\x1b[5~": "page up", b"\r": "enter",
    b"\x7f": "backspace", b"\x15": "clear", b"\x04": "end of input", "日".encode(): "日",
    b"j": "j", b"\x1bOM": "enter", b"\x1b[6~": "page down", b"\x1b[H": "home",
}  # fmt: skip


def keys_of(*pieces):
    keys = Keys()
    read = [key for piece in pieces for key in keys.feed(piece)]
    return read + keys.flush()


@given(st.lists(st.sampled_from(sorted(NAMED)), max_size=12), st.data())
def test_keys_are_the_same_in_whatever_pieces_they_come(typed, data):
    stream = b"".join(typed)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    assert keys_of(*pieces) == [NAMED[key] for key in typed]


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_taken_and_none_is_waited_for_after_a_while(pieces):
    keys = Keys()
    for piece in pieces:
        for key in keys.feed(piece):
            assert key.isprintable() or isinstance(key, Pasted)
    keys.flush()
    assert not keys.is_partial
    assert keys.feed(b"q")[-1:] == ["q"]


def test_escape_alone_is_a_key_when_nothing_follows():
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.is_partial
    assert keys.flush() == ["escape"]
    assert not keys.is_partial
    assert keys_of(b"\x1b", b"[", b"A") == ["up"]
    assert keys_of(b"\x1b\x1b") == ["escape"]


@pytest.mark.parametrize(
    "broken",
    [b"\x1b[200", b"\x1b[99;99;", b"\x1bO", b"\x1b[?25h", b"\x1bx", b"\x1b[<0;12;4M", b"\x1b[99~"],
)
def test_an_unknown_or_broken_sequence_is_no_key(broken):
    assert keys_of(broken) == []


def test_a_sequence_that_breaks_off_does_not_swallow_the_next_key():
    assert keys_of(b"\x1b[1\x1b[Aq") == ["up", "q"]
    assert keys_of(b"\x1b[12\rq") == ["enter", "q"]
    assert keys_of(b"\x1b[" + b"1" * 30 + b"q")[-1:] == ["q"]


def test_pasted_text_is_one_key_and_nothing_in_it_is_a_command():
    paste = b"\x1b[200~aby\nq\x1b[A\x1b[201~"
    for cut in range(len(paste)):
        read = keys_of(paste[:cut], paste[cut:], b"j")
        assert read == [Pasted("aby\nq\x1b[A"), "j"]
        assert isinstance(read[0], Pasted)


def test_a_paste_without_an_end_ends_when_nothing_follows():
    keys = Keys()
    assert keys.feed(b"\x1b[200~abc") == []
    assert keys.is_partial
    (pasted,) = keys.flush()
    assert (pasted, type(pasted)) == ("abc", Pasted)
    assert keys.feed(b"q") == ["q"]


def test_a_long_paste_is_cut():
    (pasted,) = keys_of(b"\x1b[200~" + b"x" * 100_000 + b"\x1b[201~")
    assert len(pasted) == 2_000
