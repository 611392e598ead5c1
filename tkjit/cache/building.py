"""Builds an entry: takes the build lock, compiles in a staging directory, and publishes with an atomic rename."""

from __future__ import annotations

import dataclasses
import errno
import os
import secrets
import shutil
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from tkjit.cache import fingerprints
from tkjit.cache.checked_json import DamagedError
from tkjit.cache.directory import Directory
from tkjit.cache.entry import MANIFEST, Entry, check_intact, complete, files_and_places, read_manifest
from tkjit.cache.failures import failure_of, leave_failure
from tkjit.cache.locks import Holder, Lock, hold_build_lock
from tkjit.cache.recipe import Product, Recipe
from tkjit.cache.staging import STAGING, make_staging, remove_staging, sweep
from tkjit.errors import CacheError, CompileError, TkjitWarning
from tkjit.system import files, watchdog
from tkjit.system.process import end_working_in, name_of, working_in

BROKEN = ".broken-"
ATTEMPTS = 4  # how often a build is tried if headers are edited while it runs
DIRECTORY_TRIES = 100  # tries for an action in a recipe's directory, which another process may remove each time
# a waiting process reports who is building after this time, before its progress display would claim to compile
REPORT_S = 1.5
INTERRUPT_S = 0.1
EVICTION_S = 10.0  # the removal of one entry takes at most this long

Builder = Callable[[Path], Product]
Result = TypeVar("Result")


class Lookup(Protocol):
    """A function that finds the entry of a recipe."""

    def __call__(self, recipe: Recipe, *, exclude: Entry | None) -> Entry | None: ...


def build(
    cache: Directory,
    lookup: Lookup,
    recipe: Recipe,
    builder: Builder,
    what: str,
    replacing: Entry | None,
    report_wait: Callable[[str], None],
    watch_after_s: float | None,
) -> Entry:
    """Implement ``Cache.build``; see there."""
    stamp = _stamp(replacing)
    with _locked(cache, recipe, what, report_wait) as (lock, check):
        if not lock.is_held:
            _warn_of_no_locks(cache, what)
        if _stamp(replacing) != stamp:
            replacing = None  # the previous holder of the lock has already replaced the entry
        if (entry := lookup(recipe, exclude=replacing)) is not None:
            return entry
        if (failure := failure_of(cache.failure_directory(recipe), lock.awaited)) is not None:
            raise failure
        # do this only after taking the lock, because its previous holder may have been killed
        sweep(cache.base)
        if replacing is None and (entry := _fetch(cache, lookup, recipe, lock, check)) is not None:
            return entry
        states: dict[str, bytes] = {}
        for _ in range(ATTEMPTS):
            with _failures_left(cache, recipe, lock, check):
                built = _attempt(cache, recipe, builder, lock, replacing, states, watch_after_s)
            check()
            if built is not None:
                if cache.remote is not None:
                    cache.remote.offer(built.directory)
                return built
    raise CacheError(f"{what}: a file that it includes changed each time it was compiled; is something rewriting it?")


def fetch(
    cache: Directory, lookup: Lookup, recipe: Recipe, what: str, report_wait: Callable[[str], None]
) -> Entry | None:
    """Implement ``Cache.fetch``; see there."""
    with _locked(cache, recipe, what, report_wait) as (lock, check):
        return lookup(recipe, exclude=None) or _fetch(cache, lookup, recipe, lock, check)


@contextmanager
def _locked(
    cache: Directory, recipe: Recipe, what: str, report_wait: Callable[[str], None]
) -> Iterator[tuple[Lock, Callable[[], None]]]:
    """Hold a recipe's build lock. Yield it, and a function that raises KeyboardInterrupt once builds have to end."""
    interruptions = cache.interruptions

    def check() -> None:
        if cache.interruptions != interruptions:
            raise KeyboardInterrupt

    def report(holder: Holder, seconds: float) -> None:
        if seconds > REPORT_S:
            report_wait(_waiting_text(holder))

    with ExitStack() as stack:
        with cache.writing():
            lock = stack.enter_context(_build_lock(cache, recipe, what, check, report))
        yield lock, check


def _fetch(cache: Directory, lookup: Lookup, recipe: Recipe, lock: Lock, check: Callable[[], None]) -> Entry | None:
    """Fetch an entry from the remote cache and publish it; then look it up, which checks it like any other entry."""
    if cache.remote is None or recipe.stays_here:
        return None
    with _staged(cache, recipe, lock) as staging:
        fetched = cache.remote.fetch(recipe, staging, check)
        if fetched is None:
            return None
        with cache.writing():
            _publish(cache, recipe, fetched.product, staging, fetched.deps_key, None)
    return lookup(recipe, exclude=None)


