"""Prepare ``holdfast start``: the arguments, the id and the record path of a new workflow.

If an active workflow has the recipe and the subject already, it is resumed instead.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import unknown_workflows
from holdfast.core import selection, task_lists
from holdfast.core.json_text import md5_of
from holdfast.core.record_formats import FORMATS, slug
from holdfast.core.time import age
from holdfast.core.workflow import is_active
from holdfast.core.workflow.lifecycle import completion_signal, open_features
from holdfast.core.workflow.tasks import MAX_TASKS
from holdfast.errors import Refused
from holdfast.keeper import record_folders
from holdfast.keeper.logs import initiative_for_workflow
from holdfast.storage.ledger import ACTIVE
from holdfast.workspace import recipes, settings
from holdfast.workspace.location import MAX_NAMES, is_inside, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.types import Fields, Recipe, Workflow
    from holdfast.keeper.session import Receipt, Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

OWN_PHASES = "custom"
"""The recipe whose phases the caller is meant to name."""
_REPLACE = "; or the same command with --replace, which abandons it"
_MAX_SAME_NAME = 1_000
_MAX_FEATURES = 1_000
_MAX_TITLE = 200
_MAX_PAGE_BYTES = 64 * 1024


class StartPlan:
    """A workflow about to be opened: the arguments of ``start_workflow`` and the id."""

    def __init__(self, args: Fields, stem: str, initial: Fields) -> None:
        self.args = args
        self.initial = initial
        """The lists and the context that the caller of ``start`` passed for a new workflow."""
        self.stem = stem
        """The id, unless another workflow has it: then a number is appended."""
        self.id = stem


def prepare(
    session: Session,
    recipe_name: str,
    subject: str | None,
    *,
    title: str | None = None,
    tasks: Sequence[str] = (),
    phases: Sequence[str] = (),
    reading: Sequence[str] = (),
    reminders: Sequence[str] = (),
    context: Fields | None = None,
    branch: str | None = None,
    ttl: str | None = None,
    initiative: str | None = None,
    milestone: str | None = None,
    labels: Sequence[str] = (),
    after: Sequence[str] = (),
) -> StartPlan:
    """Return a plan with all arguments that do not depend on other workflows; raise ``Refused``."""
    store = session.store
    root = store.workspace.root
    recipe = _load_recipe(store, recipe_name, list(phases))
    if subject is None:
        subject = title or recipe.get("title", recipe_name)
    check_reading(store, reading)
    own_context = context or {}
    features = _list_features(root, recipe, subject)
    if features:
        recipe = {**recipe, "subject_key": "folder_path"}
        own_context = {
            "folder_mode": True, "folder_features": features, "feature_file": features[0],
            **own_context,
        }  # fmt: skip
    first = features[0] if features else subject
    args: Fields = {
        "recipe": recipe,
        "subject": subject,
        "title": title_of(root, first) if title is None else title,
        "branch": branch or store.workspace.branch(),
        "worktree": "",  # Set later, under the lock, where a new worktree gets its name.
        "tasks": [{"text": text} for text in tasks] or _listed_tasks(root, recipe, first),
        "required_reading": list(dict.fromkeys(reading)),
        "reminders": list(dict.fromkeys(reminders)),
        "context": own_context,
    }
    args |= {"labels": list(dict.fromkeys(labels))} if labels else {}
    args |= {"after": list(dict.fromkeys(after))} if after else {}
    if initiative is not None or milestone is not None:
        args["initiative"] = initiative_for_workflow(session, initiative, milestone)
    optional = {
        "base": store.workspace.commit(),
        "ttl": settings.load(root).ttl.get(recipe["name"]) if ttl is None else ttl,
    }
    args |= {name: value for name, value in optional.items() if value is not None}
    initial = {
        "tasks": tasks, "required reading": reading, "reminders": reminders, "context": context,
        "labels": labels, "what comes before": after,
    }  # fmt: skip
    return StartPlan(args, _stem(recipe, subject), initial)


def _load_recipe(store: Store, name: str, phases: list[str]) -> Recipe:
    """Return the recipe, with the caller's own phases if there are any; raise ``Refused``.

    If it differs from the shipped recipe of that name, ``differs`` says how, and so does a note.
    """
    recipe, source = recipes.load_with_source(name, store.workspace.root)
    # The completion line spells a recipe's name in capitals, with underscores.
    if source != recipes.SHIPPED and name.lower().replace("_", "-") in recipes.names():
        recipe = {**recipe, "differs": source}
        store.note(f"the recipe {name} is this repository's own: {source}")
    if not phases:
        return recipe
    twice = [phase for phase in phases if phases.count(phase) > 1]
    if twice:
        raise Refused(
            "invalid", f"start: the phase {twice[0]!r} is named twice", "name each phase once"
        )
    needs = [need for phase in recipe["phases"] for need in phase.get("needs", [])]
    recipe = {**recipe, "phases": [{"name": phase} for phase in phases]}
    if needs and name != OWN_PHASES:
        recipe["differs"] = "own phases"
        asked = ", ".join(dict.fromkeys(needs))
        store.note(f"these phases do not ask for what those of {name} do: {asked}")
    recipe.pop("cycles_at", None)
    return recipe


def check_reading(store: Store, paths: Sequence[str]) -> None:
    """Raise ``Refused`` if required reading is outside the workspace or a folder.

    Add a note for a file that does not exist.
    """
    root = store.workspace.root
    for marked in paths:
        # The core refuses a path that is not valid text, as it refuses any such text.
        path = marked.removeprefix("@").encode(errors="replace").decode()
        full = os.path.normpath(os.path.join(root, path))
        if "\0" in path or not (full == os.path.normpath(root) or is_inside(full, root)):
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


def _list_features(root: str, recipe: Recipe, subject: str) -> list[str]:
    """Return the feature files of a folder, if the recipe accepts one; nothing for a file.

    Raise ``Refused`` if the folder has no feature files, or too many.
    """
    top = os.path.join(root, subject)
    if "folder_mode" not in recipe.get("context", {}) or "\0" in subject:
        return []
    if not os.path.isdir(top) or not is_inside(top, root):
        return []
    features: list[str] = []
    seen = 0
    for folder, folders, files in os.walk(top):
        seen += len(folders) + len(files)
        if seen > MAX_NAMES:
            break
        folders[:] = [name for name in folders if not name.startswith(".")]
        pages = [name for name in files if name.endswith(".md") and name.lower() != "readme.md"]
        features += [os.path.relpath(os.path.join(folder, name), root) for name in pages]
    if seen > MAX_NAMES:
        why = f"start: {subject} has more than {MAX_NAMES:,} files"
        raise Refused("too_many", why, "name a folder below it")
    if not features:
        raise Refused(
            "not_found",
            f"start: {subject} has no feature files (*.md)",
            f"name one file: holdfast start {recipe['name']} PATH",
        )
    if len(features) > _MAX_FEATURES:
        raise Refused(
            "too_many",
            f"start: {subject} has {len(features)} feature files; the limit is {_MAX_FEATURES}",
            "name a folder below it",
        )
    return sorted(path.encode(errors="replace").decode() for path in features)


def _listed_tasks(root: str, recipe: Recipe, path: str) -> list[Fields]:
    """Return the task list of a feature file, if the recipe's subject is one."""
    is_feature = recipe.get("subject_key") in ("feature_file", "folder_path")
    return tasks_in(root, path) if is_feature else []


