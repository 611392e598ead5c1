"""Parallel builds of ``warmup``, and their interruption by Ctrl-C."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tkjit.cli import parallel_builds


class Builds:
    """A loader whose builds last until their compiler is ended. The compiler starts 0.3 s after the build."""

    def __init__(self, root) -> None:
        self.cache = SimpleNamespace(root=root, interruptions=0, interrupt=self.interrupt)
        self.finished: list[str] = []
        self.compiler_runs = self.is_killed = False

    def find(self, plan):
        return None

    def find_or_build(self, plan):
        time.sleep(0.3)
        self.compiler_runs, deadline = True, time.monotonic() + 3
        while time.monotonic() < deadline:
            if self.is_killed:
                raise KeyboardInterrupt
            time.sleep(0.005)
        self.finished.append(plan.what)

    def interrupt(self, is_over):
        self.cache.interruptions += 1
        while not is_over():
            self.is_killed = self.compiler_runs
            time.sleep(0.005)


def test_build_whose_submission_is_interrupted_is_ended(tmp_path, monkeypatch):
    """An interrupted submission returns no future, so ending the builds of all futures would miss this build."""
    submit = ThreadPoolExecutor.submit

    def interrupted(*args):
        submit(*args)
        time.sleep(0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    monkeypatch.setattr(parallel_builds, "estimated_bytes", lambda plan, known: 0)
    builds = Builds(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        parallel_builds.build_all(builds, [SimpleNamespace(what="one", warm_key="one")], 2, 1 << 30, has_kernels=False)
    assert builds.finished == []
