"""Four repositories in which agents are at work, for the browser tests and the pictures."""

import os
import time

from holdfast import Initiatives, Keeper, Loops
from support.git_template import make_repository, run_git

HOURS_MS = 3_600_000
_BEGUN_BEFORE_MS = 9 * HOURS_MS
AGENTS = {"main": "7f3a91c2-main", "codex": "c2d104aa-codex", "gemini": "9b77e01d", "loop": "51ee"}


class Stage:
    """Repositories below a folder, with a clock that begins some hours ago."""

    def __init__(self, root, *, live_pid=None):
        self.root = os.fspath(root)
        self._ms = time.time_ns() // 1_000_000 - _BEGUN_BEFORE_MS
        self._live_pid = live_pid or os.getpid()

    def pass_hours(self, hours):
        self._ms += int(hours * HOURS_MS)

    def _clock(self):
        self._ms += 7_000
        return self._ms

    def repository(self, name):
        path = os.path.join(self.root, name)
        make_repository(path, committed=True)
        return path

    def keeper(self, path, agent=None):
        """Return a keeper for an agent, whose process lives, or for a person."""
        pid = None if agent is None else self._live_pid
        return Keeper(path, session=agent and AGENTS[agent], pid=pid, clock_ms=self._clock)

    def fill(self):
        shop = self.repository("shop")
        self._initiative(shop)
        self._login(shop)
        checkout = self.keeper(shop, "codex").start(
            "planning", "One-page checkout", initiative="Faster checkout", milestone="M2"
        )
        for _ in range(5):
            self.keeper(shop, "codex").advance(workflow=checkout.state["id"])
        self.keeper(shop).start(
            "apex", "Refunds round to the wrong cent", tasks=["Find where it rounds", "Fix it"]
        )
        self._orders(self.repository("warehouse"))
        self.pass_hours(3)
        self._payments(self.repository("payments-api"))
        self.pass_hours(2)
        self._site(self.repository("docs-site"))
        return self

    def _initiative(self, shop):
        initiatives = Initiatives(self.keeper(shop))
        milestones = ["M1: Measure the funnel", "M2: One-page checkout", "M3: Saved cards"]
        initiatives.create("Faster checkout", [*milestones, "M4: Roll out to all shops"])
        initiatives.start("M1")
        for is_done in (False, True):
            for task in ("Log every step", "A dashboard"):
                initiatives.task("M1", task, done=is_done)
        initiatives.complete("M1")
        initiatives.start("M2")

    def _login(self, shop):
        """Two of five tasks are done, the third was seen to fail; an agent holds it."""
        keeper = self.keeper(shop, "main")
        _write(shop, "docs/login.md", "# Login\n")
        login = keeper.start(
            "dev", "docs/login.md", title="Sign in with a one-time code",
            tasks=[
                "Check the password against the new hash", "Send the code by mail",
                "Ask for the code", "Lock after five wrong codes",
                "Remember the device for a month",
            ],
            reading=["@docs/login.md"], reminders=["Never log a password or a code"],
        ).state["id"]  # fmt: skip
        run_git(shop, "switch", "-q", "-c", "login-codes")
        for _ in range(2):
            keeper.advance(workflow=login)
        evidence = keeper.evidence()
        _write(shop, "check", 'test -e "$1" && echo "4 passed"\n')
        for number, name in enumerate(("hash.py", "mail.py"), 1):
            keeper.start_task(number, workflow=login)
            evidence.take_step("red", ["sh", "check", name], workflow=login)
            _write(shop, name, "pass\n")
            for step in ("green", "refactor"):
                evidence.take_step(step, ["sh", "check", name], workflow=login)
            run_git(shop, "add", ".")
            evidence.commit(f"Add {name}", workflow=login)
        keeper.start_task(3, workflow=login)
        self.pass_hours(1)
        evidence.take_step("red", ["sh", "check", "code.py"], workflow=login)
        evidence.run_gate("lint", ["sh", "-c", "echo 'All checks passed!'"], workflow=login)
        keeper.set_context({"baseline_ms": 41, "mail_provider": "postmark"}, workflow=login)
        keeper.ask(
            "May a code be asked for again within a minute?", ["Yes", "No, say when"],
            workflow=login,
        )  # fmt: skip

    def _orders(self, warehouse):
        keeper = self.keeper(warehouse, "gemini")
        orders = keeper.start(
            "debug",
            "Orders vanish after a retry",
            tasks=["Reproduce it", "Find the race", "Fix it"],
        ).state["id"]
        keeper.complete_task(1, workflow=orders)
        keeper.block_task(2, "needs the production logs of 12 May", workflow=orders)

    def _payments(self, api):
        """A workflow at its gates: evidence, a failure, a claim and a waiver; and a loop."""
        keeper = self.keeper(api, "loop")
        tasks = ["A key for each charge", "Refuse a second one", "Expire keys after a day"]
        charges = keeper.start("dev", "Idempotent charges", tasks=tasks).state["id"]
        run_git(api, "switch", "-q", "-c", "idempotent")
        for _ in range(2):
            keeper.advance(workflow=charges)
        for number in (1, 2, 3):
            keeper.complete_task(number, force=True, reason="done in the pilot", workflow=charges)
        keeper.advance(workflow=charges)
        evidence = keeper.evidence()
        evidence.run_gate("lint", ["sh", "-c", "echo 'checked 41 files'"], workflow=charges)
        failing = (
            "echo '12 passed, 1 failed'; echo 'FAILED tests/test_keys.py::test_expiry'; exit 1"
        )
        evidence.run_gate("test", ["sh", "-c", failing], workflow=charges)
        evidence.record_gate("security_review", passed=True, workflow=charges)
        evidence.waive_gate("code_simplifier", "Two lines changed", workflow=charges)
        loops = Loops(self.keeper(api, "loop"))
        loops.new("rate-limits", task="Find every unlimited endpoint and limit it")
        units = ["List the endpoints", "Limit the public ones", "Limit by account", "Tell clients"]
        for number, title in enumerate(units, 1):
            loops.plan("rate-limits", f"T{number}: {title}", criteria="a test shows it", max=5)
        one = {"slug": "rate-limits"}
        loops.iterate("T1", did="Listed 31 endpoints", remaining="none", signal="T1_DONE", **one)
        loops.confirm("T1", **one)
        loops.verify("T1", **one)
        loops.iterate("T2", did="Limited 8", remaining="12 more", **one)
        loops.iterate("T2", did="Limited 6", remaining="6 more", **one)
        loops.iterate(
            "T3", did="Read the code", remaining="all", blocked="no account id in the token", **one
        )
        person = self.keeper(api)
        for subject in ("Bump openssl", "Rotate the webhook secret"):
            done = person.start("oneshot", subject, tasks=["Do it"]).state["id"]
            person.complete_task(1, workflow=done)
            person.complete("done", force=True, reason="by hand", workflow=done)

    def _site(self, site):
        person = self.keeper(site)
        person.start("brainstorm", "A tone of voice for error messages")
        person.start(
            "tdd", "A link checker that follows redirects", tasks=["Follow one", "Stop at ten"]
        )
        person.start("implementation", "Dark theme", tasks=["Colours", "Pictures", "Code blocks"])
        person.remember("Screenshots are taken at 1280 pixels")


def _write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
