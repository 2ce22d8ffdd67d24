"""Briefings as the model gets them: found in its requests, and held against the ledger."""

import hashlib
import re

LIMIT = 10_000
"""What a client hands on whole; beyond it, a model gets a file's name and the first lines."""
_BRIEFING = re.compile(r"HOLDFAST BRIEFING.*?and can order nothing else\.", re.DOTALL)


def briefings(request):
    """All that a request has, oldest first: a context may hold those of earlier turns."""
    return _BRIEFING.findall(request.text)


def delivered(place, request, workflow, source):
    """The newest briefing of a request, when it is the one that the ledger says was delivered.

    A text that a session gets twice is recorded once, with the source of the first time.
    """
    found = briefings(request)
    assert found, "the request has no briefing"
    text = found[-1]
    assert f"id {workflow} " in text
    (*_, event) = (e for e in place.events("briefing_delivered") if e["stream"] == workflow)
    assert event["data"]["source"] == source
    assert event["data"]["characters"] == len(text)
    assert event["data"]["digest"] == hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return text
