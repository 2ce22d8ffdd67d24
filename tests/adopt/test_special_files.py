"""What is found in place of a file that is none: nothing waits for it, and it is kept."""

import os
import signal
import socket
import stat

import pytest

from holdfast import Fault, Refused
from holdfast.system.disk import MAX_RECORD_BYTES
from support.workshop import FORMATS, HOME, LEDGER, OneWorkflow, Workshop, lines_of

PATIENCE_S = 20


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    # The name of a socket may not be long.
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.basename(path))
    finally:
        os.chdir(here)


def a_folder(path):
    os.mkdir(path)


def a_huge_file(path):
    with open(path, "wb") as file:
        file.write(b"not a record")
        file.truncate(1 << 40)


@pytest.fixture(autouse=True)
def patience():
    """Whoever waits for a pipe waits for ever."""

    def give_up(_signal, _frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("odd", [a_pipe, a_socket, a_folder, a_huge_file])
@pytest.mark.parametrize("record_format", FORMATS)
def test_what_is_no_record_is_kept_aside_and_nothing_waits_for_it(tmp_path, record_format, odd):
    work = OneWorkflow(tmp_path, record_format)
    os.remove(work.shop.path(work.record))
    odd(work.shop.path(work.record))
    kind = stat.S_IFMT(os.lstat(work.shop.path(work.record)).st_mode)
    _, notes = work.looked()
    assert any("the last good state is kept" in note for note in notes)
    folder, name = os.path.split(work.shop.path(work.record))
    kept = [other for other in os.listdir(folder) if other.startswith(f"{name}.rejected-")]
    assert [stat.S_IFMT(os.lstat(os.path.join(folder, one)).st_mode) for one in kept] == [kind]
    assert work.looked() == (work.state, [])
    assert work.news() == []


@pytest.mark.parametrize("spare", [".holdfast", ".holdfast-saved-1"])
def test_a_pipe_beside_a_record_is_not_waited_for(tmp_path, spare):
    work = OneWorkflow(tmp_path, "skill")
    folder, name = os.path.split(work.shop.path(work.record))
    os.mkfifo(os.path.join(folder, f".{name}{spare}"))
    assert work.shop.keeper().remind("go on").state["reminders"][-1] == "go on"
    assert lines_of(work.shop.keeper()) == []


def test_a_pipe_in_place_of_the_ledger_is_a_fault(tmp_path):
    work = OneWorkflow(tmp_path, "skill")
    os.remove(work.shop.path(LEDGER))
    os.mkfifo(work.shop.path(LEDGER))
    keeper = work.shop.keeper()
    for ask in (keeper.workflows, keeper.verify, lambda: keeper.remind("go on")):
        with pytest.raises(Fault, match="it is not an ordinary file"):
            ask()


def test_a_pipe_in_place_of_the_lock_is_not_waited_for(tmp_path):
    work = OneWorkflow(tmp_path, "skill")
    os.remove(work.shop.path(HOME, "lock"))
    os.mkfifo(work.shop.path(HOME, "lock"))
    assert work.shop.keeper().remind("go on").state["reminders"][-1] == "go on"


def test_a_record_that_would_grow_too_large_is_refused_before_it_is_one(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    state = keeper.start("tdd", "much").state
    keeper.set_context({"small": "x"})
    with pytest.raises(Refused) as caught:
        keeper.set_context({"much": ["x" * 1_000] * (MAX_RECORD_BYTES // 1_000)})
    assert caught.value.code == "too_large"
    assert shop.keeper().settle(workflow=state["id"]).state["context"] == {"small": "x"}
    assert os.listdir(shop.path(os.path.dirname(state["record"]))) == [
        os.path.basename(state["record"])
    ]
