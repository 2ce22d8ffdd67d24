"""``holdfast web``: this person's repositories in a browser, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import sys

from holdfast.cli.answer import Answer, Silence, encode, is_on_terminal
from holdfast.cli.parser import Parameter, command
from holdfast.errors import Fault, Refused
from holdfast.workspace.environment import client_above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Arguments
    from holdfast.web.server import Site

_MAX_PORT = 65_535
_WILDCARDS = ("", "0.0.0.0", "::", "*")  # noqa: S104 - these are refused


@command(
    "web: see and steer all repositories in a browser, until Ctrl-C; on this machine only",
    Parameter("--port N", "the port (default: a free one)", kind="number"),
    Parameter("--no-open", "only print the address; open no browser"),
    Parameter("--host ADDRESS", "listen at this address (default 127.0.0.1); not encrypted"),
    "holdfast web",
    "holdfast web --port 8421 --no-open",
    workspace=False,
)
def web(args: Arguments) -> Answer:
    host, port = args["host"] or "127.0.0.1", args["port"] or 0
    if port > _MAX_PORT:
        raise Refused("invalid", f"web: {port} is no port", "holdfast web --port 8421")
    if host in _WILDCARDS:
        why = f"web: {host!r} is no name under which a browser finds this machine"
        raise Refused("invalid", why, "holdfast web --host ADDRESS")
    try:
        from holdfast.web.server import Site, is_loopback
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "holdfast":
            raise
        raise Fault(
            "no_extra",
            f"web: a part of it is not installed: {error.name}",
            "pip install 'holdfast[web]'",
        ) from None
    why_not = _why_no_person(is_local=is_loopback(host))
    codes: list[str] = []

    def show_code(code: str) -> None:
        codes.append(code)
        if len(codes) > 1:
            print(_code_line(code), flush=True)

    site = Site(
        host, port, os.getcwd(), show_code=show_code, why_not_pair=why_not,
        is_person=client_above() is None,
    )  # fmt: skip

    def begin() -> None:
        _announce(site, args, codes[0] if codes else "", why_not, is_local=is_loopback(host))
        if not args["no_open"] and not args["json"]:
            _open_browser(site)

    site.serve(begin)
    return Silence()


def _announce(site: Site, args: Arguments, code: str, why_not: str, *, is_local: bool) -> None:
    """Print the address on the first line, then what a person wants to know of it."""
    if args["json"]:
        fields = {"address": site.address(), "port": site.port, "approvals": not why_not}
        print(encode({"ok": True, **fields}, ascii_only=True), flush=True)
        return
    print(site.address(), flush=True)
    if code:
        print(_code_line(code), flush=True)
    else:
        print(f"Nothing can be approved or waived there: {why_not}.", flush=True)
    if not is_local:
        print("What it shows travels unencrypted: use it in a network that you trust.", flush=True)
    print("Ctrl-C ends it.", flush=True)


def _code_line(code: str) -> str:
    return f"To approve and waive in a browser, enter this code there once: {code}"


def _why_no_person(*, is_local: bool) -> str:
    """Return why nobody can show here to be a person; empty if they can."""
    client = client_above()
    if client is not None:
        return f"{client} started this server"
    if not is_on_terminal():
        return "it was not started on a terminal"
    return "" if is_local else "it is open to other machines"


def _open_browser(site: Site) -> None:
    """Open the page in the person's browser, where there is a screen for one."""
    has_screen = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if not has_screen or not sys.stdout.isatty():
        return
    import webbrowser
    from threading import Thread

    # A browser that runs in the terminal would not return before it is left.
    Thread(target=webbrowser.open, args=(site.address(once=True),), daemon=True).start()
