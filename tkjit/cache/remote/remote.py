"""Reads entries from a server and writes entries to it. Data from a server is checked before it becomes an entry."""

from __future__ import annotations

import atexit
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.system.transfer import Growing, Patience, TransferProcess, UnreachableError

PATIENCE_S = 2.0  # a server that does not answer within this time counts as unreachable
EXIT_S = 10.0  # how long a process waits for pending uploads when it ends
PUSH_S = 120.0  # the time limit for uploading one entry on request
LEAST_RATE = 64 << 10  # bytes per second; if a transfer is slower than this, compiling is faster
MAX_STATEMENTS = 16  # how many statements one lookup reads at most
_PACKED = ".packed"
_POLL_S = 0.02


class Fetched(NamedTuple):
    """An entry that was fetched into a staging directory."""

    product: Product
    deps_key: str


class Remote:
    """A cache on a server.

    Parameters
    ----------
    settings : RemoteSettings
    abi : str
        The Python tag and the platform for which the entries are built.
    memo_directory : Path
        A directory in the local cache. An outage of the server is noted there, so that all processes know of it.
    """

    def __init__(self, settings: RemoteSettings, abi: str, memo_directory: Path, *, shared: bool = False) -> None:
        self._settings = settings
        self._keys = signing.Keyring(settings)
        self._abi = abi
        self._shown = settings.shown
        self._reader = TransferProcess(settings.url)
        self._writer = TransferProcess(settings.url)
        self._missed = 0  # how many entries were not offered because the server did not answer
        self._asking = ForkSafeLock()
        self._warnings = Warnings()
        self._outage = Outage(settings.url, memo_directory, self._warnings, shared=shared)
        atexit.register(self.finish)

    @property
    def writes(self) -> bool:
        """Whether builds are uploaded."""
        is_http = self._settings.url.startswith(("http://", "https://"))
        return not is_http and (self._settings.key is not None or self._settings.unsigned)

    # ---- reading

    def fetch(self, recipe: Recipe, staging: Path, check: Callable[[], None] = lambda: None) -> Fetched | None:
        """Fetch a recipe's entry into an empty directory, if the entry was built from the current inputs.

        Returns
        -------
        Fetched or None
            None if the server does not have the entry. Also None, with a warning, if the server is unreachable or its
            data was rejected.

        Raises
        ------
        CacheError
            If no installed package can read the URL.
        """
        with self._one_at_a_time(check):
            if self._outage.is_recent():
                return None
            place = f"{self._abi}/{recipe.arch}/{recipe.name}-{recipe.build_key[:16]}"
            try:
                for fitting in self._fitting(recipe, place, Patience(PATIENCE_S, check)):
                    with self._refusing(place, f"{fitting.deps_key}.json"):
                        return self._take(fitting, place, recipe, staging, check)
            except UnreachableError as error:
                self._outage.begin(str(error))
            except OSError as error:
                self._warn_of_disk(error)
            return None

    def _warn_of_disk(self, error: OSError) -> None:
        self._warnings.warn("disk", f"an entry of {self._shown} cannot be written here: {error.strerror or error}")

    def check_settings(self) -> None:
        """Check the settings before anything is built.

        Raises
        ------
        CacheError
            If they are invalid.
        """
        self._keys.trusted  # noqa: B018

    @contextmanager
    def _one_at_a_time(self, check: Callable[[], None]) -> Iterator[None]:
        """Let one thread at a time ask the server, so that the next threads know whether it was reachable."""
        while not self._asking.acquire(blocking=False):
            check()
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self._asking.release()

    def _fitting(self, recipe: Recipe, place: str, patience: Patience) -> Iterator[Statement]:
        """Yield the statements of a place that fit the recipe.

        A statement that does not fit may suggest the name of another one, which is then read next.
        """
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
        """Read a statement and check its signature. Return None if the statement was removed."""
        text = self._text(place, name, patience)
        return None if text is None else statement.from_json(text)

    def _text(self, place: str, name: str, patience: Patience) -> bytes | None:
        """Read a signed text and check its signature. Return None if the text was removed."""
        with tempfile.TemporaryDirectory(prefix="tkjit-") as directory:
            path = Path(directory, name)
            if not self._get(place, name, path, MAX_STATEMENT_BYTES, patience, None):
                return None
            return self._keys.checked(files.read(path))

    def values(self, place: str) -> dict[str, Any] | None:
        """Read the values that ``offer_value`` has written to a place, by name.

        Returns
        -------
        dict or None
            None if the server does not answer, with a warning.
        """
        with self._one_at_a_time(lambda: None):
            if self._outage.is_recent():
                return None
            patience, found = Patience(PATIENCE_S), {}
            try:
                answer = self._reader.ask({"do": "list", "place": f"{LAYOUT}/{place}"}, patience)
                self._warn_if_denied(answer)
                for name in [name for name in answer.get("names", []) if NAME.fullmatch(name)][:MAX_STATEMENTS]:
                    with self._refusing(place, name):
                        if (text := self._text(place, name, patience)) is not None:
                            found[name] = _value(text, place, name)
            except UnreachableError as error:
                self._outage.begin(str(error))
                return None
            except OSError as error:
                self._warn_of_disk(error)
                return None
            return found

    def _take(
        self, found: Statement, place: str, recipe: Recipe, staging: Path, check: Callable[[], None]
    ) -> Fetched | None:
        """Fetch the files that a statement lists, and compare each with its hash."""
        packed = staging / _PACKED
        try:
            # compressing incompressible data makes it larger, but by less than a thousandth
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
        """Fetch an object, and return whether it exists.

        Raises
        ------
        RefusedError
            If the object is too large.
        OSError
            If the object cannot be written here.
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
        """Warn if access was denied. This counts as a miss: some servers deny access to objects that do not exist."""
        if answer.get("error") == "denied":
            self._warnings.warn(
                "denied", f"{self._shown} denies access to an object, or does not have it: {answer['text']}"
            )

    @contextmanager
    def _refusing(self, place: str, name: str) -> Iterator[None]:
        """If the block raises a ``DamagedError``, warn instead."""
        try:
            yield
        except DamagedError as error:
            where = f"{self._shown}/{LAYOUT}/{place}/{name}"
            self._warnings.warn(where, f"{where} is rejected: {error}")

    def examine(self) -> str:
        """Contact the server, and describe what this process may do there.

        Raises
        ------
        CacheError
            If the server does not answer, or the settings are invalid.
        """
        self.check_settings()
        try:
            answer = self._reader.ask({"do": "list", "place": LAYOUT}, Patience(PATIENCE_S))
        except UnreachableError as error:
            raise CacheError(f"{self._shown} does not answer: {error}") from None
        self._warn_if_denied(answer)
        return f"{self._shown}, {'read and write' if self.writes else 'read-only'}"

    # ---- writing

    def offer(self, directory: Path) -> None:
        """Upload an entry in the background. A failure only causes a warning."""
        if self.writes:
            with suppress(DamagedError, OSError):  # the entry was removed
                self._send(lambda: self.request_of(directory))

    def offer_value(self, place: str, name: str, value: Any) -> None:
        """Upload a value in the background, as a signed text. A failure only causes a warning."""
        if self.writes:
            self._send(lambda: self._request_of_value(place, name, value))

    def _send(self, make_request: Callable[[], dict[str, Any] | None]) -> None:
        """Send a request in the background, or count it as missed if the server does not answer."""
        if self._outage.is_recent():
            self._missed += 1
        elif (request := make_request()) is not None:
            try:
                self._note_answers(self._writer.send(request))
            except UnreachableError as error:
                self._missed += 1
                self._outage.begin(str(error))

    def push_value(self, place: str, name: str, value: Any) -> None:
        """Upload a value.

        Raises
        ------
        CacheError
            If the server does not accept it.
        """
        self._check_writes()
        try:
            answer = self._writer.ask(self._request_of_value(place, name, value), Patience(PUSH_S))
        except UnreachableError as error:
            raise CacheError(f"{self._shown} does not accept entries: {error}") from None
        if answer:
            raise CacheError(f"{self._shown} does not accept entries: {answer['text']}")

    def _request_of_value(self, place: str, name: str, value: Any) -> dict[str, Any]:
        # the signature covers the place and the name, so that one value cannot take the place of another
        text = json.dumps({"place": place, "name": name, "value": value}, sort_keys=True)
        signed = self._keys.signed(text.encode()).decode()
        return {"do": "write", "place": f"{LAYOUT}/{place}", "name": name, "text": signed}

    def push(self, directory: Path) -> bool | None:
        """Upload an entry unless the server already has it.

        Returns
        -------
        bool or None
            Whether the entry was uploaded, or None if it is useless on other machines.

        Raises
        ------
        CacheError
            If the server does not answer or does not accept the entry, or if this process may not write to the server.
        DamagedError
            If the entry is damaged.
        """
        self._check_writes()
        if (request := self.request_of(directory)) is None:
            return None
        patience = Patience(PUSH_S)
        try:
            names = self._writer.ask({"do": "list", "place": request["place"]}, patience).get("names", [])
            is_there = {request["statement"], request["object"]}.issubset(names)
            # write the index in any case, because another writer may have been killed before it did so
            what = {"do": "index", "place": request["place"]} if is_there else request
            answer = self._writer.ask(what, patience)
        except UnreachableError as error:
            raise CacheError(f"{self._shown} does not accept entries: {error}") from None
        if answer.get("error") == "missing":  # the entry was removed from the local cache
            return None
        if answer:
            raise CacheError(f"{self._shown} does not accept entries: {answer['text']}")
        return not is_there

    def _check_writes(self) -> None:
        if not self.writes:
            raise CacheError(
                f"cannot write to {self._shown}: set TKJIT_CACHE_REMOTE_KEY to the signing key; an HTTP server is "
                "read-only, so write through s3:// or sftp://, for example"
            )

    def finish(self, seconds: float = EXIT_S) -> int:
        """Wait for the uploads and end the transfer processes. Return how many entries did not reach the server."""
        self._reader.finish(0.0)
        answers, left = self._writer.finish(seconds)
        if left:
            self._warnings.warn(
                "left", f"{self._shown} has not accepted {left} entries in {seconds:.0f} s; the upload continues"
            )
        missed, self._missed = self._missed, 0
        return self._note_answers(answers) + left + missed

    def request_of(self, directory: Path) -> dict[str, Any] | None:
        """Return the request that uploads an entry, or None if the entry is useless on other machines.

        Raises
        ------
        DamagedError
            If the entry is damaged.
        OSError
            If the entry was removed.
        """
        if (described := statement.of_entry(directory)) is None:
            return None
        return {
            "do": "put",
            "place": f"{LAYOUT}/{described.place}",
            "object": described.object_name,
            "files": [str(directory / file.name) for file in described.files],
            "statement": f"{described.deps_key}.json",
            "text": self._keys.signed(described.to_json()).decode(),
        }

    def _note_answers(self, answers: list[dict[str, Any]]) -> int:
        failed = [answer for answer in answers if answer.get("error") not in (None, "missing")]
        for answer in failed:
            self._warnings.warn("written", f"{self._shown} does not accept entries: {answer['text']}")
        return len(failed)


def _value(text: bytes, place: str, name: str) -> Any:
    try:
        content = json.loads(text)
        if (content["place"], content["name"]) == (place, name):
            return content["value"]
    except (ValueError, TypeError, KeyError):
        pass
    raise RefusedError("it is not a value of this name")
