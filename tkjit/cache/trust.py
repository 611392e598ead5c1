"""Who could have written what we are about to load: a cache that a stranger can write to runs the stranger's code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tkjit.errors import CacheError

# the inode of a Linux machine's first PID namespace; a container has another
FIRST_PID_NAMESPACE = 0xEFFFFFFC


def check(directory: Path | str) -> None:
    """Refuse a directory that somebody else owns or can write to.

    Root is no stranger, nor is the group that holds its user alone (umask 002), nor, to root in a container, the owner
    of a directory that was mounted into it.

    Raises
    ------
    CacheError
        With the reason, and what to do.
    """
    try:
        status = os.stat(directory)
    except OSError:
        return  # what is not there was written by nobody
    if reason := _reason(status, os.geteuid()):
        raise CacheError(
            f"{directory} {reason}, who could have put anything there; change that (chmod, chown), set TKJIT_CACHE to "
            "a directory of your own, or say that all who can write there are trusted: TKJIT_CACHE_SHARED=1"
        )


def check_layer(directory: Path | str) -> None:
    """Refuse a read-only layer that everybody can write to; its owner is trusted, since the user has named it.

    Raises
    ------
    CacheError
    """
    try:
        status = os.stat(directory)
    except OSError:
        return
    if status.st_mode & stat.S_IWOTH:
        raise CacheError(
            f"{directory} (TKJIT_CACHE_READONLY) can be written by everybody; change that (chmod o-w), or say that all "
            "are trusted: TKJIT_CACHE_SHARED=1"
        )


def _reason(status: os.stat_result, user: int) -> str:
    if status.st_uid not in (user, 0) and not (user == 0 and _in_a_container()):
        return f"belongs to user {_user_name(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid):
        return f"can be written by group {_group_name(status.st_gid)}"
    return ""


def _in_a_container() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino != FIRST_PID_NAMESPACE
    except OSError:
        return False


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
