"""A program dies with the process that started it, and otherwise runs as if started by a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

from tkjit.system.die_with_parent import dying_with_parent
from tkjit.system.start_time import start_time

STARTS = """
import subprocess
from tkjit.system.die_with_parent import dying_with_parent
subprocess.run(dying_with_parent(["sh", "-c", "echo $$; exec sleep 60"]))
"""


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(dying_with_parent(command), capture_output=True, text=True, **options)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_program_dies_with_its_parent(ending):
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        program = int(parent.stdout.readline())
        assert start_time(program) is not None
        parent.send_signal(ending)
    wait_until(lambda: start_time(program) is None, 5, "the program ends")


def test_program_does_not_start_if_its_parent_has_already_ended():
    command = dying_with_parent(["echo", "started"])
    assert command[4] == str(os.getpid())
    command[4] = "1"
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


def test_program_gets_arguments_input_and_environment():
    done = run("sh", "-c", 'cat; echo "$0 $MINE"; exit 3', "a b", input="in ", env={**os.environ, "MINE": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "in a b 1\n", "")
    assert run("sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


def test_program_gets_default_signal_handling():
    done = run("grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_program_that_cannot_be_run_is_reported(tmp_path):
    (tmp_path / "text").write_text("")
    for name, status, reason in (("missing", 127, "No such file or directory"), ("text", 126, "Permission denied")):
        done = run(tmp_path / name)
        assert (done.returncode, done.stderr) == (status, f"tkjit: {tmp_path / name} does not run: {reason}\n")
