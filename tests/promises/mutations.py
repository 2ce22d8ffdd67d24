"""Ways to break each promise, and the test that must notice.

A row is ``Mutation(promise, name, changes, test)``:

- ``promise``  the number of the promise that the change breaks;
- ``name``     the change in a few words, unique; it becomes the test's id;
- ``changes``  one or more ``(file, old, new)``: ``file`` from ``src/holdfast``, ``old`` a text that
  stands in it exactly once, ``new`` what replaces it. When ``old`` is not found, or is found more
  than once, the check fails and says so: the row has to follow the source;
- ``test``     a pytest selector from the repository's root. It has to pass on an unchanged copy of
  the source and to fail on the changed one, so it should be as narrow and as quick as can be
  (a parametrised case: ``tests/promises/test_p01_kill.py::test_kill[dev-advance]``);
- ``whole``    (optional) run it with ``HOLDFAST_PROMISES=full``, when a sample may miss the change.

To add a promise, append rows below; ``test_mutations.py`` does the rest.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    promise: int
    name: str
    changes: list[tuple[str, str, str]]
    test: str
    whole: bool = False


MUTATIONS: list[Mutation] = []
