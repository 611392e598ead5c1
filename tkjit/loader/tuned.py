"""Stores the configurations that tuning has chosen, and looks them up. Each is a file of JSON in the cache."""

from __future__ import annotations

from collections.abc import Iterator
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
    """The choices in a cache and its layers."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def directory(self, spec: Spec) -> Path:
        """Return the directory for the choices of a spec. A spec with other options of ``tune=`` has another one."""
        return self._cache.root / _DIRECTORY / _name(spec)

    def fingerprint(self, spec: Spec) -> bytes:
        """Return the fingerprint of the directories with a spec's choices; each new choice changes one of them."""
        roots = (self._cache.root, *self._cache.layers)
        return fingerprints.of(str(root / _DIRECTORY / _name(spec)) for root in roots)

    def find(self, spec: Spec, variant: Variant, target: str, device: str) -> Choice | None:
        """Return the choice for a device; if there is none, the choice for another device with the same target."""
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
        directory = self.directory(spec)
        path = directory / f"{files.sha256_of(f'{choice.variant}|{choice.device}|{choice.target}'.encode())[:16]}.json"
        try:
            self._cache.make_directory(directory)
            files.write(path, files.to_json(choice.as_json(), indent=1), shared=self._cache.shared)
        except OSError as error:
            raise CacheError(f"cannot store the tuned configuration in {directory}: {error.strerror}") from error

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
    for path in sorted(directory.glob("*.json")):
        try:
            choice = Choice(**files.read_json(path))
            if isinstance(choice.configuration, dict):
                yield choice
        except (OSError, ValueError, TypeError):  # removed in the meantime, damaged, or of another version of tkjit
            continue
