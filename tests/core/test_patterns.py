"""No regular expression of the package takes time that doubles with every character of a text."""

import importlib
import pkgutil
import re
import time

import holdfast

PUMPS = (
    *(
        "# a\n",
        "\r\n",
        "\n",
        " ",
        "\t",
        "a",
        "1",
        "-",
        "- ",
        "a ",
        "a: ",
        "a.",
        "a/",
        "1.",
        "1:",
        "x=",
    ),
    *('"', "'", "`", "\\", "<!--", "**", "~", "|", ",", ", ", "()", "[]", "{}", "\x1b[", "\x1b[1;"),
)
REPEATED = 22
LONGEST_S = 0.3


def patterns_of(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from patterns_of(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from patterns_of(item)


def all_patterns():
    """Return every compiled pattern of the package, by the name that it has."""
    found = {}
    for info in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if info.name.endswith(("__main__", ".entry")):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            for pattern in patterns_of(value):
                found.setdefault(pattern, f"{info.name}:{name}")
    return found


def slowest(pattern):
    """Return the longest time that the pattern takes for a short text, and that text."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin1")
    words = dict.fromkeys(re.findall(r"[A-Za-z]{2,}|[^\\\w\s()\[\]?*+|^$.{}]", text))
    times = []
    for pump in (*PUMPS, *words, *(f"{word} " for word in words), *(f"{word}\n" for word in words)):
        for before in ("", "\n", "a"):
            tried = before + pump * REPEATED + "\0!"
            given = tried.encode() if isinstance(pattern.pattern, bytes) else tried
            begin = time.process_time()
            pattern.search(given)
            pattern.fullmatch(given)
            times.append((time.process_time() - begin, tried))
            if times[-1][0] > LONGEST_S:
                return times[-1]
    return max(times)


def test_no_pattern_takes_exponential_time():
    patterns = all_patterns()
    assert len(patterns) > 50
    slow = {name: slowest(pattern) for pattern, name in patterns.items()}
    assert {name: found for name, found in slow.items() if found[0] > LONGEST_S} == {}
