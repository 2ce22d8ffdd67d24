"""The page in a real Chromium: live, by keyboard, in both colour schemes, and on a phone."""

import json
import os
import re
import sys
from itertools import pairwise

import pytest

from support.browser import Browser
from support.command_line import Folder, clean_environment
from support.pseudoterminal import Pseudoterminal, skip_below_client
from support.web_site import WebSite
from support.web_stage import Stage

LOGIN = "Sign in with a one-time code"
READY = "document.querySelector('#main') && document.readyState === 'complete'"
LIVE = "document.querySelector('#live.is-on') !== null"

CONTRASTS = """
(() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a),
    g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a),
    a: 1,
  });
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    const grounds = [];
    for (let at = element; at; at = at.parentElement) {
      grounds.push(parse(getComputedStyle(at).backgroundColor));
    }
    return grounds.reverse().reduce((below, top) => over(top, below), parse("rgb(255,255,255)"));
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const has = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!has || !element.checkVisibility() || element.closest(".unseen, dialog, .skip")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const [one, other] = [light(over(parse(style.color), below)), light(below)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) {
      found.push([element.textContent.trim().slice(0, 40), element.className, ratio.toFixed(2)]);
    }
  }
  return found;
})()
"""
"""Lists the visible texts whose contrast with what is behind them is less than 4.5."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    root = tmp_path_factory.mktemp("stage")
    (root / "home").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(root / "home" / ".local" / "state"))
        Stage(root / "home").fill()
    return Folder(root / "home" / "shop", clean_environment(root / "home"))


@pytest.fixture(scope="module")
def site(stage):
    with WebSite(stage) as site:
        yield site


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium, site):
    """A browser that was let in, at the board."""
    chromium.prefer("light")
    chromium.resize(1280, 900)
    chromium.events.clear()
    enter(chromium, site.address)
    yield chromium
    assert chromium.problems() == []
    own = (f"http://127.0.0.1:{site.port}/", "about:", "data:")
    assert [url for url in chromium.requested() if not url.startswith(own)] == []
    dialogs = [e for e in chromium.events if e["method"] == "Page.javascriptDialogOpening"]
    assert dialogs == []


def enter(browser, address):
    browser.go(address)
    browser.wait_for(f"location.search === '' && {READY}")
    browser.wait_for(LIVE)


def open_page(browser, end=""):
    """Open the page of the workflow LOGIN, or a part of it; return its path."""
    links = "[...document.querySelectorAll('.card h4 a')]"
    path = browser.wait_for(f"{links}.find((a) => a.textContent === {json.dumps(LOGIN)})?.pathname")
    origin = browser.value("location.origin")
    browser.go(f"{origin}{path}{end}")
    return path


def text(browser, selector="#main"):
    return browser.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def login_of(stage):
    rows = stage.ok("status", "--all")["workflows"]
    return next(row["id"] for row in rows if row["title"] == LOGIN)


def test_the_board_shows_what_is_going_on_and_the_address_has_no_token_any_more(browser, site):
    shown = text(browser)
    for part in (
        LOGIN,
        "Idempotent charges",
        "payments-api",
        "Faster checkout",
        "Limit by account",
    ):
        assert part in shown, part
    assert site.token not in browser.value("document.documentElement.outerHTML + location.href")
    kinds = "[...document.querySelectorAll('.card .gate')].map((gate) => gate.className)"
    assert {"gate is-evidence", "gate is-claim", "gate is-waived", "gate is-failed"} <= set(
        browser.value(kinds)
    )
    assert browser.value("document.title").endswith("Board · Holdfast")


def test_a_change_in_the_terminal_appears_by_itself_and_disturbs_nothing(browser, stage):
    open_page(browser)
    browser.wait_for(LIVE)
    browser.value("window.isStillThis = true")
    browser.click("#add-reminder")
    browser.type("half a sentence")
    browser.value("document.querySelector('.gate-rows details.output').open = true")
    stage.ok("task", "add", "A task of the terminal", "-w", login_of(stage))
    browser.wait_for(
        "document.querySelector('.tasks').innerText.includes('A task of the terminal')"
    )
    assert browser.value("document.getElementById('add-reminder').value") == "half a sentence"
    assert browser.value("document.activeElement.id") == "add-reminder"
    assert browser.value("document.querySelector('.gate-rows details.output').open")
    assert browser.value("window.isStillThis"), "the page was loaded again as a whole"


def test_an_answer_that_is_half_written_is_never_sent_to_another_question(browser, stage):
    name = login_of(stage)
    for question in ("First?", "Second?"):
        stage.ok("ask", question, "-w", name)
    asked = {one["text"]: str(one["id"]) for one in stage.state(name)["questions"]}
    open_page(browser)
    first = f"#wait-question-{asked['First?']}"
    browser.value(f"document.querySelector('{first} details').open = true")
    browser.click(f"{first} input[name=text]")
    browser.type("Yes, but")
    stage.ok("answer", asked["First?"], "Of course", "-w", name)
    browser.wait_for("document.querySelector('.questions')?.innerText.includes('Of course')")
    assert "First?" in text(browser, first)
    assert browser.value(f"document.querySelector('{first} input[name=text]').value") == "Yes, but"
    browser.press("Enter")
    browser.wait_for(f"document.querySelector('.said.is-bad') !== null && {READY}")
    answers = {one["text"]: one.get("answer") for one in stage.state(name)["questions"]}
    assert (answers["First?"], answers["Second?"]) == ("Of course", None)
    stage.ok("ask", "--withdraw", asked["Second?"], "-w", name)


def test_the_board_moves_a_workflow_by_itself(browser, stage):
    browser.value("window.isStillThis = true")
    stage.ok("remind", "Seen on the board", "-w", login_of(stage))
    browser.wait_for("document.querySelector('.events').innerText.includes('Seen on the board')")
    assert browser.value("window.isStillThis")


def test_everything_is_reached_by_keys(browser):
    browser.press("j")
    first = browser.value("document.activeElement.id")
    assert first.startswith("wait-")
    browser.press("j")
    assert browser.value("document.activeElement.id") != first
    browser.press("k")
    assert browser.value("document.activeElement.id") == first
    browser.press("l")
    assert browser.value("document.activeElement.id").startswith("card-")
    browser.press("?")
    assert browser.value("document.getElementById('keys').open")
    browser.press("Escape")
    browser.wait_for("!document.getElementById('keys').open")
    browser.press("/")
    assert browser.value("document.activeElement.id") == "find"
    browser.press("Escape")
    browser.press("l")
    browser.press("h")
    browser.press("l")
    browser.press("Enter")
    browser.wait_for(f"location.pathname.startsWith('/w/') && {READY}")
    for key, end in (("2", "/history"), ("3", "/briefing"), ("4", "/at")):
        browser.press(key)
        browser.wait_for(f"location.pathname.endsWith('{end}') && {READY}")
    before = text(browser, "#moment-title")
    browser.press("[")
    browser.wait_for(f"document.querySelector('#moment-title')?.innerText !== {json.dumps(before)}")
    browser.wait_for(READY)
    browser.press("]")
    browser.wait_for(f"document.querySelector('#moment-title')?.innerText === {json.dumps(before)}")
    browser.wait_for(READY)
    browser.press("b")
    browser.wait_for(f"location.pathname === '/' && {READY}")


def test_a_reminder_is_added_by_keys_alone(browser, stage):
    open_page(browser)
    browser.value("document.getElementById('add-reminder').focus()")
    browser.type("Typed in the browser")
    browser.press("Enter")
    browser.wait_for(f"document.querySelector('.said.is-good') !== null && {READY}")
    assert "Typed in the browser" in text(browser, ".reminders")
    assert "Typed in the browser" in stage.state(login_of(stage))["reminders"]


def test_a_question_of_an_agent_is_answered_with_a_click(browser, stage):
    open_page(browser)
    browser.click(".waits form button")
    browser.wait_for(f"document.querySelector('.said.is-good') !== null && {READY}")
    question = stage.state(login_of(stage))["questions"][0]
    assert (question["status"], question["answer"]) == ("answered", "Yes")


def test_a_refusal_is_told_on_the_page(browser):
    open_page(browser)
    browser.value("document.querySelector('.do .is-danger').open = true")
    browser.value("document.querySelector('.do .is-danger form').action += 'x'")
    browser.click(".do .is-danger input[name=text]")
    browser.type("no")
    browser.press("Enter")
    browser.wait_for(f"document.querySelector('.stop') !== null && {READY}")
    assert "there is no action" in text(browser).lower()
    browser.events[:] = [e for e in browser.events if e["method"] != "Log.entryAdded"]


def test_time_travel_shows_an_earlier_state_and_what_changed(browser):
    path = open_page(browser, "/at?n=1")
    assert "This event changed" in text(browser)
    assert "1/" in text(browser, ".steps")
    browser.value("document.getElementById('travel').value = 12")
    browser.value("document.getElementById('travel').dispatchEvent(new Event('change'))")
    browser.wait_for(f"location.search === '?n=12' && {READY}")
    assert text(browser, ".steps .count").startswith("12/")
    browser.click(".steps a[href*=compare]")
    browser.wait_for(f"location.pathname === '{path}/compare' && {READY}")
    assert browser.value("document.querySelectorAll('.changes li').length") > 3


def test_the_arrow_keys_travel_from_event_to_event(browser):
    open_page(browser, "/at?seq=1")
    begun = int(browser.value("document.getElementById('travel').value"))
    browser.value("document.getElementById('travel').focus()")
    for number in (begun + 1, begun + 2):
        browser.press("ArrowRight")
        browser.wait_for(f"location.search === '?n={number}' && {READY}")
        browser.wait_for("document.activeElement.id === 'travel'")


def test_a_search_finds_words_and_marks_them(browser):
    browser.press("/")
    browser.type("password")
    browser.press("Enter")
    browser.wait_for(f"location.pathname === '/search' && {READY}")
    assert browser.value("document.querySelector('mark').textContent.toLowerCase()") == "password"
    browser.press("j")
    browser.press("Enter")
    browser.wait_for(f"location.pathname.endsWith('/at') && {READY}")


PAGES = ("", "/history", "/briefing", "/at", "/compare?a=1&b=40")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_that_wcag_aa_asks_for(browser, scheme):
    browser.prefer(scheme)
    assert browser.value(CONTRASTS) == []
    assert text(browser)
    for end in PAGES:
        open_page(browser, end)
        assert browser.value(CONTRASTS) == [], end
        browser.go(browser.value("location.origin"))
    for path in ("/pair", "/search?q=password", "/nowhere"):
        browser.go(browser.value("location.origin") + path)
        assert browser.value(CONTRASTS) == [], path
    browser.events[:] = [e for e in browser.events if e["method"] != "Log.entryAdded"]


def test_a_long_choice_of_a_question_fits_a_phone(browser, stage):
    choice = "Amazon SES with its own addresses in two regions and a plan of six weeks, " + "x" * 90
    login = login_of(stage)
    stage.ok("ask", "Which one?", "--choice", choice, "-w", login)
    browser.resize(320, 800, is_phone=True)
    browser.wait_for(f"document.querySelector('main').innerText.includes({json.dumps(choice)})")
    assert browser.value("document.documentElement.scrollWidth") <= 320
    open_page(browser)
    assert choice in text(browser)
    assert browser.value("document.documentElement.scrollWidth") <= 320
    number = stage.state(login)["questions"][-1]["id"]
    stage.ok("ask", "--withdraw", str(number), "-w", login)


def test_no_name_of_a_phase_is_torn_apart(browser):
    browser.resize(1280, 900)
    names = "[...document.querySelectorAll('.course span')]"
    torn = f"{names}.filter((name) => name.getClientRects().length > 1).map((n) => n.innerText)"
    for width in (1280, 1130, 700, 390, 320):
        browser.resize(width, 900)
        assert browser.value(f"{names}.length") > 3
        assert browser.value(torn) == [], width


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_is_wider_than_a_phone(browser, width):
    browser.resize(width, 800, is_phone=True)
    wide = "document.documentElement.scrollWidth"
    browser.go(browser.value("location.origin"))
    assert browser.value(wide) <= width
    for end in PAGES:
        open_page(browser, end)
        assert browser.value(wide) <= width, end
        browser.go(browser.value("location.origin"))


NAMELESS = ("link", "button", "textbox", "searchbox", "slider", "heading", "navigation", "list")


def test_whoever_hears_the_page_hears_what_everything_is(browser):
    for end in (None, *PAGES):
        if end is not None:
            open_page(browser, end)
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        heard = [node for node in nodes if not node.get("ignored")]
        roles = [node["role"]["value"] for node in heard]
        assert roles.count("main") == 1, end
        assert roles.count("banner") == 1, end
        assert roles.count("search") == 1, end
        for node in heard:
            role = node["role"]["value"]
            if role in NAMELESS and role != "list":
                assert node.get("name", {}).get("value", "").strip(), (end, role, node)
        levels = browser.value(
            "[...document.querySelectorAll('main h1, main h2, main h3, main h4')]"
            ".map((heading) => Number(heading.tagName[1]))"
        )
        assert levels[0] == 1, end
        steps = pairwise(levels)
        assert all(after - before <= 1 for before, after in steps), (end, levels)
        browser.go(browser.value("location.origin"))


def test_a_server_that_ended_is_told_and_one_that_lives_is_live(browser, stage):
    with WebSite(stage) as other:
        enter(browser, other.address)
        assert text(browser, "#live") == "live"
        other.end()
    browser.wait_for("document.querySelector('#live').innerText === 'not live'")
    browser.events.clear()  # The browser complains that nobody answers.


def test_a_page_of_a_repository_that_is_gone_says_so(browser, stage):
    links = "[...document.querySelectorAll('.card h4 a')]"
    title = "A link checker that follows redirects"
    path = browser.value(f"{links}.find((a) => a.textContent === {json.dumps(title)}).pathname")
    browser.go(browser.value("location.origin") + path)
    browser.wait_for(LIVE)
    assert browser.value("document.getElementById('outdated').hidden")
    browser.value("document.getElementById('add-task').focus()")
    browser.type("half written")
    site = os.path.join(os.path.dirname(stage.path), "docs-site")
    os.rename(site, f"{site}.away")
    try:
        browser.wait_for("!document.getElementById('outdated').hidden")
        assert "docs-site is gone" in text(browser, "#outdated")
        assert browser.value("document.getElementById('add-task').value") == "half written"
    finally:
        os.rename(f"{site}.away", site)
    browser.wait_for("document.getElementById('outdated').hidden")
    browser.events.clear()  # The browser complains of the answers that were errors.


def test_a_person_pairs_the_browser_and_approves(stage, tmp_path):
    skip_below_client()
    command = [sys.executable, "-m", "holdfast", "web", "--no-open"]
    with Pseudoterminal(command, stage.path, stage.environment, columns=120) as terminal:
        terminal.wait_for("Ctrl-C ends it.")
        code = re.search(r"there once: (\S+)", terminal.text)[1]
        with Browser(tmp_path) as browser:
            enter(browser, terminal.text.splitlines()[0])
            browser.click(".waits .needs-pair")
            browser.wait_for(f"document.activeElement?.id === 'code' && {READY}")
            browser.type(code.lower())
            browser.press("Enter")
            browser.wait_for(f"document.querySelector('p.person') !== null && {READY}")
            browser.click(".waits .is-approve button")
            browser.wait_for(
                "document.querySelector('.said.is-good')?.innerText.includes('approved')"
            )
            assert browser.problems() == []
        terminal.press(b"\x03")
        assert terminal.ended() == 0
    events = stage.ok("log", "--type", "phase_approved")["events"]
    assert [(event["stream"], event["by"]["surface"]) for event in events] == [
        ("one-page-checkout", "web")
    ]


def test_pictures_of_the_page_can_be_taken(browser, tmp_path):
    for name, scheme in (("light", "light"), ("dark", "dark")):
        browser.prefer(scheme)
        browser.screenshot(str(tmp_path / f"{name}.png"))
        assert os.path.getsize(tmp_path / f"{name}.png") > 20_000
