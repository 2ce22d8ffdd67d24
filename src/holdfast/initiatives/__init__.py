"""Initiatives on the disk: their record, ``WORKFLOW-STATUS.yaml`` and the milestone pages.

The ledger is the truth. The two kinds of files belong to people too: they are read, compared and
patched in place. The YAML parser is imported in ``status_yaml.py`` alone, the Markdown parser in
``layers/markdown.py`` alone, when a file is not as Holdfast wrote it.
"""
