"""Builds the object files of an extension in parallel, one per core."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from tkjit.cache import Entry
from tkjit.loader import Loader, Plan
from tkjit.system.machine import usable_cores


def find_or_build_all(loader: Loader, plans: Sequence[Plan]) -> list[Entry]:
    """Return the entry of each plan, and build the missing ones in parallel.

    Raises
    ------
    TkjitError
        The error of the first plan that failed. Builds that have not started are cancelled; running ones finish first.
    """
    if len(plans) < 2:
        return [loader.find_or_build(plan) for plan in plans]
    with ThreadPoolExecutor(min(usable_cores(), len(plans)), thread_name_prefix="tkjit-object") as pool:
        builds = [pool.submit(loader.find_or_build, plan) for plan in plans]
        try:
            wait(builds, return_when=FIRST_EXCEPTION)
        except BaseException:  # on Ctrl-C, stop the compilers and leave no partial entry
            pool.shutdown(wait=False, cancel_futures=True)
            loader.cache.interrupt(lambda: not any(build.running() for build in builds))
            raise
        pool.shutdown(wait=True, cancel_futures=True)
        failed = [error for build in builds if not build.cancelled() and (error := build.exception()) is not None]
        if failed:
            raise failed[0]
    return [build.result() for build in builds]
