"""How a workflow gets its name and its place before it is opened."""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core.digest import md5_of
from holdfast.core.record_formats import FORMATS
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.storage.ledger import ACTIVE
from holdfast.workspace import recipes, settings
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Draft, Fields, Recipe, Workflow
    from holdfast.keeper.session import Receipt, Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

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


def prepare(session: Session, request: Request) -> Wanted:
    """The command's arguments, as far as they don't depend on what is there already."""
    store = session.store
    recipe = _recipe(store, request)
    subject = request.subject
    if subject is None:
        subject = request.title or recipe.get("title", request.recipe)
    check_reading(store, request.reading)
    context = request.context
    named = subject
    listed = _features(store.workspace.root, recipe, subject)
    if listed:
        recipe = {**recipe, "subject_key": "folder_path"}
        named = listed[0]
        context = {
            "folder_mode": True, "folder_features": listed, "feature_file": named, **context,
        }  # fmt: skip
    title = title_of(store.workspace.root, named) if request.title is None else request.title
    args: Fields = {
        "recipe": recipe,
        "subject": subject,
        "title": title,
        "branch": request.branch or store.workspace.branch(),
        "worktree": "",  # Known under the lock, where a new worktree gets its name.
        "tasks": request.tasks,
        "required_reading": list(dict.fromkeys(request.reading)),
        "reminders": list(dict.fromkeys(request.reminders)),
        "context": context,
    }
    if request.initiative is not None or request.milestone is not None:
        from holdfast.keeper.initiative_link import initiative_for_workflow

        args["initiative"] = initiative_for_workflow(session, request.initiative, request.milestone)
    commit = store.workspace.commit()
    if commit is not None:
        args["base"] = commit
    ttl = request.ttl
    if ttl is None:
        ttl = settings.load(store.workspace.root).ttl(recipe["name"])
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


def _recipe(store: Store, request: Request) -> Recipe:
    recipe = recipes.load(request.recipe, store.workspace.root)
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
    if FORMATS[recipe["format"]].is_named_by_digest:
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


def check_reading(store: Store, paths: list[str]) -> None:
    """Required reading stays inside the workspace; a file that is missing is only said."""
    for marked in paths:
        # What is no text for a path leads nowhere, and is refused with the other texts.
        path = marked.removeprefix("@").encode(errors="replace").decode()
        full = os.path.normpath(os.path.join(store.workspace.root, path))
        top = os.path.realpath(store.workspace.root)
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
            store.note(f"required reading {marked} does not exist yet")


def place(
    session: Session, tx: Transaction, wanted: Wanted, *, replace: bool = False
) -> Workflow | None:
    """Gives the workflow an id that is free, or gives back the active one of the same subject.

    ``replace``: another one in a place that only one can have is abandoned for it.
    """
    store = session.store
    recipe, subject = wanted.args["recipe"], wanted.args["subject"]
    other = _written_otherwise(tx, recipe, subject)
    if other is not None:
        wanted.id = other["id"]
        _say_left_out(store, wanted)
        return _here(store, other)
    for number in range(1, _MAX_SAME_NAME):
        wanted.id = wanted.stem if number == 1 else f"{wanted.stem}-{number}"
        state = _known(tx, recipe, wanted.id)
        if state is None:
            break
        same = _is_about(state, recipe, subject)
        if same and is_active(state):
            _say_left_out(store, wanted)
            return _here(store, state)
        if same:
            break
    wanted.args["worktree"] = store.workspace.name
    wanted.args["record"] = formats.active_path(recipe["format"], wanted.id, store.now())
    for taken in _in_its_place(session, tx, recipe["format"], wanted.id):
        if not replace:
            raise _occupied(taken)
        # What is going to be refused costs nobody their place.
        decide(tx, wanted)
        reason = f"replaced by {wanted.id}"
        tx.do(taken["id"], "abandon_workflow", {"reason": reason})
        tx.commit()
        store.note(f"{taken['id']} is abandoned: {reason}; holdfast resume {taken['id']}")
    return None


