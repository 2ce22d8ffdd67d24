"""Render a document as one HTML file that needs nothing else: no script, no address, no picture."""

from __future__ import annotations

from html import escape

from holdfast.answers.documents import Bullets, Code, Heading, Paragraph, Strong, Table
from holdfast.core.visible import clean, folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.answers.documents import Part, Span, Spans

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem }}
body {{ margin: 2rem auto; padding: 0 1rem }}
h2 {{ margin-top: 2rem; border-bottom: 1px solid #8888 }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse }}
th, td {{ border: 1px solid #8888; padding: .3rem .6rem; text-align: left; vertical-align: top }}
p, li {{ overflow-wrap: anywhere }}
td {{ min-width: 4rem; max-width: 24rem; overflow-wrap: break-word }}
code {{ font: .9em ui-monospace, monospace }}
</style>
</head>
<body>
<main>
"""
_FOOT = "</main>\n</body>\n</html>\n"


def html(blocks: Sequence[Part]) -> str:
    """Return a document as a page; its title is that of its first heading."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    return _HEAD.format(title=_text(title)) + "".join(map(_block, blocks)) + _FOOT


def _text(text: object) -> str:
    """Return any text as one line of HTML that shows it."""
    return escape(clean(folded(str(text))))


def _spans(spans: Spans) -> str:
    return " ".join(map(_span, spans))


def _span(span: Span) -> str:
    if isinstance(span, Strong):
        return f"<strong>{_text(span.text)}</strong>"
    return f"<code>{_text(span.text)}</code>" if isinstance(span, Code) else _text(span)


def _block(block: Part) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_text(block.text)}</h{block.level}>\n"
    if isinstance(block, Paragraph):
        return f"<p>{_spans(block.spans)}</p>\n"
    if isinstance(block, Bullets):
        return "<ul>\n" + "".join(f"<li>{_spans(row)}</li>\n" for row in block.rows) + "</ul>\n"
    if isinstance(block, Table) and block.rows:
        head = "".join(f'<th scope="col">{_text(name)}</th>' for name in block.header)
        rows = "".join(map(_row, block.rows))
        return (
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{rows}</tbody>\n</table></div>\n"
        )
    return ""


def _row(row: Sequence[Spans]) -> str:
    return "<tr>" + "".join(f"<td>{_spans(cell)}</td>" for cell in row) + "</tr>\n"
