"""How a workflow gets its name and its place before it is opened."""

from __future__ import annotations

import os

from holdfast import recipes, settings
from holdfast.core import choice
from holdfast.core.workflow.state import is_active
from holdfast.digest import md5_of
from holdfast.errors import Refused
from holdfast.layers import records
from holdfast.workspace import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields, Recipe, Workflow
    from holdfast.engine import Engine

_MAX_NAME = 60
_MAX_SAME_NAME = 1_000
_MAX_FEATURES = 1_000
_MAX_TITLE = 200
_MAX_PAGE = 64 * 1024


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
        initiative: str | None,
        milestone: str | None,
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
        self.initiative = initiative
        self.milestone = milestone


class Wanted:
    """A workflow about to be opened: the command's arguments, its id, and what it replaces."""

    def __init__(self, args: Fields, stem: str, given: Fields) -> None:
        self.args = args
        self.given = given
        """What the caller of ``start`` wanted the workflow to begin with."""
        self.stem = stem
        self.id = stem
        self.before: Workflow | None = None


def prepare(caller: Caller, request: Request) -> Wanted:
    """The command's arguments, as far as they don't depend on what is there already."""
    engine = caller.engine
    recipe = _recipe(engine, request)
    subject = request.subject
    if subject is None:
        subject = request.title or recipe.get("title", request.recipe)
    check_reading(engine, request.reading)
    context = request.context
    named = subject
    listed = _features(engine.workspace.root, recipe, subject)
    if listed:
        recipe = {**recipe, "subject_key": "folder_path"}
        named = listed[0]
        context = {
            "folder_mode": True, "folder_features": listed, "feature_file": named, **context,
        }  # fmt: skip
    title = title_of(engine.workspace.root, named) if request.title is None else request.title
    args: Fields = {
        "recipe": recipe,
        "subject": subject,
        "title": title,
        "branch": request.branch or engine.workspace.branch(),
        "worktree": engine.workspace.name,
        "tasks": request.tasks,
        "required_reading": list(dict.fromkeys(request.reading)),
        "reminders": list(dict.fromkeys(request.reminders)),
        "context": context,
    }
    if request.initiative is not None or request.milestone is not None:
        from holdfast.initiatives.belonging import belonging

        args["initiative"] = belonging(caller, request.initiative, request.milestone)
    commit = engine.workspace.commit()
    if commit is not None:
        args["base"] = commit
    ttl = request.ttl
    if ttl is None:
        ttl = settings.load(engine.workspace.root).ttl(recipe["name"])
    if ttl is not None:
        args["ttl"] = ttl
    given = {
        "tasks": request.tasks,
        "required reading": request.reading,
        "reminders": request.reminders,
        "context": request.context,
    }
    return Wanted(args, _stem(recipe, subject), given)


def title_of(root: str, subject: str) -> str:
    """What a feature is called: the first heading of its file, else the subject itself."""
    if not subject.endswith(".md") or "\0" in subject:
        return subject
    headings = (line.lstrip("#").strip() for line in _page(root, subject) if line.startswith("# "))
    return next((heading for heading in headings if heading.isprintable()), subject)[:_MAX_TITLE]


def _page(root: str, path: str) -> list[str]:
    full = os.path.join(root, path)
    if not os.path.isfile(full) or not is_inside(full, root):
        return []
    try:
        with open(full, "rb") as page:
            return page.read(_MAX_PAGE).decode(errors="replace").splitlines()
    except OSError:
        return []


def _features(root: str, recipe: Recipe, subject: str) -> list[str]:
    """The feature files of a folder, for a recipe that takes folders; none when it is no folder."""
    top = os.path.join(root, subject)
    if "folder_mode" not in recipe.get("context", {}) or "\0" in subject:
        return []
    if not os.path.isdir(top) or not is_inside(top, root):
        return []
    found = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        pages = [name for name in files if name.endswith(".md") and name.lower() != "readme.md"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in pages]
    if not found:
        raise Refused(
            "not_found",
            f"start: {subject} has no feature files (*.md)",
            f"name one file: holdfast start {recipe['name']} PATH",
        )
    if len(found) > _MAX_FEATURES:
        raise Refused(
            "too_many",
            f"start: {subject} has {len(found)} feature files; {_MAX_FEATURES} are the most",
            "name a folder below it",
        )
    return sorted(path.encode(errors="replace").decode() for path in found)


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
        if os.path.isdir(full):
            raise Refused(
                "invalid",
                f"required reading {marked[:200]!r} is a folder, and nobody reads one",
                "name each of its files, as @path from the workspace's root",
            )
        if marked.startswith("@") and not os.path.exists(full):
            engine.note(f"required reading {marked} does not exist yet")


