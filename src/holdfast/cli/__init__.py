"""The command line: words in, one answer out.

``main`` parses (``parser`` over the data in ``table``), calls one function of a module in
``commands``, and prints what it answers: ``screen`` for people, ``answers.json`` as JSON.
Everything that is not needed for the command at hand stays unimported.
"""
