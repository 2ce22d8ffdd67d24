"""Tell what a workflow did, from the data of ``keeper.report``: as a page, and for a pull request.

Both put first what a reader must not overlook: what was claimed, waived, forced or skipped. The
page has everything. The text for a pull request is for a reviewer, who sees the commits beside it;
it is shortened until GitHub takes it, the least important part first.
"""

from __future__ import annotations

from holdfast.answers.documents import Bullets, Code, Heading, Paragraph, Strong, Table, fitted
from holdfast.answers.html import html
from holdfast.answers.markdown import markdown, plain_title
from holdfast.core.durations import MINUTE_MS, span
from holdfast.core.time import in_seconds
from holdfast.core.visible import folded
from holdfast.core.workflow.lifecycle import describe_pending
from holdfast.core.workflow.needs import CHECK, CLAIM, PULL_REQUEST, RUN, WAIVED, counts_in_words
from holdfast.core.workflow.questions import ANSWERED
from holdfast.evidence.commits import SHORT
from holdfast.evidence.github import MAX_BODY_CHARS, MAX_TITLE_CHARS
from holdfast.keeper.pull_requests import BEGIN, END, other_pending
from holdfast.keeper.report import FAILED, PASSED, STALE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.answers.documents import Part, Span, Spans
    from holdfast.core.types import Fields

_TREE = 8
"""The number of characters of a tree's digest that people read."""
_MAX_CHARS = 300
"""The length of a text in a pull request; the page has all of it."""
_RESTS_ON = {RUN: "a run", CHECK: "looked up", CLAIM: "a claim", WAIVED: "a person's waiver"}
_RESULTS = (PASSED, FAILED, STALE, WAIVED)
"""The results of a gate that have a word; all others are open."""
_OVERRULED = {
    "forced": "Completed by force without",
    "skipped": "Phase skipped",
    "claimed": "Phase completed by an edit of the record, although it lacked something",
    "untested": "Done without its tests being seen to fail and to pass",
    "removed": "Removed before it was done",
    "replaced": "Another command than the one that failed",
    "recipe": "The recipe is not the shipped one",
}
"""What stands before each thing that was overruled; waivers are told with their reasons."""


def rendered(report: Fields, form: str) -> str:
    """Return a report as ``markdown``, as ``html``, or as the text of a pull request, ``pr``."""
    if form == "pr":
        return pull_request_form(report, MAX_BODY_CHARS)[1]
    return (html if form == "html" else markdown)(page(report))


def pull_request_form(report: Fields, room: int) -> tuple[str, str]:
    """Return title and text of a pull request; the text has at most ``room`` characters."""
    title = plain_title(report["title"])
    if len(title) > MAX_TITLE_CHARS:
        title = f"{title[: MAX_TITLE_CHARS - 1]}…"
    blocks = list(_for_reviewer(report))
    limit = room - len(f"{BEGIN}\n\n\n{END}")
    text = fitted(blocks, limit, markdown)
    if len(text) > limit:  # The few lines that are never left out are full of escapes.
        text = text[:limit].rpartition("\n")[0]
    return title, f"{BEGIN}\n\n{text}\n{END}"


def page(report: Fields) -> list[Part]:
    """Return the whole report."""
    return list(_page(report))


def _page(report: Fields) -> Iterator[Part]:
    yield Heading(1, report["title"])
    yield Paragraph(*_summary(report))
    for label, key in (("Outcome:", "outcome"), ("Reason:", "reason")):
        if report[key]:
            yield Paragraph(Strong(label), report[key])
    pull_request = _pull_request(report)
    if pull_request:
        yield Paragraph(Strong("Pull request:"), *pull_request)
    yield Heading(2, "Claimed, waived, forced, skipped")
    yield from _exceptions(report)
    yield Heading(2, "Left")
    yield from _left(report["left"])
    yield from _questions(report)
    yield from _work(report, 2)
    for part in report["earlier"]:
        yield Heading(2, f"Feature: {part['title']}")
        yield from _exceptions(part)
        yield from _work(part, 3)
    yield from _reviews(report)
    if report["conflicts"]:
        yield Heading(2, "Conflicts between machines")
        rows = [
            [[str(c["command"])], [str(c["from"])], [str(c["why"])]] for c in report["conflicts"]
        ]
        yield Table(("what", "from", "why"), rows)
    yield Heading(2, "Who")
    yield _who(report)
    if report["files"]:
        yield Heading(2, "Files")
        yield Table(("file", "phase", "lines added"), _files(report))
    yield Paragraph(_origin(report))


