"""The parts of ``holdfast watch``.

``poller`` reads the repositories that were written since the last look, as plain data. ``viewer``
has what a person has chosen to see; it takes the keys, and makes the lines of the window: of the
list (``frame``, made of ``rows``), or of one workflow, of what a search has found, of the keys
(``opened``). A key that changes something begins a dialog (``dialogs``), which asks first.
``terminal`` draws the lines and waits for bytes, and ``keys`` says which keys these are.
"""