def _warn_of_no_locks(cache: Directory, what: str) -> None:
    warnings.warn(
        f"{cache.root} is on a file system without locks, so every process that needs {what} builds it for itself; "
        "set TKJIT_CACHE to a directory on another file system",
        TkjitWarning,
        stacklevel=3,
    )


@contextmanager
def _failures_left(cache: Directory, recipe: Recipe, lock: Lock, check: Callable[[], None]) -> Iterator[None]:
    """If the block raises a compile error, leave it for the waiters, unless ``check`` shows that Ctrl-C caused it."""
    try:
        yield
    except CompileError as error:
        if threading.current_thread() is not threading.main_thread():
            # Ctrl-C in a terminal also ends the compilers, and may reach the main thread a moment after that
            time.sleep(INTERRUPT_S)
        try:
            check()
        except KeyboardInterrupt:  # the compiler was interrupted, so the source is not to blame
            shutil.rmtree(cache.failure_directory(recipe), ignore_errors=True)
            raise
        leave_failure(cache.failure_directory(recipe), lock.holder.token, error, shared=cache.shared)
        raise


@contextmanager
def _build_lock(
    cache: Directory, recipe: Recipe, what: str, check: Callable[[], None], report: Callable[[Holder, float], None]
) -> Iterator[Lock]:
    """Hold the build lock in a recipe's directory. Retry if another process removes the directory meanwhile."""
    with ExitStack() as stack:

        def take(directory: Path) -> Lock:
            return stack.enter_context(hold_build_lock(directory, what, check, report, shared=cache.shared))

        yield _retry(cache, recipe, take)


def _retry(cache: Directory, recipe: Recipe, action: Callable[[Path], Result]) -> Result:
    """Run an action in a recipe's directory. If another process removes the directory, make it again and retry."""
    for attempt in range(DIRECTORY_TRIES):
        with suppress(FileNotFoundError):
            return action(cache.make_directory(cache.directory(recipe)))
        # a network file system may still show a directory that another machine has removed
        with suppress(OSError):
            os.rmdir(cache.directory(recipe))
        time.sleep(0.0 if attempt < 10 else 0.02)
    return action(cache.make_directory(cache.directory(recipe)))


def _attempt(
    cache: Directory,
    recipe: Recipe,
    builder: Builder,
    lock: Lock,
    replacing: Entry | None,
    states: dict[str, bytes],
    watch_after_s: float | None,
) -> Entry | None:
    """Build and publish an entry. Return None if a file may have changed while the compiler read it.

    Parameters
    ----------
    states : dict
        The states of the dependencies at the end of the previous attempt; replaced by those at the end of this attempt.
    """
    with _staged(cache, recipe, lock) as staging:
        # use the file system's clock, so that files written from now on have later times
        begun_ns, begun = _filesystem_time_ns(staging), time.monotonic_ns()
        try:
            with nullcontext() if watch_after_s is None else watchdog.watch(staging, watch_after_s):
                product = builder(staging)
            begun_ns = _corrected_begin_ns(staging, begun_ns, time.monotonic_ns() - begun)
        except OSError as error:
            if _is_of_the_disk(error, staging):
                raise cache.write_failure(error) from error
            raise
        with cache.writing():
            return _publish_unless_changed(cache, recipe, product, staging, replacing, states, begun_ns)


@contextmanager
def _staged(cache: Directory, recipe: Recipe, lock: Lock) -> Iterator[Path]:
    """Make a staging directory in a recipe's directory. Remove it after the block unless it was published."""
    owner = lock.holder.process
    name = f"{STAGING}{owner.machine}-{owner.pid}-{owner.started}-{secrets.token_hex(4)}"
    with cache.writing():
        staging = _retry(cache, recipe, lambda directory: make_staging(directory / name, shared=cache.shared))
    cache.building.add(staging)
    try:
        _refuse_noexec(cache, staging)
        lock.write_holder(staging)
        yield staging
    finally:
        cache.building.discard(staging)
        remove_staging(staging)


def _filesystem_time_ns(directory: Path) -> int:
    """Return the time in ns since the epoch by the file system's clock, which may be that of another machine."""
    with suppress(OSError):  # if this fails, the time of the last change is returned; at worst, that costs a build
        os.utime(directory)
    return directory.stat().st_ctime_ns


def _corrected_begin_ns(staging: Path, begun_ns: int, taken_ns: int) -> int:
    """Return when a build began, according to the file system's clock, which may have been set back since then."""
    begin_ns = _filesystem_time_ns(staging) - taken_ns
    return begin_ns if begin_ns < begun_ns - fingerprints.SETTLED_NS else begun_ns