def _for_reviewer(report: Fields) -> Iterator[Part]:
    """Yield what fits a pull request."""
    yield Paragraph(*_summary(report))
    subject = _cut(report["subject"])
    if subject and subject != report["title"]:
        yield Paragraph(Strong("Why:"), subject)
    if report["outcome"]:
        yield Paragraph(Strong("Outcome:"), _cut(report["outcome"]))
    yield Heading(3, "Claimed, waived, forced, skipped")
    yield from _exceptions(report, rank=1)
    yield Heading(3, "Evidence")
    gates = [gate for gate in report["gates"] if gate["name"] != PULL_REQUEST]
    yield from _gates(gates, rank=2)
    tests = _tests(report, rank=2)
    if tests:
        yield Paragraph(Strong("Tests:"), *tests)
    if report["tasks"]:
        yield Heading(3, "Done, by task")
        yield Bullets([_task_line(task) for task in report["tasks"]], rank=4)
    for part in report["earlier"]:
        yield Heading(3, _cut(f"Feature: {part['title']}"))
        yield from _exceptions(part, rank=1)
        yield from _gates([g for g in part["gates"] if g["name"] != PULL_REQUEST], rank=3)
        yield Bullets([_task_line(task) for task in part["tasks"]], rank=5)
    loose = [row for row in report["commits"] if not row["tasks"]]
    if loose:
        yield Heading(3, "Commits of no task")
        yield Bullets(
            [[Code(row["commit"][:SHORT]), _cut(row["subject"])] for row in loose], rank=6
        )
    yield from _reviews(report, level=3, rank=3)
    if report["conflicts"]:
        yield Heading(3, "Conflicts between machines")
        yield Bullets([[_cut(f"{c['command']}: {c['why']}")] for c in report["conflicts"]], rank=2)
    yield from _questions(report, level=3, rank=3)
    machines = sorted({str(row["machine"]) for row in report["who"] if row["machine"]})
    if machines:
        yield Paragraph(Strong("Machines:"), _cut(", ".join(machines)))
    yield Heading(3, "Left")
    yield from _left(other_pending(report), rank=1)
    yield Paragraph(_origin(report))


# Parts of both


def _summary(report: Fields) -> list[Span]:
    """Return recipe, state, time and the number of tasks in a sentence or two."""
    parts = [report, *report["earlier"]]
    tasks = [task for part in parts for task in part["tasks"]]
    done = [task for task in tasks if task["status"] == "completed"]
    spans: list[Span] = ["Workflow", Code(report["id"]), f"({report['recipe']}),"]
    spans.append(f"begun {_when(report['started_at'])}, {report['status'].replace('_', ' ')}")
    if report["ended_at"]:
        spans.append(f"{_when(report['ended_at'])}, after {_took(report['duration_ms'])}.")
    else:
        spans.append(f"for {_took(report['duration_ms'])}.")
    if tasks:
        spans.append(f"{len(done)} of {len(tasks)} tasks done.")
    if report["branch"]:
        spans += ["Branch", Code(report["branch"])]
    return spans


