"""What is asked of each parser: that it answers, and that what it gives can be given back.

Each function takes bytes as they may lie on the disk, arrive on a pipe or be typed. It raises what
is an answer (``targets`` says which exceptions are), or an ``AssertionError`` where the parser
broke its word. Anything else is a finding.
"""

import functools
import json
import os

from fuzz import inputs
from holdfast import HoldfastError, Keeper, formats
from holdfast.adopt.agent_notes import from_notes, from_plan
from holdfast.core import json_text as core_json
from holdfast.core import time as times
from holdfast.core.json_text import digest
from holdfast.evidence import testlogs
from holdfast.formats import initiatives
from holdfast.formats.logs import RECORDS
from holdfast.formats.schema import Invalid
from holdfast.hooks import handlers
from holdfast.keeper.transfer import read_0_1
from holdfast.layers.graph import jsonl
from holdfast.layers.memory import ACTIVE_HEADING, MemorySection, merge
from holdfast.storage import ledger, skill_index
from holdfast.system.disk import Disk
from holdfast.workspace import location, recipes, settings, trust
from promises.hostile import is_allowed

AT = "2026-07-08T09:10:11.000Z"
WORKFLOWS = formats.WorkflowAggregate()
CLAIMS = {"ledger": "l" * 32, "seq": 7, "hash": "h" * 32}
PLACES = {
    "verb": ".claude/workflow-state.json",
    "formal": "untracked/workflow-state/some-process/state-some-process-20260217_060504.json",
    "skill": ".claude/workflow-state/active/some-file.json",
    "loop": ".claude/iterative/some-slug/state.json",
}


# JSON itself


def json_text(data):
    """What is taken is what the ``json`` package takes; what is refused has its line."""
    try:
        value = core_json.loads(data, strict=True)
    except core_json.BadJson as bad:
        assert 1 <= bad.line <= data.count(b"\n") + 1
        raise
    assert value == json.loads(data.removeprefix(b"\xef\xbb\xbf"), parse_int=_any_size)
    for form in (core_json.dumps(value), core_json.pretty(value), core_json.line_of(value)):
        assert core_json.loads(form, strict=True) == value


def _any_size(text):
    return int(text) if len(text) <= core_json.MAX_DIGITS else float("nan")


# The ledger


def event_line(data):
    """As it is, and with a hash that fits: then it is an event, or no good for another reason."""
    for line in (data, _sealed(data)):
        try:
            row = ledger.row_of(line)
        except ledger.BadEvent:
            continue
        event = ledger.read_event(row)
        assert event["seq"] >= 1
        again = ledger.line_of(row).encode()
        assert ledger.row_of(again) == row
        assert core_json.loads(again, strict=True) == event


def _sealed(data):
    body = data.rstrip(b"}")
    return body + b',"hash":"' + digest(body).encode() + b'"}'


def old_ledger(data):
    """A ledger of version 0.1: every line is an event or counted as damaged."""
    inputs.written("old/ledger.ndjson", data)
    rows, damaged = read_0_1(f"{inputs.folder()}/old", Disk())
    seqs = [row[0] for row in rows]
    assert seqs == sorted(set(seqs))
    assert len(rows) + damaged <= data.count(b"\n") + 1


def export(data):
    """An export is taken in whole, or nothing of it; with hashes that fit, too."""
    for text in (data, _resealed(data)):
        path = inputs.written("an-export.ndjson", text)
        keeper = Keeper(inputs.empty_workspace(), clock_ms=lambda: 1_780_000_000_000)
        try:
            keeper.import_file(path)
        except HoldfastError:
            assert keeper.log() == []
            assert keeper.workflows()[0] == []
        else:
            assert keeper.verify().ok
            keeper.context()


def _resealed(data):
    """Return the lines, each that is an event with the hash that fits it and the one before it."""
    prev, lines = "", []
    for line in data.split(b"\n"):
        try:
            value = core_json.loads(line, strict=True)
            body = core_json.dumps({**value, "prev": prev}).rpartition(',"hash":')[0]
            own = digest(body.encode())
        except (core_json.BadJson, TypeError, UnicodeEncodeError):
            lines.append(line)
            continue
        is_event = body and "seq" in value
        lines.append(f'{body},"hash":"{own}"}}'.encode() if is_event else line)
        prev = own if is_event else prev
    return b"\n".join(lines)


