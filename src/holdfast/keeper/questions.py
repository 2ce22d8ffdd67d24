"""Questions of a workspace: which are open, and who has not heard an answer yet.

The ledger has a fact with the workflows that have open questions, so that a look at all of them
loads no other workflow. It is renewed with every commit that changes such a workflow, whatever the
change was.

A session that asked, or was briefed while a question was open, is told the answer with its next
command or hook event. For that a small file beside the ledger lists, for each such session, the
questions it waits for. A hook sees with a single ``stat`` that it waits for none. What is listed
needlessly only costs time.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.workflow import is_active
from holdfast.core.workflow.questions import ANSWERED, OPEN, open_questions
from holdfast.formats import is_workflow
from holdfast.storage.ledger import ASKED
from holdfast.workspace.location import read_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Question, Workflow
    from holdfast.keeper.store import Store

    Waiting = list[list[str]]
    """Stream and text of each question that a session waits for."""

_MAX_WAITING = 100
_MAX_SHOWN = 120
_MAX_MARK_BYTES = 4 * 1024 * 1024


def asking_workflows(store: Store) -> list[str]:
    """Return the workflows with open questions."""
    text = store.ledger.fact(ASKED)
    names: list[str] = json_text.loads(text) if text else []
    return names


def keep_asking(store: Store, state: Workflow) -> None:
    """Keep whether a workflow has open questions, in the transaction that changes it."""
    names = asking_workflows(store)
    is_asking = is_active(state) and bool(open_questions(state))
    if is_asking != (state["id"] in names):
        others = [name for name in names if name != state["id"]]
        now = [*others, state["id"]] if is_asking else others
        store.ledger.put_fact(ASKED, json_text.dumps(now) if now else "")


def open_everywhere(store: Store) -> list[Fields]:
    """Return the open questions of all active workflows, each with its ``workflow``."""
    rows: list[Fields] = []
    for name in asking_workflows(store):
        peek = store.peek(name)
        if peek is not None and is_active(peek.state):
            rows += [{"workflow": name, **question} for question in open_questions(peek.state)]
    return sorted(rows, key=lambda row: str(row["asked_at"]))


# What a session waits for


def await_answers(store: Store, session: str, workflow: str, texts: Sequence[str]) -> None:
    """Have a session told the answers to these questions."""
    new = [[workflow, text] for text in texts]
    waiting = _waiting(store, session)
    if all(one in waiting for one in new):
        return
    try:
        _write(store, session, [*(one for one in waiting if one not in new), *new])
    except OSError:
        return  # The next briefing has the answers, too.


def await_open(store: Store, session: str, state: Workflow) -> None:
    """Have a session told the answers to the open questions of a workflow."""
    await_answers(store, session, state["id"], [q["text"] for q in open_questions(state)])


def await_again(store: Store, state: Workflow) -> None:
    """Have those who asked told the answers to open questions; an answer may have been undone."""
    for question in open_questions(state):
        asker = question["by"].get("session")
        if asker:
            await_answers(store, asker, state["id"], [question["text"]])


def heard_in(store: Store, session: str, briefing: str) -> None:
    """Forget the answers that a session has read in its briefing."""
    from holdfast.core.briefing import tells_answer  # Changes and looks do not need it.

    heard = []
    for one in _waiting(store, session):
        question = _question(store, *one)
        is_answered = question is not None and question["status"] == ANSWERED
        if question is not None and is_answered and tells_answer(briefing, question):
            heard.append(one)
    _forget(store, session, heard)


class Answers:
    """The answers that a session has not seen yet. ``seen`` is for when they were shown."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session
        waiting = _waiting(store, session)
        self._done: Waiting = []
        self.notes: list[str] = []
        """An answer on each line."""
        for one in waiting:
            question = _question(store, *one)
            if question is not None and question["status"] == OPEN:
                continue
            self._done.append(one)
            if question is not None and _is_news(question, session):
                text = one[1] if len(one[1]) <= _MAX_SHOWN else f"{one[1][: _MAX_SHOWN - 1]}…"
                asked = f"question {question['id']} of {one[0]} ({text})"
                self.notes.append(f"{asked} was answered: {question['answer']}")

    def seen(self) -> None:
        """Forget the answers that were shown, and questions that nobody will answer."""
        _forget(self._store, self._session, self._done)


def _is_news(question: Question, session: str) -> bool:
    """Return whether a question was answered, and not by the session itself."""
    is_own = question.get("answered_by", {}).get("session") == session
    return question["status"] == ANSWERED and not is_own


def _question(store: Store, workflow: str, text: str) -> Question | None:
    """Return the last question with this text, unless it was still open when its work ended."""
    peek = store.peek(workflow) if is_workflow(workflow) else None
    if peek is None:
        return None
    same = [one for one in peek.state.get("questions", ()) if one["text"] == text]
    is_dropped = not is_active(peek.state) and bool(same) and same[-1]["status"] == OPEN
    return None if is_dropped or not same else same[-1]


def _waiting(store: Store, session: str) -> Waiting:
    path = store.workspace.questions_mark(session)
    if not os.path.lexists(path):
        return []
    try:
        waiting = json_text.loads(read_start(path, _MAX_MARK_BYTES) or b"")
    except (OSError, json_text.BadJson):
        return []
    if not isinstance(waiting, list):
        return []
    return [one for one in waiting if isinstance(one, list) and list(map(type, one)) == [str, str]]


def _forget(store: Store, session: str, done: Waiting) -> None:
    """Leave some questions out of what a session waits for."""
    if not done:
        return
    try:
        _write(store, session, [one for one in _waiting(store, session) if one not in done])
    except OSError:
        return  # They are shown once more.


def _write(store: Store, session: str, waiting: Waiting) -> None:
    path = store.workspace.questions_mark(session)
    if waiting:
        text = json_text.dumps(waiting[-_MAX_WAITING:])
        store.disk.replace_view(path, text.encode(errors="replace"))
    elif os.path.lexists(path):
        store.disk.remove(path)
