"""Checks who owns a cache and can write to it, because whoever can write there can run code in this process."""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from tkjit.errors import CacheError, TkjitWarning

# the inode of a machine's initial PID namespace; in a container it differs
FIRST_PID_NAMESPACE = 0xEFFFFFFC


class Trust:
    """Checks each directory of a cache once, before anything in it is read or written.

    Parameters
    ----------
    root : Path
        The cache's own directory.
    layers : sequence of Path
        The read-only directories.
    shared : bool
        Whether everyone who can write to these directories is trusted.
    """

    def __init__(self, root: Path, layers: Sequence[Path] = (), *, shared: bool = False) -> None:
        # strings, because each step on a Path costs a warm call 5 us
        self._root, self._layers = str(root), [str(layer) for layer in layers]
        self._shared = shared
        self._trusted: set[str] = set()

    def check(self, directory: str) -> None:
        """Check a directory and its parents up to the root or layer that contains it.

        Raises
        ------
        CacheError
            If an untrusted user could have written there, or the directory is outside the root and the layers.
        """
        if self._shared or directory in self._trusted:
            return
        # the innermost one counts; a layer that is also the cache's root is checked as the root
        tops = [top for top in (self._root, *self._layers) if f"{directory}/".startswith(f"{top}/")]
        if not tops:
            raise CacheError(
                f"a warm record refers to {directory}, which is outside of the cache {self._root}; remove the records"
            )
        top = max(tops, key=len)
        look = check if top == self._root else check_layer
        way = [directory]
        while len(way[-1]) > len(top) and way[-1] not in self._trusted:
            way.append(way[-1].rpartition("/")[0])
        # from the top down, and trusted only once all of them pass: the owner of the top controls what is below
        there = [place for place in reversed(way) if place in self._trusted or look(place)]
        self._trusted.update(there)


def warn_of_no_sharing(root: Path) -> None:
    """Warn the owner of a shared cache if nobody else can write to it."""
    status = os.stat(root)
    if status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        warnings.warn(
            f"TKJIT_CACHE_SHARED=1, but only the owner can write to {root} (mode {stat.S_IMODE(status.st_mode):o}), so "
            "other users cannot build. Open it to a group (chgrp GROUP, chmod 2775) or to everyone (chmod 777); files "
            "created in it later get its permissions",
            TkjitWarning,
            stacklevel=2,
        )


def check(directory: Path | str) -> bool:
    """Reject a directory that an untrusted user owns or can write to.

    Root is trusted, and so is a group whose only member is its user (umask 002). Root in a container also trusts the
    owner of a directory in a mounted file system, if no untrusted user can write to a directory on the path to it.

    Returns
    -------
    bool
        Whether the directory exists. A missing one passes, because nobody has written to it yet.

    Raises
    ------
    CacheError
        With the reason and a remedy.
    """
    try:
        status = os.stat(directory)
    except OSError:
        return False
    if reason := _reason(status, os.geteuid(), directory):
        raise CacheError(
            f"{directory} {reason}, who could have put anything there; fix its permissions (chmod, chown), set "
            "TKJIT_CACHE to a directory of your own, or set TKJIT_CACHE_SHARED=1 to trust everyone who can write there"
        )
    return True


def check_layer(directory: Path | str) -> bool:
    """Reject a read-only layer that others than its owner can write to. By naming it, the user trusts its owner.

    Returns
    -------
    bool
        Whether the directory exists.

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
            f"{directory} (TKJIT_CACHE_READONLY) can be written by {writers}; fix its permissions (chmod go-w), or set "
            "TKJIT_CACHE_SHARED=1 to trust everyone who can write there"
        )
    return True


def _reason(status: os.stat_result, user: int, directory: Path | str) -> str:
    if status.st_uid not in (user, 0) and not (user == 0 and _in_a_container() and _is_mounted(str(directory))):
        return f"belongs to user {_user_name(status.st_uid)}"
    writers = _writers(status)
    return f"can be written by {writers}" if writers else ""


def _writers(status: os.stat_result) -> str:
    """Describe who can write to a directory in addition to its owner; empty if nobody can."""
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
    """Whether a container's directory was provided by whoever runs the container: it is in a mounted file system.

    No untrusted user may be able to write to the mount point or to any directory between it and this one, because any
    user of the container can make directories in its own /tmp or /dev/shm.
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
    """List the mount points that this process sees."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            fields = [line.split(b" ") for line in file.read().splitlines()]
    except OSError:
        return []
    # a space in a path appears as \040
    points = [
        re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), line[4]) for line in fields if len(line) > 4
    ]
    return [os.fsdecode(point) for point in points]


def _is_private_group(group: int, owner: int) -> bool:
    """Whether a group is private: root's, or one with its owner's name and no other members."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        name, members = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        # a container's user often has no name; then equal numbers show that the group is its own
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