def place(caller: Caller, wanted: Wanted, *, replace: bool = False) -> Workflow | None:
    """Gives the workflow an id that is free, or gives back the active one of the same subject.

    ``replace``: another one in a place that only one can have is abandoned for it.
    """
    engine = caller.engine
    recipe, subject = wanted.args["recipe"], wanted.args["subject"]
    other = _written_otherwise(caller, recipe, subject)
    if other is not None:
        wanted.id = other["id"]
        _say_left_out(engine, wanted)
        return _here(engine, other)
    for number in range(1, _MAX_SAME_NAME):
        wanted.id = wanted.stem if number == 1 else f"{wanted.stem}-{number}"
        state = _known(caller, recipe, wanted.id)
        if state is None:
            break
        same = _is_about(state, recipe, subject)
        if same and is_active(state):
            _say_left_out(engine, wanted)
            return _here(engine, state)
        if same:
            wanted.before = state
            break
    for taken in _in_its_place(caller, recipe["format"], wanted.id):
        if not replace:
            raise _occupied(taken)
        # What is going to be refused costs nobody their place.
        engine.decide(wanted.before, "start_workflow", wanted.args)
        reason = f"replaced by {wanted.id}"
        drafts = engine.decide(taken, "abandon_workflow", {"reason": reason})
        engine.commit(taken["id"], taken, drafts)
        engine.note(f"{taken['id']} is abandoned: {reason}; holdfast resume {taken['id']}")
    wanted.args["record"] = records.active_path(recipe["format"], wanted.id, engine.now())
    return None


def _is_about(state: Workflow, recipe: Recipe, subject: str) -> bool:
    return state["subject"] == subject and state["recipe"]["name"] == recipe["name"]


def _written_otherwise(caller: Caller, recipe: Recipe, subject: str) -> Workflow | None:
    """The active workflow about the same path, where that was written in another way."""
    for spelling in _other_spellings(caller.engine.workspace.root, subject):
        position = caller.engine.position(_stem(recipe, spelling))
        state = None if position is None else caller.current(position)
        if state is not None and is_active(state) and _is_about(state, recipe, spelling):
            return state
    return None


def _other_spellings(root: str, subject: str) -> list[str]:
    """The other ways to write a path that is there: a workflow's id is made from one of them."""
    if "\0" in subject or not os.path.exists(os.path.join(root, subject)):
        return []
    plain = os.path.normpath(subject)
    return [name for name in (plain, f"{plain}/", f"./{plain}", f"./{plain}/") if name != subject]


def _say_left_out(engine: Engine, wanted: Wanted) -> None:
    given = [name for name, items in wanted.given.items() if items]
    if given:
        engine.note(f"{wanted.id} is active already: {', '.join(given)} given now are left out")


def _known(caller: Caller, recipe: Recipe, workflow_id: str) -> Workflow | None:
    engine = caller.engine
    position = engine.position(workflow_id)
    if position is None and recipe["format"] != "formal":
        from holdfast import discovery

        record = records.active_path(recipe["format"], workflow_id, engine.now())
        found = discovery.adopt_file(engine, record)
        return found or (_whose(caller, record) if recipe["format"] == "skill" else None)
    return None if position is None else caller.current(position)


def _whose(caller: Caller, record: str) -> Workflow | None:
    """The active workflow whose record stands there: a script may have given it another id."""
    here = caller.engine.workspace
    if not os.path.lexists(os.path.join(here.root, record)):
        return None
    for row in caller.rows():
        if row["record"] == record and row["worktree"] == here.name:
            position = caller.engine.position(row["id"])
            state = None if position is None else caller.current(position)
            if state is not None and is_active(state):
                return state
    return None


def _here(engine: Engine, state: Workflow) -> Workflow:
    if state["worktree"] != engine.workspace.name:
        root = engine.workspace.root_of(state["worktree"])
        raise Refused(
            "elsewhere",
            f"{state['id']} is active in another worktree ({root or state['worktree']})",
            f"go on there, or bring it here: holdfast resume {state['id']}",
        )
    return state


def check_slot(caller: Caller, format_name: str, workflow_id: str) -> None:
    for taken in _in_its_place(caller, format_name, workflow_id):
        raise _occupied(taken)


def _in_its_place(caller: Caller, format_name: str, workflow_id: str) -> Iterator[Workflow]:
    """The active workflow that has this worktree's one place for a verb workflow's record."""
    if format_name != "verb":
        return
    for row in caller.rows():
        taken = (
            row["format"] == "verb"
            and row["status"] in choice.ACTIVE
            and row["worktree"] == caller.engine.workspace.name
            and row["id"] != workflow_id
        )
        position = caller.engine.position(row["id"]) if taken else None
        state = None if position is None else caller.current(position)
        if state is not None and is_active(state):
            yield state


def _occupied(taken: Workflow) -> Refused:
    return Refused(
        "occupied",
        f"{taken['id']} ({taken['title'][:60]}) is active and has this worktree's only place "
        "for such a record",
        f"holdfast complete -w {taken['id']}, holdfast abandon -w {taken['id']}, "
        "or the same command with --replace",
    )
