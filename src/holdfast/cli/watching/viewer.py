"""What a person has chosen to see in ``watch``: takes keys, and makes the lines of the window.

It marks what changed a moment ago, and shows faults and refusals in its foot; what was read last
stays in sight.
"""

from __future__ import annotations

import sys
from operator import is_

from holdfast.answers import failure_fields
from holdfast.cli.screen import Screen
from holdfast.cli.watching import dialogs, opened
from holdfast.cli.watching.dialogs import Conversation
from holdfast.cli.watching.frame import list_page
from holdfast.cli.watching.keys import Pasted, typed
from holdfast.cli.watching.lines import Foot
from holdfast.cli.watching.rows import has_words, view_items
from holdfast.core.refusal import shell_line
from holdfast.core.time import iso
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.cli.watching.dialogs import Begin, Prompt
    from holdfast.cli.watching.lines import Key
    from holdfast.cli.watching.poller import OpenKeepers, Pick, Pollers
    from holdfast.core.types import Fields

RECENT_MS = 10_000
"""The time for which a change is marked."""
_MAX_HITS = 50
_LIST, _WORKFLOW, _HITS, _KEYS = "list", "workflow", "hits", "keys"
_END_KEYS = ("q", "Q", "end of input")
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1}
_LEAPS = {"page up": -1, "page down": 1, " ": 1}
_EDGES = {"home": 0, "g": 0, "end": -1, "G": -1}


