"""Holdfast over MCP: two servers on standard input and output, for any agent that speaks it.

``stdio`` moves lines, ``messages`` parses and renders them in both eras of the protocol, and
``server`` dispatches requests. ``workflows`` and ``memory`` are the two applications.
"""
