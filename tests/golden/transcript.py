"""Play a chapter and tell it as text: what was typed, what was answered, which files changed."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import sys

from golden.stage import Stage
from golden.steps import SESSION, Fire, Git, Look, Remove, Replace, Run, Serve, Wait, Write

DAY_MS = 86_400_000
WIDTH = 120
SEPARATORS = ((", ", ": "), (",", ":"))
FACT = re.compile(r" {1,4}(\d |✓ |→ |\$ )")
CHANGING = (
    (re.compile(r'("(?:ledger|hash|digest)": ?)"[^"]+"'), r'\1"<hash>"'),
    (re.compile(r"\b[0-9a-f]{24,64}\b"), "<hash>"),
    (re.compile(r"@[0-9a-f]{12}\b"), "@<replica>"),
    (re.compile(r'("seen": ?)\{[^}]*\}'), r"\1{}"),
    (re.compile(r'("replica": ?)"[0-9a-f]{12}"'), r'\1"<replica>"'),
    (re.compile(r"\b(rejected|project)-[0-9a-f]{8}\b"), r"\1-<hash>"),
    (re.compile(r'("(?:pid|born)": )\d+'), r"\g<1>0"),
    (re.compile(r"\b(holdfast-demo)-\w+"), r"\1-<random>"),
    (re.compile(r"(\.py):\d+\b"), r"\1:<line>"),
    (re.compile(r"(?<![\d.])0\.\d+\.\d+(?![\d.])"), "<version>"),
)
"""What is another on every machine, in every process or in every ledger."""
FOLDERS = re.compile(r'"folders": \[([^]]*)\]')
"""A set, in a file that only Holdfast reads: its order is that of the hashes."""


class Transcript:
    """What one chapter shows, with or without ``--json``; ``files`` is what it leaves."""

    def __init__(self, chapter, runner, *, as_json=False):
        self.lines = []
        self.looks = []
        self._as_json = as_json
        self._looked = {}
        self._shown = {}
        with Stage(runner) as stage:
            self._stage = stage
            self._places = (
                (stage.root, "<root>"), (os.path.dirname(stage.root), "<above>"),
                (stage.home, "<home>"), (stage.base, "<base>"),
                (stage.source, "<source>"), (sys.executable, "<python>"),
            )  # fmt: skip
            self._files = self._current()
            self._look("the beginning")
            for step in chapter:
                self._play(Run(step) if isinstance(step, str) else step)
            self._look("the end")
        self.files = self._looked

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def files_text(self):
        return "\n".join(self.looks) + "\n"

    def _play(self, step):
        act = {
            Run: self._run, Fire: self._fire, Serve: self._serve, Write: self._write,
            Replace: self._replace, Remove: self._remove, Git: self._git, Wait: self._wait,
        }  # fmt: skip
        if isinstance(step, Look):
            self._look(self._last)
        else:
            act[type(step)](step)

    # What is typed

    def _run(self, step):
        words = shlex.split(step.line)
        if self._as_json and not step.is_text_only:
            end = words.index("--") if "--" in words else len(words)
            words[end:end] = ["--json"]
        typed = f"$ holdfast {shlex.join(words)}{step.into and f' > {step.into}'}".rstrip()
        self._head(typed, step.session, step.folder)
        environment = {"CLAUDE_CODE_SESSION_ID": step.session}
        result = self._stage.run(words, folder=step.folder, environment=environment)
        if step.into:
            self._stage.write(step.into, result["out"])
            result["out"] = ""
        if step.facts_only:
            kept = filter(FACT.match, result["out"].splitlines())
            result["out"] = "".join(
                f"{re.sub(r'commit [0-9a-f]{7}$', 'commit <sha>', line)}\n" for line in kept
            )
        self._tell(result)

    def _fire(self, step):
        fields = {
            "session_id": step.session, "transcript_path": "/nowhere/transcript.jsonl",
            "cwd": self._stage.root, "hook_event_name": step.event,
            **_filled(step.fields, self._stage.root),
        }  # fmt: skip
        told = " ".join(f"{key}={json.dumps(value)}" for key, value in step.fields.items())
        self._head(f"$ holdfast hook  < {step.event} {told}".rstrip(), step.session)
        result = self._stage.run(["hook"], stdin=json.dumps(fields))
        if not self._as_json:
            self._tell(result)

    def _serve(self, step):
        messages = list(step.messages())
        self._head(f"$ holdfast {step.line}")
        environment = {"CLAUDE_CODE_SESSION_ID": SESSION}
        words = shlex.split(step.line)
        result = self._stage.run(words, messages=messages, environment=environment)
        if self._as_json:
            return
        for message, heard in zip(messages, result["talk"], strict=True):
            params = message["params"]
            told = params if message["method"] != "tools/call" else params["arguments"]
            name = params.get("name", "") if message["method"] == "tools/call" else ""
            self._add(f"> {message['method']} {name} {json.dumps(told, ensure_ascii=False)}")
            for answer in heard:
                self._add_block("| ", _laid_out(self._heard(answer)) + "\n")
        self._tell({"out": "", **result})

    def _heard(self, answer):
        """Return what matters of a server's answer: its text is left out where it is a copy."""
        result = answer.get("result")
        structure = result.get("structuredContent") if result else None
        if structure is None:
            for part in (result or {}).get("contents", []):
                if part["mimeType"] == "application/json":
                    part["text"] = json.loads(part["text"])
            return {key: value for key, value in answer.items() if key not in ("jsonrpc", "id")}
        content = result["content"]
        if len(content) == 1 and _is_copy(content[0].get("text", ""), structure):
            content = "<as structuredContent>"
        return {**result, "content": content, "structuredContent": self._abridged(structure)}

    # What a person does

    def _write(self, step):
        self._head(f"# write {step.path}")
        self._stage.write(step.path, step.text)
        self._changes()

    def _replace(self, step):
        self._head(f"# edit {step.path}: {step.old!r} becomes {step.new!r}")
        for path in self._matches(step.path):
            text = self._stage.read(path)
            if step.old not in text:
                self._add("! there is no such text in it")
            self._stage.write(path, text.replace(step.old, step.new))
        self._changes()

    def _remove(self, step):
        self._head(f"# remove {step.path}")
        for path in self._matches(step.path):
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
        self._changes()

    def _matches(self, pattern):
        paths = glob.glob(self._stage.path(pattern), include_hidden=True)
        if not paths:
            self._add("! there is no such file")
        return paths

    def _git(self, step):
        self._head(f"$ git {step.line}")
        self._stage.git(*shlex.split(step.line))
        self._changes()

    def _wait(self, step):
        self._head(f"# {step.days} days later")
        self._stage.at_ms += step.days * DAY_MS

    # What is told

    def _head(self, typed, session=SESSION, folder=""):
        beside = [f"session {session or 'of nobody'}"] * (session != SESSION)
        beside += [f"in {folder}"] * bool(folder)
        self._last = typed + (f"   ({', '.join(beside)})" if beside else "")
        if self.lines:
            self.lines.append("")
        self._add(self._last)

    def _tell(self, result):
        out = result["out"]
        if _is_one_object(out):
            out = _laid_out(self._abridged(json.loads(out))) + "\n"
        self._add_block("| ", out)
        self._add_block("! ", result["err"])
        if result["code"]:
            self._add(f"= exit {result['code']}")
        self._changes()

    def _abridged(self, answer):
        """Leave out of an answer what is as it was when the same thing was last shown."""
        short = dict(answer)
        for slot in ("workflow", "position"):
            if isinstance(answer.get(slot), dict):
                short[slot] = self._change(slot, answer[slot])
        for slot in ("workflows", "loops"):
            rows = answer.get(slot, [])
            short.update({slot: [self._change(slot, row) for row in rows]} if rows else {})
        if isinstance(answer.get("files"), list):
            short["files"] = [_without_skill(row) for row in answer["files"]]
        return short

    def _change(self, slot, row):
        if "id" not in row:
            return row
        # A row of ``context`` has fewer keys than one of ``status``, and is no change of it.
        name = (slot, row["id"], *(row if slot.endswith("s") else ()))
        before = self._shown.get(name, {})
        self._shown[name] = row
        kept = {
            key: value
            for key, value in row.items()
            if key == "id" or key not in before or before[key] != value
        }
        gone = [key for key in before if key not in row]
        left_out = len(row) - len(kept)
        more = {"<as before>": left_out, "<gone>": gone}
        return {**kept, **{key: value for key, value in more.items() if value}}

    def _add_block(self, sign, text):
        for line in text.splitlines(keepends=True):
            self._add(f"{sign}{line}".rstrip("\n") if line.strip() else sign.strip())
            if not line.endswith("\n"):
                self._add("\\ no newline at the end")

    def _add(self, line):
        self.lines.append(self._steady(line))

    def _steady(self, text):
        for path, name in self._places:
            text = text.replace(path, name)
        for pattern, name in CHANGING:
            text = pattern.sub(name, text)
        return FOLDERS.sub(lambda match: f'"folders": [{_in_order(match[1])}]', text)

    def _current(self):
        return {self._steady(path): text for path, text in self._stage.files().items()}

    def _changes(self):
        """Tell which files are new, changed or gone since the last step; once is enough."""
        if self._as_json:
            return
        now = self._current()
        for path in sorted({*self._files, *now}):
            before, after = self._files.get(path), now.get(path)
            if before != after:
                sign = "+" if before is None else "-" if after is None else "~"
                self._add(f"{sign} {path}")
        self._files = now

    def _look(self, moment):
        """Tell what is in the files that changed since the last look."""
        self._files = self._current()
        steady = {path: self._steady(text) for path, text in self._files.items()}
        changed = [path for path, text in steady.items() if self._looked.get(path) != text]
        gone = [path for path in self._looked if path not in steady]
        if changed or gone:
            self.looks += ["", self._steady(f"##### {moment}")]
        self.looks += [f"----- {path} is gone" for path in gone]
        for path in changed:
            first = self._shown.setdefault(("text", steady[path]), path)
            is_copy = first != path and len(steady[path]) > WIDTH
            text = f"<as {first}>" if is_copy else steady[path]
            self.looks += [f"===== {path}", *text.splitlines()]
        self._looked = steady


