"""A report tells what was done and what that rests on; texts in it are shown, and do nothing."""

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from holdfast import Loops
from holdfast.answers.markdown import BREAK
from holdfast.answers.work_report import pull_request_form, rendered
from holdfast.evidence.github import MAX_BODY_CHARS, MAX_TITLE_CHARS
from holdfast.keeper.pull_requests import BEGIN, END
from support.git_template import run_git
from support.hostile import HOSTILE, REFERENCES

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "strong",
    "code", "ul", "li", "div", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
PASSES = ("sh", "-c", "test -d .")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.attributes, self.texts = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.texts.append(data)


def fill(shop, text):
    """Put a text into every field that takes one; return the report."""
    keeper = shop.keeper(session="s-1")
    run_git(shop.root, "commit", "-q", "--allow-empty", "-m", "begin")
    phases = [f"one {text}", "two"]
    state = keeper.start(
        "custom", text, title=text, tasks=[text, "done", "blocked"], phases=phases,
        reminders=[text], context={"note": text, "pr_url": text, "pr_number": 7},
    ).state  # fmt: skip
    run_git(shop.root, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", text)
    keeper.start_task(2)
    keeper.complete_task(2, commit="HEAD")
    keeper.block_task(3, text)
    keeper.ask(text, [text, "another"])
    keeper.ask(f"open {text}")
    keeper.answer(1, text)
    evidence = keeper.evidence()
    evidence.record_gate(f"claimed {text}", {f"k {text}": text, "list": [text]}, passed=True)
    evidence.run_gate("ran", ["sh", "-c", "exit 3", text])
    evidence.run_gate("ran", ["sh", "-c", "exit 0", text], reason=text)
    evidence.waive_gate("ran", text)
    evidence.run_gate(f"run {text}", [*PASSES, text])
    evidence.run_tests([*PASSES, text])
    evidence.record_tests(text, failing=[text], error=text)
    evidence.add_violation(text, "LOW", text)
    evidence.add_violation("V-2", "LOW", text)
    evidence.clear_violation("V-2")
    evidence.add_file("a b|c.py", phase=text)
    keeper.skip_phase(state["phase"], text)
    keeper.complete(text, force=True, reason=text)
    return keeper.report(workflow=state["id"])


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.strip() and text != "\ud800"])
def test_a_hostile_text_in_every_field_is_only_shown(shop, text):
    text = text.replace("\x00", "")
    report = fill(shop, text)
    for form in ("markdown", "pr"):
        check_markdown(rendered(report, form).replace(BEGIN, "").replace(END, ""))
    tags = Tags()
    tags.feed(rendered(report, "html"))
    assert tags.seen <= TAGS
    assert tags.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "scope"}


def check_markdown(source):
    """Fail if there is a link, a picture, HTML but ``code``, or a table of another width."""
    columns = 0
    for token in READER.parse(source):
        assert token.type not in ("html_block", "fence", "code_block", "hr", "blockquote_open")
        if token.type == "tr_open":
            columns = 0
        columns += token.type in ("th_open", "td_open")
        if token.type == "tr_close":
            assert columns in (3, 5, 6, 7)
        if token.type != "inline":
            continue
        kinds = {child.type for child in token.children}
        assert kinds <= {
            "text", "text_special", "code_inline", "strong_open", "strong_close", "em_open",
            "em_close", "html_inline",
        }, token.content  # fmt: skip
        html = {child.content for child in token.children if child.type == "html_inline"}
        assert html <= {"<code>", "</code>"}
        shown = "".join(child.content for child in token.children if child.type[:4] == "text")
        for reference in REFERENCES:
            assert not reference.search(shown), shown


