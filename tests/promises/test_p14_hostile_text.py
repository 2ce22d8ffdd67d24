"""Promise 14: stored text cannot emit terminal escapes, or be something else than text."""

import io
import json
import os

import pytest

from holdfast import Fault, Refused
from holdfast.cli import main as cli
from promises.hostile import HOSTILE, ONLY_IN_LIBRARY, each_hostile, is_allowed
from support.workshop import FORMATS, RECIPES, Workshop, lines_of, open_workflow, sampled

pytestmark = pytest.mark.promise(14)


class Line:
    """The command line, in this process, with streams that can be read afterwards."""

    def __init__(self, folder, monkeypatch):
        self.shop = Workshop(folder)
        self.monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)

    def run(self, *words):
        out, err = io.StringIO(), io.StringIO()
        for stream in (out, err):
            stream.encoding_said = "utf-8"
        with self.monkeypatch.context() as patch:
            patch.setattr("sys.stdout", Utf8(out))
            patch.setattr("sys.stderr", Utf8(err))
            code = cli.main(list(words))
        told = out.getvalue() + err.getvalue()
        bad = sorted({f"U+{ord(c):04X}" for c in told if not is_allowed(c)})
        assert bad == [], (words[:2], bad)
        assert "an error in Holdfast itself" not in told, told
        assert "Traceback" not in told, told
        return code, out.getvalue()


