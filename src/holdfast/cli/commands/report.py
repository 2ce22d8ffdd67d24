"""Commands that hand work on: a report of what was done, and the pull request of its branch."""

from __future__ import annotations

import os

from holdfast import answers
from holdfast.answers.documents import REPORT_FORMATS
from holdfast.answers.work_report import pull_request_form, rendered
from holdfast.cli.answer import Answer, confirm, step_after
from holdfast.cli.parser import WORKFLOW, Parameter, Usage, command
from holdfast.cli.screen import quote_word
from holdfast.core.refusal import shell_line
from holdfast.core.visible import clean
from holdfast.errors import Refused
from holdfast.evidence.commits import SHORT
from holdfast.evidence.github import MAX_TITLE_CHARS
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.pull_requests import PullRequestPlan

_PRINTED = "-"
"""The file that stands for standard output, as for other programs."""


@command(
    "report: tell what a workflow did, and what shows it; for a person or a reviewer",
    WORKFLOW,
    Parameter("--format NAME", "markdown (the default), html or pr", names="report"),
    Parameter("--output FILE", "write it into a file; - prints it", short="-o", names="file"),
    "holdfast report",
    "holdfast report dev-1f2e3d4c --format html -o report.html",
    "holdfast report --format pr",
)
def report(keeper: Keeper, args: Arguments) -> Answer:
    form, path = args["format"] or REPORT_FORMATS[0], args["output"]
    if form not in REPORT_FORMATS:
        message = (
            f"{form[:40]!r} is no format of a report: it is one of {', '.join(REPORT_FORMATS)}"
        )
        raise Usage(message, "holdfast help report")
    if path == _PRINTED:
        path = None
    elif path is not None and (not path or os.path.isdir(path)):
        name = f"report.{'html' if form == 'html' else 'md'}"
        hint = shell_line(["holdfast", "report", "--format", form, "-o", os.path.join(path, name)])
        raise Refused("invalid", f"--output needs a file; {quote_word(path)} is none", hint)
    collected = keeper.report(workflow=args["workflow"])
    text = rendered(collected, form)
    notes = keeper.drain_notes()
    fields: Fields = {"report": collected, "format": form, "text": text, "file": path}
    if path is None:
        return Answer(
            fields, lambda _screen: text.removesuffix("\n").split("\n"), notes, is_wrapped=False
        )
    Disk().replace_view(os.path.abspath(path), text.encode(errors="replace"))
    return Answer(fields, lambda screen: [screen.row("completed", f"written to {path}")], notes)


@command(
    "pr: create the pull request of the branch, or update it; asks first",
    WORKFLOW,
    Parameter("--title TEXT", "its title (default: the workflow's)"),
    Parameter("--base BRANCH", "the branch it goes into (default: the repository's main one)"),
    Parameter("--draft", "create it as a draft"),
    Parameter("--dry-run", "only show what would be sent"),
    Parameter("--yes", "do not ask: for scripts"),
    "holdfast pr --dry-run",
    "holdfast pr --draft",
    "holdfast pr --base release --title 'Ask for a code at login' --yes",
)
def pull_request(keeper: Keeper, args: Arguments) -> Answer:
    title = args["title"]
    if title is not None and (len(title) > MAX_TITLE_CHARS or not title.strip()):
        message = f"--title needs text of at most {MAX_TITLE_CHARS} characters"
        raise Usage(message, "holdfast help pr")
    requests = keeper.pull_requests(pull_request_form)
    plan = requests.plan(args["workflow"], title=title, base=args["base"], draft=args["draft"])
    planned = [*_plan_lines(plan)]
    what = _intent(plan)
    is_agreed = not args["dry_run"] and confirm(
        "pr", f"{what[:1].upper()}{what[1:]}?", planned, args, would=what
    )
    if not is_agreed:
        fields = {**plan.fields(), "became": "planned"}
        receipt = keeper.show(workflow=plan.state["id"])
        lines = planned if args["dry_run"] else ["Nothing was sent."]
        return Answer(
            lambda: answers.pull_request(fields, receipt),
            lambda _screen: [clean(line) for line in lines],
            keeper.drain_notes(),
            step=step_after(args, receipt),
        )
    fields, receipt = requests.send(plan, id=args["id"])
    return Answer(
        lambda: answers.pull_request(fields, receipt),
        lambda screen: _sent_lines(screen, fields, plan),
        receipt.notes,
        step=step_after(args, receipt),
    )


def _intent(plan: PullRequestPlan) -> str:
    if plan.found is not None:
        return f"bring pull request {plan.found['number']} of {plan.github.name} up to date"
    draft = "draft " if plan.is_draft else ""
    return f"create this {draft}pull request in {plan.github.name}"


def _plan_lines(plan: PullRequestPlan) -> Iterator[str]:
    """Yield everything that would be sent."""
    fields = plan.fields()
    yield f"title:  {fields['title']}"
    yield f"base:   {fields['base']} of {fields['repository']}"
    yield f"head:   {fields['head']}"
    yield f"remote: {fields['remote']}"
    if fields["number"] is not None:
        yield f"number: {fields['number']} {fields['url']}"
    if plan.status:
        about = f"{plan.status['state']}, {plan.status['description']}"
        yield f"status: {plan.tip[:SHORT]} {about}"
    yield ""
    yield from fields["body"].replace("\r", "").split("\n")


def _sent_lines(screen: Screen, fields: Fields, plan: PullRequestPlan) -> Iterator[str]:
    status = f"status of {plan.tip[:SHORT]}: {fields['status']}" if fields["status"] else ""
    became = {"unchanged": "is up to date"}.get(fields["became"], fields["became"])
    yield screen.row(
        "completed", f"pull request {fields['number']} {became}", fields["url"], status
    )
