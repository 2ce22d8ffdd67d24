"""A row of the table, and the table: on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

HEAD = ("what", "budget", "measured", "")


@dataclass
class Row:
    """What was measured, against what it may be. Without a limit it is for information."""

    what: str
    measured: float
    limit: float | None = None
    at_least: bool = False
    unit: str = "x"
    aim: float | None = None
    detail: str = ""
    medians_ms: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return "info"
        kept = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "ok" if kept else "OVER"

    def cells(self) -> tuple[str, str, str, str]:
        word = "at least" if self.at_least else "at most"
        budget = "" if self.limit is None else f"{word} {_number(self.limit, self.unit)}"
        if self.aim is not None:
            budget += f", aim {_number(self.aim, self.unit)}"
        return self.what, budget, _number(self.measured, self.unit), self.verdict

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "verdict": self.verdict}


@dataclass
class Missing:
    """A row that could not be measured here, and why."""

    what: str
    why: str
    verdict: str = "not measured"

    def cells(self) -> tuple[str, str, str, str]:
        return self.what, "", "", f"{self.verdict}: {self.why}"

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value >= 100 or not unit else f"{value:.2f}"
    return f"{text} {unit}".rstrip()


def machine(folder: str) -> dict[str, object]:
    """The machine in general terms: what matters for the numbers, and nothing that names it."""
    return {
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "file_system": _file_system(folder),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_before": round(os.getloadavg()[0], 1),
        "at": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            named = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        named = []
    return f"{named[0]} ({platform.machine()})" if named else platform.machine()


def _file_system(folder: str) -> str:
    """The type of the file system that the folder is on."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as lines:
            mounts = [line for line in lines if wanted in line.split()]
    except OSError:
        mounts = []
    return mounts[-1].partition(" - ")[2].split()[0] if mounts else "unknown"


def show(rows: list[Row | Missing]) -> None:
    """The table for a terminal; a row's detail stands below it."""
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(3)]
    for position, cells in enumerate(table):
        what, budget, measured, verdict = cells
        line = f"{what:<{widths[0]}}  {budget:<{widths[1]}}  {measured:>{widths[2]}}  {verdict}"
        print(_coloured(line, verdict))
        detail = getattr(rows[position - 1], "detail", "") if position else ""
        if detail:
            print(f"    {detail}")


def _coloured(line: str, verdict: str) -> str:
    code = {"ok": "32", "OVER": "31"}.get(verdict)
    return f"\x1b[{code}m{line}\x1b[0m" if code and sys.stdout.isatty() else line


def write(folder: str, rows: list[Row | Missing], about: dict[str, object]) -> None:
    os.makedirs(folder, exist_ok=True)
    document = {**about, "rows": [row.as_json() for row in rows]}
    with open(os.path.join(folder, "latest.json"), "w") as out:
        json.dump(document, out, indent=2)
        out.write("\n")


def write_page(folder: str, rows: list[Row | Missing], about: dict[str, object]) -> None:
    """The table as a page of the documentation."""
    with open(os.path.join(folder, "costs.md"), "w") as out:
        out.write(_page(rows, about))


ABOUT = """\
# What it costs

Written by `make bench`. Every number is a ratio: Holdfast and what it is compared with take turns
in one run, so that a busy moment hits both, and the median of the rounds counts. Compared is with
a bare `python -I -c pass` (commands and hooks as processes, their memory), with an append, a sync
and a rename (the least that a durable change can be), with LangGraph's SQLite checkpointer, with
`jq` that rewrites its file, with `git status`, with one pass over the rows of the ledger, with the
reference Memory server, and with itself, small.

![Costs grow not with history, hardly with workflows, little with the graph](cost.png)

A row that says OVER misses what it should reach. What a change does beside its bare writes: it
puts the event, its stream's state and its columns into one transaction of SQLite, looks for what a
killed writer left, exchanges the record instead of renaming over it, so that an editor's save of
the same instant is not lost, asks the kernel whether somebody still writes into the old one, and
keeps the index. Many writers do all of that in turn, under one lock. The commit is the one sync:
a record that a power cut takes away is made again from the ledger.

A test counts the instructions of what runs most often (`bench/opcodes.py`) and fails where a
change takes more: a count does not depend on how busy the machine is.

"""


def _page(rows: list[Row | Missing], about: dict[str, object]) -> str:
    described = {**about["machine"], "sizes": about["sizes"], **about["with"]}
    machine_text = ", ".join(
        f"{name.replace('_', ' ')}: {value}" for name, value in described.items()
    )
    lines = [
        f"Measured on: {machine_text}.",
        "",
        "| what | budget | measured | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        what, budget, measured, verdict = row.cells()
        detail = getattr(row, "detail", "")
        what += f"<br>{detail}" if detail else ""
        lines.append(f"| {what} | {budget} | {measured} | {verdict} |")
    return ABOUT + "\n".join(lines) + "\n"