def test_evidence_claims_and_waivers_are_told_apart(dev_shop):
    keeper = dev_shop.keeper()
    evidence = keeper.evidence()
    evidence.run_gate("lint", PASSES)
    evidence.run_gate("test", ["sh", "-c", "exit 3"])
    evidence.waive_gate("test", "no tests yet")
    evidence.record_gate("notes", {"read": True}, passed=True)
    gates = {gate["name"]: gate for gate in keeper.report()["gates"]}
    assert (gates["lint"]["result"], gates["lint"]["rests_on"]) == ("passed", "run")
    assert gates["lint"]["exit_code"] == 0
    assert len(gates["lint"]["tree"]) > 8
    assert (gates["test"]["result"], gates["test"]["rests_on"]) == ("waived", "waived")
    assert gates["test"]["reason"] == "no tests yet"
    assert (gates["notes"]["result"], gates["notes"]["rests_on"]) == ("passed", "claim")
    assert (gates["pr_created"]["result"], gates["pr_created"]["rests_on"]) == ("pending", None)
    dev_shop.write("new.txt", "x")
    gates = {gate["name"]: gate for gate in keeper.report()["gates"]}
    assert gates["lint"]["result"] == "stale"
    ended = keeper.complete(force=True, reason="merged").state["id"]
    report = keeper.report(workflow=ended)
    assert "lint" in report["left"]["gates"]
    assert "| `lint` | **stale** | a run |" in rendered(report, "pr")
    assert "| `lint` | **stale** | a run |" in rendered(report, "markdown")


def test_a_unit_has_its_number_of_iterations(shop):
    loops = Loops(shop.keeper())
    loops.new("words", task="go on")
    loops.plan("words", "T1: one")
    loops.plan("words", "T2: two")
    loops.iterate("T1", did="half of it", remaining="the rest")
    report = shop.keeper().report()
    assert "- **T1** one **(in progress, 1 iteration)**" in rendered(report, "pr")
    assert "| T1 | one | in progress, 1 iteration |" in rendered(report, "markdown")
    assert "| T2 | two | pending |" in rendered(report, "markdown")


def test_what_was_forced_and_undone_is_not_told(dev_shop):
    keeper = dev_shop.keeper()
    keeper.complete_task(1, force=True, reason="by hand")
    assert [row["reason"] for row in keeper.report()["forced"]] == ["by hand"]
    keeper.undo()
    assert keeper.report()["forced"] == []
    keeper.complete_task(1, force=True, reason="once more")
    assert [row["reason"] for row in keeper.report()["forced"]] == ["once more"]


@pytest.mark.parametrize("form", ["pr", "markdown"])
def test_questions_are_told_with_their_answers_and_open_ones_stand_out(shop, form):
    keeper = shop.keeper()
    keeper.start("oneshot", "Port it", tasks=["one"])
    for text in ("Which database?", "Who reviews?", "Never mind?"):
        keeper.ask(text)
    keeper.ask("May it go?", blocking=True)
    keeper.answer(1, "Postgres")
    keeper.withdraw_question(3)
    text = rendered(keeper.report(), form)
    assert "- **1** Which database? (answered: Postgres)" in text
    assert "- **2** Who reviews? **(no answer)**" in text
    assert "- **4** May it go? **(no answer, all waits for it)**" in text
    assert "Never mind?" not in text


def test_words_in_the_cells_of_a_page_are_not_cut_in_the_middle(dev_shop):
    """``anywhere`` would let a column be as narrow as a letter."""
    style = rendered(dev_shop.keeper().report(), "html").partition("</style>")[0]
    (cell,) = [line for line in style.splitlines() if line.startswith("td {")]
    assert "overflow-wrap: break-word" in cell


def test_a_claim_where_the_recipe_asks_for_a_run_is_said_to_be_too_little(dev_shop):
    keeper = dev_shop.keeper()
    keeper.evidence().record_gate("lint", passed=False)
    text = rendered(keeper.report(), "pr")
    assert "**Claimed:** `lint` (the recipe asks for a run)" in text
    assert "| `lint` | **failed** | a claim |" in text


def test_commits_have_their_subjects_and_tasks_and_those_of_no_task_are_named(dev_shop):
    keeper = dev_shop.keeper()
    run_git(dev_shop.root, "commit", "-q", "--allow-empty", "-m", "begin")
    state = keeper.start("custom", "x", tasks=["one"], again=True).state
    for subject in ("First | part", "Beside the work"):
        run_git(dev_shop.root, "commit", "-q", "--allow-empty", "-m", subject)
    keeper.complete_task(1, commit="HEAD~1", workflow=state["id"])
    report = keeper.report(workflow=state["id"])
    told = [(row["subject"], row["tasks"]) for row in report["commits"]]
    assert told == [("First | part", [1]), ("Beside the work", [])]
    text = rendered(report, "pr")
    assert "### Commits of no task" in text
    assert "Beside the work" in text


