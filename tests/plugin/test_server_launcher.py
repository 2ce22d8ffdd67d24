"""The launcher of the plugin's server: it becomes Holdfast, or says that there is none."""

import json
import subprocess
import sys

from support.paths import PLUGIN, SOURCE

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def launched(tmp_path, path):
    (server,) = json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"].values()
    words = [word.replace("${CLAUDE_PLUGIN_ROOT}", str(PLUGIN)) for word in server["args"]]
    return subprocess.run(
        [f"/bin/{server['command']}", *words],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path / "nobody")},
        input=PING,
        capture_output=True,
        check=False,
    )


def a_program(folder):
    folder.mkdir()
    program = folder / "holdfast"
    program.write_text(
        f"#!{sys.executable} -I\nimport sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
        "from holdfast.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return str(folder)


def test_the_server_that_is_installed_answers(tmp_path):
    done = launched(tmp_path, a_program(tmp_path / "bin"))
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_missing_program_says_so(tmp_path):
    done = launched(tmp_path, "/nowhere")
    assert (done.returncode, done.stdout) == (127, b"")
    assert b"from a checkout of Holdfast: pipx install ." in done.stderr


def test_a_program_of_the_repository_is_not_taken(tmp_path):
    a_program(tmp_path / "bin")
    assert launched(tmp_path, ":.:bin").returncode == 127