def events(data):
    """Events that nobody wrote: what makes no sense is left out, and the rest is a state."""
    told = core_json.loads(data, strict=True)
    listed = [_completed(one, n) for n, one in enumerate(told if isinstance(told, list) else [], 1)]
    state, odd = WORKFLOWS.replay(lambda: [one for one in listed if one is not None])
    assert state is None or formats.flaw(WORKFLOWS, state) is None
    assert len(odd) <= len(listed)


def _completed(told, seq):
    """The fields that every line of a ledger has, as ``decode`` makes sure."""
    if not isinstance(told, dict):
        return None
    kind, fields = told.get("type"), told.get("data")
    return {
        "seq": seq, "id": f"e{seq}", "v": 1, "version": seq, "at": AT, "stream": "some-file",
        "type": kind if isinstance(kind, str) else "", "by": {}, "prev": "", "hash": "",
        "data": fields if isinstance(fields, dict) else {},
    }  # fmt: skip


# Records


def record(name, data):
    """A document is a state or is invalid at a line; its record gives the same state again."""
    data = _with_its_digest(data)
    signed = formats.parse_signed(data)
    origin = {"at": AT, "path": PLACES[name], "worktree": ".", "recipe": _recipe}
    try:
        state = formats.parse(name, signed, None, origin)
    except Invalid as invalid:
        text = data.decode("utf-8-sig")
        assert 1 <= core_json.line_of_path(text, invalid.path) <= text.count("\n") + 1
        raise
    if formats.flaw(WORKFLOWS, state) is not None:
        return
    raw = WORKFLOWS.render(state, "l" * 32, 7, "h" * 32)
    again = formats.parse_signed(raw)
    assert again.is_intact
    assert formats.parse(name, again, None, origin) == state
    assert formats.parse_signed(json.dumps(json.loads(raw)).encode()).is_intact


def _with_its_digest(data):
    """With a digest in it, it is one that fits: a stranger can compute it as well as we can."""
    before, mark, claimed = data.rpartition(b'"digest": "')
    after = claimed[34:]
    return before + mark + digest(before + after).encode() + b'",' + after if mark else data


@functools.cache
def _recipe(name):
    return recipes.load(name) if name in recipes.names() else None


def small_record(kind, data):
    """The same for what has one record in a workspace."""
    module = initiatives if kind == "initiatives" else RECORDS[kind]
    data = _with_its_digest(data)
    signed = formats.parse_signed(data)
    origin = {"at": AT, "path": "", "worktree": ".", "recipe": lambda _: None}
    try:
        state = module.parse(signed.document, signed.rest or {}, origin)
    except Invalid as invalid:
        text = data.decode("utf-8-sig")
        assert 1 <= core_json.line_of_path(text, invalid.path) <= text.count("\n") + 1
        raise
    again = formats.parse_signed(formats.sign(*module.render(state), CLAIMS))
    assert again.is_intact
    assert module.parse(again.document, again.rest or {}, origin) == state


def index_file(data):
    """What is not as Holdfast wrote it is nothing; what is, is written the same again."""
    rows = skill_index.rows_in(data)
    if rows is not None and all(isinstance(row, dict) and "id" in row for row in rows):
        assert skill_index.rows_in(skill_index.rendered(rows, AT)) == sorted(
            rows, key=lambda r: str(r["id"])
        )


# Recipes and settings


def recipe(data):
    """A recipe that was taken is one that is taken again, as it is."""
    path = inputs.written("recipes/.claude/workflows/mine.toml", data)
    taken = recipes.load_file("mine", path, f"{inputs.folder()}/recipes")
    assert recipes.check(taken, "mine") == taken
    core_json.dumps(taken).encode()


