"""Setting Holdfast up in the settings of an agent's client, and taking it out again.

``agents`` knows the clients and their files; ``spans`` and ``document`` change a JSON text without
touching what is not theirs; ``hooks`` says which hooks are ours; ``journal`` remembers what stood
there before; ``client_files`` reads and replaces; ``setup`` puts all of it together.
"""

from __future__ import annotations

from holdfast.install.setup import Outcome, init, uninstall

__all__ = ["Outcome", "init", "uninstall"]
