"""Replace secrets in the output and the command line of a run, before anything of them is kept.

Three things are masked: the shapes of common tokens and keys, the values of environment variables
that are named like secrets, and what the patterns of the settings match. Every quantifier of a
shape is possessive or bounded, so that no output makes it backtrack for long. The patterns of the
settings come with a repository, so they run in a process of their own with limits on its time and
memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from holdfast.core import json_text
from holdfast.core.workflow.needs import MASK
from holdfast.errors import HoldfastError
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.types import Fields, Json

    Mask = Callable[[str], str]

MIN_VALUE_CHARS = 8
"""The length of the shortest value of a variable that is masked."""
PATTERN_LIMIT_S = 2.0
"""The time that all patterns of the settings have for one text."""
_MAX_PATTERN_BYTES = 256 * 1024 * 1024
_MAX_VALUE_CHARS = 32 * 1024
_SECRET_NAMES = (
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "KEY",
    "COOKIE",
)  # fmt: skip
_SECRET_PARTS = frozenset({"PASS", "PWD", "PAT", "AUTH", "BEARER"})
"""Whole parts of a name, between underscores: in longer words they mean something else."""
_SEPARATOR = "\n\x1e\n"
"""Between texts that are masked together; the masks leave it as it is."""
_WORK_FOLDERS = ("PWD", "OLDPWD")
_ADDRESS = re.compile(r"://[^\s/@:]{0,256}:([^\s/@]{1,4096})@")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TOO_SLOW = f"{MASK} (all of it: the patterns under mask in the settings were not done in time)"

_KEY = (
    r"(?:pass(?:word|wd|phrase|code)|(?<=[_-])pass(?![a-z])|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|account[_-]?key|signing[_-]?key|encryption[_-]?key)"
)
_HARMLESS = r"(?:none|null|true|false|str|int|bool|bytes|optional)\b"
_VALUE = (
    r"(?!\[masked\]|" + _HARMLESS + r"|[a-z_][\w.]{0,200}+\()"
    r"(?:\\[\"'](?:[^\"'\\\n]|\\(?![\"'])){1,4096}+(?:\\[\"'])?+"
    r'|"(?:[^"\\\n]|\\.){1,4096}+"?+'
    r"|'(?:[^'\\\n]|\\.){1,4096}+'?+"
    r"|`[^`\n]{1,4096}+`?+"
    r"|[^\s\"'`,;&|<>)\]}]{4,4096}+)"
)
_TOKENS = (
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+"  # GitHub
    r"|gl[a-z]{2,5}-[\w.-]{20,}+"  # GitLab
    r"|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{10,}+"  # Slack
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{16,}+"  # Stripe
    r"|sk-[\w-]{20,}+"  # OpenAI, Anthropic
    r"|AIza[\w-]{30,}+|ya29\.[\w.-]{20,}+|GOCSPX-[\w-]{20,}+"  # Google
    r"|npm_[A-Za-z0-9]{30,}+|pypi-[\w-]{40,}+|hf_[A-Za-z0-9]{30,}+"
    r"|SG\.[\w-]{16,}+\.[\w-]{16,}+|do[opr]_v1_[a-f0-9]{32,}+|dapi[a-f0-9]{32}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|hv[sb]\.[\w-]{20,}+|AGE-SECRET-KEY-1[A-Z0-9]{50,}+"
    r"|dckr_pat_[\w-]{20,}+|rubygems_[a-f0-9]{40,}+|sq0[a-z]{3}-[\w-]{20,}+|LTAI[A-Za-z0-9]{12,}+"
    r"|(?:lin_api|ntn|gsk|sbp|nfp|r8|fm2)_[A-Za-z0-9]{30,}+|PMAK-[a-f0-9-]{50,}+"
    r"|dp\.[a-z]{2,5}\.[A-Za-z0-9]{40,}+|AT(?:ATT|CTT|BB)[\w=-]{24,}+|gl(?:sa|c)_[\w+/=-]{30,}+"
    r"|(?:xai|pplx|tskey)-[\w-]{30,}+|NRAK-[A-Z0-9]{20,}+|sntry[su]_[\w+/=-]{30,}+"
    r"|pscale_[a-z]{2,5}_[\w.-]{30,}+|fig[a-z]_[\w-]{30,}+|HRKU-[\w-]{30,}+|pul-[a-f0-9]{40}"
    r"|EZ[AT]K[A-Za-z0-9]{50,}+|FLWSECK[\w-]{12,}+|AKCp[A-Za-z0-9]{40,}+|SK[a-f0-9]{32}"
    r"|key-[a-f0-9]{32}|[a-f0-9]{32}-us[0-9]{1,2}|[0-9]{8,10}:AA[\w-]{30,}+"
    r"|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}+"
    r"|eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)*+"  # JSON web tokens
    r")"
)
_PRIVATE_KEY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_LINE = re.compile(r"[^\n]{0,12}?[A-Za-z0-9+/=]{32,}+[ \t\r]*+")
"""A whole line of a private key, which a test runner may have indented."""
_KEY_END = re.compile(rf"-----END {_PRIVATE_KEY}")
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_PREFIXES = (
    "akia", "asia", "abia", "acca", "a3t", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    "gl", "xox", "xapp-", "k_live_", "k_test_", "whsec_", "sk-", "aiza", "ya29.", "gocspx-", "npm_",
    "pypi-", "hf_", "sg.", "_v1_", "dapi", "shp", "hvs.", "hvb.", "age-secret-key-", "eyj",
    "dckr_pat_", "rubygems_", "sq0", "ltai", "lin_api_", "ntn_", "gsk_", "sbp_", "nfp_", "r8_",
    "fm2_", "pmak-", "dp.", "atatt", "atctt", "atbb", "xai-", "pplx-", "tskey-", "nrak-", "sntry",
    "pscale_", "fig", "hrku-", "pul-", "ezak", "eztk", "flwseck", "akcp", "sk", "key-", "-us",
    ":aa", ".atlasv1.",
)  # fmt: skip
_REST = rf"\g<1>{MASK}"
_SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # A private key, whole or without its end.
    (
        ("-----begin ",),
        rf"-----BEGIN {_PRIVATE_KEY}(?:[^-]|-(?!----)){{0,16384}}+-----END {_PRIVATE_KEY}",
        MASK,
    ),
    (
        ("-----begin ",),
        (
            rf"-----BEGIN {_PRIVATE_KEY}(?:\s++[A-Z][\w-]{{2,20}}+: [^\n]{{0,200}}+)*+"
            r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)*+"
        ),
        MASK,
    ),
    (_PREFIXES, _TOKENS, MASK),
    # A token of Discord, which begins with any of these letters.
    ((".",), r"(?<![A-Za-z0-9])[MNO][\w-]{22,26}\.[\w-]{6}\.[\w-]{25,}+", MASK),
    (
        ("hook",),
        (
            r"(hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/"
            r"|webhook\.office\.com/webhookb2/)[\w@/-]{10,}+"
        ),
        _REST,
    ),
    # A signed address.
    (
        ("sig",),
        r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-signature)=)(?!\[masked\])[^\s&\"'<>]{8,4096}+",
        _REST,
    ),
    # A key of PuTTY, and one as JSON.
    (
        ("private-lines",),
        r"(Private-Lines: [0-9]{1,4})(?:\s{1,3}+[A-Za-z0-9+/=]{16,}+)++",
        rf"\g<1>\n{MASK}",
    ),
    (('"kty"',), r'("(?:d|p|q|dp|dq|qi|k)"\s{0,8}+:\s{0,8}+")[\w-]{16,}+', _REST),
    # A header.
    (
        ("authorization",),
        (
            r"(?i)(\b(?:proxy-)?authorization[\"']?\s{0,4}+[:=]\s{0,4}+[\"']?+"
            r"(?:(?:bearer|basic|token|digest|negotiate)[ \t]++)?+)(?!\[masked\])"
            r"[^\s\"',;]{4,4096}+"
        ),
        _REST,
    ),
    (("bearer",), r"(?i)(\bbearer[ \t]++)(?!\[masked\])[\w.~+/=-]{8,4096}+", _REST),
    (
        ("cookie",),
        r"(?i)(\b(?:set-)?cookie[\"']?\s{0,4}+:\s{0,4}+)(?!\[masked\])[^\s\"'][^\n\"']*+",
        _REST,
    ),
    # An address with a password, or with a long name that may be a token.
    (("://",), r"(://[^\s/@:\"']{0,256}+:)(?!\[masked\]@)[^\s/@\"']{1,4096}+(?=@)", _REST),
    (("://",), r"(://)[^\s/@:\"'\[\]]{16,4096}+(?=@)", _REST),
    (
        ("-u", "--user"),
        r"((?<!\S)(?:-u[ =]?|--user[ =])['\"]?[^\s:'\"]{1,256}+:)(?!\[masked\])[^\s'\"]++",
        _REST,
    ),
    # An element, a pair, a line of .netrc.
    (
        _WORDS,
        (
            rf"(?i)(<[\w:-]{{0,40}}?{_KEY}[\w-]{{0,40}}+>)(?!\[masked\])"
            r"[^<\n]{1,4096}+(?=</)"
        ),
        _REST,
    ),
    (
        _WORDS,
        (
            rf"(?i)([\"'][\w-]{{0,40}}?{_KEY}[\w-]{{0,40}}+[\"'],[ \t]{{0,8}}+[\"'])"
            r"(?!\[masked\])[^\"'\n]{4,4096}+(?=[\"'][)\]])"
        ),
        _REST,
    ),
    (
        ("login",),
        r"(?i)(\blogin\s{1,8}+\S{1,256}+\s{1,8}+password\s{1,8}+)(?!\[masked\])\S{1,4096}+",
        _REST,
    ),
    # An option or an assignment whose name says what its value is.
    (_WORDS, rf"(?i)((?<!\S)--?[\w-]{{0,40}}?{_KEY}[\w-]{{0,40}}+[ \t]++){_VALUE}", _REST),
    (
        _WORDS,
        (
            rf"(?i)({_KEY}[\w-]{{0,40}}+(?:\\?[\"'])?+\]?+[ \t]{{0,8}}+(?:=>|:=|[=:])(?![=:>])"
            rf"[ \t]{{0,8}}+){_VALUE}"
        ),
        _REST,
    ),
)
"""Of each shape: texts of which one is in every match, in any case; the shape; its replacement."""
_COMPILED = [(hints, re.compile(shape, re.MULTILINE), mask) for hints, shape, mask in _SHAPES]

_WORKER = """
import re, resource, sys
from json import dumps, loads
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
texts = loads(sys.stdin.buffer.read())
for number, pattern in enumerate(loads(sys.argv[1])):
    try:
        mask = lambda match: sys.argv[3] if match.group() else ""
        texts = [re.sub(pattern, mask, text) for text in texts]
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        sys.exit(f"pattern {number + 1}: {error or 'it is too large'}")
sys.stdout.write(dumps(texts))
"""


def masker(root: str) -> Mask:
    """Return the function that masks the secrets of a text, with the settings for this folder.

    Raise ``BadSettings`` if a pattern of the settings is not a regular expression.
    """
    patterns = settings.load(root).mask_patterns
    if not patterns:
        return mask
    check_patterns(patterns, "mask.patterns")
    return lambda text: _without_matches(mask(text), patterns)


def mask(text: str) -> str:
    """Mask the values of this process's variables, and the shapes of common secrets."""
    text = _without_values(text, _spellings(secret_values(os.environ)))
    lower = text.lower()
    for hints, shape, replacement in _COMPILED:
        if any(hint in lower for hint in hints):
            text = shape.sub(replacement, text)
    return _without_key_ends(text)


