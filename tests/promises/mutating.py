"""How something of the product is replaced by something broken, by its name.

``test_mutations.py`` says how the processes that a test starts come to do the same.
"""

import sys
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any, NamedTuple


class Mutation(NamedTuple):
    """A way to break a promise, and the test that must notice."""

    promise: int
    """The number of the promise that it breaks."""
    name: str
    """What it does in a few words, unique; it becomes the test's id."""
    target: str
    """What is replaced: ``"holdfast.storage.database:Database.begin"``."""
    broken: Any
    """Gets what stands there (a function, a class, a constant), and returns what replaces it."""
    test: str
    """A pytest selector from the repository's root: it passes without the mutation and fails with
    it, so it should be as narrow and as quick as can be."""
    whole: bool = False
    """Run the test with ``HOLDFAST_PROMISES=full``: a sample may miss the change."""

    @property
    def module(self):
        return self.target.partition(":")[0]

    def apply(self, module):
        """Replace the target in its module; raise ``AttributeError`` if it has none."""
        owner = module
        *path, name = self.target.partition(":")[2].split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, name, self.broken(getattr(owner, name)))


def install(mutation):
    """Have the mutation applied as soon as its module is imported."""
    sys.meta_path.insert(0, _Finder(mutation))


class _Finder:
    def __init__(self, mutation):
        self._mutation = mutation

    def find_spec(self, name, path=None, _target=None):
        if name != self._mutation.module:
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = _Loader(self._mutation, name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, mutation, *where):
        super().__init__(*where)
        self._mutation = mutation

    def exec_module(self, module):
        super().exec_module(module)
        self._mutation.apply(module)


# What often stands in a row as ``broken``


def value(constant):
    """Put a constant there."""
    return lambda _original: constant


def answer(result=None):
    """Put a function there that does nothing but answer this."""
    return lambda _original: lambda *_arguments, **_options: result
