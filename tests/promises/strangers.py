"""Ways to break promise 13, each noticed in the repository of a stranger; rows of ``mutations``."""

_STRANGER = (
    "tests/promises/test_p13_repositories.py"
    "::test_a_stranger_runs_nothing_reads_nothing_and_writes_nothing_elsewhere"
)

STRANGERS = [
    (
        "run gates untrusted",
        [
            (
                "trust.py",
                "    if why is None and is_approved(workspace, command):",
                "    if why is None:",
            )
        ],
        f"{_STRANGER}[recipes_with_gates]",
    ),
    (
        "let a repository trust itself",
        [
            (
                "settings.py",
                "    _check(team, TEAM, _TABLES, _VALUES)\n",
                '    _check(team, TEAM, (*_TABLES, "trust"), _VALUES)\n    person |= team\n',
            )
        ],
        f"{_STRANGER}[settings_that_trust]",
    ),
    (
        "start a server untrusted",
        [
            (
                "graph/delivery.py",
                '    trust.check(engine.workspace, f"mcp:{name}", server.text, servers.FILE)\n',
                "",
            )
        ],
        f"{_STRANGER}[a_graph_that_a_server_keeps]",
    ),
    (
        "let git run a repository's filters",
        [
            (
                "evidence/git.py",
                "    filters = _filters(root) if words[0] in _READS_FILES else []\n",
                "    filters: list[str] = []\n",
            )
        ],
        f"{_STRANGER}[git_filters_files]",
    ),
    (
        "let git run a repository's hooks",
        [("evidence/git.py", 'f"core.hooksPath={os.devnull}"', '"core.bigFileThreshold=1g"')],
        f"{_STRANGER}[git_has_hooks]",
    ),
    (
        "believe a folder that its ledger lies elsewhere",
        [
            (
                "workspace.py",
                'return Workspace(folder, MAIN, os.path.join(folder, "holdfast"), folder, folder)',
                "return _in_git(folder, folder)",
            ),
            (
                "workspace.py",
                "    if shared and not _is_same(",
                "    if not shared and not _is_same(",
            ),
        ],
        f"{_STRANGER}[a_bare_repository_of_somebody_else]",
    ),
    (
        "tell the last line of whatever the log is",
        [("doctor.py", "Disk().read_own(path, _LOG_MOST)", "Disk().read(path, _LOG_MOST)")],
        f"{_STRANGER}[locks_and_logs_that_are_links]",
    ),
    (
        "keep the memory where a clone says",
        [
            (
                "memory/place.py",
                'main if "autoMemoryDirectory" in local and _is_tracked(workspace) else None',
                "None",
            )
        ],
        f"{_STRANGER}[a_memory_by_local_settings]",
    ),
    (
        "wait for a pipe in a client's settings",
        [
            (
                "memory/place.py",
                'jsontext.loads(Disk().read(path, _MOST) or b"{}")',
                'jsontext.loads(open(path, "rb").read())',
            )
        ],
        f"{_STRANGER}[pipes_and_devices]",
    ),
]
