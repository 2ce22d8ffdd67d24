"""Ask GitHub, and create pull requests there, through its own program ``gh``.

``gh`` has the login, so no token passes through here. Everything goes through ``gh api``: what is
sent is JSON on its standard input, so no stored text is ever an argument. It never asks anything,
shows no pager, and is ended at a time limit. Whatever it says is masked before it is shown.
"""

from __future__ import annotations

import re
import subprocess

from holdfast.core import json_text
from holdfast.core.refusal import shell_word
from holdfast.core.visible import folded
from holdfast.errors import Refused
from holdfast.evidence import git
from holdfast.evidence.masking import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

MAX_BODY_CHARS = 65_536
"""The length of the longest text that GitHub takes for a pull request."""
MAX_TITLE_CHARS = 256
MAX_DESCRIPTION_CHARS = 140
"""The length of the longest description of a commit status."""
_TIMEOUT_S = 60.0
_MAX_WORDS_CHARS = 400
_NOT_LOGGED_IN = 4
"""The exit code of ``gh`` without a login."""
_SETTINGS = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "LC_ALL": "C",
}
_UNWANTED = ("GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE")
"""Variables with which ``gh`` prints more than its answer, such as the headers of a request."""
_STATUS = re.compile(rb"\bHTTP (\d{3})\b")
_REPOSITORY = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_HOST = re.compile(r"https://([\w.-]{1,253}(?::\d{1,5})?)/", re.ASCII)
_ADDRESS = re.compile(
    r"(?:\w+://)?(?:[^/@]*@)?([\w.-]+)(?::\d+)?[:/]/?([\w.-]+)/([\w.-]+?)(?:\.git)?/?"
)
_UNKNOWN = "whether it was done is not known"


