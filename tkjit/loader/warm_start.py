"""Warm starts: if nothing has changed since the previous process, tkjit does not run a spec file again.

A warm record contains the runtime, glue and launcher that a first call used, and the specs from the spec file. tkjit
writes a record only for a *plain* file, which contains nothing but literals and kernel definitions
(``tkjit/spec/plain.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tkjit import registry
from tkjit.cache import Cache, Entry, fingerprints
from tkjit.errors import SpecError
from tkjit.loader.environment import Environment
from tkjit.loader.modules import GluePlan
from tkjit.loader.plan import Opened
from tkjit.registry import Definitions
from tkjit.spec import Spec
from tkjit.spec.model import Benchmark, Verification
from tkjit.spec.plain import is_plain


class Origin(NamedTuple):
    """The origin of a kernel: its spec file, its name, the module, and the file's fingerprint from before it ran."""

    path: Path
    name: str
    module: str
    fingerprint: bytes


class Use(NamedTuple):
    """The overload, variant and target of a call; the first two are indices."""

    overload: int
    variant: int
    target: str


class WarmStart(NamedTuple):
    """A kernel from the previous process: its specs, and the glue and launcher that its first call used.

    Parameters
    ----------
    returns : list of list of str
        The results of each overload.
    packed : str
        The specs as text. A call does not need them.
    """

    use: Use
    name: str
    doc: str
    returns: list[list[str]]
    packed: str
    glue: Opened
    launcher: Opened

    @property
    def specs(self) -> tuple[Spec, ...]:
        return unpack(self.packed)


@dataclass(frozen=True)
class Reference:
    """A kernel's reference implementation, or its function for gradients. A call first runs the spec file to get it.

    Parameters
    ----------
    digest : str
        The digest of the file's content when the kernel was read. If the digest has changed, the file may now define a
        different reference.
    """

    path: Path
    name: str
    module: str
    digest: str
    overload: int
    of_gradients: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _digest(self.path) != self.digest:
            raise SpecError(f"{self.path} has changed since {self.name} was loaded; load it again")
        spec = registry.run_spec_file(self.path, self.name, self.module).specs[self.overload]
        function = spec.backward.function if self.of_gradients else spec.reference
        return function(*args, **kwargs)


def _digest(path: Path) -> str:
    """Return the digest of a file's content, from memory while the file is unchanged; empty if it cannot be read."""
    try:
        return fingerprints.digest_of_file(str(path))
    except OSError:
        return ""


class WarmLoader(Protocol):
    """The part of ``Loader`` that warm starts use."""

    cache: Cache
    env: Environment

    def runtime_as_recorded(self) -> Entry | None:
        """Return the runtime's entry with its fingerprint, if this process has loaded that entry."""

    def is_unchanged(self, fingerprint: bytes, runtime: Entry) -> bool:
        """Return whether all files are unchanged. Load the runtime, which compares them."""

    def open_launcher(self, path: Path) -> int:
        """Load a launcher and return the address of its ``TkjitLauncher``."""


class WarmStarts:
    """Reads and writes a loader's warm records for spec files."""

    def __init__(self, loader: WarmLoader) -> None:
        self._loader = loader
        self._not_plain: set[Path] = set()

    def write(self, origin: Origin, specs: Sequence[Spec], doc: str, use: Use, glue: Opened, launcher: Opened) -> None:
        """Record a kernel and the entries that its first call used. If its file is not plain, record only that fact."""
        path, name, module, fingerprint = origin
        if path in self._not_plain:
            return
        with suppress(OSError, UnicodeDecodeError):
            plain = is_plain(path.read_text(encoding="utf-8"))
            runtime = self._loader.runtime_as_recorded()
            if runtime is None or fingerprints.of([str(path)]) != fingerprint:
                return
            entries = [runtime, glue.entry, launcher.entry] if plain else []
            if any(bytes(entry.shared_object) not in entry.fingerprint for entry in entries):
                return  # the fingerprint of an entry could not be taken during its build
            combined = fingerprint + b"".join(entry.fingerprint for entry in entries)
            more = [use, name, doc, [spec.returns for spec in specs], pack(specs, path)] if plain else None
            self._loader.cache.write_record(self._warm_key(path, name, module), entries, combined, more)

    def read(self, path: Path, name: str, module: str) -> WarmStart | None:
        """Return the kernel as the previous process recorded it, or None if one of its files has changed since then."""
        record = self._loader.cache.read_record(self._warm_key(path, name, module))
        if record is None:
            return None
        if not record.entries:
            if fingerprints.unchanged(record.fingerprint):
                self._not_plain.add(path)
            return None
        runtime, glue, launcher = record.entries
        with suppress(ImportError):  # an entry that cannot be loaded here is rebuilt when a call needs it
            if not self._loader.is_unchanged(record.fingerprint, runtime):
                return None
            if not all(self._loader.cache.use(entry) for entry in record.entries):
                return None
            use, _, doc, returns, specs = record.more
            return WarmStart(
                Use(*use),
                name,
                doc,
                returns,
                specs,
                Opened(
                    GluePlan.import_module(glue.module, glue.shared_object),
                    replace(glue, fingerprint=record.fingerprint),
                ),
                Opened(self._loader.open_launcher(launcher.shared_object), launcher),
            )
        return None

    def _warm_key(self, path: Path, name: str, module: str) -> str:
        return self._loader.env.warm_key(f"kernel-{name}", [str(path), module])

    def definitions(self, place: Path) -> Definitions:
        """Like ``registry.definitions``, but use the previous process's record if no file in the directory changed."""
        warm_key = self._loader.env.warm_key(f"names-{place.name}", str(place))
        record = self._loader.cache.read_record(warm_key)
        if record is not None and self._loader.cache.unchanged(record.fingerprint):
            known: Definitions = record.more
            return known
        fingerprint = fingerprints.of([str(place), *map(str, registry.spec_files(place))])
        found = registry.definitions(place)
        self._loader.cache.write_record(warm_key, [], fingerprint, found)
        return found


def pack(specs: Sequence[Spec], path: Path) -> str:
    """Turn a kernel's specs into text. Each function becomes a ``Reference``, which finds it in the spec file."""
    import base64
    import pickle  # takes 2 ms, but by the time of a call, torch has imported it anyway

    alone = tuple(_without_functions(spec, path, overload) for overload, spec in enumerate(specs))
    return base64.b64encode(pickle.dumps(alone, protocol=5)).decode()


def _without_functions(spec: Spec, path: Path, overload: int) -> Spec:
    digest = _digest(path)
    backward = spec.backward
    if backward is not None and backward.function is not None:
        gradients = Reference(path, spec.name, spec.module, digest, overload, of_gradients=True)
        backward = replace(backward, function=gradients)
    reference = None if spec.reference is None else Reference(path, spec.name, spec.module, digest, overload)
    operator = replace(
        spec.operator, reference=reference, backward=backward, verification=Verification(), benchmark=Benchmark()
    )
    return replace(spec, operator=operator)


def unpack(text: str) -> tuple[Spec, ...]:
    """Read the specs from text that ``pack`` made. Unpickling can run code, so the cache has to be trusted."""
    import base64
    import pickle

    specs: tuple[Spec, ...] = pickle.loads(base64.b64decode(text))
    return specs