def _exceptions(part: Fields, rank: int = 0) -> Iterator[Part]:
    """Yield what was not shown to be done, each with its reason."""
    rows: list[Spans] = []
    for gate in part["gates"]:
        reason = _cut(gate.get("reason") or "no reason was given", rank)
        if gate["rests_on"] == WAIVED:
            rows.append([Strong("Waived by a person:"), Code(gate["name"]), f"({reason})"])
        elif gate["rests_on"] == CLAIM:
            is_enough = gate["takes"] == CLAIM
            what = "nothing was run" if is_enough else f"the recipe asks for {_asked(gate)}"
            rows.append([Strong("Claimed:"), Code(gate["name"]), f"({what})"])
        if gate["claimed_fields"] and gate["rests_on"] != CLAIM:
            names = ", ".join(gate["claimed_fields"])
            rows.append([Strong("Claimed:"), _cut(f"{names} of", rank), Code(gate["name"])])
        if gate.get("instead_of"):
            about = f"for {gate['name']}: {gate.get('command')}, not {gate['instead_of']}; {reason}"
            rows.append([Strong(_OVERRULED["replaced"]), _cut(about, rank)])
    for kind, names in part["overruled"].items():
        if kind == "forced":
            reason = _cut(part.get("reason") or "no reason is kept", rank)
            rows.append(
                [Strong(f"{_OVERRULED[kind]}:"), _cut(", ".join(names), rank), f"({reason})"]
            )
        elif kind not in ("waived", "replaced"):
            rows += [[Strong(f"{_OVERRULED[kind]}:"), _cut(name, rank)] for name in names]
    for row in part.get("forced", ()):
        where = f"{row['phase']} of task {row['task']}" if row["phase"] else f"task {row['task']}"
        rows.append([Strong("Forced:"), _cut(f"{where} ({row['reason']})", rank)])
    for phase in part["phases"]:
        if phase["reason"] and phase["status"] in ("skipped", "blocked"):
            about = f"{phase['name']}: {phase['reason']}"
            rows.append([Strong(f"Reason why it is {phase['status']}:"), _cut(about, rank)])
        if phase["forced"]:
            about = f"{phase['name']}: {phase['forced']}"
            rows.append([Strong("Entered in spite of violations:"), _cut(about, rank)])
    if rows:
        yield Bullets(rows, rank)
    else:
        yield Paragraph("Nothing.")


def _asked(gate: Fields) -> str:
    return "a run" if gate["takes"] == RUN else "what can be looked up"


def _left(left: Fields, rank: int = 0) -> Iterator[Part]:
    """Yield what is left, or was when it was completed by force."""
    if left:
        lines = [describe_pending({kind: items}) for kind, items in left.items()]
        yield Bullets([[_cut(line, rank)] for line in lines], rank)
    else:
        yield Paragraph("Nothing.")


def _work(part: Fields, level: int) -> Iterator[Part]:
    """Yield gates, tests, tasks, commits and phases of a subject or a feature."""
    yield Heading(level, "Evidence")
    yield from _gates(part["gates"], is_whole=True)
    tests = _tests(part)
    if tests:
        yield Paragraph(Strong("Tests:"), *tests)
    if part["tasks"]:
        yield Heading(level, "Tasks")
        rows = [_task_row(task) for task in part["tasks"]]
        yield Table(("task", "what", "state", "commits", "tests", "took"), rows)
    if part["commits"]:
        yield Heading(level, "Commits")
        yield Table(("commit", "subject", "tasks"), [_commit_row(row) for row in part["commits"]])
    if part["phases"]:
        yield Heading(level, "Phases")
        yield Table(
            ("phase", "state", "begun", "took", "remark"),
            [_phase_row(phase) for phase in part["phases"]],
        )


def _gates(gates: list[Fields], rank: int = 0, *, is_whole: bool = False) -> Iterator[Part]:
    if not gates:
        yield Paragraph("The recipe has no gates.")
        return
    header = ["gate", "result", "rests on", "how", "files", "when", "took"]
    columns = len(header) if is_whole else 6
    rows = [_gate_row(gate, rank)[:columns] for gate in gates]
    yield Table(header[:columns], rows, rank)


