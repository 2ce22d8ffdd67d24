"""``WORKFLOW-STATUS.yaml``: only values change, and what cannot be read is named by its line."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.initiatives import BadFile
from holdfast.initiatives.sources import is_as_written, new_status_file
from holdfast.initiatives.status_yaml import Status

VALUES = {
    "initiative": "Tidy: billing",
    "milestone": "M2",
    "status": "in_progress",
    "updated": "2026-04-01T10:00:00.000Z",
}
PROGRESS = {"M1": "completed", "M2": "in_progress"}


def said(raw):
    told = Status(raw)
    return (
        {
            "initiative": told.initiative,
            "milestone": told.milestone,
            "status": told.status,
            "updated": told.updated,
        },
        told.progress,
    )


def test_comments_order_quotes_line_ends_and_foreign_keys_stay():
    before = (
        b"# The board.\r\n"
        b"team: [billing, ledger]   # who\r\n"
        b"status: 'created'  # by hand\r\n"
        b"progress:\r\n"
        b"    M1:   pending # soon\r\n"
        b"\r\n"
        b'milestone: "M1"\r\n'
        b"notes: |\r\n  status: created\r\n  two lines\r\n"
        b"# the end\r\n"
    )
    after = Status(before).with_values(VALUES, PROGRESS)
    assert after == (
        b"# The board.\r\n"
        b"team: [billing, ledger]   # who\r\n"
        b"status: 'in_progress' # by hand\r\n"
        b"progress:\r\n"
        b"  M1: completed   # soon\r\n"
        b"\r\n"
        b"  M2: in_progress\r\n"
        b'milestone: "M2"\r\n'
        b"notes: |\r\n  status: created\r\n  two lines\r\n"
        b"# the end\r\n"
        b'initiative: "Tidy: billing"\r\n'
        b"updated: 2026-04-01T10:00:00.000Z\r\n"
    )


@pytest.mark.parametrize("end", ["", "...\n"])
def test_the_marks_of_a_document_and_the_comments_around_them_stay(end):
    before = f"# Head.\n---\nstatus: created\ndue: 2026-04-01 00:00:00.000Z\nrate: 1.50\n{end}"
    after = Status(before.encode()).with_values({"status": "blocked"}, {}).decode()
    assert after == before.replace("created", "blocked").replace("1.50\n", "1.50\nprogress: {}\n")


def test_a_file_that_says_it_already_keeps_every_byte():
    raw = new_status_file(VALUES, PROGRESS)
    assert Status(raw).with_values(VALUES, PROGRESS) == raw
    odd = b'\xef\xbb\xbf"status" :   "in_progress"\nupdated: 1\n'
    told = Status(odd)
    assert told.with_values({"status": "in_progress"}, {}).startswith(odd)


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\n\n",
        b"# only a comment",
        b"---\n# a\nstatus:\n...\n",
        b"progress:\n",
        b"progress: {}\n",
        b"progress: {M1: pending, other: x}",
        b"progress: ~ # none\nz: 1\n",
        b"status: !!str created\n",
        b"status: null\nmilestone: ~\n",
        b"'initiative': x\n",
        b"a:\n  - b: c\n    d:\n      - e\n\n",
        b"progress:\n  M1: x\n\n  # mine\n  other: y\nz: 1\n",
        b"status:   # nothing yet\nprogress:  # nothing yet\n\n\n",
    ],
)
def test_whatever_is_there_it_says_what_it_was_given(before):
    after = Status(before).with_values(VALUES, PROGRESS)
    values, progress = said(after)
    assert values == VALUES
    assert {key: progress[key] for key in PROGRESS} == PROGRESS
    assert Status(after).with_values(VALUES, PROGRESS) == after


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)


@given(name=TEXTS, milestone=st.text("M0123456789yesno-~#:&*!", min_size=1), status=TEXTS)
def test_any_value_is_read_back_as_it_was_given(name, milestone, status):
    values = {"initiative": name, "milestone": milestone, "status": status, "updated": "1"}
    expected = {key: value.strip() or None for key, value in values.items()}
    if all(expected.values()) and all(v == v.strip() for v in values.values()):
        raw = new_status_file(values, {milestone: status})
        assert said(raw) == (values, {milestone: status})
        other = Status(b"initiative: x\nprogress: {a: b}\n# end").with_values(values, {"M1": "x"})
        assert said(other)[0] == values


KEYS = st.sampled_from(["initiative", "milestone", "status", "updated", "progress", "team", "x"])
ROWS = st.one_of(
    st.builds(
        lambda key, text: f"{key}: {text}", KEYS, st.sampled_from(["a", "'b'", '"c"', "7", "~"])
    ),
    st.sampled_from(["# a comment", "", "  M1: pending", "  M2: 'x'", "- item", "\t", "---"]),
)


@given(st.lists(ROWS, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_any_file_is_patched_or_refused_and_its_other_lines_stay(rows, newline):
    raw = newline.join(rows).encode()
    try:
        told = Status(raw)
        after = told.with_values(VALUES, PROGRESS)
    except BadFile as bad:
        assert bad.line >= 1
        return
    assert said(after)[0] == VALUES
    kept = [row for row in rows if row.startswith(("#", "team", "x:"))]
    lines = after.decode().replace("\r\n", "\n").split("\n")
    assert [line for line in lines if line.startswith(("#", "team", "x:"))] == kept


def test_a_file_of_ours_is_known_without_a_parser():
    raw = new_status_file(VALUES, PROGRESS)
    assert is_as_written(raw, VALUES, PROGRESS)
    assert is_as_written(raw.replace(b"\n", b"\r\n"), VALUES, PROGRESS)
    assert not is_as_written(raw, {**VALUES, "status": "blocked"}, PROGRESS)
    assert not is_as_written(raw, VALUES, {**PROGRESS, "M1": "blocked"})
    assert not is_as_written(b"\xff", VALUES, PROGRESS)


OTHERS = """\
initiative: Other{0}progress: # of each{0}  M1: completed  # ours{0}  X: pending  # theirs{0}\
  # a remark{0}  Y:{0}    blocked{0}team: billing{0}"""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_rows_of_the_initiative_before_leave_and_nothing_else(newline):
    after = Status(OTHERS.format(newline).encode()).with_values(VALUES, PROGRESS).decode()
    told = Status(after.encode())
    assert told.progress == PROGRESS
    for kept in ("progress: # of each", "  # ours", "  # a remark", "team: billing"):
        assert f"{kept}{newline}" in after
    assert "X" not in after
    same = OTHERS.format(newline).replace("Other", f"'{VALUES['initiative']}'")
    assert Status(Status(same.encode()).with_values(VALUES, PROGRESS)).progress["X"] == "pending"


