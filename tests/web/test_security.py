"""Who is let in, which requests are answered, and what an answer lets a page do."""

import signal
import socket

import pytest

from support.command_line import Folder, clean_environment
from support.web_site import Visitor, WebSite


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("web")
    (root / "home").mkdir()
    folder = Folder(root, clean_environment(root / "home")).at("work")
    folder.git("init", "-q", "-b", "main")
    folder.ok("start", "dev", "login.md", "--task", "Ask for the code")
    folder.ok("start", "planning", "One page")
    return folder


@pytest.fixture(scope="module")
def site(place):
    with WebSite(place) as site:
        yield site


@pytest.fixture
def visitor(site):
    return site.visitor()


def test_nothing_is_shown_without_the_token(site):
    stranger = Visitor(site.port)
    for path in ("/", "/search?q=code", "/live", "/pair", "/w/x/y", "/?token=wrong", "/?token="):
        answer = stranger.get(path)
        assert (answer.status, "login" in answer.text) == (403, False), path
        assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_can_use(site):
    stranger = Visitor(site.port)
    answer = stranger.get(f"/?token={site.token}")
    cookie = answer.headers["set-cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert site.token not in cookie
    assert "login" in stranger.get("/").text


def test_a_cookie_of_an_earlier_server_lets_nobody_in(site):
    stranger = Visitor(site.port)
    stranger.cookie = f"holdfast_{site.port}=Zm9yZ2Vk"
    assert stranger.get("/").status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "", "a@127.0.0.1:{port}"],
)
def test_another_name_than_ours_is_refused(site, visitor, host):
    for path in ("/", "/static/style.css", f"/?token={site.token}"):
        answer = visitor.get(path, Host=host.format(port=site.port))
        assert answer.status in (400, 421), (path, answer)
        assert "login" not in answer.text


def test_every_name_of_this_machine_is_ours(site, visitor):
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert visitor.get("/", Host=f"{host}:{site.port}").status == 200


def test_two_host_headers_are_refused(site):
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        own, other = f"Host: 127.0.0.1:{site.port}\r\n", "Host: evil.example\r\n"
        connection.sendall(f"GET / HTTP/1.1\r\n{own}{other}Connection: close\r\n\r\n".encode())
        assert connection.recv(64).split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
    ],
)
def test_a_request_of_another_page_is_refused(visitor, headers):
    assert visitor.get("/", **headers).status == 403
    assert visitor.get("/live", **headers).status == 403


def test_the_address_can_be_opened_from_anywhere(visitor):
    assert visitor.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


@pytest.fixture
def page(visitor):
    return visitor.path_of("login.md")


def remind(visitor, page, fields=None, **headers):
    path = f"/do/{page.removeprefix('/w/')}/remind"
    visitor.get(page)
    return visitor.post(path, {"text": "Forged", **(fields or {})}, **headers)


def kept(place):
    rows = place.ok("status")["workflows"]
    name = next(row["id"] for row in rows if row["recipe"] == "dev")
    return place.state(name)["reminders"]


def test_a_form_of_our_page_changes_what_the_command_would(place, visitor, page):
    answer = visitor.do(page, "remind", text="Never log a code")
    assert (answer.status, "Never log a code" in kept(place)) == (200, True)
    assert "Every later session reads this reminder." in answer.text
    assert "Every later session reads" not in visitor.get(page).text.partition("<main")[0]


def test_what_was_done_is_told_where_a_person_sees_it(visitor, page):
    visitor.get(page)
    answer = visitor.post(f"/do/{page.removeprefix('/w/')}/remind", {"text": "Ask first"})
    assert answer.status == 303
    reloaded = visitor.get(page, Sec_Fetch_Dest="empty").text
    assert "Every later session reads" not in reloaded.partition("<main")[0]
    assert "Every later session reads" in visitor.get(page).text.partition("<main")[0]


def test_a_form_without_our_word_changes_nothing(site, place, visitor, page):
    before = kept(place)
    other = site.visitor()
    other.get(page)
    for word in ("", "wrong", other.word, site.token):
        assert remind(visitor, page, {"word": word}).status == 403
    assert kept(place) == before


def test_a_form_of_another_page_changes_nothing(place, visitor, page):
    before = kept(place)
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert remind(visitor, page, **headers).status == 403, headers
    assert kept(place) == before


def test_a_form_of_another_kind_changes_nothing(place, visitor, page):
    before = kept(place)
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json", None):
        assert remind(visitor, page, Content_Type=kind).status == 415
    assert kept(place) == before


def test_a_stranger_changes_nothing(site, place, visitor, page):
    before = kept(place)
    stranger = Visitor(site.port)
    stranger.word = visitor.word
    assert remind(stranger, page).status == 403
    assert kept(place) == before


def test_a_huge_form_is_refused(place, visitor, page):
    before = kept(place)
    assert remind(visitor, page, {"text": "x" * 70_000}).status == 413
    many = {f"field{number}": "x" for number in range(100)}
    assert remind(visitor, page, many).status == 400
    assert kept(place) == before


