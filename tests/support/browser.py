"""A real Chromium for tests, driven over a pipe by its own protocol: no driver, no package.

Keys are pressed and elements clicked as a person does it, by the browser's own input events.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEADLINE_S = 60
_KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
}
_QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--no-pings", "--mute-audio",
    "--hide-scrollbars", "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)  # fmt: skip


def find_browser():
    """Return the path of a Chromium; skip the test if none is installed."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("NOT SHOWN: no Chromium is installed (Debian: apt-get install chromium)")
    return path


class Navigated(Exception):
    """One page replaced another while it was asked something."""


class Browser:
    """One headless browser with one page."""

    def __init__(self, folder, width=1280, height=900):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def take_pipes():
            # The protocol is spoken over the file descriptors 3 and 4.
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            [find_browser(), *_QUIET, "--remote-debugging-pipe", f"--user-data-dir={folder}",
             "about:blank"],
            preexec_fn=take_pipes, close_fds=False,  # noqa: PLW1509 - nothing here has threads
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._buffer = b""
        self.events = []
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method, **params):
        """Call a method of the protocol; return its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                error = str(answer.get("error", ""))
                if "navigated" in error:
                    raise Navigated(error)
                assert not error, (method, error)
                return answer["result"]

    def _read(self):
        until = time.monotonic() + DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message

    def wait_for(self, condition):
        """Wait until an expression of JavaScript is true; return its value."""
        until = time.monotonic() + DEADLINE_S
        while True:
            value = self.value(condition)
            if value:
                return value
            assert time.monotonic() < until, (condition, self.value("document.body.innerText"))

    def value(self, expression):
        """Return the value of an expression in the page."""
        # The protocol evaluates it itself, whatever the page's policy says of scripts.
        params = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        try:
            result = self.call("Runtime.evaluate", **params)
        except Navigated:
            return None
        if "exceptionDetails" in result:
            details = json.dumps(result["exceptionDetails"])
            # While one page replaces another, there is nothing to ask.
            assert "navigat" in details or "context" in details, (expression, details)
            return None
        return result["result"].get("value")

    def go(self, address):
        """Open an address, and wait until the page is whole."""
        self.wait_for("window.isOfBefore = true")
        failed = self.call("Page.navigate", url=address).get("errorText")
        assert not failed, failed
        self.wait_for("!window.isOfBefore && document.readyState === 'complete'")

    def resize(self, width, height, *, is_phone=False):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if is_phone else 1, mobile=is_phone,
        )  # fmt: skip

    def prefer(self, scheme):
        """Set the colour scheme that the person prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key):
        """Press and release a key: a letter, or one of ``_KEYS``."""
        name, code, text = _KEYS.get(key, (key, ord(key.upper()[0]), key))
        event = {"key": name, "windowsVirtualKeyCode": code}
        down = {"type": "keyDown" if text else "rawKeyDown", **event, "text": text}
        self.call("Input.dispatchKeyEvent", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """Click the middle of the first element that fits."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{box} !== null")
        # Where it is drawn, once it is: a click goes to a place and not to an element.
        place = self.wait_for(
            f"(() => {{ const box = {box};"
            " box.scrollIntoView({ block: 'center', behavior: 'instant' });"
            " const r = box.getBoundingClientRect();"
            " const [x, y] = [r.x + r.width / 2, r.y + r.height / 2];"
            " return box.contains(document.elementFromPoint(x, y)) && [x, y] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def screenshot(self, path, *, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))

    def problems(self):
        """Return what the page complained of: errors of scripts, and what the policy stopped."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
        return found

    def requested(self):
        """Return the addresses of all requests that the pages made."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
