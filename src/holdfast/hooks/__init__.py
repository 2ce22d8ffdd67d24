"""Hooks: how Holdfast gets a word in when an agent's client starts, compacts, reads and stops.

``entry`` is what the client runs; ``first`` finds out in no time when there is nothing to do;
``plans`` says what an event asks for; ``answers`` puts that into the words of the client.
"""
