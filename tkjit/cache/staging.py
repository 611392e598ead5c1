"""Staging directories: where a build is at work, and who removes one whose builder is gone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tkjit.cache.locks import is_locked
from tkjit.system import files
from tkjit.system.process import Process, end_working_in

STAGING = ".staging-"
ABANDONED_S = 86400.0  # after which another machine's staging directory is nobody's


def make_staging(staging: Path, *, shared: bool) -> Path:
    # closed to others while a compiler writes to it, by the umask
    staging.mkdir(0o777 if shared else 0o700)
    if shared:  # whoever comes after a killed builder has to be able to remove it
        files.open_to_sharers(staging, staging.parent)
    return staging


def sweep(base: Path) -> None:
    """Remove the staging directories of builders that are gone, and end the compilers that they left at work."""
    for staging in files.below(base, "*", "*", f"{STAGING}*"):
        if is_abandoned(staging):
            end_working_in(staging)
            shutil.rmtree(staging, ignore_errors=True)


def is_abandoned(staging: Path) -> bool:
    """Whether the builder that a staging directory is named after is gone."""
    try:
        machine, pid, started, _ = staging.name.removeprefix(STAGING).split("-")
        owner = Process(machine, "", int(pid), int(started))
    except ValueError:
        return False
    if owner.is_here:
        return not owner.is_alive
    try:
        # a clock may have been set forward by a day while another machine builds there
        return time.time() - staging.stat().st_mtime > ABANDONED_S and not is_locked(staging.parent)
    except OSError:
        return False
