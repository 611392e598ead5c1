"""Reads entries from a server, and writes them to it. What a server sends is checked before any of it is an entry."""

from __future__ import annotations

import atexit
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import LAYOUT, check_intact
from tkjit.cache.recipe import Product, Recipe
from tkjit.cache.remote import signing, statement
from tkjit.cache.remote.outage import Outage, Warnings
from tkjit.cache.remote.packing import unpack
from tkjit.cache.remote.signing import RefusedError
from tkjit.cache.remote.statement import MAX_STATEMENT_BYTES, NAME, Statement
from tkjit.config import RemoteSettings
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.fork_safe import ForkSafeLock, cached_property
from tkjit.system.transfer import Growing, Patience, TransferProcess, UnreachableError

PATIENCE_S = 2.0  # without an answer, after which a server is unreachable
EXIT_S = 10.0  # the most that a process waits at its end for what it has written
PUSH_S = 120.0  # the most that one entry takes to be written, when somebody has asked for that
LEAST_RATE = 64 << 10  # bytes a second, below which an entry is sooner compiled
MAX_STATEMENTS = 16  # that are read for one lookup
_PACKED = ".packed"
_POLL_S = 0.02


class Fetched(NamedTuple):
    """What was fetched into a staging directory."""

    product: Product
    deps_key: str


