"""Work on an initiative is in the pool like any other."""


def test_the_work_on_a_milestone_can_be_taken(repo):
    repo.ok("initiative", "create", "Tidy billing", "--milestone", "M1: Map the readers")
    repo.ok("initiative", "start", "M1")
    repo.ok("start", "dev", "features/reader.md", "--milestone", "M1")
    (row,) = repo.ok("pool", "ready")["ready"]
    assert (row["initiative"], row["milestone"]) == ("Tidy billing", "M1")
    taken = repo.ok("pool", "take", "--session", "ada")
    assert taken["workflow"]["id"] == row["id"]
    assert taken["workflow"]["initiative"]["milestone"] == "M1"