def test_a_folder_of_features_is_told_feature_by_feature(shop):
    run_git(shop.root, "commit", "-q", "--allow-empty", "-m", "begin")
    for name in ("a", "b"):
        shop.write(f"features/{name}.md", f"# Feature {name}\n\n- [ ] do {name}\n")
    keeper = shop.keeper()
    state = keeper.start("dev", "features").state
    keeper.evidence().run_gate("lint", PASSES)
    keeper.complete(force=True, reason="enough")
    report = keeper.report(workflow=state["id"])
    (first,) = report["earlier"]
    assert [task["description"] for task in first["tasks"]] == ["do a"]
    assert [task["description"] for task in report["tasks"]] == ["do b"]
    assert {gate["name"]: gate["result"] for gate in first["gates"]}["lint"] == "passed"
    text = rendered(report, "markdown")
    assert text.index("do b") < text.index("## Feature: Feature a") < text.index("do a")


@pytest.mark.parametrize("end", ["complete", "abandon"])
def test_an_ended_workflow_has_its_end_and_its_reason(dev_shop, end):
    keeper = dev_shop.keeper()
    state = keeper.show().state
    forced = {"force": True} if end == "complete" else {}
    getattr(keeper, end)(reason="out of time", **forced)
    report = keeper.report(workflow=state["id"])
    assert report["ended_at"] > report["started_at"]
    assert report["duration_ms"] > 0
    assert report["left"]["tasks"] == [1, 2]
    for form in ("markdown", "html", "pr"):
        assert "out of time" in rendered(report, form) or (form, end) == ("pr", "abandon")


def test_a_text_for_a_pull_request_always_fits(dev_shop):
    keeper = dev_shop.keeper()
    for start in range(0, 600, 100):
        keeper.add_tasks([f"{n} {'@a#1|`' * 300}" for n in range(start, start + 100)])
    keeper.rename("#1 " * 1_000)
    report = keeper.report()
    title, text = pull_request_form(report, MAX_BODY_CHARS)
    assert len(title) <= MAX_TITLE_CHARS
    assert 10_000 < len(text) <= MAX_BODY_CHARS
    assert re.search(r"- _\d+ more are left out here\._", text)
    for heading in ("### Claimed, waived", "### Evidence", "### Left", "digest of the gates"):
        assert heading in text
    for room in (2_000, 5_000, 20_000):
        short = pull_request_form(report, room)[1]
        assert len(short) <= room
        assert short.startswith(BEGIN)
        assert short.endswith(END)


def test_secrets_are_masked_in_every_text(dev_shop):
    token = f"ghp_{'a1' * 18}"
    keeper = dev_shop.keeper()
    keeper.add_task(f"Use {token}")
    keeper.set_context({"pr_url": token})
    report = keeper.report()
    assert token not in str(report)
    assert "[masked]" in str(report)


def test_patterns_of_the_settings_mask_a_report_too(dev_shop):
    dev_shop.write(".claude/holdfast.toml", "[mask]\npatterns = ['CUST-[0-9]{6}']\n")
    keeper = dev_shop.keeper()
    keeper.add_task("Ask CUST-123456")
    assert "CUST-123456" not in str(keeper.report())


def test_a_report_changes_nothing(dev_shop):
    keeper = dev_shop.keeper()
    before = [event["seq"] for event in keeper.log()]
    keeper.report()
    assert [event["seq"] for event in dev_shop.keeper().log()] == before


def test_the_digest_is_of_what_the_gates_rest_on(dev_shop):
    keeper = dev_shop.keeper()
    first = keeper.report()["digest"]
    keeper.remind("something")
    assert keeper.report()["digest"] == first
    keeper.evidence().run_gate("lint", PASSES)
    assert keeper.report()["digest"] != first


def test_who_did_how_much_is_told_by_session(dev_shop):
    dev_shop.keeper(session="s-2").add_task("more")
    who = {row["session"]: row["changes"] for row in dev_shop.keeper().report()["who"]}
    assert who[None] > 0
    assert who["s-2"] == 1


def test_a_break_is_written_as_an_entity(dev_shop):
    dev_shop.keeper().add_task("Ask @ada")
    text = rendered(dev_shop.keeper().report(), "markdown")
    assert BREAK not in text
    assert "Ask @&#8203;ada" in text