def tasks_in(root: str, path: str) -> list[Fields]:
    """Return the tasks that a Markdown file lists; none if it is no file of the workspace."""
    text = read_text(root, path, _MAX_PAGE_BYTES) if path.endswith(".md") else ""
    tasks = [{"text": task, "done": is_done} for task, is_done in task_lists.parse(text)]
    return tasks[:MAX_TASKS]


def title_of(root: str, subject: str) -> str:
    """Return a feature's title: the first heading of its file, or the subject if it has none."""
    text = read_text(root, subject, _MAX_PAGE_BYTES) if subject.endswith(".md") else ""
    headings = [line.lstrip("#").strip() for line in text.splitlines() if line.startswith("# ")]
    titles = [heading for heading in headings if heading.isprintable()]
    return [*titles, subject][0][:_MAX_TITLE] if text else subject


def _stem(recipe: Recipe, subject: str) -> str:
    if FORMATS[recipe["format"]].is_named_by_digest:
        digest = md5_of(f"{subject}\n")
        return f"{recipe['name']}-{digest[:8]}"
    return slug(subject)


# Under the lock


def carry_out(
    session: Session, tx: Transaction, plan: StartPlan, *, replace: bool, again: bool,
    id: str | None,
) -> Receipt:  # fmt: skip
    """Open the workflow, or resume the active one with its recipe and subject.

    Raise ``Refused`` (elsewhere) if another worktree has that one. If another active workflow has
    the worktree's only path for such a record, or one of its features, abandon it if ``replace`` is
    true, else raise ``Refused`` (occupied). Unless ``again`` is true, raise ``Refused`` (already)
    if this session has completed it: its context may have lost that.
    """
    store = session.store
    existing = _find_active(tx, plan)
    if existing is not None:
        names = [name for name, items in plan.initial.items() if items]
        if names:
            store.note(f"{plan.id} is active already: {', '.join(names)} given now are left out")
        if existing["worktree"] != store.workspace.name:
            root = store.workspace.root_of(existing["worktree"])
            raise Refused(
                "elsewhere",
                f"{existing['id']} is active {selection.whereabouts(existing['worktree'], root)}",
                f"go on there, or bring it here: holdfast resume {existing['id']}",
            )
        session.check_lease(tx, existing["id"], binds=True)
        args = session.binding(tx, existing)
        receipt = session.committed(
            tx, existing["id"], tx.do(existing["id"], "resume_workflow", args, id)
        )
        receipt.resumed = True
        record_folders.clean_at_times(tx)
        return receipt
    _check_not_completed(session, tx, plan, again=again)
    format_name = plan.args["recipe"]["format"]
    plan.args["worktree"] = store.workspace.name
    plan.args["record"] = formats.active_path(format_name, plan.id, store.now())
    overlapping = _overlapping(tx, plan)
    if not replace:
        check_slot(session, tx, format_name, plan.id, _REPLACE)
        _check_overlap(session, plan, overlapping)
    if "after" in plan.args:
        from holdfast.keeper.order import check_order

        check_order(session, "start", plan.id, plan.args["after"])
    for taken in (*_slot_holders(tx, format_name, plan.id), *overlapping):
        session.check_lease(tx, taken["id"])
        # Raise ``Refused`` now, before the other workflow is abandoned.
        tx.decide(plan.id, "start_workflow", plan.args)
        reason = f"replaced by {plan.id}"
        tx.do(taken["id"], "abandon_workflow", {"reason": reason})
        tx.commit()
        store.note(f"{taken['id']} is abandoned: {reason}; holdfast resume {taken['id']}")
    plan.args["session"] = session.bound(tx)
    events = tx.do(plan.id, "start_workflow", plan.args, id)
    _note_missing(store, plan)
    receipt = session.committed(tx, plan.id, events)
    record_folders.clean_at_times(tx)
    return receipt


