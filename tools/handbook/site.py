"""The handbook as a static site in ``build/docs``: one template, one stylesheet, no script.

Its navigation is what ``docs/index.md`` lists. Links between pages lead to their HTML; those to
other files of the repository stay text, because the site does not have them.
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
_MAX_UNLISTED_SECTIONS = 3
"""A page with at most this many sections has no table of contents."""


def relative_folder() -> str:
    return os.path.relpath(OUT, ROOT)


def html_path_of(path: Path) -> Path | None:
    """Return the path of a page's HTML in the site; ``None`` for other files."""
    if path.suffix != ".md":
        return None
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).with_suffix(".html")
    return Path("about", path.stem.lower() + ".html") if path in _beside() else None


def _beside() -> list[Path]:
    return [ROOT / name for name in BESIDE if (ROOT / name).exists()]


def build(out: Path | None = None) -> int:
    """Build the site anew; return the number of its pages."""
    out = out or OUT
    shutil.rmtree(out, ignore_errors=True)
    pages = [Page(path) for path in (*every_file("docs/*.md"), *_beside())]
    template = Template((HERE / "page.html").read_text("utf-8"))
    navigation = list(_navigation(Page(ENTRANCE)))
    for page in pages:
        html_path = html_path_of(page.path)
        assert html_path is not None
        target = out / html_path
        assert not target.exists(), f"two pages are {html_path}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_page(page, html_path, template, navigation), "utf-8")
    shutil.copy(HERE / "style.css", out / "style.css")
    for suffix in COPIED:
        for path in every_file(f"docs/*{suffix}"):
            target = out / path.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return len(pages)


def _page(
    page: Page, html_path: Path, template: Template, navigation: list[tuple[str, Any]]
) -> str:
    up = "../" * (len(html_path.parts) - 1)
    sections = [heading for heading in page.headings if heading.level == 2]
    return template.substitute(
        title=html.escape(page.title),
        root=up,
        navigation=_menu(navigation, html_path, up),
        contents=_contents(sections) if len(sections) > _MAX_UNLISTED_SECTIONS else "",
        body=_renderer(page, html_path).render(page.text),
    )


def _navigation(entrance: Page) -> Iterator[tuple[str, list[tuple[str, Path]]]]:
    """Yield the headings of the entrance, each with the pages that are listed below it."""
    title = ""
    links: list[tuple[str, Path]] = []
    for number, token in enumerate(entrance.tokens):
        if token.type == "heading_open" and token.tag == "h2":
            if links:
                yield title, links
            title, links = entrance.tokens[number + 1].content, []
        for name, target in _first_links(token):
            resolved = target_of(entrance, target)
            html_path = html_path_of(resolved[0]) if resolved else None
            if html_path is not None:
                links.append((name, html_path))
    if links:
        yield title, links


def _first_links(token: Token) -> Iterator[tuple[str, str]]:
    """Yield name and target of the link that a line begins with, if any."""
    children = token.children or []
    if children and children[0].type == "link_open":
        yield children[1].content, str(children[0].attrGet("href"))


def _menu(navigation: list[tuple[str, Any]], here: Path, up: str) -> str:
    parts = []
    for title, links in navigation:
        if title:
            parts.append(f"<h2>{html.escape(title)}</h2>")
        parts.append("<ul>")
        for name, html_path in links:
            mark = ' aria-current="page"' if html_path == here else ""
            address = f"{up}{html_path.as_posix()}"
            parts.append(f'<li><a href="{address}"{mark}>{html.escape(name)}</a></li>')
        parts.append("</ul>")
    return "\n".join(parts)


def _contents(sections: list[Heading]) -> str:
    rows = "\n".join(
        f'<li><a href="#{heading.anchor}">{html.escape(heading.text)}</a></li>'
        for heading in sections
    )
    title = "<h2>On this page</h2>"
    return f'<nav class="contents" aria-label="On this page">{title}<ul>{rows}</ul></nav>'


def _renderer(page: Page, html_path: Path) -> MarkdownIt:
    markdown = parser()
    anchors = iter([heading.anchor for heading in page.headings])

    def heading(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        tokens[at].attrSet("id", next(anchors))
        return str(renderer.renderToken(tokens, at, options, env))

    def link(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        target = _link(page, html_path, str(tokens[at].attrGet("href")))
        tokens[at].attrSet("href", target)
        return str(renderer.renderToken(tokens, at, options, env))

    def image(renderer: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
        tokens[at].attrSet("src", _link(page, html_path, str(tokens[at].attrGet("src"))))
        return str(renderer.image(tokens, at, options, env))

    def written(_renderer: Any, tokens: list[Token], at: int, _options: Any, _env: Any) -> str:
        return IN_HTML.sub(lambda match: f'{match[1]}"{_link(page, html_path, match[2])}"',
                           tokens[at].content)  # fmt: skip

    markdown.add_render_rule("html_block", written)
    markdown.add_render_rule("html_inline", written)
    markdown.add_render_rule("heading_open", heading)
    markdown.add_render_rule("link_open", link)
    markdown.add_render_rule("image", image)
    markdown.add_render_rule("fence", _fence)
    markdown.add_render_rule("code_block", _fence)
    markdown.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return markdown


def _link(page: Page, html_path: Path, link: str) -> str:
    """Return a link of a page as it has to be in the site."""
    resolved = target_of(page, link)
    if resolved is None:
        return link
    where, anchor = resolved
    if where.is_dir():
        where /= "README.md"
    target = html_path_of(where)
    if target is None and where.is_relative_to(DOCS):
        target = where.relative_to(DOCS)
    if target is None:
        return "#" + anchor
    way = os.path.relpath(target, html_path.parent)
    return f"{way}#{anchor}" if anchor else way


def _fence(_renderer: Any, tokens: list[Token], at: int, _options: Any, _env: Any) -> str:
    """Render a block of code, with colours if its language is known."""
    language = tokens[at].info.strip()
    text = tokens[at].content
    try:
        lexer = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        lexer = None
    inner = highlight(text, lexer, HtmlFormatter(nowrap=True)) if lexer else html.escape(text)
    return f'<pre tabindex="0"><code>{inner}</code></pre>\n'