class Viewer:
    """Shows the views of some repositories in one window after the other."""

    def __init__(
        self, pollers: Pollers, keepers: OpenKeepers, clock_ms: Callable[[], int], *,
        is_everywhere: bool = False,
    ) -> None:  # fmt: skip
        self._pollers = pollers
        self._keepers = keepers
        self._clock_ms = clock_ms
        self._is_everywhere = is_everywhere
        self._items: dict[Key, object] = {}
        self._changed_ms: dict[Key, int] = {}
        self._views: list[Fields] = []
        self._page = _LIST
        self._before: list[str] = []
        """The pages to which Escape goes back."""
        self._chosen: Pick | None = None
        self._words = ""
        self._typed: str | None = None
        """What is being typed; ``None`` if nothing is."""
        self._conversation: Conversation | None = None
        self._answer = ("", "")
        self._details: Fields | None = None
        self._hits: list[Fields] = []
        self._hit = 0
        self._offset = 0
        self._room = 1
        """The number of lines by which a page of text moves."""
        self.is_searching = False
        """True if a search is to be carried out, which may take a while."""
        self._see(pollers.first_views())
        self._changed_ms.clear()  # in the first view nothing is a change

    # What is seen

    def lines(self, width: int, height: int) -> list[str]:
        """Return the lines of the window as they are now."""
        self._see(self._pollers.views())
        now_ms = self._clock_ms()
        screen = Screen.of(sys.stdout)
        screen.width, screen.now = width, iso(now_ms)
        self._room = max(1, height - 2)
        foot = Foot(self._keys(), self._answer, self._prompt())
        if self._page == _LIST:
            changed = {key for key, ms in self._changed_ms.items() if 0 <= now_ms - ms < RECENT_MS}
            return list_page(
                screen, self._views, height, changed=changed, chosen=self._chosen,
                words=self._words, foot=foot,
            )  # fmt: skip
        if self._page == _WORKFLOW and self._details is not None:
            title, text = self._details["title"], opened.workflow_page(screen, self._details)
        elif self._page == _HITS:
            title = f"found: {self._words}"
            text, begin = opened.hits_page(screen, self._hits, self._here(), self._hit)
            self._offset = min(self._offset, begin)
            self._offset = max(self._offset, begin + 3 - self._room)
        else:
            title, text = "keys", opened.keys_page(screen)
        lines, self._offset = opened.page(screen, title, "", text, height, self._offset, foot)
        return lines

    def _see(self, views: list[Fields]) -> None:
        """Take in the newest views, and note what has changed in them."""
        if len(views) == len(self._views) and all(map(is_, views, self._views)):
            return
        self._views, before, now_ms = views, self._items, self._clock_ms()
        self._items = {key: value for view in views for key, value in view_items(view).items()}
        for key, value in self._items.items():
            if key not in before or before[key] != value:
                self._changed_ms[key] = now_ms
        picks = self._picks()
        if self._chosen not in picks and self._page != _WORKFLOW:
            self._chosen = picks[0] if picks else None
        if self._page == _WORKFLOW:
            self._read_details()

    def _picks(self) -> list[Pick]:
        """Return the workflows that are listed."""
        return [
            (view["root"], name)
            for view in self._views
            for name, state in view["states"].items()
            if has_words(state, view, self._words)
        ]

    def _read_details(self) -> bool:
        """Read the chosen workflow to show it; return False, and keep what was read, on a fault."""
        assert self._chosen is not None
        root, name = self._chosen
        try:
            details = self._pollers.poller(root).details(name)
        except (HoldfastError, OSError) as error:
            self._refuse(error, name)
            return False
        titles = [view["title"] for view in self._views if view["root"] == root]
        self._details = {**details, "title": f"{name} in {titles[0] if titles else root}"}
        return True

    def _keys(self) -> str:
        if self._page == _LIST:
            acts = "Enter opens  a approves  b blocks  u unblocks  / searches"
            return f"q quits  ? keys  {acts}" + ("  Esc lists all" if self._words else "")
        if self._page == _WORKFLOW:
            return "q quits  ? keys  Esc goes back  a approves  b blocks  u unblocks"
        return "q quits  Esc goes back" + ("  Enter opens" if self._page == _HITS else "")

    def _prompt(self) -> tuple[str, str]:
        if self._conversation is not None:
            return self._conversation.line, self._conversation.prompt.hint
        if self._typed is not None:
            return f"/{self._typed}_", "Enter: search in all that happened, Esc: list all"
        return "", ""

    def _here(self) -> str:
        """Return the folder of the only repository; of several, none is here."""
        if len(self._views) != 1:
            return ""
        return self._pollers.poller(self._views[0]["root"]).workspace.project

    # What keys do

    @property
    def prompt(self) -> Prompt | None:
        """Return what is asked; what was typed before it is no answer."""
        return None if self._conversation is None else self._conversation.prompt

    def press(self, key: str) -> bool:
        """Take one key; return whether to go on."""
        self._answer = ("", "")
        if self._conversation is not None:
            self._converse(self._conversation, key)
        elif isinstance(key, Pasted) and self._typed is None:
            return True  # Pasted text is no command.
        elif self._typed is not None:
            self._filter_with(key)
        elif key in _END_KEYS:
            return False
        elif key == "escape":
            self._go_back()
        elif key == "?":
            self._go_to(_KEYS)
        elif key == "/":
            self._page, self._before, self._typed = _LIST, [], ""
            self._filter("")
        elif key in dialogs.KEYS and self._page in (_LIST, _WORKFLOW):
            self._begin(dialogs.KEYS[key])
        elif key in ("enter", "right"):
            self._open()
        else:
            self._move(key)
        return True

    def _go_to(self, page: str) -> None:
        if page != self._page:
            self._before.append(self._page)
            self._page, self._offset = page, 0

    def _go_back(self) -> None:
        if self._before:
            self._page, self._offset = self._before.pop(), 0
            self._filter(self._words)
        else:
            self._filter("")

    def _move(self, key: str) -> None:
        """Choose another workflow or hit, or scroll."""
        step = _MOVES.get(key, _LEAPS.get(key, 0) * self._room)
        if self._page == _LIST:
            picks = self._picks()
            if not picks or not (step or key in _EDGES):
                return
            place = picks.index(self._chosen) if self._chosen in picks else 0
            place = min(max(0, place + step), len(picks) - 1)
            self._chosen = picks[_EDGES.get(key, place)]
        elif self._page == _HITS:
            if self._hits:
                place = min(max(0, self._hit + step), len(self._hits) - 1)
                self._hit = range(len(self._hits))[_EDGES.get(key, place)]
        elif key in _EDGES:
            self._offset = 0 if _EDGES[key] == 0 else sys.maxsize
        else:
            self._offset += step

    def _open(self) -> None:
        """Open what is chosen."""
        if self._page == _HITS and self._hits:
            hit = self._hits[self._hit]
            if hit["stream"].startswith("_"):
                self._answer = ("pending", f"to see it: {shell_line(hit['open'])}")
                return
            self._chosen = (self._pollers.root_of(hit["repository"]), hit["stream"])
        elif self._page != _LIST or self._chosen is None:
            return
        if self._read_details():
            self._go_to(_WORKFLOW)

    # The words

    def _filter(self, words: str) -> None:
        """List only the workflows that have these words."""
        self._words = words
        picks = self._picks()
        if self._chosen not in picks:
            self._chosen = picks[0] if picks else None

    def _filter_with(self, key: str) -> None:
        assert self._typed is not None
        if isinstance(key, Pasted):
            self._typed = typed(self._typed, key)
            self._filter(self._typed.strip())
        elif key in ("escape", "end of input"):
            self._typed = None
            self._filter("")
        elif key == "enter":
            self._typed = None
            self.is_searching = bool(self._words)
            self._answer = ("pending", f"searching for {self._words}…") if self._words else ("", "")
        elif key in ("up", "down"):
            self._typed = None
            self._move(key)
        else:
            self._typed = typed(self._typed, key)
            self._filter(self._typed.strip())

    def search(self, progress: Callable[[], None]) -> None:
        """Search for the words; call ``progress`` when the foot has something new."""
        self.is_searching = False

        def show(what: str, done: int, total: int) -> None:
            self._answer = ("pending", f"reading {done:,} of {total:,} {what}…")
            progress()

        try:
            root = self._chosen[0] if self._chosen else self._views[0]["root"]
            keeper = self._keepers.keeper(root)
            found = keeper.search(
                self._words, limit=_MAX_HITS, everywhere=self._is_everywhere, progress=show
            )
        except (HoldfastError, OSError, LookupError) as error:
            self._refuse(error)
            return
        self._hits, self._hit = found["hits"], 0
        notes = keeper.drain_notes()
        self._answer = ("pending", "; ".join(notes)) if notes else ("", "")
        if self._hits:
            self._go_to(_HITS)
        else:
            self._answer = ("pending", f"nothing that happened has: {self._words}")

    # Dialogs

    def _begin(self, begin: Begin) -> None:
        if self._chosen is None:
            self._answer = ("pending", "no workflow is chosen")
            return
        root, name = self._chosen
        try:
            keeper = self._keepers.to_change(root)
            keeper.drain_notes()
            dialog = begin(keeper, self._pollers.poller(root).details(name)["state"])
            self._conversation = Conversation(dialog)
        except (HoldfastError, OSError) as error:
            self._refuse(error, name)

    def _converse(self, conversation: Conversation, key: str) -> None:
        """Take a key as the answer to a question, or as a part of it."""
        try:
            answer = conversation.press(key)
        except (HoldfastError, OSError) as error:
            self._conversation = None
            self._refuse(error, self._chosen[1] if self._chosen else None)
            return
        if answer is not None:
            self._conversation, self._answer = None, answer
            if self._page == _WORKFLOW:
                self._read_details()

    def _refuse(self, error: Exception, workflow: str | None = None) -> None:
        """Show why something was refused, and the next command."""
        fields = failure_fields(error, workflow or None)
        hint = f" (next: {fields['hint']})" if fields["hint"] else ""
        self._answer = ("blocked", f"{fields['message']}{hint}")
