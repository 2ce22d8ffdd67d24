"""Mutations of the pool: ways in which two agents could get the same work."""

from promises.mutating import Mutation, answer

_POOL = "tests/hub/test_pool.py::"

CLAIMS = [
    Mutation(
        16, "no look at leases", "holdfast.hub.pool:_is_held", answer(False),
        f"{_POOL}TestTaking::test_each_agent_gets_the_oldest_that_is_left",
    ),
    Mutation(
        16, "no second look under the lock", "holdfast.hub.pool:Pool._is_ready", answer(True),
        f"{_POOL}TestTaking::test_what_another_took_meanwhile_is_left_to_it",
    ),
    Mutation(
        16, "a lease that forbids nothing", "holdfast.keeper.leases:check", answer(),
        f"{_POOL}TestLeases::test_an_agents_change_under_anothers_lease_is_refused",
    ),
    Mutation(
        16, "a lease without an end", "holdfast.keeper.leases:is_running", answer(True),
        f"{_POOL}TestLeases::test_the_work_of_a_dead_agent_comes_back_after_its_lease",
    ),
]  # fmt: skip
