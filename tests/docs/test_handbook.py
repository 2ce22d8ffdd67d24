"""The documentation is sound (``make docs``), and each of its checks can fail."""

import ast
import re

import pytest

from handbook import __main__ as handbook
from handbook import answers, api, covered, declared, links, pages, site

DOCS = pages.DOCS
LIBRARY = (
    *("Keeper", "Evidence", "Initiatives", "Interviews", "Delegations", "Loops", "Memory"),
    *("Pool", "Sharing"),
)
each_check = pytest.mark.parametrize("says", handbook.CHECKS)


@each_check
def test_the_documentation_is_sound(says):
    assert list(handbook.CHECKS[says](pages.of_repository())) == []


def a_page(tmp_path, text, name="page.md"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return pages.Page(path)


# Links


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("nowhere.md", "leads nowhere"),
        ("page.md#no-such-heading", "there is no heading"),
        ("#no-such-heading", "there is no heading"),
        ("../outside.md", "leads out of the repository"),
        ("pictures/none.png", "leads nowhere"),
    ],
)
def test_a_dead_link_is_found_with_its_line(tmp_path, link, why):
    page = a_page(tmp_path, f"# A page\n\nRead\n[this]({link}).\n")
    (problem,) = links.dead([page], tmp_path)
    assert why in problem
    assert ":4: " in problem


@pytest.mark.parametrize(
    "text",
    [
        "![a picture](none.svg)",
        '<img src="none.svg">',
        'A <a href="none.md">link</a>.',
        "[this][one]\n\n[one]: none.md",
        "| a |\n|---|\n| [b](none.md) |",
    ],
)
def test_a_dead_link_is_found_however_it_is_written(tmp_path, text):
    assert list(links.dead([a_page(tmp_path, text)], tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "## It's `code`, here\n\n[up](#its-code-here)",
        "## Twice\n\n## Twice\n\n[second](#twice-1)",
        "[away](https://example.org/none.md)",
        "```\n[not a link](none.md)\n```",
        "`[not a link](none.md)`",
        '<a id="mark"></a>\n\n[mark](#mark)',
        "[itself](page.md)",
    ],
)
def test_a_link_that_is_good_or_none_is_left_alone(tmp_path, text):
    assert list(links.dead([a_page(tmp_path, text)], tmp_path)) == []


def test_a_document_that_is_named_and_not_there_is_found(tmp_path):
    named = "docs" + "/none.md"
    assert list(links.named([a_page(tmp_path, f"See `{named}`.")], tmp_path))
    assert list(links.named([a_page(tmp_path, f"```\n{named}\n```")], tmp_path)) == []


def test_a_page_that_nothing_leads_to_is_found(tmp_path):
    entrance = a_page(tmp_path, "[one](one.md)", "index.md")
    one = a_page(tmp_path, "[two](below/two.md)", "one.md")
    two = a_page(tmp_path, "The end.", "below/two.md")
    alone = a_page(tmp_path, "[one](one.md)", "alone.md")
    (problem,) = links.unreached([entrance, one, two, alone], entrance.path)
    assert "alone.md" in problem


# What Holdfast has


@pytest.mark.parametrize("matter", covered.matters(), ids=lambda m: f"{m.kind} in {m.page}")
def test_something_that_no_page_tells_is_found(matter):
    assert matter.names
    more = matter._replace(names=["no_such_thing"])
    (problem,) = covered.untold([more])
    assert f"the {matter.kind} no_such_thing is not told" in problem


@pytest.mark.parametrize("matter", covered.matters(), ids=lambda m: f"{m.kind} in {m.page}")
def test_a_page_that_forgets_something_is_found(tmp_path, monkeypatch, matter):
    """Every line that tells the last of the names is taken out of the page."""
    forgotten = matter.names[-1]
    lines = (DOCS / matter.page).read_text("utf-8").split("\n")
    kept = [line for line in lines if forgotten not in line]
    (tmp_path / matter.page).write_text("\n".join(kept))
    monkeypatch.setattr(covered, "DOCS", tmp_path)
    told = list(covered.untold([matter]))
    assert [problem for problem in told if f" {forgotten} is not told" in problem]


def test_an_option_that_its_section_forgets_is_found(tmp_path):
    text = (DOCS / "cli.md").read_text("utf-8")
    page = a_page(tmp_path, re.sub(r"^\| `--replace`.*\n", "", text, flags=re.MULTILINE))
    (problem,) = covered.untold_options(page)
    assert "--replace of start" in problem


@pytest.mark.parametrize(
    "text",
    [
        "`holdfast dance`",
        "`holdfast task dance 1`",
        "`holdfast start dev x --nosuch`",
        "```sh\nholdfast show --depth 3\n```",
        "```console\n$ holdfast gaet run lint\n```",
        "```sh\nholdfast start dev x \\\n    --nosuch\n```",
    ],
)
def test_a_command_that_there_is_not_is_found(tmp_path, text):
    assert list(covered.unknown_commands([a_page(tmp_path, text)]))


