"""The documentation as a product: ``make docs`` checks it, writes its schemas, builds its site.

``pages`` reads Markdown, ``links`` and ``covered`` find what is wrong, ``declared`` asks Holdfast
what it has, ``schemas`` describes its data, ``site`` makes HTML. ``__main__`` runs all of it.
"""