def _check_not_completed(
    session: Session, tx: Transaction, plan: StartPlan, *, again: bool
) -> None:
    """Refuse to begin a workflow that this session completed; note that another one did."""
    state: Workflow | None = tx.load(plan.id)
    if state is None or state["status"] != "completed":
        return
    holder, signal = state["session"], completion_signal(state)
    if session.id and holder and holder["id"] == session.id and not again:
        message = f"start: this session completed {plan.id} ({signal}); --again begins it once more"
        raise Refused("already", message, f"holdfast show {plan.id}")
    ago = age(tx.store.now(), state["updated_at"])
    tx.store.note(f"{plan.id} was completed {ago}, and begins again")


def _find_active(tx: Transaction, plan: StartPlan) -> Workflow | None:
    """Return the active workflow with the plan's recipe and subject, or give the plan a free id.

    Records that the ledger does not know are adopted first. The subject decides, and not the name
    of the record: a script may have given either another name.
    """
    store, recipe, subject = tx.store, plan.args["recipe"], plan.args["subject"]
    unknown_workflows.adopt_all(tx, recipe["format"])
    own = _plain_path(store.workspace.root, subject)
    record = formats.active_path(recipe["format"], plan.stem, store.now())
    rows = store.ledger.rows(f"{ACTIVE} AND recipe = ? ORDER BY seq DESC", recipe["name"])
    for row in sorted(rows, key=lambda row: bool(row["worktree"] != store.workspace.name)):
        is_unnamed = row["subject"] == "" and row["record"] == record
        if is_unnamed or _plain_path(store.workspace.root, row["subject"]) == own:
            state: Workflow | None = tx.load(row["id"])
            if state is not None and is_active(state):
                plan.id = state["id"]
                return state
    taken = () if FORMATS[recipe["format"]].is_slot else [row["record"] for row in rows]
    for number in range(1, _MAX_SAME_NAME):
        plan.id = plan.stem if number == 1 else f"{plan.stem}-{number}"
        known: Workflow | None = tx.load(plan.id)
        if formats.active_path(recipe["format"], plan.id, store.now()) in taken:
            continue
        if known is None or _is_of(known, recipe, subject):
            break
    return None


