"""The folders that tests name."""

import os
from pathlib import Path

import holdfast

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugin"
SAMPLES = ROOT / "tests" / "support" / "samples"
"""Records of every format, as other tools and agents write them."""
TESTS = str(ROOT / "tests")
SOURCE = os.path.dirname(os.path.dirname(holdfast.__file__))
"""The folder of the package under test, which a test of a mutation replaces; for ``PYTHONPATH``."""
