"""The command line: words in, one answer out.

``main`` parses (``arguments`` over the data in ``table``), calls one function of a command module
(``workflows``, ``steps``, ``upkeep``), and prints what it answers: ``screen`` for people, ``views``
as JSON. Everything that is not needed for the command at hand stays unimported.
"""