@pytest.mark.parametrize(
    "text",
    [
        "`holdfast task`",
        "`holdfast COMMAND`",
        "`holdfast --version`",
        "`holdfast gate run lint -- make -j4`",
        "`holdfast loop run x --verify 'test -s y' -- claude -p`",
        "`holdfast hook`",
        "```toml\nholdfast dance\n```",
    ],
)
def test_a_command_that_there_is_is_left_alone(tmp_path, text):
    assert list(covered.unknown_commands([a_page(tmp_path, text)])) == []


@pytest.mark.parametrize(
    "code",
    [
        'Refused("a_code", "why")',
        'raise Fault("a_code" if full else "another", "why")',
        'class Odd(Refused):\n    def __init__(self):\n        super().__init__("a_code", "why")',
        'error = {"code": "a_code", "message": why}',
        'error = {**other, "code": "a_code"}',
    ],
)
def test_an_error_code_is_found_however_it_is_given(code):
    assert "a_code" in declared.codes_in(ast.parse(code))


def test_other_codes_are_none():
    assert list(declared.codes_in(ast.parse('{"code": "V-1", "severity": s}'))) == []


def test_a_code_that_no_answer_has_is_found(tmp_path, monkeypatch):
    a_page(tmp_path, "### busy\n\n### out_of_tea\n", "troubleshooting.md")
    monkeypatch.setattr(covered, "DOCS", tmp_path)
    (problem,) = covered.untrue_codes()
    assert "out_of_tea" in problem


def test_a_key_of_an_answer_without_a_shape_is_found(monkeypatch):
    monkeypatch.setattr(answers, "contract", lambda: {"status": ["workflows", "weather"]})
    (problem,) = answers.unshaped()
    assert "weather of status" in problem


def test_the_product_is_asked_for_its_settings():
    keys = declared.setting_keys()
    assert {"graph", "gates.NAME.command", "ttl.NAME", "trust.folders"} <= set(keys)


def test_every_class_of_the_library_is_in_its_reference():
    assert set(api.HOMES) == set(LIBRARY)
    text = api.markdown()
    assert "| `remind(text, *, workflow, id)` | Add a reminder" in text
    assert "0x" not in text


def test_a_reference_that_is_behind_the_code_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PAGE", tmp_path / "api.md")
    assert api.stale() == ["api.md"]
    api.write()
    assert api.stale() == []


def test_make_docs_fails_when_something_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr(handbook, "CHECKS", {"all is well": lambda _: iter(["it is not"])})
    assert handbook.main(["--check"]) == 1
    said = capsys.readouterr()
    assert "✗ all is well\n    it is not" in said.out
    assert "1 problems" in said.err


# The site


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert site.build(folder) > 30
    return folder


def test_every_link_of_the_site_leads_somewhere(built):
    dead = []
    for page in built.rglob("*.html"):
        text = page.read_text("utf-8")
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            path, _, anchor = target.partition("#")
            if ":" in path:
                continue
            where = (page.parent / path).resolve() if path else page
            ok = where.is_file() and (not anchor or f'id="{anchor}"' in where.read_text("utf-8"))
            dead += [] if ok else [f"{page.name}: {target}"]
    assert dead == []


def test_the_site_needs_nothing_from_elsewhere(built):
    for path in (*built.rglob("*.html"), *built.rglob("*.css"), *built.rglob("*.svg")):
        text = path.read_text("utf-8")
        assert "<script" not in text
        assert not re.search(r'(?:src|@import|url\()\s*=?\s*["\']?https?:', text), path
        assert not re.search(r'<link[^>]+href="https?:', text), path


def test_a_page_of_the_site_has_the_navigation_and_marks_itself(built):
    text = (built / "concepts.html").read_text("utf-8")
    assert '<h1 id="the-security-model">' in (built / "security.html").read_text("utf-8")
    assert text.count('<a href="concepts.html" aria-current="page">Concepts</a>') == 2
    assert '<a href="index.html">' not in (built / "decisions" / "README.html").read_text("utf-8")
    assert "<title>Concepts · Holdfast</title>" in text
    assert (built / "schemas" / "ledger-line.json").is_file()


def test_links_in_html_lead_to_the_site_too(tmp_path):
    page = pages.Page(pages.ROOT / "README.md", '<img src="docs/concepts.svg" width="9">\n')
    made = site._renderer(page, site.html_path_of(page.path)).render(page.text)
    assert made == '<img src="../concepts.svg" width="9">\n'


def test_pages_are_found_without_git_too(tmp_path):
    for name in ("README.md", "docs/index.md", "docs/decisions/0001.md", "other/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in pages.every_file("*.md", tmp_path)]
    assert found == ["README.md", "docs/decisions/0001.md", "docs/index.md"]
    below = pages.every_file("docs/*.md", tmp_path)
    assert [path.name for path in below] == ["0001.md", "index.md"]
