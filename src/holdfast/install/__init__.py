"""Set Holdfast up in the settings of an agent's client, take it out again, and check that it works.

``agents`` describes the clients; ``entries`` recognises, adds and removes our hooks and our server;
``client_files`` is each file with and without them, ``sandbox`` Codex's configuration; ``changes``
writes the files so that they can be restored; ``setup`` is ``init`` and ``uninstall``; ``doctor``
checks everything that Holdfast needs.
"""

from __future__ import annotations

from holdfast.install.setup import SetupOutcome, init, uninstall

__all__ = ["SetupOutcome", "init", "uninstall"]