@pytest.mark.parametrize("rows", ["{M1: completed, X: pending}", "{X: pending}", "{}"])
def test_rows_of_the_initiative_before_leave_a_map_in_one_line(rows):
    after = Status(f"initiative: Other\nprogress: {rows}\nteam: x\n".encode())
    text = after.with_values(VALUES, PROGRESS)
    assert Status(text).progress == PROGRESS
    assert b"\nteam: x\n" in text


@pytest.mark.parametrize(
    ("raw", "line", "why"),
    [
        (b"a: &x 1\nb: *x\n", 1, "aliases"),
        (b"base: &b {a: 1}\nstatus: x\n", 1, "aliases"),
        (b"a: 1\n\tb: 2\n", 2, "character"),
        (b"a: 1\nb: 2\na: 3\n", 3, 'duplicate key "a"'),
        (b"progress:\n  M1: a\n  M1: b\n", 3, 'duplicate key "M1"'),
        (b"- 1\n- 2\n", 1, "must be a map"),
        (b"just text", 1, "must be a map"),
        (b"{status: a}", 1, "a line for each key"),
        (b"a: 1\n---\nb: 2\n", 2, "another document"),
        (b"a: \xff\n", 1, "UTF-8"),
        (b"status: [a]\n", 1, "status must be text"),
        (b"x: 1\nstatus: |\n  a\n  b\n", 2, "status must be text on one line"),
        (b"progress: [a]\n", 1, "progress must be a map"),
        (b"progress: text\n", 1, "progress must be a map"),
        (b"x: " + b"[" * 40 + b"]" * 40, 1, "nested"),
        (b"x: " + b"[" * 4000, 1, "nested"),
        (b"y: [a]\nx: " + b"{a: " * 4000 + b"}" * 4000, 2, "nested"),
        (b"x: " + b"a" * 70_000, 1, "bytes"),
        (b"a: \x07\n", 1, "special characters"),
        (b"a: b: c\n", 1, "mapping values"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(raw, line, why):
    with pytest.raises(BadFile) as bad:
        Status(raw)
    assert (bad.value.line, why in bad.value.why) == (line, True), bad.value


@pytest.mark.parametrize("line", ["# a comment\n", "\r\n"])
def test_many_lines_before_the_map_take_no_time(line):
    """Each of them could once be matched in two ways, so that twenty took a million steps."""
    begin = time.process_time()
    after = Status(f"{line * 23}status: created\n".encode()).with_values(VALUES, PROGRESS)
    assert time.process_time() - begin < 0.3
    assert b"status: in_progress" in after


@pytest.mark.parametrize("first", ["--- # the board", "---", "# a\n%YAML 1.2\n---  # b"])
def test_what_stands_before_and_after_the_map_stays(first):
    before = f"{first}\nstatus: created\n...\n# notes\n"
    after = Status(before.encode()).with_values(VALUES, PROGRESS)
    assert after.startswith(f"{first}\nstatus: in_progress\n".encode())
    assert after.endswith(b"\n...\n# notes\n")
