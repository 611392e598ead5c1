"""Makes the staging directory of a build, and removes those of builders that have ended."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tkjit.cache.locks import is_locked
from tkjit.system import files
from tkjit.system.process import Process, end_working_in

STAGING = ".staging-"
REMOVE_TRIES, REMOVE_S = 5, 2.0  # limited, because a compiler that is waiting for a disk cannot be killed
ABANDONED_S = 86400.0  # the age at which another machine's staging directory is abandoned


def make_staging(staging: Path, *, shared: bool) -> Path:
    # closed to other users while a compiler, which obeys the umask, writes to it
    staging.mkdir(0o777 if shared else 0o700)
    if shared:  # if this builder is killed, the next one must be able to remove it
        files.copy_sharing_mode(staging, staging.parent)
    return staging


def sweep(base: Path) -> None:
    """Remove the staging directories of builders that have ended, and end their compilers."""
    for staging in files.below(base, "*", "*", f"{STAGING}*"):
        if is_abandoned(staging):
            remove_staging(staging)


def remove_staging(staging: Path) -> None:
    """Remove a staging directory. First end the compilers in it, because they could write new files during removal."""
    deadline = time.monotonic() + REMOVE_S
    for _ in range(REMOVE_TRIES):
        if not staging.exists() or time.monotonic() > deadline:  # a successful build has renamed it
            return
        end_working_in(staging)
        shutil.rmtree(staging, ignore_errors=True)


def is_abandoned(staging: Path) -> bool:
    """Whether the builder named by a staging directory has ended."""
    try:
        machine, pid, started, _ = staging.name.removeprefix(STAGING).split("-")
        owner = Process(machine, "", int(pid), int(started))
    except ValueError:
        return False
    if owner.is_here:
        return not owner.is_alive
    try:
        # the lock counts too: a clock may have been set forward by a day while another machine builds there
        return time.time() - staging.stat().st_mtime > ABANDONED_S and not is_locked(staging.parent)
    except OSError:
        return False
