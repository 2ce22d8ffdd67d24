"""L2: what a next session should know, in the ``MEMORY.md`` that its client loads by itself."""
