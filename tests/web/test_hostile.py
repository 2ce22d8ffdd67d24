"""A hostile repository's strings stay text on every page, whatever field they are in."""

import json
import os
from html.parser import HTMLParser

import pytest

from holdfast import Initiatives, Keeper, Loops, Refused
from holdfast.core.visible import clean
from promises.hostile import HOSTILE, is_allowed
from support.command_line import Folder, clean_environment
from support.git_template import make_repository, run_git
from support.web_site import WebSite, quoted
from support.workshop import sampled

MARKUP = {
    "script": "<script>alert(1)</script>",
    "out of an attribute": "\" onmouseover=\"alert(1)\" x=\"' onfocus='alert(1)' autofocus y='",
    "picture": "<img src=x onerror=alert(1)>",
    "out of a tag": "--></title></style></textarea></pre><svg onload=alert(1)>",
    "address": "javascript:alert(1)//https://evil.example/",
    "template": "{{ 7 * 7 }}{% raw %}{# #}${7*7}#{7}",
    "entity": "&lt;script&gt;&#60;b&#62;&amp;quot;",
    "base": "<base href=//evil.example><link rel=stylesheet href=//evil.example>",
    "form": "</form><form action=//evil.example><button>Approve",
    "event stream": "data: x\n\nevent: changed\ndata: {}",
}
HOSTILE_TEXTS = {**MARKUP, **HOSTILE}
ALL = {"plain": "plain text"}
ALL |= {kind: HOSTILE_TEXTS[kind] for kind in sampled(HOSTILE_TEXTS, 24, "pages")}
NOWHERE = ("too long",)
"""Texts that every field refuses."""
PAGES = ("", "/history", "/briefing", "/at", "/at?n=1", "/at?n=9")


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, its links, and its text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.links, self.text = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        for name, value in attrs:
            if name in ("href", "src", "action", "content"):
                self.links.append(value)
            self.text += f" {value}" if name == "title" else ""

    def handle_data(self, data):
        self.text += data


def _try(change, *arguments, **options):
    """Carry out a change; a text that is refused is stored nowhere."""
    try:
        return change(*arguments, **options)
    except Refused:
        return None


def fill(root, text):
    """Put a text into every field that strangers can fill, through the library."""
    make_repository(root, committed=True)
    keeper = Keeper(root, session="session-1")
    run_git(root, "switch", "-q", "-c", "work")
    keeper.start("dev", "harmless", tasks=["harmless"])
    name = keeper.show().state["id"]
    target = {"workflow": name}
    _try(keeper.rename, text, **target)
    _try(keeper.edit_task, 1, text, **target)
    _try(keeper.remind, text, **target)
    _try(keeper.set_context, {"key": text}, **target)
    _try(keeper.require_reading, f"@{text}", **target)
    _try(keeper.ask, text, [text, "no"], **target)
    evidence = keeper.evidence()
    _try(evidence.add_violation, "V-1", "HIGH", text, **target)
    printing = ["sh", "-c", 'printf "%s\\n" "$1" "$1"', "sh", text]
    _try(evidence.run_gate, "lint", printing, **target)
    _try(evidence.record_tests, text, failing=[text], error=text, **target)
    _try(keeper.block_task, 1, text, **target)
    _try(keeper.block_phase, "load_feature", {"reason": text}, **target)
    _try(keeper.remember, text)
    keeper.start("planning", "other")
    _try(keeper.rename, text, workflow="other")
    _try(keeper.abandon, text, workflow="other")
    _try(Initiatives(keeper).create, text, [f"M1: {text}"])
    loops = Loops(keeper)
    loops.new("loop", task="harmless")
    _try(loops.plan, "loop", f"T1: {text}", criteria=text)
    _try(loops.iterate, "T1", did=text, remaining=text, blocked=text, slug="loop")
    return name


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("web")
    (root / "home").mkdir()
    environment = clean_environment(root / "home")
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(root / "home" / ".local" / "state"))
        for number, (kind, text) in enumerate(ALL.items()):
            names[kind] = fill(str(root / f"project-{number:02}"), text)
    with WebSite(Folder(root, environment)) as site:
        site.visitor_of_all = site.visitor()
        site.names = names
        board = site.visitor_of_all.get("/").text
        keys = [key for key in Skeleton(board).links if key.startswith("/?repository=")]
        site.keys = dict(zip(ALL, dict.fromkeys(keys), strict=True))
        yield site


