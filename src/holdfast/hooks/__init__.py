"""Hooks: how Holdfast gets a word in when an agent's client starts, compacts, reads and stops.

``entry`` is what the client runs; ``quick_check`` finds out in no time when there is nothing to do;
``handlers`` says what an event asks for; ``responses`` puts that into the words of the client.
"""
