"""Prepare ``holdfast start``: the arguments, the id and the record path of a new workflow.

If an active workflow has the recipe and the subject already, it is resumed instead.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core.json_text import md5_of
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
    """The options that the caller passed to ``start``."""

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


class StartPlan:
    """A workflow about to be opened: the arguments of ``start_workflow`` and the id."""

    def __init__(self, args: Fields, stem: str, initial: Fields) -> None:
        self.args = args
        self.initial = initial
        """The lists and the context that the caller of ``start`` passed for a new workflow."""
        self.stem = stem
        """The id, unless another workflow has it: then a number is appended."""
        self.id = stem


def prepare(session: Session, request: Request) -> StartPlan:
    """Return a plan with all arguments that do not depend on other workflows; raise ``Refused``."""
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
        "worktree": "",  # Set later, under the lock, where a new worktree gets its name.
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
    initial = {
        "tasks": request.tasks,
        "required reading": request.reading,
        "reminders": request.reminders,
        "context": request.context,
    }
    return StartPlan(args, _stem(recipe, subject), initial)


def title_of(root: str, subject: str) -> str:
    """Return a feature's title: the first heading of its file, or the subject if it has none."""
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
    """Return the feature files of a folder, if the recipe accepts one; nothing for a file.

    Raise ``Refused`` if the folder has no feature files, or too many.
    """
    top = os.path.join(root, subject)
    if "folder_mode" not in recipe.get("context", {}) or "\0" in subject:
        return []
    if not os.path.isdir(top) or not is_inside(top, root):
        return []
    features = []
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        pages = [name for name in files if name.endswith(".md") and name.lower() != "readme.md"]
        features += [os.path.relpath(os.path.join(folder, name), root) for name in pages]
    if not features:
        raise Refused(
            "not_found",
            f"start: {subject} has no feature files (*.md)",
            f"name one file: holdfast start {recipe['name']} PATH",
        )
    if len(features) > _MAX_FEATURES:
        raise Refused(
            "too_many",
            f"start: {subject} has {len(features)} feature files; {_MAX_FEATURES} are the most",
            "name a folder below it",
        )
    return sorted(path.encode(errors="replace").decode() for path in features)


def _recipe(store: Store, request: Request) -> Recipe:
    """Return the recipe, with the request's own phases if it has any; raise ``Refused``."""
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
    """Return a name that is safe in a path: lower case letters, digits and single hyphens."""
    from unicodedata import normalize

    plain = normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    words = "".join(letter if letter.isalnum() else " " for letter in plain).split()
    name = "-".join(words)[:_MAX_NAME].strip("-")
    if name:
        return name
    return f"workflow-{md5_of(text)[:8]}"


def check_reading(store: Store, paths: list[str]) -> None:
    """Raise ``Refused`` if required reading is outside the workspace or a folder.

    Add a note for a file that does not exist.
    """
    for marked in paths:
        # The core refuses a path that is not valid text, as it refuses any such text.
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
    session: Session, tx: Transaction, plan: StartPlan, *, replace: bool = False
) -> Workflow | None:
    """Give the plan a free id and a record path, or return the active workflow to resume instead.

    If another active workflow has the worktree's only path for such a record, abandon it if
    ``replace`` is true, else raise ``Refused`` (occupied).
    """
    store = session.store
    recipe, subject = plan.args["recipe"], plan.args["subject"]
    other = _find_by_other_spelling(tx, recipe, subject)
    if other is not None:
        plan.id = other["id"]
        _note_left_out(store, plan)
        return _check_worktree(store, other)
    for number in range(1, _MAX_SAME_NAME):
        plan.id = plan.stem if number == 1 else f"{plan.stem}-{number}"
        state = _load_or_adopt(tx, recipe, plan.id)
        if state is None:
            break
        same = _is_about(state, recipe, subject)
        if same and is_active(state):
            _note_left_out(store, plan)
            return _check_worktree(store, state)
        if same:
            break
    plan.args["worktree"] = store.workspace.name
    plan.args["record"] = formats.active_path(recipe["format"], plan.id, store.now())
    for taken in _slot_holders(session, tx, recipe["format"], plan.id):
        if not replace:
            raise _occupied(taken)
        # Raise ``Refused`` now, before the other workflow is abandoned.
        decide(tx, plan)
        reason = f"replaced by {plan.id}"
        tx.do(taken["id"], "abandon_workflow", {"reason": reason})
        tx.commit()
        store.note(f"{taken['id']} is abandoned: {reason}; holdfast resume {taken['id']}")
    return None


