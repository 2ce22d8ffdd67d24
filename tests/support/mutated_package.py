"""The package under test with one mutation of ``promises/mutations.py``, for other processes."""

import os

from support.paths import SOURCE, TESTS

APPLIED = """\
import sys
sys.path.append({tests!r})
from promises.mutating import install
from promises.mutations import MUTATIONS
install(next(one for one in MUTATIONS if one.name == {name!r}))
sys.path.remove({tests!r})
"""


def make_mutated_package(folder, mutation=None):
    """Return a folder that the package can be imported from, with the mutation or without one."""
    os.symlink(os.path.join(SOURCE, "holdfast"), folder / "holdfast")
    if mutation is not None:
        text = APPLIED.format(tests=TESTS, name=mutation.name)
        (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return str(folder)
