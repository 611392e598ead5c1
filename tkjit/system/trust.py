"""Checks who owns a cache and who can write to it: anybody who can write to it can run code in this process."""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path

from tkjit.errors import CacheError, TkjitWarning

# the inode of a machine's initial PID namespace; a container's PID namespace has a different inode
FIRST_PID_NAMESPACE = 0xEFFFFFFC


class Trust:
    """Checks each directory of a cache once, before anything in it is read or written.

    Parameters
    ----------
    root : Path
        The cache's own directory.
    layers : sequence of Path
        The cache's read-only directories.
    shared : bool
        Whether everyone who can write to these directories is trusted.
    """

    def __init__(self, root: Path, layers: Sequence[Path] = (), *, shared: bool = False) -> None:
        # strings, because each operation on a Path adds 5 us to a warm call
        self._root, self._layers = str(root), [str(layer) for layer in layers]
        self._shared = shared
        self._trusted: set[str] = set()

    def check(self, directory: str) -> None:
        """Check a directory, and its parents up to the root or layer that contains the directory.

        Raises
        ------
        CacheError
            If an untrusted user could have written there, or the directory is outside the root and the layers.
        """
        if self._shared or directory in self._trusted:
            return
        # the innermost of these directories counts; a layer that is also the cache's root is checked as the root
        tops = [top for top in (self._root, *self._layers) if f"{directory}/".startswith(f"{top}/")]
        if not tops:
            raise CacheError(
                f"a warm record refers to {directory}, which is outside of the cache {self._root}; remove the records"
            )
        top = max(tops, key=len)
        look = check if top == self._root else check_layer
        chain = [directory]
        while len(chain[-1]) > len(top) and chain[-1] not in self._trusted:
            chain.append(chain[-1].rpartition("/")[0])
        # check from the top down, and trust nothing until all pass: a directory's owner controls everything below it
        existing = [place for place in reversed(chain) if place in self._trusted or look(place)]
        self._trusted.update(existing)


def warn_of_no_sharing(root: Path) -> None:
    """If nobody else can write to a shared cache, warn its owner."""
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

    Root is trusted. So is a user's private group, which has no other member (umask 002). Root in a container also
    trusts the owner of a directory in a mounted file system, if no untrusted user can write to a directory on its path.

    Returns
    -------
    bool
        Whether the directory exists. A missing directory passes, because nobody can have written to it yet.

    Raises
    ------
    CacheError
        If the directory is rejected. The message has the reason and a remedy.
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
    """Reject a read-only layer if anyone but its owner can write to it. By naming a layer, the user trusts its owner.

    Returns
    -------
    bool
        Whether the directory exists.

    Raises
    ------
    CacheError
        If the layer is rejected. The message names the users or groups that can write to it.
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
    """Describe who can write to a directory besides its owner. The string is empty if nobody can."""
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
    """Return whether a directory is in a mounted file system, which means that whoever runs the container provided it.

    Return False if an untrusted user can write to the mount point or to any directory between the mount point and this
    directory, because any user in the container can make directories in the container's own /tmp or /dev/shm.
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
    # spaces in paths appear as \040
    points = [
        re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), line[4]) for line in fields if len(line) > 4
    ]
    return [os.fsdecode(point) for point in points]


def _is_private_group(group: int, owner: int) -> bool:
    """Return whether a group is private: it is root's, or has its owner's name and no other members."""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        name, members = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        # a user in a container often has no name; then equal numbers show that the group is the user's own
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
