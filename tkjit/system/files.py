"""The files that tkjit owns, mostly in a cache: reads them without blocking, and replaces them atomically.

Their paths may hold untrusted links, FIFOs without a writer, or truncated files. The functions here follow no such
link, wait for no such FIFO, and write only to files that they have made.
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

SCRATCH = ".new-"  # what a file is called before it is whole
# no controlling terminal, no program that inherits it, and no waiting for the other end of a FIFO
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PATIENCE = 40  # looks at a directory or a lock that another user is just opening to others
_PAUSE_S = 0.005

Result = TypeVar("Result")


class NotAFileError(OSError):
    """A link, a FIFO, a device or a directory stands where a file should be."""


def read(path: str | Path, *, follow: bool = False) -> bytes:
    """What a file holds.

    Parameters
    ----------
    follow : bool
        Whether a link is as good as a file: a source's is, and that of an entry, which somebody may have put together
        out of links. Files that tkjit replaces are none.

    Raises
    ------
    OSError
        If it cannot be read, or is no regular file.
    """
    descriptor = _open_descriptor(path, os.O_RDONLY, follow=follow)
    try:
        # one more than there is: a short answer is the whole file
        chunks = [os.read(descriptor, os.fstat(descriptor).st_size + 1)]
        while chunks[-1]:
            chunks.append(os.read(descriptor, 1 << 16))
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def _open_descriptor(path: str | Path, flags: int, mode: int = 0o644, *, follow: bool = False) -> int:
    """A descriptor of a regular file."""
    try:
        descriptor = os.open(path, flags | _SAFELY | (0 if follow else os.O_NOFOLLOW), mode)
    except OSError as error:
        # ENXIO: of a socket, or of a FIFO without a reader
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
    """What a file of JSON says.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no JSON.
    """
    return from_json(read(path, follow=follow))


def to_json(value: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """A value as ``json.dumps`` writes it."""
    import json  # with hashlib it takes 4 ms, and where there is a call torch has imported both

    return json.dumps(value, indent=indent, sort_keys=sort_keys)


def sha256_of(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def from_json(text: str | bytes) -> Any:
    """What a text says.

    Raises
    ------
    ValueError
        If it is no JSON, or nests its brackets deeper than Python reads them.
    """
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deep") from None


def write(path: str | Path, content: str | bytes, *, shared: bool = False) -> None:
    """Put a file in its place in one step. Its owner alone can write to it, unless it is shared.

    Parameters
    ----------
    shared : bool
        Whether it is as open as the directory that it lies in, whatever the umask.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    directory = os.path.dirname(path) or "."
    # a name that nobody can have foreseen, and a file that is this one's own
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
    """A descriptor of a file that is locked, which is made where it is not there; its content is kept.

    Raises
    ------
    OSError
        If it cannot be opened, or is no regular file.
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
    """A descriptor that adds to what a user has named: a file, a terminal, a FIFO if somebody reads it.

    Raises
    ------
    OSError
        If it cannot be opened; ENXIO where nobody reads a FIFO.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFELY, mode)
    os.set_blocking(descriptor, True)
    return descriptor


def below(directory: str | Path, *patterns: str) -> list[Path]:
    """What lies below a directory, one level for each pattern; what goes away meanwhile is not among it."""
    found = [Path(directory)]
    for pattern in patterns:
        names = [(place, name) for place in found for name in _names_in(place)]
        # a pattern that begins with no dot is one of names that do not, as a shell has it
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
    """Make a directory and those above it, which their owner alone can write to whatever the umask, unless shared.

    Parameters
    ----------
    shared : bool
        Whether each is as open as the one above it, and of its group, whatever the umask.

    Raises
    ------
    OSError
        If one cannot be made.
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
            except FileNotFoundError:  # another process has removed it since
                continue
            if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and os.path.isdir(path)):
                return
            raise
    if shared:
        copy_sharing_mode(path, path.parent)


def copy_sharing_mode(file: str | Path | int, directory: str | Path) -> None:
    """Let those who can read and write a directory do the same with a file in it that this process has made."""
    with suppress(OSError):  # a file system without permissions, or another user's file
        above, status = os.stat(directory), os.stat(file)
        if status.st_gid != above.st_gid:
            with suppress(OSError):  # of which group this user is no member
                os.chown(file, -1, above.st_gid)
        given = above.st_mode & 0o777
        if stat.S_ISDIR(status.st_mode):
            # a umask of 002 or 000 says itself that others may write
            own = status.st_mode & 0o777 if status.st_mode & 0o022 else 0
            wanted = given | own | above.st_mode & stat.S_ISGID
        else:
            # who may enter a directory may run the programs in it
            wanted = given & 0o666 | (given & 0o111 if status.st_mode & stat.S_IXUSR else 0)
        if stat.S_IMODE(status.st_mode) != wanted:
            os.chmod(file, wanted)


def _retry_while_created(action: Callable[[], Result], *, shared: bool) -> Result:
    """Do it again for a moment where another user has made something, and is just opening it to others."""
    for _ in range(_PATIENCE if shared else 0):
        try:
            return action()
        except PermissionError:
            time.sleep(_PAUSE_S)
    return action()