def _gate_row(gate: Fields, rank: int) -> list[Spans]:
    result = gate["result"] if gate["result"] in _RESULTS else "open"
    machine = [f"on {gate['machine']}"] if gate.get("machine") else []
    return [
        [Code(_cut(gate["name"], rank))],
        [result if result == PASSED else Strong(result)],
        [_RESTS_ON.get(gate["rests_on"] or "", "nothing yet"), *machine],
        _how(gate, rank),
        _files_of(gate),
        [_when(gate["at"])],
        [_took(gate.get("duration_ms"))],
    ]


def _how(gate: Fields, rank: int) -> Spans:
    """Return the command and its end, what was looked up, or what was stated."""
    fields = gate["fields"]
    stated = [f"{key}={value}" for key, value in fields.items()]
    if gate["rests_on"] == RUN:
        return [Code(_cut(gate.get("command"), rank)), how_it_ended(gate)]
    if gate["rests_on"] == WAIVED:
        return [_cut(gate.get("reason") or "", rank)]
    if gate.get("pushed_to"):
        stated.insert(0, f"{gate['pushed_to']} has the branch")
    return [_cut(", ".join(stated), rank)]


def how_it_ended(run: Fields) -> str:
    """Return how a command ended, in a few words."""
    if run.get("cancelled"):
        return "was cancelled"
    if run.get("timed_out"):
        return "was ended at its time limit"
    if run.get("no_test"):
        return "found no test"
    if run.get("signal"):
        return f"died of signal {run['signal']}"
    return f"exit code {run.get('exit_code')}"


def _files_of(gate: Fields) -> Spans:
    """Return the tree that a gate ran on, and the commit below it."""
    tree, commit = str(gate.get("tree") or ""), str(gate.get("commit") or "")
    spans: list[Span] = []
    if tree and not tree.startswith("?"):
        spans += ["tree", Code(tree[:_TREE])]
    if commit:
        spans += ["on commit" if spans else "commit", Code(commit[:SHORT])]
    return spans


def _tests(part: Fields, rank: int = 0) -> list[Span]:
    """Return the last test run, and how many there were."""
    tests = part["tests"]
    if not tests.get("last_result"):
        return []
    spans: list[Span] = [f"the last run {tests['last_result']}:"]
    spans.append(Code(_cut(tests.get("test_command"), rank)))
    counts = ", ".join(counts_in_words(tests))
    spans += [f"({counts})"] if counts else []
    if tests.get("evidence") != RUN:
        spans.append("(claimed, not run by Holdfast)")
    runs = part.get("test_runs", {})
    if any(runs.values()):
        spans.append(f"Of all runs, {runs['passed']} passed and {runs['failed']} failed.")
    return spans


def _task_line(task: Fields) -> Spans:
    """Return a task for a reviewer: its number, what it is, and what shows it."""
    spans: list[Span] = [Strong(task["id"]), _cut(task["description"])]
    if task["status"] != "completed":
        reason = f": {_cut(task['reason'])}" if task["reason"] else ""
        spans.append(Strong(f"({_state_of(task)}{reason})"))
    spans += [Code(commit[:SHORT]) for commit in task["commits"][-5:]]
    if task["tests"] == "not seen":
        spans.append("(its tests were not seen)")
    return spans


def _state_of(task: Fields) -> str:
    """Return the status of a task, and the number of a unit's iterations."""
    count = task["iterations"]
    iterations = f", {count} iteration{'' if count == 1 else 's'}" if count else ""
    return str(task["status"]).replace("_", " ") + iterations


def _task_row(task: Fields) -> list[Spans]:
    state = _state_of(task) + (", claimed" if task["claimed"] else "")
    run = task["verification"] or {}
    tests = task["tests"] or (f"{run.get('command')}: {how_it_ended(run)}" if run else "")
    return [
        [str(task["id"])],
        [task["description"]],
        [f"{state}: {task['reason']}" if task["reason"] else state],
        [Code(commit[:SHORT]) for commit in task["commits"]],
        [tests],
        [_took(task["duration_ms"])],
    ]


