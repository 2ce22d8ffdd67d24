"""What a search finds, and the index beside the ledger that it is found by."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from holdfast import Loops
from holdfast.errors import Refused
from holdfast.keeper import searching
from holdfast.storage import search_index
from support.workshop import DAY_MS, HOME, LEDGER, Workshop

INDEX = f"{HOME}/search.db"


@pytest.fixture
def keeper(shop):
    keeper = shop.keeper()
    keeper.start("dev", "docs/a.md", title="Login", tasks=["Write the parser", "Ask for a code"])
    keeper.remind("Never log a passwörd")
    keeper.remember("The parser needs a clean cache")
    keeper.note_forge("build", "make with a cold cache")
    return keeper


def texts(keeper, words, **options):
    return [hit["text"] for hit in keeper.search(words, **options)["hits"]]


def seqs(keeper, words, **options):
    return [hit["seq"] for hit in keeper.search(words, **options)["hits"]]


def indexed(shop):
    """The last seq that the index has."""
    with sqlite3.connect(shop.path(INDEX)) as connection:
        row = connection.execute("SELECT value FROM marks WHERE name = 'seq'").fetchone()
    connection.close()
    return int(row[0])


# What is found


def test_a_hit_says_what_it_is_and_where_its_words_are(shop, keeper):
    hit, other = keeper.search("cache")["hits"]
    assert {hit["kind"], other["kind"]} == {"learning", "forge"}
    (hit,) = keeper.search("parser write")["hits"]
    assert [hit["text"][begin:end] for begin, end in hit["marks"]] == ["Write", "parser"]
    event = keeper.log()[hit["seq"] - 1]
    assert event["data"]["description"] == "Write the parser"
    assert (hit["type"], hit["at"], hit["stream"]) == ("task_added", event["at"], event["stream"])
    assert (hit["kind"], hit["title"], hit["repository"]) == ("workflow", "Login", shop.root)
    assert hit["open"] == ["holdfast", "show", event["stream"], "--at", str(hit["seq"])]


def test_all_words_must_be_there_whole_or_begun_in_capitals_or_not_with_accents_or_not(keeper):
    assert texts(keeper, "PARS cac") == texts(keeper, "clean parser") != []
    assert len(texts(keeper, "password")) == len(texts(keeper, "passwörd")) == 1
    assert texts(keeper, "parser password") == []
    assert texts(keeper, "arser") == []


def test_a_word_that_is_there_whole_comes_before_one_that_it_begins(keeper):
    keeper.remind("caches are many, and caching them is hard")
    keeper.remind("one cache")
    assert texts(keeper, "cache")[-1].startswith("text=caches")


def test_words_in_the_type_of_an_event_are_found_with_those_in_its_text(keeper):
    (hit,) = keeper.search("reminder_added passwörd")["hits"]
    assert hit["text"] == "text=Never log a passwörd"


def test_of_equal_hits_the_newest_comes_first_and_the_limit_cuts(keeper):
    for _ in range(4):
        keeper.set_context({"note": "the very same"})
        keeper.set_context({"note": "x"})
    found = seqs(keeper, "very same")
    assert found == sorted(found, reverse=True)
    assert len(found) == 4
    assert seqs(keeper, "very same", limit=2) == found[:2]


@pytest.mark.parametrize(
    "words",
    [
        '"', '"parser', 'parser"', "parser OR nothing", "parser AND", "NOT parser", "parser*)",
        "text:parser", "^parser", "NEAR(parser cache)", "{text type}:parser", "-parser",
        "a'b; DROP", "parser\\", "(", "+ parser", "%", "\x02parser\x03", "parser\n\tcache",
        "ß" * 300, "parser " * 33,
    ],
)  # fmt: skip
def test_signs_of_the_query_language_are_data(keeper, words):
    """They are words like others, or no words at all; the search never fails of them."""
    try:
        found = texts(keeper, words)
    except Refused as refused:
        assert refused.code == "invalid"
        assert refused.hint.startswith(("holdfast search WORDS", "holdfast log --grep "))
        return
    plain = {"parser", "cache", "text", "type"}
    if set(words.split()) - plain and any(word in words for word in ("OR", "AND", "NOT", "NEAR")):
        assert found == []


def test_a_sign_beside_a_word_changes_nothing(keeper):
    for words in ('"parser', "parser*", "^parser", "-parser", "(parser)", "+ parser", "\x02parser"):
        assert seqs(keeper, words) == seqs(keeper, "parser"), words


def test_hidden_and_marking_characters_in_a_text_move_no_mark(keeper):
    keeper.remind("odd\u202e \u200bzebra <b>tag</b>")
    (hit,) = keeper.search("zebra")["hits"]
    assert [hit["text"][begin:end] for begin, end in hit["marks"]] == ["zebra"]


def test_words_without_spaces_between_them_are_found_inside_a_sentence(keeper):
    keeper.remind("登录需要密码和代码")
    (hit,) = keeper.search("密码")["hits"]
    assert hit["text"] == "text=登录需要密码和代码"
    assert [hit["text"][begin:end] for begin, end in hit["marks"]] == ["密码"]
    assert texts(keeper, "码密") == []


def test_a_long_text_is_shown_around_its_words(keeper):
    keeper.remind(f"{'before ' * 200}needle {'after ' * 200}")
    (text,) = texts(keeper, "needle")
    assert "needle" in text
    assert len(text) < 300


def test_a_secret_that_was_masked_cannot_be_found(shop, keeper):
    secret = "ghp_" + "a1B2" * 9
    keeper.evidence().run_gate("lint", ["sh", "-c", f"echo zebra {secret}; exit 1"])
    assert "[masked]" in texts(keeper, "zebra")[0]
    assert texts(keeper, secret) == []
    raw = shop.read(INDEX)
    assert secret.encode() not in raw
    assert secret.lower().encode() not in raw


# Loops' logs


def test_iterations_are_found_and_so_is_what_people_wrote_between_them(shop, keeper):
    loops = Loops(keeper)
    receipt = loops.new("words", task="go on")
    loops.plan("words", "T1: one")
    loops.iterate("T1", did="halved the latency", remaining="more", slug="words")
    folder = os.path.dirname(receipt.state["record"])
    log = shop.text(f"{folder}/progress.md")
    shop.write(f"{folder}/progress.md", f"{log}\nThe zebra was\nright about latency.\n")
    done, remark = sorted(keeper.search("latency")["hits"], key=lambda hit: hit["seq"] is None)
    assert (done["kind"], done["type"]) == ("loop", "iteration_recorded")
    assert (remark["kind"], remark["type"], remark["seq"]) == ("loop", "progress.md", None)
    assert remark["text"] == "The zebra was right about latency."
    assert remark["open"] == ["holdfast", "show", "words"]


# The index


def test_the_index_is_a_private_file_that_only_a_search_makes(shop, keeper):
    keeper.log()
    keeper.show()
    assert not os.path.exists(shop.path(INDEX))
    keeper.search("parser")
    assert stat.S_IMODE(os.stat(shop.path(INDEX)).st_mode) == 0o600
    assert indexed(shop) == keeper.store.ledger.head_seq
    assert shop.run("verify").returncode == 0


def test_only_what_is_new_is_added(shop, keeper, monkeypatch):
    keeper.search("parser")
    before = keeper.store.ledger.head_seq
    keeper.remind("a zebra")
    read = []
    original = search_index.read_event
    monkeypatch.setattr(
        search_index, "read_event", lambda row: (read.append(row[0]), original(row))[1]
    )
    assert seqs(keeper, "zebra") == [before + 1]
    assert read == [before + 1]
    assert seqs(shop.keeper(), "zebra") == [before + 1]
    assert read == [before + 1]


def test_many_events_are_added_in_several_commits_and_told_of(shop, keeper, monkeypatch):
    monkeypatch.setattr(search_index, "_AT_ONCE", 3)
    told = []
    keeper.search("parser", progress=lambda *step: told.append(step))
    head = keeper.store.ledger.head_seq
    assert told[0] == ("events", 3, head)
    assert told[-1] == ("events", head, head)
    assert len(told) == -(-head // 3)


def test_a_search_that_was_killed_is_gone_on_with(shop, keeper, monkeypatch):
    monkeypatch.setattr(search_index, "_AT_ONCE", 3)

    def die(_what, _done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keeper.search("cache", progress=die)
    assert indexed(shop) == 3
    assert len(texts(keeper, "cache")) == 2
    assert len(texts(shop.keeper(), "cache")) == 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5_000, "middle", "no words", "link"],
)
def test_a_damaged_index_is_made_anew(shop, keeper, tmp_path, damage):
    expected = seqs(keeper, "cache")
    path = shop.path(INDEX)
    if damage == "middle":
        raw = shop.read(INDEX)
        shop.write(INDEX, raw[:4_096] + b"\xaa" * (len(raw) - 4_096))
    elif damage == "no words":
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE words")
        connection.close()
    elif damage == "link":
        (tmp_path / "other").write_bytes(b"keep me")
        os.unlink(path)
        os.symlink(tmp_path / "other", path)
    else:
        shop.write(INDEX, damage)
    keeper = shop.keeper()
    assert seqs(keeper, "cache") == expected
    assert keeper.drain_notes() == []
    assert os.path.isfile(path)
    assert not os.path.islink(path)
    if damage == "link":
        assert (tmp_path / "other").read_bytes() == b"keep me"


def test_an_index_of_another_ledger_is_made_anew(shop, keeper, tmp_path):
    other = Workshop(tmp_path / "other")
    for number in range(20):
        other.keeper().remember(f"a zebra {number}")
    other.keeper().search("zebra")
    keeper.search("cache")
    shop.write(INDEX, other.read(INDEX))
    assert seqs(shop.keeper(), "zebra") == []
    assert len(seqs(shop.keeper(), "cache")) == 2


def test_an_index_of_a_ledger_that_was_put_back_is_made_anew(shop, keeper):
    keeper.store.ledger.acquire()
    keeper.store.ledger.database.close()
    keeper.store.ledger.release()
    backup = shop.read(LEDGER)
    shop.keeper().remind("a zebra")
    assert len(seqs(shop.keeper(), "zebra")) == 1
    for end in ("", "-wal", "-shm"):
        if os.path.exists(shop.path(LEDGER + end)):
            os.unlink(shop.path(LEDGER + end))
    shop.write(LEDGER, backup)
    shutil.rmtree(shop.path(".claude"))  # The records would bring the zebra back.
    shop.keeper().remind("a giraffe")
    assert seqs(shop.keeper(), "zebra") == []
    assert len(seqs(shop.keeper(), "giraffe")) == 1


def test_a_hit_is_read_in_the_ledger_so_an_index_makes_nothing_up(shop, keeper):
    keeper.search("cache")
    with sqlite3.connect(shop.path(INDEX)) as connection:
        connection.execute("INSERT INTO words (rowid, text, type) VALUES (1, 'zebra', 'x')")
        connection.execute("INSERT INTO words (rowid, text, type) VALUES (999, 'zebra', 'x')")
    connection.close()
    assert keeper.search("zebra")["hits"] == []


def test_without_a_ledger_nothing_is_found_and_nothing_is_made(shop):
    assert shop.keeper().search("zebra") == {
        "query": "zebra", "hits": [], "repositories": [shop.root],
    }  # fmt: skip
    assert not os.path.exists(shop.path(HOME))


@pytest.mark.parametrize("words", ["", "  ", "--- !", '"', "\ud800"])
def test_without_a_word_the_search_is_refused(keeper, words):
    with pytest.raises(Refused) as caught:
        keeper.search(words)
    assert caught.value.code == "invalid"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("🎉", "only words with a letter or a digit", "holdfast log --grep '🎉'"),
        ("( *", "only words with a letter or a digit", "holdfast log --grep '( *'"),
        ("--", "only words with a letter or a digit", "holdfast search WORDS"),
        ("!" * 41, "only words with a letter or a digit", "holdfast search WORDS"),
        ("x" * 10_000, "a word of 10,000 characters", "holdfast search WORDS"),
        ("parser " * 2_000, "2,000 words are too many; 32 ", "holdfast search WORDS"),
    ],
)
def test_a_refused_search_names_its_limit_and_another_way(keeper, words, message, hint):
    with pytest.raises(Refused) as caught:
        keeper.search(words)
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_several_searches_at_once_make_one_index(shop, keeper):
    searches = 6
    begin = Barrier(searches)

    def search(_number):
        other = shop.keeper()
        begin.wait()
        hits = other.search("password")["hits"]
        return len(hits), other.drain_notes()

    with ThreadPoolExecutor(searches) as pool:
        for _ in range(5):
            with suppress(FileNotFoundError):
                os.unlink(shop.path(INDEX))
            assert list(pool.map(search, range(searches))) == [(1, [])] * searches


# Archives


def test_archived_events_are_found_before_and_after_the_index_is_made(shop, keeper):
    keeper.search("password")
    keeper.abandon("no more")
    shop.clock.ms += 90 * DAY_MS
    assert keeper.archive("1d").events
    before = seqs(shop.keeper(), "password")
    os.unlink(shop.path(INDEX))
    assert seqs(shop.keeper(), "password") == before != []


def test_a_missing_archive_is_named_and_its_events_are_found_when_it_is_back(shop, keeper):
    keeper.abandon("no more")
    shop.clock.ms += 90 * DAY_MS
    name = keeper.archive("1d").name
    path = shop.path(HOME, "archives", name)
    os.rename(path, f"{path}.away")
    keeper = shop.keeper()
    assert seqs(keeper, "password") == []
    (note,) = keeper.drain_notes()
    assert f"the archive {name}: it is missing" in note
    assert len(seqs(keeper, "cache")) == 2
    os.rename(f"{path}.away", path)
    assert len(seqs(shop.keeper(), "password")) == 1


# Where nothing can be written


def test_another_search_that_fills_the_index_is_not_waited_for_for_long(shop, keeper, monkeypatch):
    keeper.search("cache")
    keeper.remind("a zebra")
    monkeypatch.setattr(search_index, "_WAIT_S", 0)
    other = sqlite3.connect(shop.path(INDEX), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert len(seqs(keeper, "zebra")) == 1
    (note,) = keeper.drain_notes()
    assert "another search is filling it" in note
    assert "the newest 1 events" in note
    assert len(seqs(keeper, "cache")) == 2
    other.execute("ROLLBACK")
    other.close()
    assert len(seqs(keeper, "zebra")) == 1


def test_on_a_read_only_disk_the_newest_events_are_searched_without_the_file(shop, not_shown):
    for number in range(8):
        assert shop.run("remember", f"fact {number}").returncode == 0
    folder = shop.path(HOME)
    bound = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False)
    if bound.returncode:
        not_shown("a search on a read-only disk: this system lets nobody mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        done = shop.run("search", "fact", "--json")
    finally:
        subprocess.run(["umount", folder], check=True)
    answer = json.loads(done.stdout)
    assert len(answer["hits"]) == 8
    (note,) = answer["notes"]
    assert note.startswith("search.db cannot be brought up to date")
    assert note.endswith("the newest 8 events were searched without it")
    assert not os.path.exists(shop.path(INDEX))


def test_what_is_too_old_to_be_searched_without_the_file_is_said(shop, keeper, monkeypatch):
    monkeypatch.setattr(searching, "MAX_UNINDEXED", 2)
    os.mkdir(shop.path(INDEX))
    assert seqs(keeper, "password") == []
    assert len(seqs(keeper, "cache")) == 2
    head = keeper.store.ledger.head_seq
    note = keeper.drain_notes()[0]
    assert f"the newest 2 events were searched without it, and {head - 2} before them" in note


# All repositories


@pytest.fixture
def others(shop, keeper, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shops = [Workshop(tmp_path / name) for name in ("first", "second")]
    for other in shops:
        other.keeper().remember(f"a zebra in {os.path.basename(other.root)}")
    keeper.remember("a zebra at home")
    return shops


def test_all_repositories_of_this_person_are_searched(shop, keeper, others):
    assert [hit["repository"] for hit in keeper.search("zebra")["hits"]] == [shop.root]
    found = keeper.search("zebra", everywhere=True)
    roots = {shop.root, *(other.root for other in others)}
    assert {hit["repository"] for hit in found["hits"]} == set(found["repositories"]) == roots
    assert len(keeper.search("zebra", everywhere=True, limit=2)["hits"]) == 2


def test_a_repository_that_cannot_be_read_is_named_and_the_others_are_searched(
    shop, keeper, others
):
    first, second = others
    first.write(LEDGER, b"damaged" * 1_000)
    found = keeper.search("zebra", everywhere=True)
    assert set(found["repositories"]) == {shop.root, second.root}
    assert any(note.startswith(f"{first.root}: not searched") for note in keeper.drain_notes())
