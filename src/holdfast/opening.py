"""How a workflow gets its name and its place before it is opened."""

from __future__ import annotations

import os

from holdfast import recipes
from holdfast.core import choice
from holdfast.core.workflow.state import is_active
from holdfast.digest import md5_of
from holdfast.errors import Refused
from holdfast.layers import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields, Recipe, Workflow
    from holdfast.engine import Engine
    from holdfast.loop import Loop

_MAX_NAME = 60
_MAX_SAME_NAME = 1_000


class Request:
    """What the caller of ``start`` asked for."""

    def __init__(
        self,
        recipe: str,
        subject: str | None,
        title: str | None,
        tasks: list[str],
        phases: list[str],
        reading: list[str],
        reminders: list[str],
        context: Fields,
        branch: str | None,
        ttl: str | None,
    ) -> None:
        self.recipe = recipe
        self.subject = subject
        self.title = title
        self.tasks = tasks
        self.phases = phases
        self.reading = reading
        self.reminders = reminders
        self.context = context
        self.branch = branch
        self.ttl = ttl


class Wanted:
    """A workflow about to be opened: the command's arguments, its id, and what it replaces."""

    def __init__(self, args: Fields, stem: str) -> None:
        self.args = args
        self.stem = stem
        self.id = stem
        self.before: Workflow | None = None


def prepare(engine: Engine, request: Request) -> Wanted:
    """The command's arguments, as far as they don't depend on what is there already."""
    recipe = _recipe(engine, request)
    subject = request.subject
    if subject is None:
        subject = request.title or recipe.get("title", request.recipe)
    check_reading(engine, request.reading)
    args: Fields = {
        "recipe": recipe,
        "subject": subject,
        "title": subject if request.title is None else request.title,
        "branch": request.branch or engine.workspace.branch(),
        "worktree": engine.workspace.name,
        "tasks": request.tasks,
        "required_reading": list(dict.fromkeys(request.reading)),
        "reminders": list(dict.fromkeys(request.reminders)),
        "context": request.context,
    }
    if request.ttl is not None:
        args["ttl"] = request.ttl
    return Wanted(args, _stem(recipe, subject))


def _recipe(engine: Engine, request: Request) -> Recipe:
    recipe = recipes.load(request.recipe, engine.workspace.root)
    if not request.phases:
        return recipe
    twice = [name for name in request.phases if request.phases.count(name) > 1]
    if twice:
        raise Refused(
            "invalid", f"start: the phase {twice[0]!r} is named twice", "name each phase once"
        )
    recipe = {**recipe, "phases": [{"name": name} for name in request.phases]}
    recipe.pop("cycles_at", None)
    return recipe


def _stem(recipe: Recipe, subject: str) -> str:
    if recipe["format"] in ("skill", "verb"):
        digest = md5_of(f"{subject}\n")
        return f"{recipe['name']}-{digest[:8]}"
    return slug(subject)


def slug(text: str) -> str:
    """A name that is safe in a path: lower case letters, digits and single hyphens."""
    from unicodedata import normalize

    plain = normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    words = "".join(letter if letter.isalnum() else " " for letter in plain).split()
    name = "-".join(words)[:_MAX_NAME].strip("-")
    if name:
        return name
    return f"workflow-{md5_of(text)[:8]}"


def check_reading(engine: Engine, paths: list[str]) -> None:
    """Required reading stays inside the workspace; a file that is missing is only said."""
    for marked in paths:
        # What is no text for a path leads nowhere, and is refused with the other texts.
        path = marked.removeprefix("@").encode(errors="replace").decode()
        full = os.path.normpath(os.path.join(engine.workspace.root, path))
        top = os.path.realpath(engine.workspace.root)
        inside = os.path.join(top, "")
        if "\x00" in path or not (os.path.realpath(full) + os.sep).startswith(inside):
            raise Refused(
                "outside",
                f"required reading {marked[:200]!r} leads out of the workspace",
                "name a file inside it, as @path from its root",
            )
        if marked.startswith("@") and not os.path.exists(full):
            engine.note(f"required reading {marked} does not exist yet")


def place(loop: Loop, wanted: Wanted) -> Workflow | None:
    """Gives the workflow an id that is free, or gives back the active one of the same subject."""
    engine = loop.engine
    recipe, subject = wanted.args["recipe"], wanted.args["subject"]
    for number in range(1, _MAX_SAME_NAME):
        wanted.id = wanted.stem if number == 1 else f"{wanted.stem}-{number}"
        state = _known(loop, recipe, wanted.id)
        if state is None:
            break
        same = state["subject"] == subject and state["recipe"]["name"] == recipe["name"]
        if same and is_active(state):
            _say_left_out(engine, wanted)
            return _here(engine, state)
        if same:
            wanted.before = state
            break
    check_slot(loop, recipe["format"], wanted.id)
    wanted.args["record"] = records.active_path(recipe["format"], wanted.id, engine.now())
    return None


def _say_left_out(engine: Engine, wanted: Wanted) -> None:
    names = ("tasks", "required_reading", "reminders", "context")
    given = [name.replace("_", " ") for name in names if wanted.args[name]]
    if given:
        engine.note(f"{wanted.id} is active already: {', '.join(given)} given now are left out")


def _known(loop: Loop, recipe: Recipe, workflow_id: str) -> Workflow | None:
    engine = loop.engine
    position = engine.position(workflow_id)
    if position is None and recipe["format"] != "formal":
        from holdfast import discovery

        record = records.active_path(recipe["format"], workflow_id, engine.now())
        return discovery.adopt_file(engine, record)
    return None if position is None else loop.current(position)


def _here(engine: Engine, state: Workflow) -> Workflow:
    if state["worktree"] != engine.workspace.name:
        root = engine.workspace.root_of(state["worktree"])
        raise Refused(
            "elsewhere",
            f"{state['id']} is active in another worktree ({root or state['worktree']})",
            f"go on there, or bring it here: holdfast resume {state['id']}",
        )
    return state


def check_slot(loop: Loop, format_name: str, workflow_id: str) -> None:
    """A worktree has one place for a verb workflow's record."""
    if format_name != "verb":
        return
    for row in loop.rows():
        taken = (
            row["format"] == "verb"
            and row["status"] in choice.ACTIVE
            and row["worktree"] == loop.engine.workspace.name
            and row["id"] != workflow_id
        )
        position = loop.engine.position(row["id"]) if taken else None
        if position is not None and is_active(loop.current(position)):
            raise Refused(
                "occupied",
                f"{row['id']} ({row['title'][:60]}) is active and has this worktree's only place "
                "for such a record",
                f"holdfast complete -w {row['id']}, or holdfast abandon -w {row['id']}",
            )
