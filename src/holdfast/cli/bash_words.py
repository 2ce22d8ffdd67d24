"""Quote and unquote the words of a command line that is still being typed.

Nothing is expanded and nothing is run: a quote is only taken off, or put on.
"""

from __future__ import annotations

_PLAIN = "@%+=:,./-_"
"""What bash leaves alone, besides letters and digits."""
_BREAKS = "=:@"
"""Where bash breaks a word, besides spaces and quotes (its ``COMP_WORDBREAKS``)."""
_IN_DOUBLE = '$`"\\'
"""Before which a backslash counts inside double quotes."""


def unquote(word: str) -> tuple[str, str, int]:
    """Return the word without quotes, the quote that is still open, and where its inside begins."""
    text, quote, begin, escaped = "", "", 0, False
    for place, char in enumerate(word):
        if escaped:
            text += char if not quote or char in _IN_DOUBLE else f"\\{char}"
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote == char:
            quote = ""
        elif not quote and char in "'\"":
            quote, begin = char, place + 1
        else:
            text += char
    return text, quote, begin


def quote(text: str, open_quote: str) -> str:
    """Return the text as bash takes it, inside an open quote or outside of any."""
    if open_quote == "'":
        return _close(text.replace("'", "'\\''"), open_quote)
    if open_quote == '"':
        # No backslash keeps an exclamation mark from the history inside double quotes.
        inside = "".join([f"\\{char}" if char in _IN_DOUBLE else char for char in text])
        return _close(inside.replace("!", '"\\!"'), open_quote)
    return "".join([char if char.isalnum() or char in _PLAIN else f"\\{char}" for char in text])


def _close(inside: str, mark: str) -> str:
    """Double a quote at either end: bash takes a single one for the end of the word."""
    opening = mark if inside.startswith(mark) else ""
    return opening + inside + (mark if inside.endswith(mark) else "")


def join_pieces(pieces: list[str]) -> tuple[list[str], str, str]:
    """Return the words, what bash keeps of the last one before a candidate, and the open quote.

    Bash hands ``--workflow=dev`` over in three pieces, and replaces the last of them alone.
    """
    words: list[str] = []
    kept, goes_on = 0, False
    for piece in pieces:
        is_break = bool(piece) and all(char in _BREAKS for char in piece)
        if words and (goes_on or (is_break and piece[0] != "@")):
            words[-1] += piece
        else:
            words.append(piece)
            kept = 0
        if is_break:
            # An @ is a break, and belongs to what is replaced all the same.
            kept = len(words[-1].rstrip("@"))
        goes_on = is_break
    last = words[-1]
    text, quote, begin = unquote(last)
    before = unquote(last[: max(kept, begin if quote else 0)])[0]
    return [*[unquote(word)[0] for word in words[:-1]], text], before, quote