def _in_order(names):
    return ", ".join(sorted(names.split(", ")))


def _filled(value, root):
    """Return the value with the repository's path in every text of it."""
    if isinstance(value, dict):
        return {key: _filled(inner, root) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, root) for inner in value]
    return value.replace("{root}", root) if isinstance(value, str) else value


def _is_one_object(text):
    """Tell whether a text is one JSON object in one line, which can be laid out without loss."""
    if not text.startswith("{") or text.count("\n") != 1 or not text.endswith("\n"):
        return False
    value = json.loads(text)
    ways = [json.dumps(value, ensure_ascii=False, separators=pair) for pair in SEPARATORS]
    return text[:-1] in ways


def _without_skill(row):
    """Return a file of an answer without the whole text of a skill, which is among the files."""
    is_skill = row.get("path", "").endswith("SKILL.md")
    return {**row, "diff": f"<{row['diff'].count(chr(10))} lines>"} if is_skill else row


def _is_copy(text, structure):
    try:
        return json.loads(text) == structure
    except ValueError:
        return False


def _laid_out(value, indent=""):
    """Return JSON for readers: keys in order, and whatever fits into a line is in one."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    deeper = f"{indent}  "
    if isinstance(value, list):
        parts = [_laid_out(inner, deeper) for inner in value]
        opening, closing = "[", "]"
    else:
        parts = [
            f"{json.dumps(key)}: {_laid_out(inner, deeper)}" for key, inner in sorted(value.items())
        ]
        opening, closing = "{", "}"
    joined = f",\n{deeper}".join(parts)
    return f"{opening}\n{deeper}{joined}\n{indent}{closing}"
