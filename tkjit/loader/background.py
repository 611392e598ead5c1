"""Builds in the background. A call waits only for the builds that it needs, and the program exits without waiting."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from tkjit.cache import Cache, Entry
from tkjit.cache.listing import list_entries
from tkjit.errors import CacheError
from tkjit.loader.memory_budget import MemoryBudget, estimated_bytes
from tkjit.loader.plan import Plan
from tkjit.system.machine import available_memory_bytes, usable_cores

END_S = 5.0  # how long ``interrupt`` waits for the compilers to end
_POLL_S = 0.02


class Job:
    """A build, with its result."""

    def __init__(self, what: str, work: Callable[[], object]) -> None:
        self.what = what
        self.error: BaseException | None = None
        self.is_over = False
        self._work = work

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # the waiting thread raises it
            self.error = error
        finally:
            self.is_over = True

    def cancel(self, error: BaseException) -> None:
        """End a build that will never begin by giving it an error. Do nothing if the build has already ended."""
        if not self.is_over:
            self.error = error
            self.is_over = True


class Builds:
    """A group of builds that were started together."""

    def __init__(self, jobs: Sequence[Job], interrupt: Callable[[], None]) -> None:
        self._jobs = jobs
        self._interrupt = interrupt

    @property
    def names(self) -> list[str]:
        """The names of the builds: ``softmax (T=float32) for sm_90a``."""
        return [job.what for job in self._jobs]

    @property
    def done(self) -> bool:
        """Whether all builds have ended, successfully or not."""
        return all(job.is_over for job in self._jobs)

    def wait(self) -> None:
        """Wait for all builds of the group. Ctrl-C ends them, and also the other builds of this process.

        Raises
        ------
        TkjitError
            The first error, after all builds have ended. Python 3.11 and later show the other errors as notes.
        """
        try:
            while not self.done:
                time.sleep(_POLL_S)
        except BaseException:
            self._interrupt()
            raise
        errors = [job.error for job in self._jobs if job.error is not None]
        if not errors:
            return
        if hasattr(errors[0], "add_note") and not getattr(errors[0], "__notes__", ()):
            for error in errors[1:]:
                errors[0].add_note(f"and {error}")
        raise errors[0]

    def __repr__(self) -> str:
        over = sum(job.is_over for job in self._jobs)
        return f"<{over} of {len(self._jobs)} builds have ended>"


class Background:
    """Runs the threads that build in the background: at most one per core, each started when there is work for it.

    Parameters
    ----------
    cache : Cache
        The cache in which the builds are stored.
    find, build : callable
        ``find`` returns a plan's entry if it is in the cache, and ``build`` builds it.
    """

    def __init__(self, cache: Cache, find: Callable[[Plan], Entry | None], build: Callable[[Plan], Entry]) -> None:
        self._cache, self._find, self._find_or_build = cache, find, build
        self._waiting: dict[str, Job] = {}  # maps plans' warm keys to jobs, so that equal plans are built once
        self._renew()
        os.register_at_fork(after_in_child=self._renew)
        atexit.register(self._end)

    def _renew(self) -> None:
        for job in self._waiting.values():  # a forked child has no threads to run these jobs
            job.cancel(CacheError(f"{job.what} is being built by the process that this one was forked from"))
        self._queue: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._waiting = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._budget = MemoryBudget(available_memory_bytes())

    def start(self, plans: Sequence[Plan], more: Sequence[tuple[str, Callable[[], object]]] = ()) -> Builds:
        """Start to build plans, and to run the additional jobs in ``more``, each a pair of a name and a function."""
        given = [(plan.warm_key, Job(plan.what, lambda plan=plan: self._build(plan))) for plan in plans]  # type: ignore[misc]
        given += [(what, Job(what, work)) for what, work in more]
        jobs: dict[str, Job] = {}
        with self._lock:
            self._waiting = {key: job for key, job in self._waiting.items() if not job.is_over}
            for key, job in given:
                known = self._waiting.get(key)
                if known is None:
                    known = self._waiting[key] = job
                    self._queue.put(job)
                jobs[key] = known
            while len(self._threads) < min(usable_cores(), len(self._waiting)):
                # a daemon thread, so that the program does not wait for it at exit
                thread = threading.Thread(target=self._work, daemon=True, name="tkjit-build")
                self._threads.append(thread)
                thread.start()
        return Builds(list(jobs.values()), self.interrupt)

    def _work(self) -> None:
        jobs = self._queue
        while True:
            job = jobs.get()
            if not job.is_over:
                job.run()

    def _build(self, plan: Plan) -> None:
        if self._find(plan) is not None:
            return
        with self._budget.taking(estimated_bytes(plan, list_entries(self._cache.root))):
            self._find_or_build(plan)

    def interrupt(self) -> None:
        """End all builds, including those that have not started."""
        with self._lock, suppress(queue.Empty):
            while True:
                self._queue.get_nowait().cancel(KeyboardInterrupt())
        until = time.monotonic() + END_S
        self._cache.interrupt(lambda: self._is_idle or time.monotonic() > until)

    @property
    def _is_idle(self) -> bool:
        return all(job.is_over for job in list(self._waiting.values()))

    def _end(self) -> None:
        if not self._is_idle:
            self.interrupt()