class GitHub:
    """A login of ``gh``, and the repository on GitHub that a work tree belongs to.

    Methods raise ``Refused``: ``no_gh``, ``not_logged_in``, ``no_remote``, ``gh``.
    """

    def __init__(self, root: str, tried: str) -> None:
        """Ask which repository it is. ``tried`` begins every refusal."""
        self._root = root
        self._tried = tried
        self._host = ""
        program = git.which("gh", root)
        if program is None:
            raise Refused(
                "no_gh",
                f"{tried}: the GitHub CLI, gh, is not on the PATH",
                "holdfast report --format pr",
                or_else="install gh from https://cli.github.com, and log in: gh auth login",
            )
        self._program = program
        found = self._repository()
        self.name: str = found["nameWithOwner"]
        """Owner and name: ``octo/shop``."""
        self.main: str = (found.get("defaultBranchRef") or {}).get("name") or "main"
        """The branch into which its pull requests go."""
        self._host = _HOST.match(found["url"])[1]  # type: ignore[index]

    def _repository(self) -> Fields:
        words = ["repo", "view", "--json", "nameWithOwner,url,defaultBranchRef"]
        code, output, error = self._run(words)
        if code == 0:
            found = _parsed(output) or {}
            is_named = _REPOSITORY.fullmatch(str(found.get("nameWithOwner")))
            if is_named and _HOST.match(str(found.get("url"))):
                return dict(found)
        elif b"git remote" in error:
            raise Refused(
                "no_remote",
                f"{self._tried}: gh knows none of this repository's remotes as one on GitHub",
                "holdfast report --format pr",
                or_else="create it there yourself, with that text",
            )
        raise self._failed(error or b"it did not name the repository")

    def head_of(self, remote: str) -> tuple[str, str]:
        """Return owner and name of the repository that a remote of git leads to.

        They are those of the pull request's own repository if the address does not say.
        """
        match = _ADDRESS.fullmatch(git.remote_address(self._root, remote))
        if match is not None and match[1].lower() == self._host.partition(":")[0].lower():
            return match[2], match[3]
        owner, _, name = self.name.partition("/")
        return owner, name

    def pull_requests(self, owner: str, branch: str) -> list[Fields]:
        """Return the open pull requests of a branch."""
        from urllib.parse import quote

        head = quote(f"{owner}:{branch}", safe="")
        path = f"repos/{self.name}/pulls?state=open&per_page=100&head={head}"
        found = self._done(self._api("GET", path))
        return [row for row in found if _is_pull_request(row)] if isinstance(found, list) else []

    def pull_request(self, number: int) -> Fields | None:
        """Return a pull request by its number; ``None`` if there is none."""
        status, found = self._api("GET", f"repos/{self.name}/pulls/{number}")
        if status == 404:
            return None
        row: Fields = self._done((status, found))
        return row if _is_pull_request(row) else None

    def create(self, fields: Fields) -> Fields | None:
        """Create a pull request; return ``None`` if its branch has one already."""
        status, found = self._api("POST", f"repos/{self.name}/pulls", fields)
        if status == 422 and "already exists" in _words_of(found):
            return None
        row: Fields = self._done((status, found))
        if not _is_pull_request(row):
            raise self._failed(f"its answer was not understood; {_UNKNOWN}".encode())
        return row

    def update(self, number: int, fields: Fields) -> None:
        """Change fields of a pull request."""
        self._done(self._api("PATCH", f"repos/{self.name}/pulls/{number}", fields))

    def set_status(self, commit: str, fields: Fields) -> str:
        """Set the status of a commit; return why it could not be set, empty if it was."""
        try:
            status, found = self._api("POST", f"repos/{self.name}/statuses/{commit}", fields)
        except Refused as refused:
            return refused.message
        return "" if status < 300 else f"GitHub answered {status}: {_shown(_words_of(found))}"

    def _done(self, answer: tuple[int, Json]) -> Json:
        """Return what GitHub answered; raise ``Refused`` if it refused."""
        status, found = answer
        if status == 401:
            raise self._not_logged_in()
        if status >= 300:
            raise self._failed(f"GitHub answered {status}: {_words_of(found)}".encode())
        return found

    def _api(self, method: str, path: str, sent: Fields | None = None) -> tuple[int, Json]:
        """Send one request; return the status and the JSON that GitHub answered."""
        words = ["api", "--method", method, "--hostname", self._host]
        words += ["--header", "Accept: application/vnd.github+json"]
        words += [] if sent is None else ["--input", "-"]
        stdin = b"" if sent is None else json_text.dumps(sent).encode(errors="replace")
        code, output, error = self._run([*words, path], stdin)
        if code == 0:
            return 200, _parsed(output)
        status = _STATUS.search(error)
        if status is None:
            raise self._failed(error)
        return int(status[1]), _parsed(output)

    def _run(self, words: list[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run ``gh``; return its exit code and what it printed."""
        env = git.program_and_environment(self._root)[1]
        env = {name: value for name, value in env.items() if name not in _UNWANTED} | _SETTINGS
        try:
            done = subprocess.run(  # noqa: S603 - no word is stored text: that goes to its input
                [self._program, *words], cwd=self._root, env=env, input=stdin,
                capture_output=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._failed(
                f"no answer in {_TIMEOUT_S:.0f} seconds; {_UNKNOWN}".encode()
            ) from None
        except OSError as error:
            raise self._failed(f"it cannot be started: {error.strerror}".encode()) from None
        is_refused = done.returncode == 1 and b"HTTP 401" in done.stderr
        if done.returncode == _NOT_LOGGED_IN or is_refused:
            raise self._not_logged_in()
        return done.returncode, done.stdout, done.stderr

    def _not_logged_in(self) -> Refused:
        host = f" --hostname {shell_word(self._host)}" if self._host else ""
        message = f"{self._tried}: gh is not logged in, or its login has expired"
        return Refused("not_logged_in", message, f"gh auth login{host}")

    def _failed(self, words: bytes) -> Refused:
        return Refused(
            "gh",
            f"{self._tried}: gh: {_shown(words.decode(errors='replace'))}",
            "gh auth status",
        )


def _shown(text: str) -> str:
    """Return what ``gh`` or GitHub said as one line without secrets."""
    return folded(mask(text)).removeprefix("gh: ")[:_MAX_WORDS_CHARS]


def _parsed(output: bytes) -> Json:
    """Return printed JSON; ``None`` if it is none."""
    try:
        return json_text.loads(output.decode(errors="replace"))
    except ValueError:
        return None


def _is_pull_request(row: Json) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("number"), int):
        return False
    return isinstance(row.get("html_url"), str) and bool(_HOST.match(row["html_url"]))


def _words_of(found: Json) -> str:
    """Return the sentences of an answer that is an error."""
    if not isinstance(found, dict):
        return "no reason was given"
    errors = found.get("errors") if isinstance(found.get("errors"), list) else []
    words = [str(found.get("message", ""))]
    for error in errors or []:
        if isinstance(error, dict):
            field = f"{error.get('field')} is {error.get('code')}"
            words.append(str(error.get("message") or field))
        else:
            words.append(str(error))
    return "; ".join(filter(None, words)) or "no reason was given"
