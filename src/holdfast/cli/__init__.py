"""The command line: words in, one answer out.

``main`` reads the words by the grammar in ``parser``, calls the one function of ``commands`` that
they name, and prints its ``answer``: for people as a ``screen`` can show it, or as JSON. Modules
that the command does not need are not imported.
"""
