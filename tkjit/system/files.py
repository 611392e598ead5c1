"""Reads the files that tkjit owns (mostly in a cache) without blocking, and replaces them atomically.

Such a file's path may hold an untrusted link, a FIFO without a writer, or a truncated file. The functions here do not
follow untrusted links or wait for FIFOs, and they write only to files that they created themselves.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

SCRATCH = ".new-"  # the prefix of the names of files that are still being written
# do not acquire a controlling terminal, leak the descriptor to a program, or wait for the other end of a FIFO
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PATIENCE = 40  # how often to try a path that another user has created but not yet opened to others
_PAUSE_S = 0.005

Result = TypeVar("Result")


class NotAFileError(OSError):
    """A path that should be a file is a link, a FIFO, a device or a directory."""


def read(path: str | Path, *, follow: bool = False) -> bytes:
    """Return a file's content.

    Parameters
    ----------
    follow : bool
        Whether to follow a link. Sources may be links. The files of a cache entry may be links as well, because
        some users assemble caches out of links. Files that tkjit replaces are never links.

    Raises
    ------
    OSError
        If the file cannot be read, or is not a regular file.
    """
    descriptor = _open_descriptor(path, os.O_RDONLY, follow=follow)
    try:
        # one byte more than the size, because a read of 0 bytes would look like the end of the file
        chunks = [os.read(descriptor, os.fstat(descriptor).st_size + 1)]
        while chunks[-1]:
            chunks.append(os.read(descriptor, 1 << 16))
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def _open_descriptor(path: str | Path, flags: int, mode: int = 0o644, *, follow: bool = False) -> int:
    """Open a regular file and return its descriptor."""
    try:
        descriptor = os.open(path, flags | _SAFELY | (0 if follow else os.O_NOFOLLOW), mode)
    except OSError as error:
        # ENXIO: a socket, or a FIFO without a reader
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        raise _not_a_file(path) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _not_a_file(path)


def _not_a_file(path: str | Path) -> NotAFileError:
    return NotAFileError(errno.EINVAL, f"{path} is not a regular file; remove it", str(path))


def read_json(path: str | Path, *, follow: bool = False) -> Any:
    """Read a JSON file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not valid JSON.
    """
    return from_json(read(path, follow=follow))


def to_json(value: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return a value as JSON text, as written by ``json.dumps``."""
    import json  # importing json and hashlib takes 4 ms; by the first call torch has imported both

    return json.dumps(value, indent=indent, sort_keys=sort_keys)


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def from_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises
    ------
    ValueError
        If the text is not valid JSON, or nests brackets too deeply for Python's parser.
    """
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def write(path: str | Path, content: str | bytes, *, shared: bool = False) -> None:
    """Write a file atomically. Unless the file is shared, only its owner can write to it.

    Parameters
    ----------
    shared : bool
        Whether to give the file the permissions of its directory, whatever the umask.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    directory = os.path.dirname(path) or "."
    # nobody can predict this name and put a link there, and O_EXCL ensures that this process creates the file
    scratch = f"{directory}/{SCRATCH}{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(scratch, flags, 0o644), "wb") as file:
            if shared:
                copy_sharing_mode(file.fileno(), directory)
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def open_lock(path: str | Path, *, shared: bool = False, writable: bool = True) -> int:
    """Open a lock file and return its descriptor. Create the file if it does not exist, and keep existing content.

    Raises
    ------
    OSError
        If it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDWR if writable else os.O_RDONLY
    try:
        descriptor = _open_descriptor(path, flags)
    except FileNotFoundError:
        descriptor = _retry_while_created(lambda: _open_descriptor(path, flags | os.O_CREAT), shared=shared)
    except PermissionError:
        descriptor = _retry_while_created(lambda: _open_descriptor(path, flags), shared=shared)
    if shared:
        copy_sharing_mode(descriptor, os.path.dirname(path))
    return descriptor


def append(path: str | Path, mode: int) -> int:
    """Open a path that the user gave for appending, and return its descriptor.

    The path may be a file, a terminal, or a FIFO with a reader.

    Raises
    ------
    OSError
        If the path cannot be opened. The error is ENXIO for a FIFO without a reader.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFELY, mode)
    os.set_blocking(descriptor, True)
    return descriptor


def below(directory: str | Path, *patterns: str) -> list[Path]:
    """List the paths below a directory that match one pattern per level. Ignore directories that vanish meanwhile."""
    found = [Path(directory)]
    for pattern in patterns:
        names = [(place, name) for place in found for name in _names_in(place)]
        # as in a shell, a name that begins with a dot only matches a pattern that begins with one
        found = [place / name for place, name in names if fnmatchcase(name, pattern) and _shown(name, pattern)]
    return found


def _shown(name: str, pattern: str) -> bool:
    return name.startswith(".") == pattern.startswith(".")


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def make_directory(directory: Path, *, shared: bool = False) -> Path:
    """Make a directory and its missing parents. Unless they are shared, only their owner can write to them.

    Parameters
    ----------
    shared : bool
        Whether each directory gets the permissions and the group of its parent, whatever the umask.

    Raises
    ------
    OSError
        If a directory cannot be made.
    """
    missing = []
    for path in (directory, *directory.parents):
        if path.exists():
            break
        missing.append(path)
    for path in reversed(missing):
        _retry_while_created(lambda path=path: _make(path, shared=shared), shared=shared)  # type: ignore[misc]
    return directory


def _make(path: Path, *, shared: bool) -> None:
    while True:
        try:
            os.mkdir(path, 0o777 if shared else 0o755)
            break
        except FileExistsError:
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:  # another process has removed the directory in between
                continue
            if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and os.path.isdir(path)):
                return
            raise
    if shared:
        copy_sharing_mode(path, path.parent)


def copy_sharing_mode(file: str | Path | int, directory: str | Path) -> None:
    """Give a file the access rights of its directory. This process must have made the file."""
    with suppress(OSError):  # the file system has no permissions, or the file is another user's
        above, status = os.stat(directory), os.stat(file)
        if status.st_gid != above.st_gid:
            with suppress(OSError):  # this user is not a member of the group
                os.chown(file, -1, above.st_gid)
        given = above.st_mode & 0o777
        if stat.S_ISDIR(status.st_mode):
            # keep the permissions of a umask of 002 or 000, with which the user lets others write
            own_bits = status.st_mode & 0o777 if status.st_mode & 0o022 else 0
            wanted = given | own_bits | above.st_mode & stat.S_ISGID
        else:
            # a user who may enter a directory may also run the programs in it
            wanted = given & 0o666 | (given & 0o111 if status.st_mode & stat.S_IXUSR else 0)
        if stat.S_IMODE(status.st_mode) != wanted:
            os.chmod(file, wanted)


def _retry_while_created(action: Callable[[], Result], *, shared: bool) -> Result:
    """Retry an action for a moment, because another user may have created the path but not yet opened it to others."""
    for _ in range(_PATIENCE if shared else 0):
        try:
            return action()
        except PermissionError:
            time.sleep(_PAUSE_S)
    return action()