def _is_of(state: Workflow, recipe: Recipe, subject: str) -> bool:
    return state["subject"] == subject and state["recipe"]["name"] == recipe["name"]


def _plain_path(root: str, subject: str) -> str:
    """Return the one spelling of a path in the workspace; a subject that is no path as it is."""
    path = subject.removeprefix(f"{root}/")
    plain = os.path.normpath(path) if path.strip("./") and "\0" not in path else path
    return plain if plain != subject and os.path.exists(os.path.join(root, plain)) else subject


# Features: one workflow works on each


def _overlapping(tx: Transaction, plan: StartPlan) -> list[Workflow]:
    """Return the active workflows here that work on a feature which the plan has as well."""
    store, recipe = tx.store, plan.args["recipe"]
    if "folder_mode" not in recipe.get("context", {}):
        return []
    root, context = store.workspace.root, plan.args["context"]
    features_here = set(context.get("folder_features") or [_plain_path(root, plan.args["subject"])])
    query = f"{ACTIVE} AND worktree = ? AND recipe = ? ORDER BY seq"
    states = []
    for row in store.ledger.rows(query, store.workspace.name, recipe["name"]):
        stored = store.stream(row["id"])
        features = [] if stored is None else open_features(stored.state)
        if features_here.intersection(_plain_path(root, feature) for feature in features):
            state: Workflow | None = tx.load(row["id"])
            states += [state] if state is not None and is_active(state) else []
    return states


def _check_overlap(session: Session, plan: StartPlan, overlapping: list[Workflow]) -> None:
    """Raise ``Refused`` (occupied) with the choices if a feature of the plan is being worked on."""
    if not overlapping:
        return
    taken, subject = overlapping[0], plan.args["subject"]
    feature = taken["context"].get("feature_file") or taken["subject"]
    title = f" ({taken['title'][:60]})" if taken["title"] else ""
    message = (
        f"start: {taken['id']}{title} is active and works on {feature}, which "
        f"{subject} would work on as well"
    )
    raise _occupied(session, overlapping, message, _REPLACE)


def _note_missing(store: Store, plan: StartPlan) -> None:
    """Add a note if the subject is spelled like a feature's path, and there is no such file."""
    recipe, subject = plan.args["recipe"], plan.args["subject"]
    is_path = subject.endswith((".md", "/")) or ("/" in subject and " " not in subject)
    if recipe.get("subject_key") != "feature_file" or not is_path or "://" in subject:
        return
    if "\0" not in subject and not os.path.lexists(os.path.join(store.workspace.root, subject)):
        store.note(f"there is no file {subject}, so its title and its tasks are not known")


def check_slot(
    session: Session, tx: Transaction, format_name: str, workflow_id: str, more: str = ""
) -> None:
    """Raise ``Refused`` (occupied) if another workflow has the only path for such a record.

    ``more`` is a further way out, for the end of the hint.
    """
    for taken in _slot_holders(tx, format_name, workflow_id):
        message = (
            f"{taken['id']} ({taken['title'][:60]}) is active and has this worktree's only place "
            "for such a record"
        )
        raise _occupied(session, [taken], message, more)


def _occupied(session: Session, states: list[Workflow], message: str, more: str) -> Refused:
    """Return the refusal because of active workflows, with the ways out; ``more`` is the last.

    If another live session works on the first, nothing that ends it is offered.
    """
    taken, holder = states[0], states[0]["session"]
    hint = (
        f"go on with it: holdfast resume {taken['id']}; or end it first: "
        f"holdfast complete -w {taken['id']}, or holdfast abandon -w {taken['id']}{more}"
    )
    details: Fields = {"candidates": [state["id"] for state in states]}
    if holder and not session.asker().owns({**taken}) and session.live([{**taken}]):
        message += f"; the live session {holder['id'][:40]} works on it"
        hint = "work in a worktree of your own; or ask the user whether that one may end"
        details["holder"] = holder["id"]
    return Refused("occupied", message, hint, **details)


def _slot_holders(tx: Transaction, format_name: str, workflow_id: str) -> Iterator[Workflow]:
    """Yield other active workflows that have this worktree's only path for such a record."""
    if not FORMATS[format_name].is_slot:
        return
    store = tx.store
    query = f"{ACTIVE} AND worktree = ? AND format = ?"
    for row in store.ledger.rows(query, store.workspace.name, format_name):
        state: Workflow | None = None if row["id"] == workflow_id else tx.load(row["id"])
        if state is not None and is_active(state):
            yield state
