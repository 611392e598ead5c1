"""A program that a command starts dies with it, and is otherwise started as a shell would."""

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
def test_a_program_dies_with_its_parent(ending):
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        program = int(parent.stdout.readline())
        assert start_time(program) is not None
        parent.send_signal(ending)
    wait_until(lambda: start_time(program) is None, 5, "the program ends")


def test_a_program_whose_parent_is_gone_already_is_not_started():
    command = dying_with_parent(["echo", "started"])
    assert command[4] == str(os.getpid())
    command[4] = "1"
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


def test_a_program_gets_its_words_its_input_and_its_environment():
    done = run("sh", "-c", 'cat; echo "$0 $MINE"; exit 3', "a b", input="in ", env={**os.environ, "MINE": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "in a b 1\n", "")
    assert run("sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


def test_a_program_gets_the_default_signals():
    done = run("grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_a_program_that_cannot_be_run(tmp_path):
    (tmp_path / "text").write_text("")
    for name, status, reason in (("none", 127, "No such file or directory"), ("text", 126, "Permission denied")):
        done = run(tmp_path / name)
        assert (done.returncode, done.stderr) == (status, f"tkjit: {tmp_path / name} does not run: {reason}\n")
