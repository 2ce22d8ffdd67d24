"""Holdfast over MCP: two servers on standard input and output, for any agent that speaks it.

``stdio`` moves lines, ``messages`` gives them their shape in both eras of the protocol, ``server``
answers; ``workflows`` and ``memory`` are what is served.
"""