def _publish_unless_changed(
    cache: Directory,
    recipe: Recipe,
    product: Product,
    staging: Path,
    replacing: Entry | None,
    states: dict[str, bytes],
    begun_ns: int,
) -> Entry | None:
    before = dict(states)
    states.clear()
    states.update((str(path), fingerprints.state_of(str(path))) for path in product.dependencies)
    # a file as new as the build may have been read before its last write; another attempt will tell
    young = any(state == fingerprints.ABSENT or int(state.split()[2]) >= begun_ns for state in states.values())
    if states != before and (young or fingerprints.moved_since(states, begun_ns)):
        return None
    # take the fingerprint before hashing the contents, so that it does not match if a file is edited in between
    fingerprint = fingerprints.of(files_and_places(recipe, product))
    try:
        deps_key = complete(staging, recipe, product)
    except FileNotFoundError:
        return None  # a header was removed just now
    if any(fingerprints.state_of(path) != state for path, state in states.items()):
        return None
    entry = _publish(cache, recipe, product, staging, deps_key, replacing)
    own = fingerprints.of([f"{entry.directory}/{MANIFEST}", str(entry.shared_object)])
    return dataclasses.replace(entry, fingerprint=own + fingerprint)


def _publish(
    cache: Directory, recipe: Recipe, product: Product, staging: Path, deps_key: str, replacing: Entry | None
) -> Entry:
    """Give a finished build its final name with an atomic rename, so that no reader sees half of an entry."""
    directory = cache.directory(recipe)
    for path in staging.iterdir():
        if cache.shared:
            files.copy_sharing_mode(path, directory)
        else:
            path.chmod(path.stat().st_mode & 0o755)
        _sync(path)
    bad = [path for path in cache.candidates(recipe) if _must_be_replaced(path, recipe, replacing)]
    for path in bad:
        set_aside(path)
    target = directory / deps_key
    if target in bad and target.exists():
        # the bad entry could not be moved aside; any other name works, because lookups find entries by their contents
        target = directory / f"{deps_key}-{secrets.token_hex(4)}"
    staging.chmod(stat.S_IMODE(directory.stat().st_mode))
    _hold(cache, target)
    try:
        staging.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # on a file system without locks another process may have been faster, and its entry may already be in use
        return Entry.of(target, read_manifest(target))
    # the entry has been published, so failures no longer matter
    with suppress(OSError):
        _sync(directory)
        shutil.rmtree(cache.failure_directory(recipe), ignore_errors=True)
    return Entry(target, product.shared_object, str(product.facts.get("module", "")))


def _hold(cache: Directory, target: Path) -> None:
    """Take an entry's lease before the entry exists, so that no process can evict the entry before its first use."""
    deadline = time.monotonic() + EVICTION_S
    while not cache.leases.hold(target) and time.monotonic() < deadline:
        time.sleep(0.01)  # another process is removing an entry with that name


def _stamp(entry: Entry | None) -> bytes:
    return fingerprints.state_of(f"{entry.directory}/{MANIFEST}") if entry else b""


def _must_be_replaced(directory: Path, recipe: Recipe, replacing: Entry | None) -> bool:
    if replacing is not None and directory == replacing.directory:
        return True
    try:
        check_intact(directory, recipe)
    except DamagedError:
        return True
    return False


def set_aside(directory: Path) -> None:
    """Move a damaged entry aside for later inspection. Only the latest damaged entry is kept."""
    with suppress(OSError):
        for earlier in files.below(directory.parent, f"{BROKEN}*"):
            shutil.rmtree(earlier, ignore_errors=True)
        directory.rename(directory.with_name(f"{BROKEN}{directory.name}-{secrets.token_hex(4)}"))


def end_compilers(cache: Directory) -> None:
    """Kill the compilers that this process is running for a cache."""
    for staging in list(cache.building):
        end_working_in(staging)


def _waiting_text(holder: Holder) -> str:
    """Describe the process that is building, how long ago the build started, and which compiler is running."""
    process = holder.process
    is_own = process.is_here and process.pid == os.getpid()
    who = "this process" if is_own else f"process {process.pid} on {process.host}"
    text = f"{who} has been building it for {max(0.0, time.time() - holder.since):.0f} s"
    if not process.is_here:
        return text
    names = sorted({name_of(pid) for pid in working_in(holder.staging)} if holder.staging else ())
    return f"{text}, {f'{names[-1]} is running' if names else 'none of its compilers is running'}"


def _refuse_noexec(cache: Directory, staging: Path) -> None:
    if os.statvfs(staging).f_flag & os.ST_NOEXEC:
        raise CacheError(
            f"the cache directory {cache.root} is on a file system that is mounted noexec, so nothing in it can be "
            "loaded; set TKJIT_CACHE to another directory"
        )


def _is_of_the_disk(error: OSError, staging: Path) -> bool:
    """Return whether a builder failed because it could not write to its staging directory."""
    is_inside = isinstance(error.filename, str) and error.filename.startswith(str(staging))
    return is_inside or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
