"""Take the pictures of docs/web.md again: ``python tools/web_pictures.py``.

It needs a Chromium, and a shell that no coding client has started: the browser is paired for it.
With a palette of 256 colours (pngquant, Pillow) the files are a third as large.
"""

from __future__ import annotations

import os
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.browser import Browser

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "src")]

WIDE, PHONE = (1280, 880), (390, 780)
LOGIN = "Sign in with a one-time code"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-web-") as home:
        os.environ["XDG_STATE_HOME"] = os.path.join(home, ".local", "state")
        os.environ["HOLDFAST_BACKGROUND"] = "off"
        _take(home)


def _take(home: str) -> None:
    from support.browser import Browser
    from support.command_line import clean_environment
    from support.pseudoterminal import Pseudoterminal
    from support.web_stage import Stage

    Stage(home).fill()
    command = [sys.executable, "-m", "holdfast", "web", "--no-open"]
    shop, environment = os.path.join(home, "shop"), clean_environment(home)
    with Pseudoterminal(command, shop, environment, columns=120) as terminal:
        terminal.wait_for("Ctrl-C ends it.")
        with Browser(os.path.join(home, "browser")) as browser:
            _pair(browser, terminal.text)
            _take_all(browser)


def _pair(browser: Browser, printed: str) -> None:
    address, told = printed.splitlines()[:2]
    browser.go(address)
    browser.wait_for("document.querySelector('.card') !== null")
    browser.go(f"{address.partition('?')[0]}pair")
    browser.wait_for("document.activeElement?.id === 'code'")
    browser.type(told.rpartition(" ")[2])
    browser.press("Enter")
    browser.wait_for("document.querySelector('p.person') !== null")


def _take_all(browser: Browser) -> None:
    login = "[...document.querySelectorAll('.card h4 a')].find((a) => a.textContent === %r)"
    origin, path = browser.value("location.origin"), browser.value(f"{login % LOGIN}.pathname")
    pictures = {
        "web-board": ("/", "light", WIDE),
        "web-workflow": (path, "light", WIDE),
        "web-dark": ("/", "dark", WIDE),
        "web-phone": ("/", "light", PHONE),
    }
    for name, (end, scheme, size) in pictures.items():
        browser.prefer(scheme)
        browser.resize(*size)
        browser.go(f"{origin}{end}")
        browser.wait_for("document.querySelector('#live.is-on') !== null")
        browser.screenshot(os.path.join(ROOT, "docs", f"{name}.png"))


main()
