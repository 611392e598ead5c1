"""The cache: keys, entries, publishing. It knows no compiler and no torch.

``<root>/v1/<abi>/<arch>/<name>-<build_key>/<deps_key>/`` holds an entry: ``manifest.json``, ``dependencies.json``, the
sources, the log and the shared object. ``build_key`` names the texts, flags and versions that went in; ``deps_key`` the
contents of every file that the compiler said it read. ``docs/cache.md`` has the layout on a page.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tkjit.errors import CacheError

LAYOUT = "v1"
MANIFEST = "manifest.json"
DEPENDENCIES = "dependencies.json"
SEEN = "seen.json"
PATHS = "paths"  # the part of a key in which directories are anchored
LOCK_POLL_S = 0.05


@dataclass(frozen=True)
class Recipe:
    """What an entry is made from: all that may change it, except the files that a compiler finds by itself.

    Parameters
    ----------
    arch : str
        The directory of the architecture, ``sm_90a``; ``glue`` and ``runtime`` have none.
    parts : tuple of (str, str)
        The named parts of the key: texts, flags, versions; in ``paths`` anchors are replaced.
    anchors : tuple of (str, str)
        Directories that may lie elsewhere on another machine, by the names that stand for them in the key.
    """

    arch: str
    name: str
    parts: tuple[tuple[str, str], ...]
    anchors: tuple[tuple[str, str], ...] = ()

    @property
    def build_key(self) -> str:
        return _digest(dict(self.key_parts()))

    def key_parts(self) -> Iterator[tuple[str, str]]:
        """The parts as the key has them: a path in a text or a define is a value, and stays."""
        return ((name, self.anchored(text) if name == PATHS else text) for name, text in self.parts)

    def anchored(self, text: str) -> str:
        """A text in which each anchor's path is replaced by its name, the longest path first."""
        for name, path in sorted(self.anchors, key=lambda anchor: -len(anchor[1])):
            if path in text:
                text = _replace_directory(text, path, f"<{name}>")
        return text

    def resolved(self, text: str) -> str:
        """The reverse of ``anchored``, for a path."""
        if text.startswith("<"):
            for name, path in self.anchors:
                if text.startswith(f"<{name}>/"):
                    return path + text[len(name) + 2 :]
        return text


def _replace_directory(text: str, path: str, name: str) -> str:
    """Replace a path where it ends: ``/src/tkjit`` is not the beginning of ``/src/tkjit-plugins``."""
    first, *rest = text.split(path)
    return first + "".join((path if _continues_a_name(piece) else name) + piece for piece in rest)


def _continues_a_name(text: str) -> bool:
    return text[:1].isalnum() or text[:1] in tuple("-_.~+@")


