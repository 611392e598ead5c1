"""Installs a header library into the cache: a pinned git commit, a wheel from PyPI, or a local copy."""

from __future__ import annotations

import lzma
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tkjit.config import Settings
from tkjit.errors import CacheError, ToolchainError
from tkjit.headers.find import cached_root, trust_of
from tkjit.spec.headers import Git, HeaderLibrary, Wheel
from tkjit.system import files
from tkjit.system.install import system_install

ORIGIN = ".origin"  # the file in an installed library that records where the library came from
_UNPACKING_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def install(library: HeaderLibrary, settings: Settings, source: Path | None = None) -> Path:
    """Install a library into the cache, replacing an earlier one.

    Parameters
    ----------
    source : Path, optional
        A directory or an archive (tar, zip, wheel) to install from, instead of the network.

    Returns
    -------
    Path
        The library's root.

    Raises
    ------
    ToolchainError
        If the library cannot be fetched or unpacked, or the directory or archive does not contain it.
    CacheError
        If the cache cannot be written to.
    """
    root = cached_root(library.name, settings)
    with _staging(root, settings) as staging:
        if source is not None:
            found, origin = _taken_from(library, source, staging), str(source.absolute())
        elif isinstance(library.origin, Git):
            found, origin = _fetch(library, library.origin, staging), f"{library.origin.url} {library.origin.commit}"
        elif isinstance(library.origin, Wheel):
            wheel = library.origin
            found, origin = _download(library, wheel, staging), f"{wheel.package}=={wheel.version}"
        else:
            raise ToolchainError(f"{library.name} has no origin; give --from DIR or ARCHIVE")
        _as_open_as(found, 0o777 if settings.cache_shared else 0o755)
        files.write(found / ORIGIN, f"{origin}\n")  # replaces a file of that name from the archive
        _publish(found, root, staging)
    return root


def origin_of(root: Path) -> str:
    """Return the source of an installed library; empty if tkjit did not install it."""
    with suppress(OSError):
        return files.read(root / ORIGIN).decode(errors="replace").strip()
    return ""


@contextmanager
def _staging(root: Path, settings: Settings) -> Iterator[Path]:
    """Yield a temporary directory next to the library's root. One that a killed process leaves behind does no harm."""
    staging = root.with_name(f".{root.name}-{secrets.token_hex(4)}")
    trust = trust_of(settings)
    trust.check(str(root))
    try:
        files.make_directory(root.parent, shared=settings.cache_shared)
        trust.check(str(root.parent))  # again, because another user may have created it
        files.make_directory(staging, shared=settings.cache_shared)
    except OSError as error:
        raise CacheError(f"{root.parent} cannot be written to: {error.strerror}; set TKJIT_CACHE") from None
    try:
        yield staging
    except OSError as error:
        raise CacheError(f"{root.name} cannot be installed in {root.parent}: {error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _as_open_as(directory: Path, mode: int) -> None:
    """Remove permissions that an archive, a directory or the umask gave to untrusted users."""
    for place, _, names in os.walk(directory):
        for path in (Path(place), *(Path(place, name) for name in names)):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & mode)


def _publish(found: Path, root: Path, staging: Path) -> None:
    """Rename a library to its place. A compiler that is reading the earlier library keeps its open files."""
    try:
        if root.exists():
            root.rename(staging / "before")
        found.rename(root)
    except OSError:
        if not root.exists():
            raise
        # Another process has just installed the library.


def _fetch(library: HeaderLibrary, origin: Git, staging: Path) -> Path:
    directory = staging / "fetched"
    directory.mkdir()
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", origin.url, origin.commit],
        ["-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"],
    ):
        _run(library, ["git", "-C", str(directory), *command], staging)
    shutil.rmtree(directory / ".git")
    return _root_in(library, directory, origin.url)


def _download(library: HeaderLibrary, origin: Wheel, staging: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run(library, [*pip, "-d", str(staging), f"{origin.package}=={origin.version}"], staging)
    (wheel,) = staging.glob("*.whl")
    return _taken_from(library, wheel, staging)


def _run(library: HeaderLibrary, command: list[str], directory: Path) -> None:
    instead = f"on a machine without a network: python -m tkjit headers add {library.name} --from DIR or ARCHIVE"
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=directory)
    except OSError as error:
        reason = f"{command[0]} does not run: {error.strerror}; install it: {system_install(command[0])}"
        raise ToolchainError(f"{library.name}: {reason}; {instead}") from None
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise ToolchainError(f"{library.name} cannot be fetched: {message}; {instead}")


def _taken_from(library: HeaderLibrary, source: Path, staging: Path) -> Path:
    """Copy a library from a directory, or unpack it from an archive."""
    directory = staging / "taken"
    if source.is_dir():
        # Only the library is copied, because the directory may contain the cache.
        shutil.copytree(
            _root_in(library, source, str(source)), directory, ignore=shutil.ignore_patterns(".git", staging.name)
        )
        return directory
    try:
        _unpack(source, directory)
    except _UNPACKING_ERRORS as error:
        raise ToolchainError(f"{source} cannot be unpacked: {error}") from None
    return _root_in(library, directory, str(source))


def _unpack(source: Path, directory: Path) -> None:
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            archive.extractall(directory)
    elif source.is_file() and tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            # The filter rejects members outside of the directory.
            archive.extractall(directory, filter="data")
    else:
        raise ToolchainError(f"{source} is neither a directory nor an archive that Python can read (tar, zip, wheel)")


def _root_in(library: HeaderLibrary, directory: Path, source: str) -> Path:
    """Return the library's root in a directory: the directory itself, the wheel's directory, or a subdirectory."""
    wheel = [directory / library.origin.directory] if isinstance(library.origin, Wheel) else []
    inside = [path for path in directory.iterdir() if path.is_dir()]
    for root in (directory, *wheel, *inside):
        if (root / library.proof).is_file():
            return root
    raise ToolchainError(f"{source} is not {library.name}: it has no {library.proof}")
