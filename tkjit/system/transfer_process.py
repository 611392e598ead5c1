"""A script that moves objects from and to a server through fsspec, in a process of its own.

So no event loop of fsspec is in a process that may fork, and what hangs or crashes is this process alone.

It reads the URL from standard input, and then requests, a line of JSON each. It answers each with a line:

* ``{"do": "list", "place": ...}``: ``{"names": [...]}``
* ``{"do": "get", "place": ..., "name": ..., "to": PATH, "limit": BYTES}``: ``{}``, and the file is written
* ``{"do": "put", "place": ..., "object": NAME, "files": [PATH, ...], "statement": NAME, "text": ...}``: ``{}``
* ``{"do": "index", "place": ...}``: ``{}``, and the index names what is there

or ``{"error": KIND, "text": ...}``. KIND is ``missing``, ``denied``, ``too large``, ``local`` if a file of this machine
cannot be read or written, or ``failed``. Before the first request it says ``{}``, or the error ``unusable`` for a URL
that no installed package reads.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import resource
import signal
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

IDLE_S = 30.0  # without a request, after which the process ends
FINISH_S = 60  # the most that it works on after its parent has ended
INDEX = "index.json"
MAX_NAMES = 10_000
MAX_INDEX_BYTES = 1 << 20
ROUNDS = 8  # of writing an index that others write too
# where a rename replaces a file in one step, and writing it does not
_RENAMING = {"file", "local", "sftp", "ssh", "smb", "hdfs", "arrow_hdfs", "webhdfs"}
_UNLISTED = {"http", "https"}


class Server:
    """The objects below a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fs: Any = None
        self._root = ""
        self.has_answered = False  # on this connection

    def connect(self) -> None:
        if self._fs is None:
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(self._url, skip_instance_cache=True)

    def disconnect(self) -> None:
        self._fs, self.has_answered = None, False

    @property
    def _protocols(self) -> set[str]:
        given = self._fs.protocol
        return {given} if isinstance(given, str) else set(given)

    def names(self, place: str) -> list[str]:
        """The names of the objects of a place; none if it does not exist."""
        self.connect()
        if not self._protocols & _UNLISTED:
            with suppress(PermissionError, NotImplementedError):
                return self._listed(f"{self._root}/{place}")
        return self._index(place)

    def _index(self, place: str) -> list[str]:
        """The names in a place's index; none if there is no index."""
        with tempfile.NamedTemporaryFile(prefix="tkjit-") as file:
            try:
                self.get(place, INDEX, file.name, MAX_INDEX_BYTES)
            except FileNotFoundError:
                return []
            with open(file.name, "rb") as written:  # get_file may have put another one in its place
                named = json.loads(written.read())
        if not isinstance(named, list) or not all(isinstance(name, str) and len(name) < 256 for name in named):
            raise ValueError(f"{place}/{INDEX} is no list of names")
        return named[:MAX_NAMES]

    def _listed(self, directory: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = [path.rstrip("/").rpartition("/")[2] for path in self._fs.ls(directory, detail=False)]
            return sorted(found)[:MAX_NAMES]
        except FileNotFoundError:
            return []

    def get(self, place: str, name: str, to: str, limit: int) -> None:
        self.connect()
        before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        # the system's own limit: whatever the library does, no more is written
        resource.setrlimit(resource.RLIMIT_FSIZE, (lower, hard))
        try:
            self._fs.get_file(f"{self._root}/{place}/{name}", to)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))

    def put(self, place: str, name: str, files: list[str], statement: str, text: str) -> None:
        """The files first: who reads a statement finds them."""
        with tempfile.NamedTemporaryFile(prefix="tkjit-") as packed:
            for chunk in compressed(files):
                packed.write(chunk)
            packed.flush()
            try:
                self.connect()
                if self._protocols & _RENAMING:
                    self._fs.makedirs(f"{self._root}/{place}", exist_ok=True)
                self._put_file(packed.name, f"{self._root}/{place}/{name}")
                self._put_text(text, f"{self._root}/{place}/{statement}")
                self.write_index(place)
            except FileNotFoundError as error:  # of a bucket, say; a local file that is missing is none of its
                raise OSError(said(error)) from None

    def write_index(self, place: str) -> None:
        """Write the list of a place's statements, until it is what is there.

        Two who write at once lose nothing: who writes last has listed after the other's objects were there, or lists
        once more and sees them.
        """
        self.connect()
        written = None
        with suppress(ValueError):  # somebody has written something else there
            written = self._index(place)
        for _ in range(ROUNDS):
            named = [name for name in self._listed(f"{self._root}/{place}") if name.endswith(".json") and name != INDEX]
            if named == written:
                return
            self._put_text(json.dumps(named), f"{self._root}/{place}/{INDEX}")
            written = named

    def _put_text(self, text: str, path: str) -> None:
        with tempfile.NamedTemporaryFile(prefix="tkjit-") as file:
            file.write(text.encode())
            file.flush()
            self._put_file(file.name, path)

    def _put_file(self, local: str, path: str) -> None:
        if self._protocols & _RENAMING:
            scratch = f"{path}.new-{os.urandom(8).hex()}"
            try:
                self._fs.put_file(local, scratch)
                self._fs.mv(scratch, path)
            except BaseException:
                if self._fs.exists(scratch):
                    self._fs.rm_file(scratch)
                raise
        elif self._protocols & _UNLISTED:
            raise NotImplementedError("a server of HTTP is read only")
        else:
            self._fs.put_file(local, path)


def compressed(files: list[str]) -> Iterator[bytes]:
    """The files one after the other, as one stream of zlib."""
    packer = zlib.compressobj(1)
    for path in files:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                yield packer.compress(chunk)
    yield packer.flush()


def answer(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked; once more where a connection that has worked has ended."""
    done = attempt(server, request)
    if done.get("error") == "failed" and server.has_answered:
        server.disconnect()
        done = attempt(server, request)
    server.has_answered = done.get("error") != "failed"
    return done


def attempt(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    place = request["place"]
    try:
        if request["do"] == "list":
            return {"names": server.names(place)}
        if request["do"] == "get":
            server.get(place, request["name"], request["to"], request["limit"])
        if request["do"] == "put":
            server.put(place, request["object"], request["files"], request["statement"], request["text"])
        if request["do"] == "index":
            server.write_index(place)
    except Exception as error:
        return {"error": kind_of(error), "text": said(error)}
    return {}


def kind_of(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EFBIG:
        return "too large"
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return "local"
    if isinstance(error, FileNotFoundError):
        return "missing"
    if isinstance(error, PermissionError) or getattr(error, "status", None) in (401, 403):
        return "denied"
    return "failed"


def said(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 400 else f"{text[:400]}..."


def reading() -> queue.Queue[str]:
    """The lines of standard input, read at once, so that who sends one never waits; at the end an empty one."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        signal.alarm(FINISH_S)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def say(value: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent has ended, and what it has sent is still to be done
        os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


def main() -> None:
    # the parent's Ctrl-C; what it does not want any more, it ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    lines = reading()
    url = lines.get().strip()
    try:
        from fsspec import get_filesystem_class

        for part in url.split("::"):
            get_filesystem_class(part.partition("://")[0] if "://" in part else part)
    except (ImportError, ValueError) as error:
        say({"error": "unusable", "text": said(error)})
        return
    say({})
    server = Server(url)
    with suppress(queue.Empty):
        while line := lines.get(timeout=IDLE_S):
            say(answer(server, json.loads(line)))


if __name__ == "__main__":
    # this file's directory, whose modules are no packages
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
    main()
    os._exit(0)  # threads of a library do not keep it
