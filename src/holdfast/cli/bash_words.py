"""The words of a command line that is still being typed, as a shell hands them over.

Nothing is expanded and nothing is run: a quote is only taken off, or put on.
"""

from __future__ import annotations

_PLAIN = "@%+=:,./-_"
"""What bash leaves alone, besides letters and digits."""
_BREAKS = "=:@"
"""Where bash breaks a word, besides spaces and quotes (its ``COMP_WORDBREAKS``)."""
_IN_DOUBLE = '$`"\\'
"""Before which a backslash counts inside double quotes."""


def unquoted(word: str) -> tuple[str, str, int]:
    """The word without its quotes; the quote that is still open, and where its inside begins."""
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


def quoted(text: str, quote: str) -> str:
    """The text as bash takes it, inside a quote that is open or outside of any."""
    if quote == "'":
        return _closed(text.replace("'", "'\\''"), quote)
    if quote == '"':
        # No backslash keeps an exclamation mark from the history inside double quotes.
        inside = "".join([f"\\{char}" if char in _IN_DOUBLE else char for char in text])
        return _closed(inside.replace("!", '"\\!"'), quote)
    return "".join([char if char.isalnum() or char in _PLAIN else f"\\{char}" for char in text])


def _closed(inside: str, quote: str) -> str:
    """A quote at either end bash takes for the one that opens or closes the word."""
    opening = quote if inside.startswith(quote) else ""
    return opening + inside + (quote if inside.endswith(quote) else "")


def of_bash(pieces: list[str]) -> tuple[list[str], str, str]:
    """The words; what bash keeps of the last one in front of a candidate; the quote that is open.

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
    text, quote, begin = unquoted(last)
    before = unquoted(last[: max(kept, begin if quote else 0)])[0]
    return [*[unquoted(word)[0] for word in words[:-1]], text], before, quote