def masked_claim(fields: Fields, root: str) -> Fields:
    """Return the fields of a claim with every text masked, also in lists.

    A claim needs no settings, so patterns that cannot be used are left out.
    """
    try:
        chosen = masker(root)
    except HoldfastError:
        chosen = mask
    return {key: _masked(value, chosen) for key, value in fields.items()}


def masked_texts(value: Json, root: str) -> Json:
    """Return a value with the secrets in all its texts masked, with the settings for this folder.

    All texts are masked at once. Raise ``BadSettings`` as ``masker`` does.
    """
    texts = list(dict.fromkeys(_texts_in(value)))
    masked = masker(root)(_SEPARATOR.join(texts)).split(_SEPARATOR)
    if len(masked) != len(texts):  # A secret reached from one text into the next.
        masked = [masker(root)(text) for text in texts]
    return _with_texts(value, dict(zip(texts, masked, strict=True)))


def _texts_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = list(value.values()) if isinstance(value, dict) else value
    return [text for item in items for text in _texts_in(item)] if isinstance(items, list) else []


def _with_texts(value: Json, texts: dict[str, str]) -> Json:
    if isinstance(value, str):
        return texts[value]
    if isinstance(value, dict):
        return {key: _with_texts(item, texts) for key, item in value.items()}
    return [_with_texts(item, texts) for item in value] if isinstance(value, list) else value


