"""Loops: units of work in bounded iterations, and the Markdown pages that show them to people.

The pages are shared documents. Text goes in, text or data comes out: nothing in the modules on
pages opens a file. The Markdown parser is imported in ``layers/markdown.py`` alone, when
a page is read.
"""