def own_settings(data):
    inputs.written("settings/.claude/holdfast.toml", data)
    found = settings.load(f"{inputs.folder()}/settings")
    for gate in found.gates_of_team.values():
        assert "command" not in gate or settings.bad_command(gate["command"]) is None
    assert 5 <= found.memory_lines <= 200
    assert found.trusted_folders == []
    found.graph()


def approvals(data):
    """What cannot be read approves nothing."""
    inputs.written("person/holdfast/trusted.json", data)
    held = trust._approvals(f"{inputs.folder()}/person/holdfast/trusted.json")
    assert all(isinstance(value, dict) for value in held.values())


def moments(data):
    """Times and durations, which stand in nearly every file."""
    text = data.decode(errors="surrogateescape")
    ms = times.epoch_ms(text)
    if ms is not None and 0 <= ms < 253_402_300_800_000:
        assert times.epoch_ms(times.iso(ms)) == ms
    length = times.duration_s(text)
    assert length is None or length >= 0


def git_folder(data):
    """Git's own files, which are read without git: the name of a branch, and a folder."""
    head, _, rest = data.partition(b"\0")
    config, _, packed = rest.partition(b"\0")
    root = f"{inputs.folder()}/clone"
    for name, text in (("HEAD", head), ("config", config), ("packed-refs", packed)):
        inputs.written(f"clone/.git/{name}", text)
    for name in ("objects", "refs"):
        os.makedirs(f"{root}/.git/{name}", exist_ok=True)
    found = location.find(root)
    assert found.root == root
    assert found.home.startswith(root)
    for said in (found.branch(), found.commit()):
        assert said is None or said.encode()


def servers_file(data):
    """Servers of a project: what a person reads is all that would be run."""
    inputs.written("servers/.mcp.json", data)
    here = location.find(f"{inputs.folder()}/servers")
    one = trust.find_server(here, "memory")
    assert one.text.encode()
    one.expand({"HOME": "/nowhere"})


# Other people's documents


def memory_section(data):
    """Not a byte outside of our marks is another one."""
    section = MemorySection(data, "k")
    kept = section.with_lines([])
    after = section.with_lines(["- ours"])
    assert MemorySection(after, "k").lines == ["- ours"]
    assert MemorySection(after, "k").with_lines([]).strip() == kept.strip()
    if section.lines is None:
        assert data in (kept, after[-len(data) :] or data) or after.startswith(data)
    wanted = [(ACTIVE_HEADING, ["one", "two"])]
    last = {"written": ["- one"], "dropped": []}
    written, theirs, _ = merge(section.lines, wanted, last, 10)
    assert len(written) <= 10 or theirs


def notes(data):
    """What an agent's own notes tell: never more than a record takes."""
    text = data.decode(errors="replace")
    for found in (from_notes(text), from_plan(text, "CLAUDE/Plan/007-x/PLAN.md")):
        if found is None:
            continue
        assert 1 <= found["phase"]["current"] <= found["phase"]["total"] <= 200
        assert len(found["workflow"]) <= 200
        assert len(found["required_reading"]) <= 100
        document = {key: found[key] for key in found if key not in ("said", "source")}
        origin = {"at": AT, "path": PLACES["formal"], "worktree": ".", "recipe": _recipe}
        formats.module("formal").parse(document, {}, origin)


def transcript(data):
    said = handlers.compacted_at(inputs.written("transcript.jsonl", data), "id some-file ")
    assert said == "" or times.epoch_ms(said) is not None


def test_log(data):
    """What a runner printed explains an exit code; nothing in it steers a terminal."""
    found = testlogs.parse(data.decode("utf-8", "replace"))
    if found:
        said = [*found.get("failing", []), *found.get("passing", []), found.get("error") or ""]
        assert all(map(is_allowed, "".join(said).replace("\t", " ")))
        assert len(core_json.dumps(found)) <= 10 * len(data) + 1_000


def memory_file(data):
    """What is an entity or a relation comes back; every other line is named."""
    parsed = jsonl.parse(data)
    assert all(1 <= number <= data.count(b"\n") + 1 for number, _ in parsed.bad)
    again = jsonl.parse(jsonl.render(parsed.graph))
    assert (again.graph, again.bad, again.not_held) == (parsed.graph, [], [])