class Utf8:
    """A text stream that says it is UTF-8 and no terminal."""

    encoding = "utf-8"

    def __init__(self, into):
        self.into = into

    def write(self, text):
        text.encode()
        return self.into.write(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def fileno(self):
        raise OSError


@pytest.fixture
def line(tmp_path, monkeypatch):
    (tmp_path / "above" / "repository").mkdir(parents=True)
    return Line(tmp_path / "above" / "repository", monkeypatch)


def commands(text):
    """Every command, with the text wherever text can stand."""
    return [*openings(text), *others(text)]


def openings(text):
    return [
        [
            "start",
            "dev",
            "--title",
            text,
            "--task",
            text,
            "--remind",
            text,
            "--set",
            f"k={text}",
            "--branch",
            text,
            "--session",
            text,
            "--",
            text,
        ],
        [
            "start",
            "custom",
            "--phase",
            text,
            "--phase",
            "last",
            "--title",
            text,
            "--",
            f"custom {text}",
        ],
        ["start", "apex", "--set", f"{text}=v", "--", text],
        ["start", "loop-development", "--task", text, "--", text],
        ["start", "planning", "--read", f"@{text}", "--", text],
        ["start", "--", text],
    ]


def others(text):
    return [
        ["status"],
        ["log"],
        ["log", "--limit", "3"],
        ["verify"],
        ["resume"],
        ["show"],
        ["task", "add", "--", text],
        ["task", "start", "1"],
        ["task", "done", "1", "--commit", text],
        ["task", "block", "2", "--reason", text],
        ["task", "start", "--", text],
        ["remind", "--", f"again {text}"],
        ["read", "--", f"@{text}"],
        ["set", "--", f"key={text}"],
        ["set", "--", f"{text}=value"],
        ["step", "--", text],
        ["advance"],
        ["phase", "start", "--", text],
        ["phase", "block", "task_execution", f"reason={text}"],
        ["phase", "approve", "--", text],
        ["phase", "complete", "--", text, f"{text}=1"],
        ["show", "--", text],
        ["resume", "--", text],
        ["log", "--", text],
        ["status", "-w", text],
        ["advance", "--id", text],
        ["--", text],
        ["task", text],
        [text],
        ["complete", "--outcome", text],
        ["complete", "--force", "--reason", text],
        ["abandon", "--reason", text],
        ["repair"],
        ["status", "--session", text],
    ]


def ids_of(line):
    return [row["id"] for row in line.shop.keeper().workflows()[0]]


@each_hostile
def test_no_command_prints_what_could_steer_a_terminal(text, line, tmp_path):
    above = sorted(os.listdir(tmp_path / "above"))
    outside = sorted(os.listdir(tmp_path))
    for words in commands(text):
        for aim in [[], *[["-w", one] for one in sampled(ids_of(line), 1, words[0])]]:
            after_dashes = words.index("--") if "--" in words else len(words)
            aimed = [*words[:after_dashes], *aim, *words[after_dashes:]]
            line.run(*aimed)
            _, told = line.run(*aimed[:after_dashes], "--json", *aimed[after_dashes:])
            if told:
                json.loads(told)
    assert sorted(os.listdir(tmp_path / "above")) == above
    assert sorted(os.listdir(tmp_path)) == outside
    assert not any(os.path.basename(path) == "pwned" for path in line.shop.files())
    assert [ln for ln in lines_of(line.shop.keeper()) if ln.startswith("error")] == []


@each_hostile
def test_json_gives_back_exactly_what_was_stored(text, line):
    if len(text) > 4_000:
        code, told = line.run("start", "dev", "--json", "--", text)
        assert code == 1
        assert json.loads(told)["error"]["code"] == "invalid"
        return
    text = text[:3_990]
    words = [f"--title={text}", f"--remind={text}", f"--set=k={text}x"]
    line.run("start", "dev", "a subject", *words)
    _, told = line.run("show", "--json")
    workflow = json.loads(told)["workflow"]
    assert workflow["title"] == text
    assert workflow["reminders"] == [text]
    assert workflow["context"]["k"] == f"{text}x"


@pytest.mark.parametrize("name", ["colour", "bidi", "lines", "closing tag", "undecodable"])
def test_the_same_through_a_real_process(name, line):
    text = {**HOSTILE, **ONLY_IN_LIBRARY}[name]
    for words in (
        ["start", "dev", text, "--task", text],
        ["status"],
        ["show"],
        ["resume"],
        ["log"],
    ):
        done = line.shop.run(*words)
        told = (done.stdout + done.stderr).decode()
        assert all(map(is_allowed, told)), words
        assert "Traceback" not in told


@pytest.mark.parametrize("text", ONLY_IN_LIBRARY.values(), ids=ONLY_IN_LIBRARY)
def test_what_cannot_be_kept_as_text_is_refused_wherever_it_is_given(text, tmp_path):
    shop = Workshop(tmp_path)
    workflow = open_workflow(shop.keeper(), "skill")["id"]
    aim = {"workflow": workflow}
    attempts = [
        lambda k: k.start("dev", text),
        lambda k: k.start("dev", "s", title=text),
        lambda k: k.start("dev", "s", tasks=[text]),
        lambda k: k.start("custom", "s", phases=[text]),
        lambda k: k.start("dev", "s", reminders=[text]),
        lambda k: k.start("dev", "s", reading=[f"@{text}"]),
        lambda k: k.start("dev", "s", context={"k": text}),
        lambda k: k.start("dev", "s", context={text: 1}),
        lambda k: k.start("dev", "s", branch=text),
        lambda k: k.start("dev", "s", ttl=text),
        lambda k: k.start(text, "s"),
        lambda k: k.add_task(text, **aim),
        lambda k: k.complete_task(1, text, **aim),
        lambda k: k.evidence().commit(text, **aim),
        lambda k: k.advance(branch=text, **aim),
        lambda k: k.advance(force=True, reason=text, **aim),
        lambda k: k.skip_phase("load_feature", text, **aim),
        lambda k: k.evidence().waive_gate("lint", text, **aim),
        lambda k: k.evidence().waive_gate(text, "r", **aim),
        lambda k: k.evidence().take_step(text, ["test", "-d", "."], **aim),
        lambda k: k.evidence().take_step("red", ["test", text], **aim),
        lambda k: k.evidence().run_gate("lint", ["test", text], **aim),
        lambda k: k.evidence().run_tests([text], **aim),
        lambda k: k.block_task(1, text, **aim),
        lambda k: k.start_task(text, **aim),
        lambda k: k.remind(text, **aim),
        lambda k: k.require_reading(f"@{text}", **aim),
        lambda k: k.set_context({"k": text}, **aim),
        lambda k: k.set_context({text: 1}, **aim),
        lambda k: k.start_step(text, **aim),
        lambda k: k.start_phase(text, **aim),
        lambda k: k.start_phase("load_feature", {text: 1}, **aim),
        lambda k: k.start_phase("load_feature", {"k": text}, **aim),
        lambda k: k.block_phase("load_feature", {"reason": text}, **aim),
        lambda k: k.complete(text, force=True, reason="r", **aim),
        lambda k: k.complete("o", force=True, reason=text, **aim),
        lambda k: k.abandon(text, **aim),
        lambda k: k.show(workflow=text),
        lambda k: k.resume(workflow=text),
        lambda k: k.log(workflow=text),
        lambda k: k.remind("x", id=text, **aim),
        lambda _: shop.keeper(session=text).remind("x", **aim),
    ]
    before = shop.keeper().log()
    for attempt in attempts:
        with pytest.raises((Refused, Fault)) as caught:
            attempt(shop.keeper())
        assert caught.value.message.encode()
        assert caught.value.hint.encode() is not None
    assert shop.keeper().log() == before
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("record_format", FORMATS)
def test_every_recipe_keeps_hostile_subjects_inside_its_folder(record_format, tmp_path):
    shop = Workshop(tmp_path / "above" / "repository")
    folders = {
        "verb": ".claude",
        "formal": "untracked/workflow-state",
        "skill": ".claude/workflow-state/active",
        "loop": ".claude/iterative",
    }
    for text in HOSTILE.values():
        if len(text) > 4_000:
            with pytest.raises(Refused):
                shop.keeper().start(RECIPES[record_format], text)
            continue
        state = shop.keeper().start(RECIPES[record_format], text).state
        real = os.path.realpath(shop.path(state["record"]))
        assert real.startswith(shop.path(folders[record_format]) + os.sep)
        assert state["record"].isascii()
        assert len(os.path.basename(real)) < 200
        if record_format == "verb":
            shop.keeper().abandon(workflow=state["id"])
    assert os.listdir(tmp_path / "above") == ["repository"]
    assert os.listdir(tmp_path) == ["above"]