def _commit_row(row: Fields) -> list[Spans]:
    tasks = ", ".join(map(str, row["tasks"])) or "none"
    return [[Code(row["commit"][:SHORT])], [row["subject"] or "not known to git here"], [tasks]]


def _phase_row(phase: Fields) -> list[Spans]:
    remarks = [
        "approved" if phase["approved"] else "",
        "claimed by an edit" if phase["claimed"] else "",
        phase["reason"] or "",
        f"forced: {phase['forced']}" if phase["forced"] else "",
    ]
    return [
        [phase["name"]],
        [phase["status"].replace("_", " ")],
        [_when(phase["started_at"])],
        [_took(phase["duration_ms"])],
        ["; ".join(filter(None, remarks))],
    ]


def _reviews(report: Fields, level: int = 2, rank: int = 0) -> Iterator[Part]:
    if report["violations"]:
        yield Heading(level, "Found in reviews")
        rows: list[Spans] = []
        for found in report["violations"]:
            state = "fixed" if found["cleared_at"] else "open"
            about = f"{found['severity']}, {state}: {found['details']}"
            rows.append([Code(_cut(found["code"], rank)), _cut(about, rank)])
        yield Bullets(rows, rank)


def _questions(report: Fields, level: int = 2, rank: int = 0) -> Iterator[Part]:
    """Yield what people were asked, and what they answered."""
    if report["questions"]:
        yield Heading(level, "Questions to people")
        rows: list[Spans] = []
        for asked in report["questions"]:
            number, text = Strong(str(asked["id"])), _cut(asked["text"], rank)
            if asked["status"] == ANSWERED:
                rows.append([number, text, _cut(f"(answered: {asked['answer']})", rank)])
            else:
                waits = "no answer, all waits for it" if asked["blocking"] else "no answer"
                rows.append([number, text, Strong(f"({waits})")])
        yield Bullets(rows, rank)


def _who(report: Fields) -> Table:
    """Return who changed how much; with machines, if several share the work."""
    names = ["with", "session", "changes", "first", "last"]
    rows: list[list[Spans]] = []
    for row in report["who"]:
        times = [[_when(row["first_at"])], [_when(row["last_at"])]]
        rows.append([[row["surface"]], [row["session"] or ""], [str(row["changes"])], *times])
    if any(row["machine"] for row in report["who"]):
        names.insert(0, "machine")
        for cells, row in zip(rows, report["who"], strict=True):
            cells.insert(0, [row["machine"] or "this one"])
    return Table(names, rows)


def _files(report: Fields) -> list[list[Spans]]:
    return [
        [[Code(file["path"])], [str(file.get("phase") or "")], [str(file.get("lines_added", ""))]]
        for file in report["files"]
    ]


def _pull_request(report: Fields) -> Sequence[Span]:
    own = report["pull_request"] or {}
    if not own.get("number") and not own.get("url"):
        return []
    shown = "looked up" if own["is_shown"] else "claimed"
    return [f"{own.get('number') or ''}", str(own.get("url") or ""), f"({shown})"]


def _origin(report: Fields) -> str:
    edits = f"; edits of the record that were adopted: {report['edits']}" if report["edits"] else ""
    return (
        f"Made by Holdfast from its ledger: {report['events']} events up to {report['seq']}; "
        f"digest of the gates {report['digest']}{edits}. Times are UTC."
    )


# Words


def _cut(text: object, rank: int = 1) -> str:
    """Return a text as a pull request has it; with a rank of 0, the whole of it."""
    line = folded(str(text if text is not None else ""))
    return line if rank == 0 or len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"


def _when(time: object) -> str:
    """Return ``2026-11-19 03:43`` (UTC); empty without a time."""
    return str(time)[:16].replace("T", " ") if time else ""


def _took(duration_ms: int | None) -> str:
    """Return a duration such as ``0.4 s``, ``12 min`` or ``3 h 5 min``."""
    if duration_ms is None:
        return ""
    return in_seconds(duration_ms) if duration_ms < MINUTE_MS else span(duration_ms)
