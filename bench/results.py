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
    text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"{text} {unit}"


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
    with open(os.path.join(folder, "latest.md"), "w") as out:
        out.write(_markdown(rows, about))


def _markdown(rows: list[Row | Missing], about: dict[str, object]) -> str:
    described = {**about["machine"], "sizes": about["sizes"], **about["with"]}
    lines = [
        "# The bench, last run",
        "",
        "Made by `make bench`. Every number is a ratio to a baseline that ran in turn with it, as",
        "the median of the rounds; only the writers' rate and wait are absolute.",
        "",
        *(f"- {name.replace('_', ' ')}: {value}" for name, value in described.items()),
        "",
        "| what | budget | measured | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        what, budget, measured, verdict = row.cells()
        detail = getattr(row, "detail", "")
        what += f"<br>{detail}" if detail else ""
        lines.append(f"| {what} | {budget} | {measured} | {verdict} |")
    return "\n".join(lines) + "\n"