@dataclass(frozen=True)
class Product:
    """What a builder left in its staging directory.

    Parameters
    ----------
    shared_object : str
        Its file name there.
    dependencies : tuple of Path
        Every file that the compiler read.
    facts : mapping
        What else the manifest keeps: times, registers, the command.
    """

    shared_object: str
    dependencies: tuple[Path, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A published build."""

    directory: Path
    manifest: Mapping[str, Any]

    @property
    def shared_object(self) -> Path:
        return self.directory / str(self.manifest["shared_object"])


class Cache:
    """A directory of entries.

    Parameters
    ----------
    root : Path
        ``TKJIT_CACHE``.
    abi : str
        The Python tag and platform that the entries are for.
    """

    def __init__(self, root: Path, abi: str) -> None:
        self.root = root
        self._base = root / LAYOUT / abi

    @property
    def tools_memo(self) -> Path:
        return self.root / LAYOUT / "tools.json"

    def lookup(self, recipe: Recipe) -> Entry | None:
        """The entry of a recipe whose dependencies are as they were when it was built; None on a miss."""
        directory = self._directory(recipe)
        try:
            candidates = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CacheError(f"cannot read the cache directory {directory}: {error.strerror}") from None
        for candidate in candidates:
            if (entry := _open_entry(candidate, recipe)) is not None:
                return entry
        return None

    def build(self, recipe: Recipe, builder: Callable[[Path], Product]) -> Entry:
        """The entry of a recipe, built by ``builder(staging directory)`` unless another process was first.

        Raises
        ------
        CacheError
            If the directory cannot be written. What the builder raises passes through, and leaves no entry.
        """
        import shutil
        import tempfile

        directory = self._directory(recipe)
        with _writing(self.root):
            directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / ".lock"):
            if (entry := self.lookup(recipe)) is not None:
                return entry
            with _writing(self.root):
                staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=directory))
            try:
                product = builder(staging)
                with _writing(self.root):
                    return _publish(staging, directory, recipe, product)
            except OSError as error:
                if not _is_of_the_disk(error, staging):
                    raise
                raise CacheError(_write_failure(self.root, error)) from error
            finally:
                shutil.rmtree(staging, ignore_errors=True)

    def failure_directory(self, recipe: Recipe) -> Path:
        """Where a builder leaves the text and the log of a failed build, for a person to read."""
        return self._directory(recipe) / ".failed"

    def _directory(self, recipe: Recipe) -> Path:
        return self._base / recipe.arch / f"{recipe.name}-{recipe.build_key[:16]}"


def _publish(staging: Path, directory: Path, recipe: Recipe, product: Product) -> Entry:
    """Give a finished build its name in one step, so that no reader ever sees half of it."""
    import shutil

    identities = {str(path): _identity(str(path)) for path in product.dependencies}
    dependencies = {recipe.anchored(path): _digest_file(path) for path in identities}
    manifest = {
        "name": recipe.name,
        "arch": recipe.arch,
        "key": {name: _digest(text) for name, text in recipe.key_parts()},
        "shared_object": product.shared_object,
        "files": {path.name: _digest_file(path) for path in sorted(staging.iterdir()) if path.is_file()},
        **product.facts,
    }
    (staging / DEPENDENCIES).write_text(json.dumps(dependencies, indent=1))
    (staging / MANIFEST).write_text(json.dumps({**manifest, "digest": _digest(manifest)}, indent=1))
    target = directory / _digest(dependencies)[:16]
    for path in staging.iterdir():
        _sync(path)
    try:
        staging.rename(target)
    except OSError:
        # without locks another process may have been faster; what is not whole was never a hit, and goes
        if (entry := _open_entry(target, recipe)) is not None:
            return entry
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
    _sync(directory)
    shared_object = str(target / product.shared_object)
    _remember(target, recipe, {**identities, shared_object: _identity(shared_object)})
    return Entry(target, manifest)


def _open_entry(directory: Path, recipe: Recipe) -> Entry | None:
    """An entry that is whole and whose dependencies have not changed."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        if manifest.pop("digest") != _digest(manifest):
            return None
        # plain strings: a Path for each of 300 headers would cost as much as all the rest of a warm call
        shared_object = str(directory / manifest["shared_object"])
        seen = _seen(directory, recipe)
        if shared_object in seen and all(_identity(path) == identity for path, identity in seen.items()):
            return Entry(directory, manifest)
        dependencies = json.loads((directory / DEPENDENCIES).read_text())
        wanted = {recipe.resolved(path): digest for path, digest in dependencies.items()}
        wanted[shared_object] = manifest["files"][manifest["shared_object"]]
        # before the contents: a file that changes in between does not match its note, and is read again
        identities = {path: _identity(path) for path in wanted}
        if any(_digest_file(path) != digest for path, digest in wanted.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    _remember(directory, recipe, identities)
    return Entry(directory, manifest)


def _identity(path: str) -> list[int] | None:
    """What changes when a file's content may have: reading it again is not needed while this stays."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _seen(directory: Path, recipe: Recipe) -> dict[str, list[int]]:
    """The files that were compared, if they are this recipe's: another checkout has other files of the same names."""
    try:
        anchors, files = json.loads((directory / SEEN).read_text())
    except (OSError, ValueError, TypeError):
        return {}
    return files if anchors == list(map(list, recipe.anchors)) and isinstance(files, dict) else {}


def _remember(directory: Path, recipe: Recipe, identities: Mapping[str, list[int] | None]) -> None:
    """Note the identity of files whose content has been compared; on a read-only disk it is compared each time."""
    with suppress(OSError):
        scratch = directory / f".{SEEN}.{os.getpid()}"
        scratch.write_text(json.dumps([recipe.anchors, identities]))
        scratch.replace(directory / SEEN)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process build while the others wait. Where locks do not work, each builds for itself."""
    from filelock import FileLock

    lock = FileLock(path)
    try:
        lock.acquire(poll_interval=LOCK_POLL_S)
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CacheError(_write_failure(root, error)) from error


def _is_of_the_disk(error: OSError, staging: Path) -> bool:
    """Whether a builder failed because it could not write where it was told to."""
    here = isinstance(error.filename, str) and error.filename.startswith(str(staging))
    return here or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _write_failure(root: Path, error: OSError) -> str:
    return f"cannot write to the cache directory {root}: {error.strerror or error}; set TKJIT_CACHE to another one"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest_file(path: Path | str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123  a string on the warm path
        return hashlib.sha256(file.read()).hexdigest()
