"""``holdfast web``: all repositories of a person on one page, served on loopback.

A browser asks ``security``, which knows whom it has let in, and then ``pages``. A page is made from
plain data (``views``) that a keeper of each repository returns; keepers work in threads of their
own (``desk``). A form calls a method of the keeper (``actions``), the same one as a command of the
terminal; what only a person decides needs a browser that was paired (``pairing``). While somebody
looks, ``live`` watches the ledgers and tells the browsers what changed.
"""