def carry_out(
    session: Session, tx: Transaction, plan: StartPlan, *, replace: bool, id: str | None
) -> Receipt:
    """Open the workflow, or resume the active one with its recipe and subject."""
    from holdfast.keeper import cleanup

    existing = place(session, tx, plan, replace=replace)
    if existing is not None:
        args = session.binding(tx, existing)
        receipt = session.record(tx, existing["id"], "resume_workflow", args, id)
        receipt.resumed = True
        return receipt
    plan.args["session"] = session.bound(tx)
    events = tx.append(plan.id, decide(tx, plan), id=id)
    receipt = session.committed(tx, plan.id, events)
    cleanup.clean_at_times(session, tx)
    return receipt


def decide(tx: Transaction, plan: StartPlan) -> list[Draft]:
    """Return the events that open the workflow; raise ``Refused``."""
    return tx.decide(plan.id, "start_workflow", plan.args)


def _is_about(state: Workflow, recipe: Recipe, subject: str) -> bool:
    return state["subject"] == subject and state["recipe"]["name"] == recipe["name"]


def _find_by_other_spelling(tx: Transaction, recipe: Recipe, subject: str) -> Workflow | None:
    """Return the active workflow whose subject is another spelling of this path, or ``None``."""
    for spelling in _other_spellings(tx.store.workspace.root, subject):
        state: Workflow | None = tx.load(_stem(recipe, spelling))
        if state is not None and is_active(state) and _is_about(state, recipe, spelling):
            return state
    return None


def _other_spellings(root: str, subject: str) -> list[str]:
    """Return other spellings of an existing path. Each of them gives a workflow another id."""
    if "\0" in subject or not os.path.exists(os.path.join(root, subject)):
        return []
    plain = os.path.normpath(subject)
    return [name for name in (plain, f"{plain}/", f"./{plain}", f"./{plain}/") if name != subject]


def _note_left_out(store: Store, plan: StartPlan) -> None:
    """Add a note on the options that a workflow which is active already does not take over."""
    names = [name for name, items in plan.initial.items() if items]
    if names:
        store.note(f"{plan.id} is active already: {', '.join(names)} given now are left out")


def _load_or_adopt(tx: Transaction, recipe: Recipe, workflow_id: str) -> Workflow | None:
    """Return the workflow with this id, from the ledger or from a record that it does not know."""
    state: Workflow | None = tx.load(workflow_id)
    spec = FORMATS[recipe["format"]]
    if state is not None or spec.ends_when_removed:
        return state
    from holdfast.adopt import unknown_records

    record = formats.active_path(recipe["format"], workflow_id, tx.store.now())
    adopted = unknown_records.adopt_file(tx, record)
    return adopted or (_owner_of(tx, record) if spec.completed else None)


def _owner_of(tx: Transaction, record: str) -> Workflow | None:
    """Return the active workflow with this record. A script may have given it another id."""
    here = tx.store.workspace
    if not os.path.lexists(os.path.join(here.root, record)):
        return None
    for row in tx.store.ledger.rows(f"{ACTIVE} AND worktree = ? AND record = ?", here.name, record):
        state: Workflow | None = tx.load(row["id"])
        if state is not None and is_active(state):
            return state
    return None


def _check_worktree(store: Store, state: Workflow) -> Workflow:
    """Return the workflow; raise ``Refused`` (elsewhere) if another worktree has it."""
    if state["worktree"] != store.workspace.name:
        root = store.workspace.root_of(state["worktree"])
        raise Refused(
            "elsewhere",
            f"{state['id']} is active in another worktree ({root or state['worktree']})",
            f"go on there, or bring it here: holdfast resume {state['id']}",
        )
    return state


def check_slot(session: Session, tx: Transaction, format_name: str, workflow_id: str) -> None:
    """Raise ``Refused`` (occupied) if another workflow has the only path for such a record."""
    for taken in _slot_holders(session, tx, format_name, workflow_id):
        raise _occupied(taken)


def _slot_holders(
    session: Session, tx: Transaction, format_name: str, workflow_id: str
) -> Iterator[Workflow]:
    """Yield other active workflows that have this worktree's only path for such a record."""
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
