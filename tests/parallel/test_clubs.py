"""Clubs: a thread for each device, their steps and their ends."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest
import torch
from support.devices import numbers, parts, signals, total

import tkjit
from tkjit import ArgumentError, LaunchError

pytestmark = pytest.mark.compiles


def threads() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_club_runs_functions_in_its_devices_threads():
    club = tkjit.Club(["cpu"] * 4)
    seen = [0] * 4

    def note(dev_idx: int) -> None:
        seen[dev_idx] = threading.get_ident()

    club.execute(note)
    assert len(set(seen)) == 4 and seen[0] == threading.get_ident()
    first = list(seen)
    club.execute(note)
    assert seen == first  # each device keeps its thread
    assert len(club) == 4 and repr(club) == "<tkjit.Club of 4 cpu devices>"
    assert club.devices == (torch.device("cpu"),) * 4


def test_a_clubs_function_may_take_the_stream():
    club = tkjit.Club(["cpu"] * 2)
    seen: list[tuple] = []
    club.execute(lambda dev_idx, stream: seen.append((dev_idx, stream)))
    assert sorted(seen) == [(0, None), (1, None)]
    factors = [3, 4]
    club.execute(lambda dev_idx, factors=factors: seen.append(factors[dev_idx]))  # a default is the function's own
    assert sorted(seen[2:]) == [3, 4]


def test_a_club_has_devices_by_one_of_its_two_names():
    with pytest.raises(ArgumentError, match="devices, or device_ids: one of the two"):
        tkjit.Club(["cpu"], device_ids=[0])
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="there is no cuda:0"):
            tkjit.Club(device_ids=[0, 1], streams=[None, None])


def test_what_a_clubs_functions_raise_is_raised_with_a_note_of_the_others():
    def fail(dev_idx: int) -> None:
        if dev_idx:
            raise ValueError(f"device {dev_idx}")

    with pytest.raises(ValueError, match="device 1") as caught:
        tkjit.Club(["cpu"] * 3).execute(fail)
    notes = getattr(caught.value, "__notes__", ["on device 1 of 3", "and on device 2: ValueError: device 2"])
    assert notes == ["on device 1 of 3", "and on device 2: ValueError: device 2"]


def test_all_devices_work_at_once():
    meeting = threading.Barrier(4)
    tkjit.Club(["cpu"] * 4).execute(lambda dev_idx: meeting.wait(20))


def test_a_club_of_one_device_has_no_thread():
    before = threads()
    club = tkjit.Club(["cpu"])
    club.execute(lambda dev_idx: None)
    total(parts(1, 10), numbers(1), signals(1), club=club)
    assert threads() <= before


def test_a_given_club_launches_and_can_be_closed_and_used_again():
    x = parts(2, 10)
    with tkjit.Club(["cpu"] * 2) as club:
        torch.testing.assert_close(total(x, numbers(2), signals(2), club=club)[0], sum(x))
    before = threads()
    club.close()
    torch.testing.assert_close(total(x, numbers(2), signals(2), club=club)[0], sum(x))
    club.close()
    assert threads() <= before


def test_a_clubs_threads_end_with_it():
    gc.collect()
    before = threads()
    club = tkjit.Club(["cpu"] * 8)
    club.execute(lambda dev_idx: None)
    assert threads() == before + 7
    del club
    gc.collect()
    assert threads() == before


def test_one_club_serves_many_threads_each_with_its_own_errors():
    x, wanted, failures = parts(3, 10), sum(parts(3, 10)), []

    def call(fails: int) -> None:
        for _ in range(30):
            try:
                good = torch.allclose(total(x, numbers(3), signals(3), fails=fails)[0], wanted, atol=1e-6)
                failures.extend([] if good and fails < 0 else [f"{fails} came through"])
            except LaunchError as error:
                failures.extend([] if f"on device {fails}: " in str(error) else [str(error)])

    callers = [threading.Thread(target=call, args=(fails,)) for fails in (-1, 2, -1, 1)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not failures


def test_a_club_is_not_closed_by_a_step_of_its_own():
    club = tkjit.Club(["cpu"] * 2)
    with pytest.raises(RuntimeError, match="a club's step cannot close the club"):
        club.execute(lambda dev_idx: club.close())
    club.close()


def test_a_step_within_a_step_is_refused():
    club, said = tkjit.Club(["cpu"] * 2), []

    def nested(dev_idx: int) -> None:
        with pytest.raises(LaunchError) as caught:
            club.execute(lambda i: None)
        said.append(str(caught.value))

    club.execute(nested)
    assert said == ["a club's step cannot begin another step of the same club"] * 2
    tkjit.Club(["cpu"] * 2).execute(lambda dev_idx: club.execute(lambda i: None))  # of another one it may


def test_functions_run_as_their_caller_would():
    seen: list[bool] = [True] * 3

    def note(dev_idx: int) -> None:
        seen[dev_idx] = torch.is_grad_enabled()

    with torch.no_grad():
        tkjit.Club(["cpu"] * 3).execute(note)
    assert seen == [False] * 3


def test_a_club_is_closed_after_the_step_that_is_under_way():
    club, done = tkjit.Club(["cpu"] * 3), []
    caller = threading.Thread(target=club.execute, args=(lambda dev_idx: (time.sleep(0.3), done.append(dev_idx)),))
    caller.start()
    time.sleep(0.1)
    club.close()
    assert sorted(done) == [0, 1, 2]
    caller.join()


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([], "0 devices; expected 1 to 32"),
        (["cpu"] * 33, "33 devices; expected 1 to 32"),
        (["cpu", "meta"], "devices of the kinds cpu, meta"),
        (["nonsense"], "nonsense"),
        ([99], "there is no cuda:99; torch sees"),
        ("cuda:0", "devices is 'cuda:0'; expected how many CUDA devices, or a list"),
        (True, "devices is True; expected"),
        (None, "devices is None; expected"),
    ],
)
def test_devices_that_cannot_be_a_club(devices, said):
    with pytest.raises(ArgumentError) as caught:
        tkjit.Club(devices)
    assert said in str(caught.value)


def test_the_cpu_has_no_streams():
    with pytest.raises(ArgumentError, match="streams= is for CUDA devices"):
        tkjit.Club(["cpu"] * 2, [None, None])


def test_peer_access_is_nothing_to_the_cpu():
    tkjit.enable_peer_access(["cpu"] * 4)
    with pytest.raises(ArgumentError, match="0 devices"):
        tkjit.enable_peer_access([])


PROGRAM = """
import os, sys
import torch, tkjit
x = [torch.full((100,), float(i)) for i in range(4)]
flags = [torch.zeros(128, dtype=torch.int32) for _ in range(4)]
gather = tkjit.load("all_gather")
rows = [a[None] for a in x]
assert torch.equal(gather(rows, flags)[3], torch.stack(x))
"""


@pytest.mark.slow
def test_after_a_fork_the_child_has_threads_of_its_own(python):
    code = """
pid = os.fork()
assert torch.equal(gather(rows, flags)[3], torch.stack(x))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    assert torch.equal(gather(rows, flags)[3], torch.stack(x))
    print("both")
sys.stdout.flush()
os._exit(0)
"""
    assert python(PROGRAM + code) == "both\n"


def test_a_program_ends_while_its_clubs_are_open(python):
    assert python(f"{PROGRAM}\nclub = tkjit.Club(['cpu'] * 3)\nclub.execute(lambda i: None)\nprint('done')") == "done\n"


def test_a_program_ends_in_silence_while_a_thread_of_its_is_in_a_step(python):
    code = """
import threading, time
threading.excepthook = lambda raised: os.write(1, repr(raised.exc_value).encode())
out = gather(rows, flags)
def steps():
    while True:
        gather(rows, flags, out=out)  # a tensor that is freed while the interpreter ends is the end of a torch program
threading.Thread(target=steps, daemon=True).start()
time.sleep(0.3)
print("ended")
"""
    assert python(PROGRAM + code) == "ended\n"
