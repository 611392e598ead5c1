"""Checks the owners and writers of a cache: an untrusted user who can write there could run code in this process."""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from tkjit.errors import CacheError, TkjitWarning

# the inode of a Linux machine's first PID namespace; a container has another
FIRST_PID_NAMESPACE = 0xEFFFFFFC


class Trust:
    """Looks at the directories of a cache before anything in them is read or written, at each once.

    Parameters
    ----------
    root : Path
        The cache's own directory.
    layers : sequence of Path
        Directories that are read only.
    shared : bool
        Whether all who can write to these directories are trusted.
    """

    def __init__(self, root: Path, layers: Sequence[Path] = (), *, shared: bool = False) -> None:
        # strings: each step on a Path takes 5 us of a warm call
        self._root, self._layers = str(root), [str(layer) for layer in layers]
        self._shared = shared
        self._trusted: set[str] = set()

    def check(self, directory: str) -> None:
        """Look at a directory and at those above it, up to the root or the layer that it lies in.

        Raises
        ------
        CacheError
            If an untrusted user could have written there, or it lies in neither.
        """
        if self._shared or directory in self._trusted:
            return
        # the innermost one; a layer that is the cache too is looked at as a cache
        tops = [top for top in (self._root, *self._layers) if f"{directory}/".startswith(f"{top}/")]
        if not tops:
            raise CacheError(
                f"{directory}, which is not in the cache {self._root}, is named by a warm record; remove the records"
            )
        top = max(tops, key=len)
        look = check if top == self._root else check_layer
        way = [directory]
        while len(way[-1]) > len(top) and way[-1] not in self._trusted:
            way.append(way[-1].rpartition("/")[0])
        # from the top, and believed only once all of it was: who owns the top has made what is below
        there = [place for place in reversed(way) if place in self._trusted or look(place)]
        self._trusted.update(there)


def warn_of_no_sharing(root: Path) -> None:
    """Tell who owns a shared cache that nobody else can write to it."""
    status = os.stat(root)
    if status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        warnings.warn(
            f"TKJIT_CACHE_SHARED=1, but its owner alone can write to {root} (mode {stat.S_IMODE(status.st_mode):o}): "
            "other users cannot build. Open it to a group (chgrp GROUP, chmod 2775) or to all (chmod 777); what is "
            "made in it later is as open as it is",
            TkjitWarning,
            stacklevel=2,
        )


def check(directory: Path | str) -> bool:
    """Refuse a directory that somebody else owns or can write to.

    Trusted are root, and the group that holds its user alone (umask 002). Root in a container also trusts the owner of
    a directory in a file system that was mounted into it, if no untrusted user can write to one on the way there.

    Returns
    -------
    bool
        Whether there is such a directory: what is not there was written by nobody yet.

    Raises
    ------
    CacheError
        With the reason, and what to do.
    """
    try:
        status = os.stat(directory)
    except OSError:
        return False
    if reason := _reason(status, os.geteuid(), directory):
        raise CacheError(
            f"{directory} {reason}, who could have put anything there; change that (chmod, chown), set TKJIT_CACHE to "
            "a directory of your own, or say that all who can write there are trusted: TKJIT_CACHE_SHARED=1"
        )
    return True


def check_layer(directory: Path | str) -> bool:
    """Refuse a read-only layer that others than its owner can write to; the user has named it, and so its owner.

    Returns
    -------
    bool
        Whether there is such a directory.

    Raises
    ------
    CacheError
    """
    try:
        status = os.stat(directory)
    except OSError:
        return False
    if writers := _writers(status):
        raise CacheError(
            f"{directory} (TKJIT_CACHE_READONLY) can be written by {writers}; change that (chmod go-w), or say that "
            "all are trusted: TKJIT_CACHE_SHARED=1"
        )
    return True


def _reason(status: os.stat_result, user: int, directory: Path | str) -> str:
    if status.st_uid not in (user, 0) and not (user == 0 and _in_a_container() and _is_mounted(str(directory))):
        return f"belongs to user {_user_name(status.st_uid)}"
    writers = _writers(status)
    return f"can be written by {writers}" if writers else ""


def _writers(status: os.stat_result) -> str:
    """Who can write to a directory besides its owner; nobody if it is empty."""
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid):
        return f"group {_group_name(status.st_gid)}"
    return ""


def _in_a_container() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return False


def _is_mounted(directory: str) -> bool:
    """Whether who runs a container has put a directory there: it lies in what was mounted into the container.

    No untrusted user may be able to write to the mount, or to what lies between it and the directory: in a container's
    own /tmp or /dev/shm any of its users makes directories.
    """
    path = os.path.realpath(directory)
    points = [point for point in _mount_points() if point != "/" and f"{path}/".startswith(f"{point}/")]
    if not points:
        return False
    top = max(points, key=len)
    while len(path) > len(top):
        path = os.path.dirname(path)
        if _writers(os.stat(path)):
            return False
    return True


def _mount_points() -> list[str]:
    """The directories on which something is mounted, as this process sees them."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            fields = [line.split(b" ") for line in file.read().splitlines()]
    except OSError:
        return []
    # a space in a path is written \040
    points = [
        re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), line[4]) for line in fields if len(line) > 4
    ]
    return [os.fsdecode(point) for point in points]


def _is_private_group(group: int, owner: int) -> bool:
    """Whether a group is its user's own: root's, or of the user's name and with nobody else in it."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        name, members = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        # a container's user often has no name; its group is its own if the numbers are the same
        return group == owner
    return members.gr_name == name.pw_name and set(members.gr_mem) <= {name.pw_name}


def _user_name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _group_name(group: int) -> str:
    import grp

    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
