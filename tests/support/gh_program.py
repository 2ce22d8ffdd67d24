"""A program named ``gh`` that behaves as the GitHub CLI 2.x does, over a state file.

It knows what Holdfast asks for: ``repo view``, ``pr view`` and ``api`` for pull requests and commit
statuses. Branches and commits are looked up in real bare repositories, so a branch that was not
pushed is not there. Answers, exit codes and sentences are those of ``gh``; a failed request prints
GitHub's JSON to standard output, and ``gh: … (HTTP 422)`` to standard error.
"""

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

STATE = "GH_TEST_STATE"
ADDRESS = re.compile(r"(?:https://|(?:ssh://)?git@)([\w.-]+)[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?")
SCORES = {"upstream": 3, "github": 2, "origin": 1}


def install(folder, state):
    """Write the program into a folder, and its state; return the environment that it needs."""
    os.makedirs(folder, exist_ok=True)
    program = os.path.join(folder, "gh")
    with open(__file__, encoding="utf-8") as source, open(program, "w", encoding="utf-8") as file:
        file.write(f"#!{sys.executable}\n{source.read()}")
    os.chmod(program, stat.S_IRWXU)
    path = os.path.join(folder, "gh.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"logged_in": True, "calls": [], "faults": {}, **state}, file)
    return {STATE: path, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


class Stop(Exception):
    """The program ends with an exit code, after these words."""

    def __init__(self, code, out="", err=""):
        super().__init__(err)
        self.code, self.out, self.err = code, out, err


def refuse(status, message, *errors):
    body = {"message": message, "status": str(status)}
    body |= {"errors": list(errors)} if errors else {}
    raise Stop(1, json.dumps(body), f"gh: {message} (HTTP {status})\n")


def git(folder, *words):
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def base_repository(state):
    """Return owner and name of the repository, found as ``gh`` finds it without a prompt."""
    remotes = {}
    for line in git(".", "remote", "-v").splitlines():
        name, address, _ = line.split()
        match = ADDRESS.fullmatch(address)
        if match and match[1] == "github.com":
            remotes.setdefault(name, f"{match[2]}/{match[3]}")
    if not git(".", "remote"):
        raise Stop(1, err="no git remotes found\n")
    if not remotes:
        raise Stop(
            1,
            err="none of the git remotes configured for this repository point to a known "
            "GitHub host. To tell gh about a new GitHub host, please use `gh auth login`\n",
        )
    name = remotes[max(remotes, key=lambda remote: SCORES.get(remote, 0))]
    if name not in state["repositories"]:
        raise Stop(
            1,
            err="GraphQL: Could not resolve to a Repository with the name "
            f"'{name}'. (repository)\n",
        )
    return name


def view_repository(state, _words):
    name = base_repository(state)
    main = {"name": state["repositories"][name].get("main", "main")}
    row = {"defaultBranchRef": main, "nameWithOwner": name, "url": f"https://github.com/{name}"}
    return json.dumps(row)


def view_pull_request(state, words):
    name = base_repository(state)
    rows = [row for row in state["repositories"][name]["pulls"] if row["head"]["ref"] == words[0]]
    if not rows:
        raise Stop(1, err=f'no pull requests found for branch "{words[0]}"\n')
    row = rows[-1]
    return json.dumps({"number": row["number"], "url": row["html_url"], "state": "OPEN"})


def pull_requests(state, name, method, query, sent):
    """Answer ``/repos/OWNER/NAME/pulls``."""
    repository = state["repositories"][name]
    if method == "GET":
        if state["faults"].pop("hidden", None):
            return []  # Somebody else creates it between this answer and the next request.
        head = query.get("head", [""])[0]
        is_open = [row for row in repository["pulls"] if row["state"] == "open"]
        return [row for row in is_open if row["head"]["label"] == head]
    if repository.get("permission") == "none":
        refuse(403, "Resource not accessible by personal access token")
    owner, _, branch = sent["head"].rpartition(":")
    owner = owner or name.partition("/")[0]
    source = next((n for n in state["repositories"] if n.startswith(f"{owner}/")), "")
    folder = state["repositories"].get(source, {}).get("folder", "")
    tip = git(folder, "rev-parse", "--verify", "-q", f"refs/heads/{branch}") if folder else ""
    base = git(repository["folder"], "rev-parse", "--verify", "-q", f"refs/heads/{sent['base']}")
    wrong = [field for field, found in (("head", tip), ("base", base)) if not found]
    if wrong:
        error = {"resource": "PullRequest", "field": wrong[0], "code": "invalid"}
        refuse(422, "Validation Failed", error)
    if tip == base:
        words = f"No commits between {sent['base']} and {branch}"
        refuse(422, "Validation Failed", {"code": "custom", "message": words})
    check_texts(sent)
    label = f"{owner}:{branch}"
    same = [row for row in repository["pulls"] if row["state"] == "open"]
    if any((r["head"]["label"], r["base"]["ref"]) == (label, sent["base"]) for r in same):
        words = f"A pull request already exists for {label}."
        refuse(422, "Validation Failed", {"code": "custom", "message": words})
    number = len(repository["pulls"]) + 1
    row = {
        "number": number, "html_url": f"https://github.com/{name}/pull/{number}", "state": "open",
        "title": sent["title"], "body": sent["body"], "draft": sent.get("draft", False),
        "head": {"ref": branch, "label": label, "sha": tip}, "base": {"ref": sent["base"]},
        "merged_at": None,
    }  # fmt: skip
    repository["pulls"].append(row)
    return row


def check_texts(sent):
    if len(sent.get("body") or "") > 65_536:
        words = "body is too long (maximum is 65536 characters)"
        refuse(422, "Validation Failed", {"code": "custom", "field": "body", "message": words})
    if "title" in sent and not 1 <= len(sent["title"]) <= 256:
        refuse(422, "Validation Failed", {"code": "custom", "message": "title is too long"})


def pull_request(state, name, number, method, sent):
    """Answer ``/repos/OWNER/NAME/pulls/NUMBER``."""
    rows = [r for r in state["repositories"][name]["pulls"] if r["number"] == int(number)]
    if not rows:
        refuse(404, "Not Found")
    if method == "PATCH":
        check_texts(sent)
        changes = {**sent, **({"base": {"ref": sent["base"]}} if "base" in sent else {})}
        rows[0].update(changes)
    return rows[0]


def set_status(state, name, commit, sent):
    """Answer ``/repos/OWNER/NAME/statuses/SHA``."""
    repository = state["repositories"][name]
    if repository.get("permission") in ("read", "none"):
        refuse(403, "Resource not accessible by personal access token")
    if git(repository["folder"], "cat-file", "-t", commit) != "commit":
        refuse(422, f"No commit found for SHA: {commit}")
    if len(sent["description"]) > 140:
        refuse(422, "Validation Failed")
    repository.setdefault("statuses", []).append({**sent, "sha": commit})
    return {"id": 1, **sent}


def call_api(state, words):
    options, paths = {}, []
    rest = iter(words)
    for word in rest:
        if word.startswith("-"):
            options[word] = next(rest)
        else:
            paths.append(word)
    method, sent = options.get("--method", "GET"), None
    if options.get("--input") == "-":
        sent = json.loads(sys.stdin.buffer.read().decode())
        state["sent"] = sent
    fault(state, method)
    address = urlsplit(paths[0])
    parts, query = address.path.split("/"), parse_qs(address.query)
    name = "/".join(parts[1:3])
    if name not in state["repositories"]:
        refuse(404, "Not Found")
    if parts[3] == "statuses":
        return json.dumps(set_status(state, name, parts[4], sent))
    if len(parts) == 5:
        return json.dumps(pull_request(state, name, parts[4], method, sent))
    return json.dumps(pull_requests(state, name, method, query, sent))


def fault(state, method):
    """Do what a test has asked for, in place of the answer to such a request."""
    wanted = state["faults"].get(method)
    if wanted == "hang":
        time.sleep(600)
    elif wanted == "network":
        raise Stop(
            1,
            err="error connecting to api.github.com\n"
            "check your internet connection or https://githubstatus.com\n",
        )
    elif wanted == "expired":
        refuse(401, "Bad credentials")
    elif wanted == "secret":
        raise Stop(1, err=f"bad token ghp_{'x' * 36} in the request\n")


COMMANDS = {
    ("repo", "view"): view_repository,
    ("pr", "view"): view_pull_request,
    ("api",): call_api,
}


def answer(state, words):
    if not state["logged_in"]:
        raise Stop(
            4,
            err="To get started with GitHub CLI, please run:  gh auth login\n"
            "Alternatively, populate the GH_TOKEN environment variable with a GitHub API "
            "authentication token.\n",
        )
    for name, act in COMMANDS.items():
        if tuple(words[: len(name)]) == name:
            return act(state, words[len(name) :])
    raise Stop(1, err=f'unknown command "{words[0]}" for "gh"\n')


def main():
    path, words = os.environ[STATE], sys.argv[1:]
    with open(path, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        asks = os.environ.get("GH_PROMPT_DISABLED") != "1"
        state["calls"].append({"words": words, "asks": asks})
        code, out, err = 0, "", ""
        try:
            out = answer(state, words)
        except Stop as stop:
            code, out, err = stop.code, stop.out, stop.err
        file.seek(0)
        file.truncate()
        json.dump(state, file)
    method = words[words.index("--method") + 1] if "--method" in words else ""
    if state["faults"].get(f"after {method}") == "kill":
        os.kill(os.getppid(), signal.SIGKILL)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


if __name__ == "__main__":
    sys.exit(main())