def _masked(value: Json, mask: Mask) -> Json:
    if isinstance(value, str):
        return mask(value)
    return [_masked(item, mask) for item in value] if isinstance(value, list) else value


def secret_values(env: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are named like secrets, the longest first.

    A value does not count if it is very short or very long, or the path of a file that exists. The
    password in an address counts, whatever the variable is called.
    """
    values = set()
    for name, value in env.items():
        if len(value) > _MAX_VALUE_CHARS:
            continue
        is_path = value.startswith("/") and os.path.exists(value)
        if _is_secret_name(name.upper()) and not is_path:
            values |= {value, value.strip(), *map(str.strip, value.splitlines())}
        values |= set(_ADDRESS.findall(value))
    return sorted((value for value in values if len(value) >= MIN_VALUE_CHARS), key=len)[::-1]


def _is_secret_name(name: str) -> bool:
    is_part = name not in _WORK_FOLDERS and not _SECRET_PARTS.isdisjoint(name.split("_"))
    return is_part or any(word in name for word in _SECRET_NAMES)


def _spellings(values: list[str]) -> list[str]:
    """Return values also as programs print them: in JSON, Python, an address, hex and base64."""
    from binascii import b2a_base64
    from json import dumps

    spelled = set(values)
    for value in values:
        raw = value.encode(errors="surrogateescape")
        as_json, as_ascii = dumps(value, ensure_ascii=False)[1:-1], dumps(value)[1:-1]
        in_address = "".join([chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in raw])
        spelled |= {as_json, as_ascii, in_address, in_address.replace("%2F", "/"), repr(raw)[2:-1]}
        spelled |= {in_address.replace("%20", "+"), raw.hex()}
        # What stands before the value shifts its base64; its first and last digits have other bits.
        for shift in range(3):
            digits = b2a_base64(b"\0" * shift + raw, newline=False).decode()
            spelled.add(digits[-(-shift * 4 // 3) : (shift + len(raw)) * 4 // 3])
    return sorted(spelled, key=len)[::-1]


def _without_values(text: str, values: list[str]) -> str:
    """Mask values, also those that line breaks divide."""
    joined = text.replace("\n", "")
    for value in values:
        if value in text:
            text = text.replace(value, MASK)
        if (characters := value.replace("\n", "")) in joined:
            divided = "\n?".join(map(re.escape, characters))
            text = re.sub(divided, lambda match: MASK + "\n" * match.group().count("\n"), text)
    return text


def _without_key_ends(text: str) -> str:
    """Mask private keys whose beginnings were cut off."""
    kept, start = [], 0
    for mark in _KEY_END.finditer(text):
        lines = text[start : mark.start()].split("\n")
        number = len(lines) - 2  # The last line of a key may be short.
        while number > 0 and _KEY_LINE.fullmatch(lines[number - 1]):
            number -= 1
        if number >= 0:
            del lines[number:-1]
        kept += ["\n".join(lines), MASK]
        start = mark.end()
    return "".join([*kept, text[start:]])


def _without_matches(text: str, patterns: list[str]) -> str:
    """Mask what the patterns match; mask everything if they are not done in time."""
    try:
        return _replaced([text], patterns, MASK)[0]
    except _PatternsFailed:
        return _TOO_SLOW


def check_patterns(patterns: list[str], key: str) -> None:
    """Raise ``BadSettings`` if one of the patterns of a setting is not a regular expression."""
    replace_matches([""], patterns, MASK, key)


def replace_matches(texts: list[str], patterns: list[str], mask: str, key: str) -> list[str]:
    """Return texts with ``mask`` in place of what the patterns of a setting match.

    Raise ``BadSettings`` if one is not a regular expression, or they are not done in time.
    """
    try:
        return _replaced(texts, patterns, mask)
    except _PatternsFailed as failed:
        raise settings.BadSettings("the settings", key, str(failed)) from None


class _PatternsFailed(Exception):
    """Patterns could not be used; the message says why."""


def _replaced(texts: list[str], patterns: list[str], mask: str) -> list[str]:
    limits = [str(_MAX_PATTERN_BYTES), mask]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, with the program above
            [sys.executable, "-I", "-S", "-c", _WORKER, json_text.dumps(patterns), *limits],
            input=json_text.dumps(texts).encode(errors="replace"),
            capture_output=True,
            timeout=PATTERN_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        why = f"the patterns take more than {PATTERN_LIMIT_S:.0f} s for a text"
        raise _PatternsFailed(why) from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()[-200:]
        raise _PatternsFailed(f"not a regular expression: {why}")
    replaced: list[str] = json_text.loads(done.stdout)
    return replaced
