"""Changes to bytes that keep most of their form: what a parser gets past its first check."""

import json

MOST_BYTES = 1 << 16
_ODD_VALUES = (
    None, True, False, 0, -1, 1, 1.5, 2**53, 2**63, 10**40, "", " ", "x", "a\nb", "..", "/",
    "@../x", "\x1b[31m", "\u202e", "-1", "T1", "M1", "2026-02-17T12:00:00.000Z",
    "9999-99-99T99:99:99Z",
    [], {}, [[]], [None], [{}], {"": ""}, {"id": 1}, ["x", "x"], {"name": []}, "x" * 300,
)  # fmt: skip
_ODD_TEXTS = (
    b"", b"\0", b"\n", b"\r\n", b"\r", b"\t", b" ", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80",
    b"\\", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"#", b"-", b"&", b"*", b"<!--",
    b"-->", b"```",
    b"\\ud800", b"\\u0000", b"\x1b]0;", b"\xe2\x80\xae", b"NaN", b"1e999", b"-0", b"9" * 80, b"~",
)  # fmt: skip


def mutated(data, random, tokens=(), others=()):
    """The bytes with one to four changes; ``random`` decides, so the same one gives the same."""
    for _ in range(random.randint(1, 4)):
        change = random.choice(_CHANGES)
        data = change(data, random, tokens, others)[:MOST_BYTES]
    return data


def _place(data, random):
    return random.randint(0, len(data))


def _span(data, random):
    start = _place(data, random)
    return start, min(len(data), start + random.choice((1, 2, 8, 40, len(data))))


def _cut(data, random, _tokens, _others):
    start, end = _span(data, random)
    return data[:start] + data[end:]


def _repeat(data, random, _tokens, _others):
    start, end = _span(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 30)) + data[end:]


def _move(data, random, _tokens, _others):
    start, end = _span(data, random)
    rest = data[:start] + data[end:]
    place = _place(rest, random)
    return rest[:place] + data[start:end] + rest[place:]


def _flip(data, random, _tokens, _others):
    if not data:
        return data
    place = random.randint(0, len(data) - 1)
    return data[:place] + bytes([data[place] ^ 1 << random.randint(0, 7)]) + data[place + 1 :]


def _put(data, random, tokens, _others):
    place = _place(data, random)
    return data[:place] + random.choice((*_ODD_TEXTS, *tokens)) + data[place:]


def _swap(data, random, tokens, _others):
    """One of the words that the parser knows in the place of another, or of an odd text."""
    known = [token for token in tokens if token and token in data]
    if not known:
        return _put(data, random, tokens, _others)
    return data.replace(random.choice(known), random.choice((*_ODD_TEXTS, *tokens)), 1)


def _join(data, random, _tokens, others):
    other = random.choice(others) if others else data
    return data[: _place(data, random)] + other[_place(other, random) :]


def _change_value(data, random, _tokens, _others):
    """A value of a JSON text is another one, is gone, or stands there under another name."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _cut(data, random, _tokens, _others)
    holder = [value]
    inner, key = _descended(holder, random)
    odd = random.choice(_ODD_VALUES)
    if isinstance(inner, dict) and random.randint(0, 2) == 0:
        inner[random.choice((*inner, "x", ""))] = inner.pop(key)
    elif random.randint(0, 3) == 0:
        del inner[key]
    else:
        inner[key] = odd
    return json.dumps(holder[0]).encode() if holder else b""


def _descended(holder, random):
    """Some container on the way down, and a key in it."""
    inner, key = holder, 0
    while isinstance(inner[key], (dict, list)) and inner[key] and random.randint(0, 5):
        inner = inner[key]
        key = random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    return inner, key


_CHANGES = (
    _cut, _repeat, _move, _flip, _put, _swap, _join, _change_value, _change_value, _change_value,
)  # fmt: skip
