"""Evidence: run commands, read test results from their output, and digest the working tree.

Functions here return outcomes; the keeper records them. No common command imports this room, so its
modules may import what they need.
"""