class Remote:
    """A cache on a server.

    Parameters
    ----------
    settings : RemoteSettings
    abi : str
        The Python tag and platform of its entries.
    memo_directory : Path
        A directory of the cache, where all its processes see that the server was unreachable.
    """

    def __init__(self, settings: RemoteSettings, abi: str, memo_directory: Path, *, shared: bool = False) -> None:
        self._settings = settings
        self._keys = signing.Keyring(settings)
        self._abi = abi
        self._shown = settings.shown
        self._reader = TransferProcess(settings.url)
        self._writer = TransferProcess(settings.url)
        self._missed = 0  # entries that were not offered, since the server did not answer
        self._asking = ForkSafeLock()
        self._warnings = Warnings()
        self._outage = Outage(settings.url, memo_directory, self._warnings, shared=shared)
        atexit.register(self.finish)

    @cached_property
    def writes(self) -> bool:
        """Whether builds are written to it.

        Raises
        ------
        CacheError
            If that is wanted, and cannot be.
        """
        settings = self._settings
        is_http = settings.url.startswith(("http://", "https://"))
        if settings.mode == "rw" and is_http:
            raise CacheError(f"{self._shown}: a server of HTTP is read only; write through s3:// or sftp://, say")
        if settings.mode == "rw" and settings.key is None and not settings.unsigned:
            raise CacheError("TKJIT_CACHE_REMOTE_MODE=rw needs TKJIT_CACHE_REMOTE_KEY, the key to sign with")
        return settings.mode != "r" and not is_http and (settings.key is not None or settings.unsigned)

    # ---- reading

    def fetch(self, recipe: Recipe, staging: Path, check: Callable[[], None] = lambda: None) -> Fetched | None:
        """Fetch the entry of a recipe that was made from the present inputs, into an empty directory.

        Returns
        -------
        Fetched or None
            None if the server has none, is unreachable, or has sent what is refused: a warning says so.

        Raises
        ------
        CacheError
            If no installed package reads the URL.
        """
        with self._one_at_a_time(check):
            if self._outage.is_recent():
                return None
            place = f"{self._abi}/{recipe.arch}/{recipe.name}-{recipe.build_key[:16]}"
            try:
                for found in self._fitting(recipe, place, Patience(PATIENCE_S, check)):
                    with self._refusing(place, f"{found.deps_key}.json"):
                        return self._take(found, place, recipe, staging, check)
            except UnreachableError as error:
                self._outage.begin(str(error))
            except OSError as error:
                self._warnings.warn(
                    "disk", f"an entry of {self._shown} cannot be written here: {error.strerror or error}"
                )
            return None

    def check_settings(self) -> None:
        """Refuse settings that contradict, before anything is built.

        Raises
        ------
        CacheError
        """
        self._keys.trusted  # noqa: B018
        self.writes  # noqa: B018

    @contextmanager
    def _one_at_a_time(self, check: Callable[[], None]) -> Iterator[None]:
        """Let one thread ask at a time: the others see what it found of the server."""
        while not self._asking.acquire(blocking=False):
            check()
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self._asking.release()

    def _fitting(self, recipe: Recipe, place: str, patience: Patience) -> Iterator[Statement]:
        """The statements of a place that fit. A statement that does not fit says which name might."""
        answer = self._reader.ask({"do": "list", "place": f"{LAYOUT}/{place}"}, patience)
        self._warn_if_denied(answer)
        names = [name for name in answer.get("names", []) if NAME.fullmatch(name)]
        for _ in range(min(len(names), MAX_STATEMENTS)):
            name = names.pop(0)
            with self._refusing(place, name):
                read = self._statement(place, name, patience)
                if read is None:
                    continue
                read.check_place(recipe, place, name)
                if read.fits(recipe):
                    yield read
                elif (likely := read.name_here(recipe)) in names:
                    names.remove(likely)
                    names.insert(0, likely)

    def _statement(self, place: str, name: str, patience: Patience) -> Statement | None:
        """A statement whose signature is that of a trusted key; None if it was removed."""
        with tempfile.TemporaryDirectory(prefix="tkjit-") as directory:
            path = Path(directory, name)
            if not self._get(place, name, path, MAX_STATEMENT_BYTES, patience, None):
                return None
            return statement.from_json(self._keys.checked(files.read(path)))

    def _take(
        self, found: Statement, place: str, recipe: Recipe, staging: Path, check: Callable[[], None]
    ) -> Fetched | None:
        """Fetch the files of a statement, and compare each with its hash."""
        packed = staging / _PACKED
        try:
            # what cannot be made smaller grows by less than a thousandth
            limit = found.size_bytes + found.size_bytes // 1000 + 4096
            growing = Growing(packed, PATIENCE_S + limit / LEAST_RATE)
            if not self._get(place, found.object_name, packed, limit, Patience(PATIENCE_S, check), growing):
                raise RefusedError(f"its files ({found.object_name}) are not there")
            unpack(packed, found, staging)
            packed.unlink()
            check_intact(staging, recipe)
        except BaseException:
            for path in list(staging.iterdir()):
                path.unlink()
            raise
        return Fetched(Product(found.shared_object, (), {"module": found.module}), found.deps_key)

    def _get(self, place: str, name: str, to: Path, limit: int, patience: Patience, growing: Growing | None) -> bool:
        """Fetch an object; whether it is there.

        Raises
        ------
        RefusedError
            If it is too large.
        OSError
            If it cannot be written here.
        """
        request = {"do": "get", "place": f"{LAYOUT}/{place}", "name": name, "to": str(to), "limit": limit}
        answer = self._reader.ask(request, patience, growing)
        if answer.get("error") == "too large":
            raise RefusedError(f"{name} is larger than {limit} bytes")
        if answer.get("error") == "local":
            raise OSError(answer["text"])
        self._warn_if_denied(answer)
        return "error" not in answer

    def _warn_if_denied(self, answer: dict[str, Any]) -> None:
        """A server that must not tell what it has denies what it has not: that is a miss."""
        if answer.get("error") == "denied":
            self._warnings.warn(
                "denied", f"{self._shown} denies access to an object, or does not have it: {answer['text']}"
            )

    @contextmanager
    def _refusing(self, place: str, name: str) -> Iterator[None]:
        """Warn of what is refused in the block, and end the block."""
        try:
            yield
        except DamagedError as error:
            where = f"{self._shown}/{LAYOUT}/{place}/{name}"
            self._warnings.warn(where, f"{where} is refused: {error}")

    def examine(self) -> str:
        """Ask the server for anything, and say what this process may do there.

        Raises
        ------
        CacheError
            If it does not answer, or the settings are no good.
        """
        self.check_settings()
        try:
            answer = self._reader.ask({"do": "list", "place": LAYOUT}, Patience(PATIENCE_S))
        except UnreachableError as error:
            raise CacheError(f"{self._shown} does not answer: {error}") from None
        self._warn_if_denied(answer)
        return f"{self._shown}, {'read and written' if self.writes else 'read only'}"

    # ---- writing

    def offer(self, directory: Path) -> None:
        """Write an entry to the server, beside what this process does next. It only warns if that fails."""
        if not self.writes:
            return
        if self._outage.is_recent():
            self._missed += 1
            return
        try:
            if (request := self.request_of(directory)) is None:
                return
            self._note_answers(self._writer.send(request))
        except UnreachableError as error:
            self._missed += 1
            self._outage.begin(str(error))
        except (DamagedError, OSError):  # it was removed
            return

    def push(self, directory: Path) -> bool | None:
        """Write an entry to the server, unless that has it.

        Returns
        -------
        bool or None
            Whether it was written; None of one that is of no use elsewhere.

        Raises
        ------
        CacheError
            If the server does not answer or does not take it, or nothing may be written to it.
        DamagedError
            If the entry is not whole.
        """
        if not self.writes:
            raise CacheError(
                f"{self._shown} is not written to: set TKJIT_CACHE_REMOTE_KEY to the key to sign with, and not "
                "TKJIT_CACHE_REMOTE_MODE=r; a server of HTTP is read only"
            )
        if (request := self.request_of(directory)) is None:
            return None
        patience = Patience(PUSH_S)
        try:
            names = self._writer.ask({"do": "list", "place": request["place"]}, patience).get("names", [])
            is_there = {request["statement"], request["object"]}.issubset(names)
            # the index too, which a writer that was killed may not have written
            what = {"do": "index", "place": request["place"]} if is_there else request
            answer = self._writer.ask(what, patience)
        except UnreachableError as error:
            raise CacheError(f"{self._shown} does not take entries: {error}") from None
        if answer.get("error") == "missing":  # the entry, which was removed here
            return None
        if answer:
            raise CacheError(f"{self._shown} does not take entries: {answer['text']}")
        return not is_there

    def finish(self, seconds: float = EXIT_S) -> int:
        """Wait for what was offered, end the processes, and return how many entries have not come there."""
        self._reader.finish(0.0)
        answers, left = self._writer.finish(seconds)
        if left:
            self._warnings.warn(
                "left", f"{self._shown} has not taken {left} entries in {seconds:.0f} s; it is still being asked"
            )
        missed, self._missed = self._missed, 0
        return self._note_answers(answers) + left + missed

    def request_of(self, directory: Path) -> dict[str, Any] | None:
        """What writes an entry; None of one that is of no use elsewhere.

        Raises
        ------
        DamagedError
            If it is not whole.
        OSError
            If it was removed.
        """
        if (made := statement.of_entry(directory)) is None:
            return None
        return {
            "do": "put",
            "place": f"{LAYOUT}/{made.place}",
            "object": made.object_name,
            "files": [str(directory / file.name) for file in made.files],
            "statement": f"{made.deps_key}.json",
            "text": self._keys.signed(made.to_json()).decode(),
        }

    def _note_answers(self, answers: list[dict[str, Any]]) -> int:
        failed = [answer for answer in answers if answer.get("error") not in (None, "missing")]
        for answer in failed:
            self._warnings.warn("written", f"{self._shown} does not take entries: {answer['text']}")
        return len(failed)
