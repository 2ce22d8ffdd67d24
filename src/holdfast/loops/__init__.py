"""Loops: units of work in bounded iterations, with Markdown pages for people.

``loops`` is the library's class. ``pages`` renders and ``page_model`` parses and patches: text in,
text or data out. ``page_files`` and ``rebuild`` connect pages and ledger. The Markdown parser is
imported in ``layers/markdown.py`` alone, when a page was edited.
"""
