"""Text that steers terminals, and text that nobody sees."""

import pytest

from holdfast.evidence.run import last_lines, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[33mignored\x1b(B\x1b[m", "ignored"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b]0;a title that never ends\nnext", "\nnext"),
        ("\x9b31mred", "red"),
        ("\x1b[2K\x1b[1Gprogress", "progress"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("tab\tnull\0bell\x07", "tab\tnullbell"),
        ("abc\u202edef\u2066", "abcdef"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("ä 漢 👩\u200d💻 \u2028x", "ä 漢 👩\u200d💻 x"),
    ],
)
def test_text_becomes_plain(text, shown):
    assert plain(text) == shown
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", ""),
        ("abc\n", "abc\n"),
        ("abcde\nfgh\n", "fgh\n"),
        ("12\nabc\n", "abc\n"),
        ("abcdefgh", "cdefgh"),
        ("abcdefgh\n", "defgh\n"),
    ],
)
def test_last_lines_are_whole_where_possible(text, end):
    assert last_lines(text, 6) == end