def test_a_form_that_is_no_text_is_refused(visitor, page):
    visitor.get(page)
    path = f"/do/{page.removeprefix('/w/')}/remind"
    body = f"word={visitor.word}&text=%ff%fe".encode()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"http://{visitor.host}",
    }
    assert visitor.ask("POST", path, headers, body).status == 400


def test_a_huge_address_is_refused(visitor):
    assert visitor.get("/search?q=" + "x" * 8_000).status == 414
    assert visitor.get("/search?q=" + "x" * 100_000).status in (400, 414)
    assert visitor.get("/?" + "a=1&" * 500).status == 400


def test_an_address_that_is_no_text_is_answered(visitor, page):
    for path in ("/%ff%fe", f"{page}%00", "/?repository=%ff", "/?before=%ff", "/w/%2e%2e/%2e%2e"):
        assert visitor.get(path).status in (200, 404), path
    for end in ("seq=-1", "n=x", "n=99999999999999999999", "seq=%ff", "n=0"):
        assert visitor.get(f"{page}/at?{end}").status == 200, end


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_looks_and_forms_are_answered(visitor, method):
    assert visitor.ask(method, "/").status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../pages.py", "/static/%2e%2e/pages.py", "/static/..%2fpages.py",
        "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/....//pages.py",
        "/static/templates/base.html", "/static/", "/static/..\\pages.py",
    ],
)  # fmt: skip
def test_only_the_files_of_the_pages_are_served(visitor, path):
    answer = visitor.get(path)
    assert answer.status == 404
    assert "import" not in answer.text


@pytest.mark.parametrize(
    "back", ["http://evil.example/", "//evil.example/", "/\\evil.example", "x"]
)
def test_a_form_leads_to_no_other_site(visitor, page, back):
    answer = remind(visitor, page, {"text": "", "back": back})
    assert (answer.status, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "path", ["/", "/pair", "/search", "/nowhere", "/w/00000000/none", "/static/page.js", "/live?x"]
)
def test_every_answer_forbids_scripts_frames_and_copies(site, visitor, path):
    for who in (visitor, Visitor(site.port)):
        if path == "/live?x" and who is visitor:
            continue  # It has no end.
        headers = who.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_pages_have_no_script_and_no_style_of_their_own(visitor, page):
    for path in ("/", page, f"{page}/history", f"{page}/at", f"{page}/briefing", "/pair"):
        text = visitor.get(path).text
        assert text.count("<script") == 1
        assert '<script src="/static/page.js" defer></script>' in text
        assert " style=" not in text
        assert "<style" not in text
        assert " on" + "click" not in text


def test_what_does_not_exist_is_told_in_words(visitor, page):
    for path in ("/w/00000000/x", f"{page}-other", f"{page}-other/at", "/nowhere"):
        answer = visitor.get(path)
        assert answer.status == 404, path
        assert "Not here" in answer.text
    assert visitor.get(f"{page}/compare?a=1").status == 409
    visitor.get(page)
    assert visitor.post("/do/00000000/x/remind", {"text": "x"}).status == 303
    assert visitor.post(f"/do/{page.removeprefix('/w/')}/explode").status == 404


def test_approvals_are_no_matter_of_a_server_without_a_terminal(place, visitor):
    page = visitor.path_of("One page")
    visitor.get(page)
    for action, fields in (("approve", {"phase": "Sign-off"}), ("waive", {"gate": "x"})):
        answer = visitor.post(f"/do/{page.removeprefix('/w/')}/{action}", {**fields, "text": "x"})
        assert answer.status == 403
        assert "it was not started on a terminal" in answer.text
    assert '<input id="code"' not in visitor.get("/pair").text
    visitor.post("/pair", {"code": "AAAA-AAAA"})
    assert "paired" not in visitor.get("/").text.partition("<main")[0]
    types = {event["type"] for event in place.ok("log")["events"]}
    assert not types & {"phase_approved", "gate_waived"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well_while_pages_listen(place, number):
    with WebSite(place) as site:
        visitor = site.visitor()
        request = f"GET /live HTTP/1.1\r\nHost: {visitor.host}\r\nCookie: {visitor.cookie}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", site.port)) as listening:
            listening.sendall(request.encode())
            assert b"200 OK" in listening.recv(4096)
            code, out, err = site.end(number)
    assert (code, err) == (0, "")
    assert "Ctrl-C ends it." in out


def test_a_port_that_is_taken_is_told(place, site):
    error = place.refused("web", "--port", str(site.port), "--no-open", exit_code=3)
    assert (error["code"], str(site.port) in error["message"]) == ("not_served", True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*"])
def test_it_does_not_listen_everywhere(place, host):
    assert place.refused("web", "--host", host)["code"] == "invalid"


def test_nothing_is_approved_where_other_machines_can_look(place):
    with WebSite(place, "--host", "127.0.0.2") as site:
        assert "//127.0.0.2:" in site.address
        visitor = Visitor(site.port, "127.0.0.2")
        assert visitor.get("/").status == 403
        assert visitor.get("/", Host=f"127.0.0.1:{site.port}").status == 421
        code, out, _ = site.end()
    assert code == 0
    assert "travels unencrypted" in out
