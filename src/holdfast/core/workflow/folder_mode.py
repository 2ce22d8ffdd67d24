"""Folder mode: a workflow that works through the features of a folder, one after the other.

``context`` has the position, as scripts read it: ``folder_mode``, ``folder_path``,
``folder_features`` (every file, in order), ``folder_done`` and ``feature_file``, the current one.
"""

from __future__ import annotations

from holdfast.core.workflow.state import blank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Fields, Workflow


def following(state: Workflow) -> str | None:
    """Return the feature after the current one; ``None`` after the last."""
    context = state["context"]
    if context.get("folder_mode") is not True:
        return None
    done = [*_listed(context, "folder_done"), context.get("feature_file")]
    return next((path for path in _listed(context, "folder_features") if path not in done), None)


def place_of(state: Workflow) -> tuple[int, int]:
    """Return the current feature's number, and how many there are; 0, 0 without a folder."""
    if state["context"].get("folder_mode") is not True:
        return 0, 0
    listed = _listed(state["context"], "folder_features")
    return min(len(_listed(state["context"], "folder_done")) + 1, len(listed)), len(listed)


def other_context(state: Workflow) -> Fields:
    """Return the context without what names and the folder position already show."""
    names = (state["subject"], state["title"])
    in_folder = state["context"].get("folder_mode") is True
    return {
        key: value
        for key, value in state["context"].items()
        if key not in _OF_FOLDER and not (key in _OF_FEATURE and (in_folder or value in names))
    }


_OF_FOLDER = ("folder_mode", "folder_path", "folder_features", "folder_done")
_OF_FEATURE = ("feature_file", "feature_title")


def _listed(context: Fields, key: str) -> list[str]:
    paths = context.get(key)
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def go_on(state: Workflow, path: str, title: str, data: Fields) -> list[Draft]:
    """Complete the current feature and begin the next."""
    data = {**data, "feature": state["context"].get("feature_file"), "next": path, "title": title}
    drafts: list[Draft] = [{"type": "feature_completed", "data": data}]
    declared = state["recipe"]["phases"]
    if declared:
        drafts.append({"type": "phase_started", "data": {"phase": declared[0]["name"]}})
    return drafts


def signal(state: Workflow) -> str:
    """Return the line that scripts wait for: ``DEV_COMPLETE: event infrastructure``."""
    context, subject = state["context"], state["subject"]
    path = context.get("feature_file") if following(state) or place_of(state)[1] else subject
    stem = str(path).rstrip("/").rpartition("/")[2].removesuffix(".md")
    name = state["title"] if state["title"] and state["title"] != subject else stem or subject
    word = state["recipe"]["name"].upper().replace("-", "_")
    return f"{word}_COMPLETE: {' '.join(name.split())}"


def _completed(state: Workflow, data: Fields, _at: str) -> Workflow:
    fresh = blank(state["id"], state["recipe"], state["created_at"])
    context = {
        **state["context"],
        "feature_file": data["next"],
        "folder_done": [*_listed(state["context"], "folder_done"), data["feature"]],
    }
    begun = {name: fresh[name] for name in _PER_FEATURE}  # type: ignore[literal-required]
    return {**state, **begun, "title": data["title"], "context": context, "current_task": None}  # type: ignore[typeddict-item]


_PER_FEATURE = ("phase", "step", "cycle", "phases", "tasks", "gates", "tests", "files")

EVOLVE = {"feature_completed": _completed}