def pages_of(site, kind):
    """Yield each page of a repository, by its name."""
    visitor = site.visitor_of_all
    board = site.keys[kind]
    yield "board", visitor.get(board)
    key = board.partition("=")[2]
    for name in (site.names[kind], "other", "loop"):
        for page in PAGES:
            path = f"/w/{key}/{quoted(name)}{page}"
            label = name if name in ("other", "loop") else "dev"
            yield label + page, visitor.get(path)
        path = f"/w/{key}/{quoted(name)}/compare?a=1&b=12"
        yield f"{name[:3]} compare", visitor.get(path)


@pytest.mark.parametrize("kind", ALL)
def test_a_text_in_every_field_is_shown_as_text(site, kind):
    shown = ""
    for name, answer in pages_of(site, kind):
        assert answer.status in (200, 404), (name, answer)
        page = Skeleton(answer.text)
        assert answer.text.count("<script") == 1, name
        bad = [
            (tag, attribute)
            for tag, attributes in page.elements
            for attribute in attributes
            if attribute.startswith("on") or attribute in ("style", "srcdoc", "formaction")
        ]
        assert bad == [], name
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"img", "iframe", "object", "embed", "base", "style", "textarea"}, name
        for link in page.links:
            is_own = link.startswith("/") and not link.startswith(("//", "/\\"))
            assert is_own or link.startswith(("#", "width=", "light ")), (name, link)
        hidden = {f"U+{ord(char):04X}" for char in answer.text if not is_allowed(char)}
        assert hidden == set(), (name, hidden)
        shown += page.text
    first = clean(ALL[kind].split("\n")[0])[:200]
    assert kind in NOWHERE or first in shown, (kind, first)


@pytest.mark.parametrize("kind", [kind for kind in MARKUP if kind in ALL])
def test_markup_in_a_text_adds_no_element_to_a_page(site, kind):
    plain = {name: Skeleton(answer.text).elements for name, answer in pages_of(site, "plain")}
    for name, answer in pages_of(site, kind):
        tags = [tag for tag, _ in Skeleton(answer.text).elements]
        if plain.get(name):
            expected = [tag for tag, _ in plain[name]]
            assert len(tags) <= len(expected) + 8, name
            assert set(tags) <= set(expected), (name, set(tags) - set(expected))


def test_a_hostile_search_is_shown_as_text(site):
    for text in MARKUP.values():
        answer = site.visitor_of_all.get(f"/search?q={quoted(text)}")
        page = Skeleton(answer.text)
        assert answer.status in (200, 409), answer
        assert answer.text.count("<script") == 1
        assert not {tag for tag, _ in page.elements} & {"img", "base", "iframe"}


def test_a_record_that_came_with_a_clone_is_shown_as_text(tmp_path):
    """Its id, its path, its phases and its fields are all a stranger's."""
    (tmp_path / "home").mkdir()
    place = Folder(tmp_path, clean_environment(tmp_path / "home")).at("clone")
    make_repository(place.path, committed=True)
    evil = MARKUP["script"]
    name = '"><script>alert(1)<'
    record = {
        "name": evil, "phase": evil, "status": evil, "title": evil, "created": evil,
        "phases": [{"name": evil, "status": "in_progress"}],
        "gates": {evil: {"status": evil, "evidence": evil, "output_tail": evil}},
    }  # fmt: skip
    for folder in ("untracked/workflow-state/evil", ".claude/workflow-state/active"):
        os.makedirs(os.path.join(place.path, folder))
        for file in (f"state-evil-{name.replace('/', '')}.json", "dev-12345678.json"):
            with open(os.path.join(place.path, folder, file), "w", encoding="utf-8") as out:
                json.dump(record, out)
    place.ok("remember", "harmless")
    place.run("status")
    with WebSite(place) as site:
        answer = site.visitor().get("/")
        _, _, errors = site.end()
    assert (answer.status, errors) == (200, "")
    assert answer.text.count("<script") == 1
