"""Stores the configurations that tuning has chosen, and looks them up. Each is a file of JSON in the cache."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tkjit.cache import Cache, fingerprints
from tkjit.cache.entry import LAYOUT
from tkjit.errors import CacheError
from tkjit.spec import Spec, Variant
from tkjit.system import files

_DIRECTORY = f"{LAYOUT}/tuned"  # inside the cache, for all Python versions


@dataclass(frozen=True)
class Choice:
    """The fastest configuration of a variant on a device.

    Parameters
    ----------
    kernel, variant : str
        ``"gemm"``, ``"T=bfloat16"``.
    device, target : str
        ``"NVIDIA H100 80GB HBM3"``, ``"sm_90a"``.
    configuration : dict
        The value of each constant: ``{"STAGES": 4}``.
    seconds : dict
        The time of each configuration that was measured: of one call, or the geometric mean of several calls.
    failed : dict
        The configurations that could not be measured, each with the reason.
    """

    kernel: str
    variant: str
    device: str
    target: str
    configuration: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        chosen = ", ".join(f"{name}={value}" for name, value in self.configuration.items())
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.kernel}{variant} on {self.device} ({self.target}): {chosen}"


class Tuned:
    """The choices in a cache and its layers.

    With a remote cache, the choices of a spec are fetched when a call first needs them here. An empty directory notes
    that the server had none.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.asks_again = False  # whether to ask the server although it has been asked before
        self._asked: set[str] = set()  # the names of specs, in this process

    def directory(self, spec: Spec) -> Path:
        """Return the directory for the choices of a spec. A spec with other options of ``tune=`` has another one."""
        return self._cache.root / _DIRECTORY / _name(spec)

    def fingerprint(self, spec: Spec) -> bytes:
        """Return the fingerprint of the directories with a spec's choices; each new choice changes one of them."""
        roots = (self._cache.root, *self._cache.layers)
        return fingerprints.of(str(root / _DIRECTORY / _name(spec)) for root in roots)

    def find(self, spec: Spec, variant: Variant, target: str, device: str) -> Choice | None:
        """Return the choice for a device; if there is none, the choice for another device with the same target."""
        self._fetch(spec)
        fitting = [one for one in self.all(spec) if (one.variant, one.target) == (str(variant), target)]
        return next((one for one in fitting if one.device == device), fitting[0] if fitting else None)

    def all(self, spec: Spec) -> list[Choice]:
        """List the choices of a spec: those of this machine's cache, then those of the layers."""
        roots = (self._cache.root, *self._cache.layers)
        return [choice for root in roots for choice in _choices_in(root / _DIRECTORY / _name(spec))]

    def store(self, spec: Spec, choice: Choice) -> None:
        """Write a choice, replacing an earlier one for the same variant and device.

        Raises
        ------
        CacheError
            If the cache cannot be written.
        """
        name = f"{files.sha256_of(f'{choice.variant}|{choice.device}|{choice.target}'.encode())[:16]}.json"
        self._write(_name(spec), name, choice)
        if self._cache.remote is not None:
            self._cache.remote.offer_value(f"tuned/{_name(spec)}", name, choice.as_json())

    def _write(self, directory: str, name: str, choice: Choice) -> None:
        parent = self._cache.root / _DIRECTORY / directory
        try:
            self._cache.make_directory(parent)
            files.write(parent / name, files.to_json(choice.as_json(), indent=1), shared=self._cache.shared)
        except OSError as error:
            raise CacheError(f"cannot store the tuned configuration in {parent}: {error.strerror}") from error

    def _fetch(self, spec: Spec) -> None:
        """Fetch the choices of a spec from the remote cache, unless this has been done before."""
        name, remote = _name(spec), self._cache.remote
        if remote is None or name in self._asked or (self.directory(spec).exists() and not self.asks_again):
            return
        if (values := remote.values(f"tuned/{name}")) is None:
            return  # the server does not answer; the next call asks again
        self._asked.add(name)
        with suppress(OSError, CacheError):  # such as a read-only cache; the default configuration is right as well
            self._cache.make_directory(self.directory(spec))
            for file, value in values.items():
                if (choice := _choice_of(value)) is not None:
                    self._write(name, file, choice)

    def push(self, kernels: Collection[str] = ()) -> int:
        """Upload all choices of this machine's cache, or those of some kernels. Return how many.

        Raises
        ------
        CacheError
            If the server does not accept them.
        """
        assert self._cache.remote is not None
        count = 0
        for path, choice in self._own(kernels):
            self._cache.remote.push_value(f"tuned/{path.parent.name}", path.name, choice.as_json())
            count += 1
        return count

    def clear(self, kernels: Collection[str] = ()) -> int:
        """Remove all choices of this machine's cache, or those of some kernels. Return how many."""
        count = 0
        for path, _ in self._own(kernels):
            path.unlink(missing_ok=True)
            count += 1
        for directory in files.below(self._cache.root / _DIRECTORY, "*"):
            with suppress(OSError):  # it has choices of other kernels
                directory.rmdir()
        return count

    def _own(self, kernels: Collection[str]) -> Iterator[tuple[Path, Choice]]:
        for directory in files.below(self._cache.root / _DIRECTORY, "*"):
            for path, choice in _files_in(directory):
                if not kernels or choice.kernel in kernels:
                    yield path, choice

    def bundled(self, specs: list[Spec]) -> dict[str, Path]:
        """Return the files with the choices of some specs, by their paths in a bundle."""
        found = {}
        for root in (*reversed(self._cache.layers), self._cache.root):
            for spec in specs:
                if spec.tuning:
                    for path in sorted((root / _DIRECTORY / _name(spec)).glob("*.json")):
                        found[f"{_DIRECTORY}/{_name(spec)}/{path.name}"] = path
        return found


def _name(spec: Spec) -> str:
    return f"{spec.name}-{files.sha256_of(repr((spec.name, spec.entry, spec.tuning)).encode())[:16]}"


def _choices_in(directory: Path) -> Iterator[Choice]:
    return (choice for _, choice in _files_in(directory))


def _files_in(directory: Path) -> Iterator[tuple[Path, Choice]]:
    for path in sorted(directory.glob("*.json")):
        with suppress(OSError, ValueError):  # removed in the meantime, or damaged
            if (choice := _choice_of(files.read_json(path))) is not None:
                yield path, choice


def _choice_of(value: Any) -> Choice | None:
    """Make a choice from JSON. Return None if another version of tkjit wrote it."""
    try:
        choice = Choice(**value)
    except TypeError:
        return None
    return choice if isinstance(choice.configuration, dict) else None
