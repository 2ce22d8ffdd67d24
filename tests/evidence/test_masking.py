"""Secrets in what a run printed are masked before anything of it is kept."""

import json
import os
import time
from base64 import b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.evidence import masking
from holdfast.evidence.masking import mask, masker, secret_values
from holdfast.evidence.run import MAX_END_BYTES, MAX_HEAD_BYTES, run

BODY = "\n".join(["MIIEpAIBAAKCAQEA7bq0vLx9d0aF2kQ1rT8uWmYzB4cE6gH3"] * 6)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BODY}\n"
PEM_END = "-----END RSA PRIVATE KEY-----"

SECRETS = {
    "AWS": ("AKIAIOSFODNN7" + "EXAMPLE",) * 2,
    "AWS secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "wJalrXUtnFEMI"),
    "GitHub": ("ghp_" + "a1B2" * 9,) * 2,
    "GitHub, fine-grained": ("github_pat_" + "11AB_" * 8,) * 2,
    "GitLab": ("glpat-" + "x9Y8" * 5,) * 2,
    "Slack": ("xoxb-1234567890-" + "abcdEFGH",) * 2,
    "Slack hook": ("https://hooks.slack.com/services/T0AAA/B0BBB/cccDDD", "cccDDD"),
    "Stripe": ("sk_live_" + "4eC39HqLyjWD",) * 2,
    "Docker": ("dckr_pat_" + "aB3_" * 6,) * 2,
    "Telegram": ("123456789:AA" + "Hd1-" * 9,) * 2,
    "Discord": ("MTE4NzY1NDMyMTA5ODc2NTQzMg" + ".GaBcDe." + "ab1_" * 7,) * 2,
    "Square": ("sq0atp-" + "aB3_" * 6,) * 2,
    "Mailgun": ("key-" + "0a1b" * 8,) * 2,
    "Mailchimp": ("0a1b" * 8 + "-us12",) * 2,
    "Grafana": ("glsa_" + "aB3x" * 9,) * 2,
    "RubyGems": ("rubygems_" + "0a1b" * 12,) * 2,
    "Atlassian": ("ATATT3x" + "aB3_" * 8,) * 2,
    "Terraform": ("abcdefghijklm1" + ".atlasv1." + "aB3x" * 15,) * 2,
    "Discord hook": ("https://discord.com/api/webhooks/123/abcDEF-9876", "abcDEF-9876"),
    "signed address": ("https://x.example.org/c?sv=1&sig=abc%2Bdef12", "abc%2Bdef12"),
    "PuTTY": ("Private-Lines: 2\nAAAAgQCabcdefghijkl\nmnopqrstuvwxyz0123\nPrivate-MAC", "gQCa"),
    "JWK": ('{"kty":"RSA","d":"abcdefghijklmnop123"}', "abcdefghijklmnop123"),
    "netrc": ("machine x.org login joe password hunter2", "hunter2"),
    "element": ("<db:password>hunter2</db:password>", "hunter2"),
    "pair": ("('password', 'hunter2')", "hunter2"),
    "short name": ("export DB_PASS=hunter2", "hunter2"),
    "user of curl, joined": ("curl -ujoe:hunter2 x.org", "hunter2"),
    "OpenAI": ("sk-proj-" + "abcdEFGH12" * 4,) * 2,
    "Anthropic": ("sk-ant-api03-" + "abcdEFGH12" * 4,) * 2,
    "Google": ("AIzaSy" + "A-1234567890abcdefghijklmnopqrstu",) * 2,
    "JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def_123",) * 2,
    "private key": (PEM + PEM_END, "MIIEpA"),
    "private key without its end": (PEM, "MIIEpA"),
    "private key without its beginning": (BODY + "\n" + PEM_END, "MIIEpA"),
    "private key, indented": ("E   " + (PEM + PEM_END).replace("\n", "\nE   "), "MIIEpA"),
    "bearer": ("> Authorization: Bearer abc.def~ghi", "abc.def~ghi"),
    "basic": ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "cookie": ("Set-Cookie: session=abcd; Path=/", "abcd"),
    "address": ("postgres://joe:hunter2@db:5432/x", "hunter2"),
    "address with a token": ("https://0123456789abcdef0@github.com/x", "0123456789abcdef0"),
    "user of curl": ("curl -u joe:hunter2 https://example.org", "hunter2"),
    "assignment": ("DB_PASSWORD_PROD=hunter2", "hunter2"),
    "assignment in quotes": ("password: 'hunter two'", "two"),
    "JSON": ('{"password": "hunter2"}', "hunter2"),
    "JSON in a string": (r"{\"api_key\": \"hunter2\"}", "hunter2"),
    "option": ("deploy --auth-token hunter2 now", "hunter2"),
}  # fmt: skip
HARMLESS = [
    "test token::refresh ... ok", "token == 'x'", "token: None", "token = login('a')",
    "=== 3 failed, 5 passed in 1.2s ===", "PASS tests/token.test.js", "ssh://git@github.com/x",
    "bypass=everything", "PASS: test_login", "sig=unsigned", "skipped 3 of 5", "MOCK.server.x",
    "http://localhost:8080/a@b", "the key of the map", "assert tokens == [1, 2]",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_of_a_common_shape_is_masked(name):
    text, secret = SECRETS[name]
    masked = mask(f"before\n{text} \nafter")
    assert secret not in masked
    assert "[masked]" in masked
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter")


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_output_stays_as_it_is(text):
    assert mask(text) == text


@given(st.lists(st.sampled_from([text for text, _ in SECRETS.values()] + HARMLESS + ['"', "\n"])))
def test_masking_twice_is_masking_once(texts):
    masked = mask(" ".join(texts))
    assert mask(masked) == masked


def test_the_value_of_a_variable_that_is_named_like_a_secret_is_masked(monkeypatch, tmp_path):
    monkeypatch.setenv("MY_DEPLOY_TOKEN", "zq9 very private")
    monkeypatch.setenv("SIGNING_KEY", "first line of it\nsecond line of it")
    monkeypatch.setenv("SHORT_KEY", "short")
    monkeypatch.setenv("KEY_FILE", str(tmp_path))
    text = f"zq9 very private, second line of it, short, {tmp_path}"
    assert mask(text) == f"[masked], [masked], short, {tmp_path}"
    assert mask("a zq9 very pri\nvate b") == "a [masked]\n b"


@pytest.mark.parametrize(
    "name", ["DB_PASS", "MYSQL_PWD", "GH_PAT", "REDIS_AUTH", "SESSION_COOKIE", "DATABASE_URL"]
)
def test_a_value_is_masked_whatever_the_word_for_a_secret_is(name, monkeypatch):
    is_address = name == "DATABASE_URL"
    monkeypatch.setenv(name, "db://joe:zq9-private@h/x" if is_address else "zq9-private")
    monkeypatch.setenv("OLDPWD", "/folder-that-is-gone")
    assert mask("a zq9-private b, /folder-that-is-gone") == "a [masked] b, /folder-that-is-gone"


@pytest.mark.parametrize("before", ["", "u:", "me:"])
def test_a_value_is_masked_however_a_program_writes_it(before, monkeypatch):
    value = 'p@ss/w0rd+"x y&z\u00e9'
    monkeypatch.setenv("A_SECRET", value)
    spelled = [
        json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value), repr(value.encode()),
        quote(value), quote(value, safe=""), quote_plus(value), value.encode().hex(),
    ]  # fmt: skip
    for text in spelled:
        masked = mask(f"x {text} y")
        assert "ss" not in masked.replace("masked", ""), text
        assert "[masked]" in masked, text
    coded = b64encode((before + value + "!").encode()).decode()
    masked = mask(coded)
    assert "[masked]" in masked
    assert len(masked.replace("[masked]", "")) < len(before) * 2 + 8