def carry_out(
    session: Session, tx: Transaction, wanted: Wanted, *, replace: bool, id: str | None
) -> Receipt:
    """Open the workflow, or resume the active one of the same recipe and subject."""
    from holdfast.keeper import cleanup

    existing = place(session, tx, wanted, replace=replace)
    if existing is not None:
        args = session.binding(tx, existing)
        receipt = session.record(tx, existing["id"], "resume_workflow", args, id)
        receipt.resumed = True
        return receipt
    wanted.args["session"] = session.bound(tx)
    events = tx.append(wanted.id, decide(tx, wanted), id=id)
    receipt = session.committed(tx, wanted.id, events)
    cleanup.clean_at_times(session, tx)
    return receipt


def decide(tx: Transaction, wanted: Wanted) -> list[Draft]:
    """The events that open the workflow; raise ``Refused``."""
    return tx.decide(wanted.id, "start_workflow", wanted.args)


def _is_about(state: Workflow, recipe: Recipe, subject: str) -> bool:
    return state["subject"] == subject and state["recipe"]["name"] == recipe["name"]


def _written_otherwise(tx: Transaction, recipe: Recipe, subject: str) -> Workflow | None:
    """The active workflow about the same path, where that was written in another way."""
    for spelling in _other_spellings(tx.store.workspace.root, subject):
        state: Workflow | None = tx.load(_stem(recipe, spelling))
        if state is not None and is_active(state) and _is_about(state, recipe, spelling):
            return state
    return None


def _other_spellings(root: str, subject: str) -> list[str]:
    """The other ways to write a path that is there: a workflow's id is made from one of them."""
    if "\0" in subject or not os.path.exists(os.path.join(root, subject)):
        return []
    plain = os.path.normpath(subject)
    return [name for name in (plain, f"{plain}/", f"./{plain}", f"./{plain}/") if name != subject]


def _say_left_out(store: Store, wanted: Wanted) -> None:
    given = [name for name, items in wanted.given.items() if items]
    if given:
        store.note(f"{wanted.id} is active already: {', '.join(given)} given now are left out")


def _known(tx: Transaction, recipe: Recipe, workflow_id: str) -> Workflow | None:
    state: Workflow | None = tx.load(workflow_id)
    spec = FORMATS[recipe["format"]]
    if state is not None or spec.ends_when_removed:
        return state
    from holdfast.adopt import unknown_records

    record = formats.active_path(recipe["format"], workflow_id, tx.store.now())
    adopted = unknown_records.adopt_file(tx, record)
    return adopted or (_whose(tx, record) if spec.completed else None)


def _whose(tx: Transaction, record: str) -> Workflow | None:
    """The active workflow whose record stands there: a script may have given it another id."""
    here = tx.store.workspace
    if not os.path.lexists(os.path.join(here.root, record)):
        return None
    for row in tx.store.ledger.rows(f"{ACTIVE} AND worktree = ? AND record = ?", here.name, record):
        state: Workflow | None = tx.load(row["id"])
        if state is not None and is_active(state):
            return state
    return None


def _here(store: Store, state: Workflow) -> Workflow:
    if state["worktree"] != store.workspace.name:
        root = store.workspace.root_of(state["worktree"])
        raise Refused(
            "elsewhere",
            f"{state['id']} is active in another worktree ({root or state['worktree']})",
            f"go on there, or bring it here: holdfast resume {state['id']}",
        )
    return state


def check_slot(session: Session, tx: Transaction, format_name: str, workflow_id: str) -> None:
    for taken in _in_its_place(session, tx, format_name, workflow_id):
        raise _occupied(taken)


def _in_its_place(
    session: Session, tx: Transaction, format_name: str, workflow_id: str
) -> Iterator[Workflow]:
    """The active workflow that has this worktree's one place for a verb workflow's record."""
    if not FORMATS[format_name].is_slot:
        return
    here = session.workspace.name
    query = f"{ACTIVE} AND worktree = ? AND format = ?"
    rows = session.store.ledger.rows(query, here, format_name)
    for row in rows:
        state: Workflow | None = None if row["id"] == workflow_id else tx.load(row["id"])
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
