"""Two hosts share a cache. Each host is a set of processes in its own PID, UTS and mount namespaces.

`test_locks.py` simulates other hosts for systems without namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fake_builder import RECIPE, Builder, below, forget_leases, loader_lookup

from tkjit.cache import building
from tkjit.cache.staging import ABANDONED_S

TESTS = Path(__file__).parents[1]


@pytest.fixture
def on_host() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a snippet on a host with the given name; the host's processes end with it."""
    unshare = shutil.which("unshare")
    words = [*([unshare, "--pid", "--fork", "--kill-child", "--uts", "--mount", "--mount-proc"] if unshare else [])]
    words += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if not unshare or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("two hosts need unshare (util-linux), and root or user namespaces (docker run --privileged)")
    started: list[subprocess.Popen] = []

    def run(name: str, code: str, *arguments: object) -> subprocess.Popen:
        imports = "from support.fake_builder import *; from support.lock_holders import *"
        snippet = f"import socket, sys\nsocket.sethostname({name!r})\n{imports}\n{code}"
        process = subprocess.Popen(
            [*words, sys.executable, "-c", snippet, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


BUILD = """
cache, builder = Cache(Path(sys.argv[1]), ABI), Builder(Path(sys.argv[2]), seconds=0.3)
report = lambda text: print(text, flush=True)
print(cache.build(RECIPE, builder, report_wait=report).directory.name, builder.calls, this_process().host)
"""


def test_only_one_of_two_hosts_builds(on_host, entries, header):
    hosts = [on_host(f"node{number % 2}", BUILD, entries.root, header) for number in range(4)]
    printed = [host.communicate(timeout=60)[0].split() for host in hosts]
    assert len({name for name, _, _ in printed}) == 1
    # the builder may compile twice, because the header is so new that it may have been read before its last write
    assert [calls != "0" for _, calls, _ in printed].count(True) == 1
    assert {host for _, _, host in printed} == {"node0", "node1"}


HOLD = """
def during():
    print("at work", flush=True)
    time.sleep(60)

Cache(Path(sys.argv[1]), ABI).build(RECIPE, Builder(Path(sys.argv[2]), during=during))
"""


def test_dead_host_does_not_block_others_and_its_leftovers_are_removed(on_host, entries, header):
    dying = on_host("node0", HOLD, entries.root, header)
    assert dying.stdout.readline() == "at work\n"
    waiting = on_host("node1", f"print('begun', flush=True)\n{BUILD}", entries.root, header)
    # The second host starts before the first one dies. A later host could get the first one's namespace number, and
    # would then know that all processes of the first host are dead.
    assert waiting.stdout.readline() == "begun\n"
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    start = time.monotonic()
    *_, calls, host = waiting.communicate(timeout=60)[0].split()
    assert host == "node1" and calls != "0"  # it may compile twice, as above
    assert time.monotonic() - start < 10, "the lock must end with its host"
    (staging,) = entries.root.rglob(".staging-*")
    entries.build(RECIPE, Builder(header), replacing=loader_lookup(entries))
    assert staging.exists(), "another machine may still be working in it"
    long_ago = time.time() - ABANDONED_S - 1
    os.utime(staging, (long_ago, long_ago))
    building.sweep(entries.base)
    assert below(entries.root, ".staging-*") == []


def test_waiter_names_the_host_that_builds(on_host, entries, header, monkeypatch):
    monkeypatch.setattr(building, "REPORT_S", 0.0)
    builder = on_host("node7", HOLD, entries.root, header)
    assert builder.stdout.readline() == "at work\n"
    reports: list[str] = []

    def report(text: str) -> None:
        reports.append(text)
        builder.kill()

    assert entries.build(RECIPE, Builder(header), report_wait=report)
    assert "on node7 has been building it for" in reports[0]


USE = """
from tkjit.cache import eviction
cache = Cache(Path(sys.argv[1]), ABI)
if sys.argv[2] == "use":
    print(loader_lookup(cache).directory.name, flush=True)
    time.sleep(60)
print(len(eviction.clear(cache)))
"""


def test_entries_used_by_another_host_are_kept(on_host, entries, header):
    entries.build(RECIPE, Builder(header))
    forget_leases(entries)
    user = on_host("node0", USE, entries.root, "use")
    assert user.stdout.readline().strip()
    assert on_host("node1", USE, entries.root, "clear").communicate(timeout=60)[0] == "0\n"
    user.kill()
    user.wait()
    assert on_host("node1", USE, entries.root, "clear").communicate(timeout=60)[0] == "1\n"
