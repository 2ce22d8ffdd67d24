"""Initiatives on the disk: their record, ``WORKFLOW-STATUS.yaml`` and milestone pages.

The ledger is the truth. The two kinds of files belong to people too: they are read, weighed and
patched in place. The YAML parser is imported in ``status_yaml.py`` alone, when a file is read.
"""

LOG = "initiatives"
"""The log that has them."""