def test_a_value_is_masked_before_one_that_is_a_part_of_it():
    values = secret_values({"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"})
    assert values == ["abcdefghijkl", "abcdefgh"]


def test_nothing_of_a_secret_is_left_where_the_output_is_cut(monkeypatch, tmp_path):
    """The output is one line, and a secret stands across each of the two ends of what is kept."""
    secret = "0123456789" * 3
    monkeypatch.setenv("A_SECRET", secret)
    size = MAX_HEAD_BYTES + 4 * MAX_END_BYTES
    for shift in (5, 25):
        head = MAX_HEAD_BYTES - shift
        end = size - MAX_END_BYTES - shift
        script = (
            f"import sys; s = {secret!r}; t = 'x' * {head} + s; t += 'y' * ({end} - len(t)) + s;"
            f"sys.stdout.write(t + 'z' * ({size} - len(t)))"
        )
        head, note, end = run(["python3", "-c", script], str(tmp_path), limit_s=60).output.split(
            "\n"
        )
        assert "bytes of output left out" in note
        assert (set(head), set(end)) == ({"x"}, {"z"})


def test_the_tail_is_cut_after_masking(monkeypatch, tmp_path):
    monkeypatch.setenv("A_SECRET", "q" * 60)
    script = "print('\\n'.join(['q' * 60] * 100))"
    outcome = run(["python3", "-c", script], str(tmp_path), limit_s=60)
    assert set(outcome.tail.split("\n")) <= {"[masked]", ""}


def test_the_command_line_is_masked_too(tmp_path):
    outcome = run(["true", "--password", "hunter22"], str(tmp_path), limit_s=60)
    assert outcome.command == "true --password [masked]"


def settings(tmp_path, name, patterns):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[mask]\npatterns = {patterns}\n")


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    return tmp_path


def test_patterns_of_both_settings_are_masked(places):
    settings(places, "work/.claude/holdfast.toml", ["K-[0-9]+"])
    settings(places, "config/holdfast/config.toml", ["L-[a-z]+", "x*"])
    assert masker(str(places / "work"))("K-12 L-ab M-12 xx") == "[masked] [masked] M-12 [masked]"


def test_a_pattern_that_is_not_one_is_refused_before_the_run(places):
    settings(places, "work/.claude/holdfast.toml", ["ok", "("])
    with pytest.raises(Refused, match=r"mask\.patterns.*pattern 2"):
        masker(str(places / "work"))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(?:(?:a{0,60000}){0,60000}){0,60000}b"])
def test_a_pattern_that_never_ends_masks_everything_in_time(places, monkeypatch, pattern):
    monkeypatch.setattr(masking, "PATTERN_LIMIT_S", 1.0)
    settings(places, "work/.claude/holdfast.toml", [pattern])
    begin = time.monotonic()
    masked = masker(str(places / "work"))("a" * 5_000)
    assert time.monotonic() - begin < 20
    assert "a" * 10 not in masked
    assert masked.startswith("[masked]")


@pytest.mark.parametrize(
    "unit",
    ["password ", "--token", "://a:", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaa.", "-u a:b "],
)
def test_masking_takes_time_in_proportion_to_the_output(unit):
    def took(count):
        begin = time.process_time()
        mask(unit * count)
        return time.process_time() - begin

    took(100)
    assert took(40_000) < 60 * max(took(4_000), 0.005)


def test_only_the_environment_of_this_process_counts(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    assert mask("zq9 very private") == "zq9 very private"
