"""The handbook as a static site in ``build/docs``: one template, one stylesheet, no script.

Its navigation is what ``docs/index.md`` lists. Links between pages lead to their HTML; those to
other files of the repository stay text, as the site stands alone.
"""

from __future__ import annotations

import html
import os
import shutil
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from handbook.links import ENTRANCE, target_of
from handbook.pages import DOCS, IN_HTML, ROOT, Heading, Page, every_file, parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

HERE = Path(__file__).resolve().parent
OUT = ROOT / "build" / "docs"
BESIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages at the repository's root that belong to the handbook too."""
COPIED = (".svg", ".png", ".json")
_FEW = 3
"""A page with so few sections needs no list of them."""


def shown() -> str:
    return os.path.relpath(OUT, ROOT)


def place_of(path: Path) -> Path | None:
    """Where the HTML of a Markdown file goes, from the site's root; nothing for others."""
    if path.suffix != ".md":
        return None
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).with_suffix(".html")
    return Path("about", path.stem.lower() + ".html") if path in _beside() else None


def _beside() -> list[Path]:
    return [ROOT / name for name in BESIDE if (ROOT / name).exists()]


def build(out: Path | None = None) -> int:
    """Builds the site anew; says how many pages it has."""
    out = out or OUT
    shutil.rmtree(out, ignore_errors=True)
    found = [Page(path) for path in (*every_file("docs/*.md"), *_beside())]
    template = Template((HERE / "page.html").read_text("utf-8"))
    navigation = list(_navigation(Page(ENTRANCE)))
    for page in found:
        place = place_of(page.path)
        assert place is not None
        target = out / place
        assert not target.exists(), f"two pages are {place}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_page(page, place, template, navigation), "utf-8")
    shutil.copy(HERE / "style.css", out / "style.css")
    for suffix in COPIED:
        for path in every_file(f"docs/*{suffix}"):
            target = out / path.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return len(found)


def _page(page: Page, place: Path, template: Template, navigation: list[tuple[str, Any]]) -> str:
    up = "../" * (len(place.parts) - 1)
    sections = [heading for heading in page.headings if heading.level == 2]
    return template.substitute(
        title=html.escape(page.title),
        root=up,
        navigation=_menu(navigation, place, up),
        contents=_contents(sections) if len(sections) > _FEW else "",
        body=_renderer(page, place).render(page.text),
    )


def _navigation(entrance: Page) -> Iterator[tuple[str, list[tuple[str, Path]]]]:
    """The headings of the entrance, each with the pages that are listed below it."""
    title = ""
    listed: list[tuple[str, Path]] = []
    for number, token in enumerate(entrance.tokens):
        if token.type == "heading_open" and token.tag == "h2":
            if listed:
                yield title, listed
            title, listed = entrance.tokens[number + 1].content, []
        for name, target in _first_links(token):
            found = target_of(entrance, target)
            place = place_of(found[0]) if found else None
            if place is not None:
                listed.append((name, place))
    if listed:
        yield title, listed


def _first_links(token: Token) -> Iterator[tuple[str, str]]:
    """The link that a line begins with."""
    children = token.children or []
    if children and children[0].type == "link_open":
        yield children[1].content, str(children[0].attrGet("href"))


def _menu(navigation: list[tuple[str, Any]], here: Path, up: str) -> str:
    parts = []
    for title, listed in navigation:
        if title:
            parts.append(f"<h2>{html.escape(title)}</h2>")
        parts.append("<ul>")
        for name, place in listed:
            mark = ' aria-current="page"' if place == here else ""
            parts.append(f'<li><a href="{up}{place.as_posix()}"{mark}>{html.escape(name)}</a></li>')
        parts.append("</ul>")
    return "\n".join(parts)


def _contents(sections: list[Heading]) -> str:
    rows = "\n".join(
        f'<li><a href="#{heading.anchor}">{html.escape(heading.text)}</a></li>'
        for heading in sections
    )
    title = "<h2>On this page</h2>"
    return f'<nav class="contents" aria-label="On this page">{title}<ul>{rows}</ul></nav>'


def _renderer(page: Page, place: Path) -> MarkdownIt:
    made = parser()
    anchors = iter([heading.anchor for heading in page.headings])

    def heading(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        tokens[at].attrSet("id", next(anchors))
        return str(renderer.renderToken(tokens, at, options, env))

    def link(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        target = _link(page, place, str(tokens[at].attrGet("href")))
        tokens[at].attrSet("href", target)
        return str(renderer.renderToken(tokens, at, options, env))

    def image(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        tokens[at].attrSet("src", _link(page, place, str(tokens[at].attrGet("src"))))
        return str(renderer.image(tokens, at, options, env))

    def written(_renderer: Any, tokens: list[Token], at: int, _options: Any, _env: Any) -> str:
        return IN_HTML.sub(lambda found: f'{found[1]}"{_link(page, place, found[2])}"',
                           tokens[at].content)  # fmt: skip

    made.add_render_rule("html_block", written)
    made.add_render_rule("html_inline", written)
    made.add_render_rule("heading_open", heading)
    made.add_render_rule("link_open", link)
    made.add_render_rule("image", image)
    made.add_render_rule("fence", _fence)
    made.add_render_rule("code_block", _fence)
    made.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    made.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return made


def _link(page: Page, place: Path, link: str) -> str:
    """The link as it stands in the site."""
    found = target_of(page, link)
    if found is None:
        return link
    where, anchor = found
    if where.is_dir():
        where /= "README.md"
    target = place_of(where)
    if target is None and where.is_relative_to(DOCS):
        target = where.relative_to(DOCS)
    if target is None:
        return "#" + anchor
    way = os.path.relpath(target, place.parent)
    return f"{way}#{anchor}" if anchor else way


def _fence(_renderer: Any, tokens: list[Token], at: int, _options: Any, _env: Any) -> str:
    """A block of code, with colours where its language is known."""
    language = tokens[at].info.strip()
    text = tokens[at].content
    try:
        lexer = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        lexer = None
    inner = highlight(text, lexer, HtmlFormatter(nowrap=True)) if lexer else html.escape(text)
    return f'<pre tabindex="0"><code>{inner}</code></pre>\n'
