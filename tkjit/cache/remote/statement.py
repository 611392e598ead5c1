"""Signed statements about entries in a remote cache: an entry's keys, and the hashes of its files and inputs.

A statement has two lines. The second is JSON; the first contains its signature and the name of the signing key.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache.entry import DEPENDENCIES, MANIFEST, deps_key_here, input_changes, read_dependencies, read_manifest
from tkjit.cache.recipe import Recipe, digest_of, digest_of_file
from tkjit.cache.remote.signing import RefusedError
from tkjit.system import files as owned_files

FORMAT = 1
NAME = re.compile(r"[0-9a-f]{16}\.json")  # the name of a statement
MAX_BYTES = 2 << 30  # the limit for the total size of an entry's files
MAX_STATEMENT_BYTES = 16 << 20
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
_MAX_FILES = 100


class File(NamedTuple):
    """A file of an entry."""

    name: str
    size: int
    sha256: str
    is_program: bool


@dataclass(frozen=True)
class Statement:
    """Describes an entry in a remote cache.

    Parameters
    ----------
    place : str
        ``<abi>/<arch>/<name>-<build_key>``.
    key : mapping
        The parts of the build key, as ``Recipe.recorded_parts`` returns them.
    tools : mapping
        The versions of the compilers.
    dependencies : mapping
        ``files``, ``search`` and ``shadows``, as in ``dependencies.json``.
    files : tuple of File
        The files, in the order in which the object contains them.
    """

    place: str
    deps_key: str
    key: Mapping[str, str]
    tools: Mapping[str, str]
    shared_object: str
    module: str
    dependencies: Mapping[str, Any]
    files: tuple[File, ...]

    @property
    def object_name(self) -> str:
        """The name of the object that contains the files. If any byte of a file changes, the name changes."""
        return f"{digest_of([list(file) for file in self.files])[:32]}.z"

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def check_place(self, recipe: Recipe, place: str, name: str) -> None:
        """Check that the statement belongs to its path, because somebody may have moved a valid statement there.

        Raises
        ------
        RefusedError
            If it does not.
        """
        if (self.place, f"{self.deps_key}.json") != (place, name) or self.key != recipe.recorded_parts():
            raise RefusedError("it belongs to another entry")

    def fits(self, recipe: Recipe) -> bool:
        """Return whether the entry was built from the current inputs.

        On a machine without compilers, only the kernel's own files are compared, as for entries in the local cache.
        """
        exact = recipe.tools is not None
        if exact and self.tools != dict(recipe.tools or ()):
            return False
        return not input_changes(self.dependencies, recipe, exact=exact)

    def name_here(self, recipe: Recipe) -> str:
        """Return the name of a statement that would fit here and lists the same files as this one.

        The name is empty if one of the files does not exist on this machine.
        """
        key = deps_key_here(self.dependencies, recipe)
        return f"{key}.json" if key else ""

    def to_json(self) -> bytes:
        value = {"format": FORMAT, **vars(self), "files": [list(file) for file in self.files]}
        return json.dumps(value, sort_keys=True).encode()


def of_entry(directory: Path) -> Statement | None:
    """Make an entry's statement.

    Return None if the entry is useless on other machines, or faster to build than to fetch.

    Raises
    ------
    DamagedError
        If the entry is damaged.
    OSError
        If the entry was removed.
    """
    manifest = read_manifest(directory)
    if manifest.get("stays_here"):
        return None
    digests = {**manifest["files"], MANIFEST: digest_of_file(directory / MANIFEST)}
    return Statement(
        place="/".join(directory.parts[-4:-1]),
        deps_key=directory.name[:16],
        key=manifest["key"],
        tools=manifest["tools"],
        shared_object=manifest["shared_object"],
        module=str(manifest.get("module", "")),
        dependencies=read_dependencies(directory, manifest),
        files=tuple(_file(directory / name, digest) for name, digest in sorted(digests.items())),
    )


def _file(path: Path, digest: str) -> File:
    status = path.stat()
    return File(path.name, status.st_size, digest, bool(status.st_mode & 0o100))


def from_json(text: bytes) -> Statement:
    """Parse a statement and check each part of it, because it may come from anybody.

    Raises
    ------
    RefusedError
        If a part is invalid.
    """
    try:
        value = owned_files.from_json(text)
        if value.pop("format") != FORMAT:
            raise RefusedError("it was written by another version of tkjit")
        entries = value.pop("files")
        if not isinstance(entries, list) or len(entries) > _MAX_FILES:
            raise RefusedError(f"an entry has at most {_MAX_FILES} files")
        parsed = Statement(**value, files=tuple(map(_checked_file, entries)))
        if not all(isinstance(word, str) for word in _words(parsed)):
            raise RefusedError("it is not a statement")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RefusedError(f"it is not a statement: {error!r}") from None
    names = [file.name for file in parsed.files]
    if len(set(names)) != len(names) or not {parsed.shared_object, MANIFEST, DEPENDENCIES}.issubset(names):
        raise RefusedError("it does not list the files of a whole entry")
    if parsed.size_bytes > MAX_BYTES:
        raise RefusedError(f"its files have {parsed.size_bytes} bytes; at most {MAX_BYTES} are allowed")
    return parsed


def _words(made: Statement) -> Iterator[Any]:
    """Yield all parts of a statement that have to be text."""
    yield from (made.place, made.deps_key, made.shared_object, made.module)
    for place in ("search", "shadows"):
        yield from made.dependencies[place]
    for pairs in (made.dependencies["files"], made.key, made.tools):
        yield from itertools.chain.from_iterable(pairs.items())


def _checked_file(value: Any) -> File:
    name, size, digest, is_program = value
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise RefusedError(f"{name!r} is not a valid file name in an entry")
    if type(size) is not int or size < 0 or not re.fullmatch("[0-9a-f]{64}", digest) or type(is_program) is not bool:
        raise RefusedError(f"{name} has an invalid size, hash or mode")
    return File(name, size, digest, is_program)
