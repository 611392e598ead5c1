"""Clubs: a thread for each device, their steps, and how they end."""

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
    """The number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_club_runs_a_function_in_the_thread_of_each_device():
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


def test_a_function_can_take_the_stream():
    club = tkjit.Club(["cpu"] * 2)
    seen: list[tuple] = []
    club.execute(lambda dev_idx, stream: seen.append((dev_idx, stream)))
    assert sorted(seen) == [(0, None), (1, None)]
    factors = [3, 4]
    club.execute(
        lambda dev_idx, factors=factors: seen.append(factors[dev_idx])
    )  # a parameter with a default gets no stream
    assert sorted(seen[2:]) == [3, 4]


def test_a_club_takes_devices_under_only_one_of_two_names():
    with pytest.raises(ArgumentError, match="expected devices or device_ids, got both"):
        tkjit.Club(["cpu"], device_ids=[0])
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="there is no cuda:0"):
            tkjit.Club(device_ids=[0, 1], streams=[None, None])


def test_execute_raises_the_first_error_with_notes_about_the_others():
    def fail(dev_idx: int) -> None:
        if dev_idx:
            raise ValueError(f"device {dev_idx}")

    with pytest.raises(ValueError, match="device 1") as caught:
        tkjit.Club(["cpu"] * 3).execute(fail)
    notes = getattr(caught.value, "__notes__", ["on device 1 of 3", "and on device 2: ValueError: device 2"])
    assert notes == ["on device 1 of 3", "and on device 2: ValueError: device 2"]


def test_all_devices_run_at_the_same_time():
    meeting = threading.Barrier(4)
    tkjit.Club(["cpu"] * 4).execute(lambda dev_idx: meeting.wait(20))


def test_a_club_of_one_device_has_no_thread():
    before = threads()
    club = tkjit.Club(["cpu"])
    club.execute(lambda dev_idx: None)
    total(parts(1, 10), numbers(1), signals(1), club=club)
    assert threads() <= before


def test_a_club_can_be_used_again_after_it_was_closed():
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


def test_threads_can_share_a_club_and_get_only_their_own_errors():
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


def test_a_step_cannot_close_its_own_club():
    club = tkjit.Club(["cpu"] * 2)
    with pytest.raises(RuntimeError, match="a club's step cannot close the club"):
        club.execute(lambda dev_idx: club.close())
    club.close()


def test_a_nested_step_of_the_same_club_is_rejected():
    club, errors = tkjit.Club(["cpu"] * 2), []

    def nested(dev_idx: int) -> None:
        with pytest.raises(LaunchError) as caught:
            club.execute(lambda i: None)
        errors.append(str(caught.value))

    club.execute(nested)
    assert errors == ["a club's step cannot begin another step of the same club"] * 2
    tkjit.Club(["cpu"] * 2).execute(lambda dev_idx: club.execute(lambda i: None))  # a step of another club is allowed


def test_functions_inherit_the_callers_grad_mode():
    seen: list[bool] = [True] * 3

    def note(dev_idx: int) -> None:
        seen[dev_idx] = torch.is_grad_enabled()

    with torch.no_grad():
        tkjit.Club(["cpu"] * 3).execute(note)
    assert seen == [False] * 3


def test_close_waits_for_the_running_step():
    club, done = tkjit.Club(["cpu"] * 3), []
    caller = threading.Thread(target=club.execute, args=(lambda dev_idx: (time.sleep(0.3), done.append(dev_idx)),))
    caller.start()
    time.sleep(0.1)
    club.close()
    assert sorted(done) == [0, 1, 2]
    caller.join()


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ([], "0 devices; expected 1 to 32"),
        (["cpu"] * 33, "33 devices; expected 1 to 32"),
        (["cpu", "meta"], "devices of the kinds cpu, meta"),
        (["nonsense"], "nonsense"),
        ([99], "there is no cuda:99; torch sees"),
        ("cuda:0", "devices is 'cuda:0'; expected a number of CUDA devices, or a list"),
        (True, "devices is True; expected"),
        (None, "devices is None; expected"),
    ],
)
def test_invalid_devices_are_rejected(devices, text):
    with pytest.raises(ArgumentError) as caught:
        tkjit.Club(devices)
    assert text in str(caught.value)


def test_the_cpu_has_no_streams():
    with pytest.raises(ArgumentError, match="streams= is for CUDA devices"):
        tkjit.Club(["cpu"] * 2, [None, None])


def test_enabling_peer_access_does_nothing_on_the_cpu():
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
def test_a_forked_child_starts_its_own_threads(python):
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


def test_a_program_can_exit_with_open_clubs(python):
    assert python(f"{PROGRAM}\nclub = tkjit.Club(['cpu'] * 3)\nclub.execute(lambda i: None)\nprint('done')") == "done\n"


def test_a_program_exits_silently_while_a_thread_runs_steps(python):
    code = """
import threading, time
threading.excepthook = lambda raised: os.write(1, repr(raised.exc_value).encode())
out = gather(rows, flags)
def steps():
    while True:
        gather(rows, flags, out=out)  # allocates nothing: freeing a tensor while the interpreter exits crashes torch
threading.Thread(target=steps, daemon=True).start()
time.sleep(0.3)
print("ended")
"""
    assert python(PROGRAM + code) == "ended\n"
