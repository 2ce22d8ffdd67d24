"""The page of ``holdfast web``, over an empty ledger and over a large one."""

from __future__ import annotations

import http.client
import importlib.util
import os
import subprocess
import sys
from time import perf_counter

from fixtures import ROOT
from measure import interleaved, middle, ratio
from results import Missing, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop, Workspace
    from sizes import Sizes

_LIMIT = 1.5
_EXTRA = ("jinja2", "starlette", "uvicorn")


class Page:
    """A running ``holdfast web`` in a workspace, of this interpreter: it has the extra."""

    def __init__(self, work: Workspace, home: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "web", "--no-open"],
            cwd=work.folder, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={
                "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": home,
                "PYTHONPATH": os.path.join(ROOT, "src"),
            },
        )  # fmt: skip
        address = self._process.stdout.readline().decode().strip()
        self._connection = http.client.HTTPConnection(address.split("/")[2])
        self._cookie = ""
        entered = self._get(f"/?{address.partition('?')[2]}")
        self._cookie = entered.getheader("set-cookie").partition(";")[0]

    def _get(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        response = self._connection.getresponse()
        self.text = response.read().decode()
        if response.status != 200:
            raise RuntimeError(f"the page answered {response.status}: {self.text[:500]}")
        return response

    def load(self) -> float:
        """Return the seconds that the board took."""
        begun = perf_counter()
        self._get("/")
        return perf_counter() - begun

    def end(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()


def measure_pages(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure the first page after a start, and a later one, against those without any work."""
    workflows, events = max(sizes.workflows), sizes.events[-1]
    grown = f"with {workflows:,} active workflows and {events:,} events / with none"
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        return [Missing(f"the board of `holdfast web` {grown}", f"{missing[0]} is not installed")]
    works = {"none": shop.workspace(), "large": shop.workspace().open(workflows).fill(events)}
    home = os.path.join(shop.folder, "nobody")  # Whose list of ledgers is empty.

    def first(work: Workspace) -> float:
        begun = perf_counter()
        page = Page(work, home)
        page.load()
        took = perf_counter() - begun
        page.end()
        return took

    firsts = {name: lambda work=work: first(work) for name, work in works.items()}
    os.sync()
    interleaved(1, firsts)
    times = interleaved(sizes.history_rounds, firsts)
    rows = [_row(f"the first board of `holdfast web`, from its start, {grown}", times)]
    pages = {name: Page(work, home) for name, work in works.items()}
    try:
        for page in pages.values():
            page.load()
        laters = {name: page.load for name, page in pages.items()}
        times = interleaved(sizes.history_rounds * 4, laters)
        is_shown = works["large"].ids[-1] in pages["large"].text
    finally:
        for page in pages.values():
            page.end()
    if not is_shown:
        raise RuntimeError("the board does not show the newest workflow")
    return [*rows, _row(f"a later board, while nothing has changed, {grown}", times)]


def _row(what: str, times: dict[str, list[float]]) -> Row:
    return Row(what, ratio(times, "large", "none"), _LIMIT, medians_ms=middle(times))
