"""Makes the staging directory of a build, and removes staging directories whose builders have ended."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tkjit.cache.locks import is_locked
from tkjit.system import files
from tkjit.system.process import Process, end_working_in

STAGING = ".staging-"
# give up after this many tries or seconds, because a compiler that waits for a disk cannot be killed
REMOVE_TRIES, REMOVE_S = 5, 2.0
ABANDONED_S = 86400.0  # the age from which another machine's staging directory counts as abandoned


def make_staging(staging: Path, *, shared: bool) -> Path:
    # unless shared, keep other users out, because the umask may let them read the files that the compiler writes
    staging.mkdir(0o777 if shared else 0o700)
    if shared:  # if this builder is killed, the next builder must be able to remove the directory
        files.copy_sharing_mode(staging, staging.parent)
    return staging


def sweep(base: Path) -> None:
    """Remove the staging directories of builders that have ended, and end the compilers in these directories."""
    for staging in files.below(base, "*", "*", f"{STAGING}*"):
        if is_abandoned(staging):
            remove_staging(staging)


def remove_staging(staging: Path) -> None:
    """Remove a staging directory. End the compilers in it first, because they could write new files meanwhile."""
    deadline = time.monotonic() + REMOVE_S
    for _ in range(REMOVE_TRIES):
        if not staging.exists() or time.monotonic() > deadline:  # a successful build has renamed the directory
            return
        end_working_in(staging)
        shutil.rmtree(staging, ignore_errors=True)


def is_abandoned(staging: Path) -> bool:
    """Return whether the builder that a staging directory names has ended."""
    try:
        machine, pid, started, _ = staging.name.removeprefix(STAGING).split("-")
        owner = Process(machine, "", int(pid), int(started))
    except ValueError:
        return False
    if owner.is_here:
        return not owner.is_alive
    try:
        # also look at the lock: a clock may have been set forward by a day while another machine is building there
        return time.time() - staging.stat().st_mtime > ABANDONED_S and not is_locked(staging.parent)
    except OSError:
        return False
