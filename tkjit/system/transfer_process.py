"""A script that moves objects to and from a server with fsspec, in a separate process.

The separate process keeps fsspec's event loop out of a process that may fork. If fsspec hangs or crashes, only this
process is affected.

From standard input it reads the URL, and then requests, one per line, in JSON. A *place* is a directory below the URL;
a *statement* is a file in it that describes an entry (``cache/remote/statement.py``). The script answers each request
with a line:

* ``{"do": "list", "place": ...}``: ``{"names": [...]}``
* ``{"do": "get", "place": ..., "name": ..., "to": PATH, "limit": BYTES}``: ``{}``, and the file is written
* ``{"do": "put", "place": ..., "object": NAME, "files": [PATH, ...], "statement": NAME, "text": ...}``: ``{}``
* ``{"do": "write", "place": ..., "name": NAME, "text": ...}``: ``{}``
* ``{"do": "index", "place": ...}``: ``{}``, and the index lists the existing statements

or with ``{"error": KIND, "text": ...}``. KIND is ``missing``, ``denied``, ``too large``, ``failed``, or ``local`` if a
file on this machine cannot be read or written. Before the first request it prints ``{}``, or the error ``unusable`` for
a URL that no installed package can read.
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
from contextlib import contextmanager, suppress
from typing import Any

IDLE_S = 30.0  # the process ends after this time without a request
FINISH_S = 60  # how long it may go on working after its parent has ended
INDEX = "index.json"
MAX_NAMES = 10_000
MAX_INDEX_BYTES = 1 << 20
ROUNDS = 8  # how often to try to write an index while other processes write it
# protocols in which renaming is atomic but writing is not
_RENAMING = {"file", "local", "sftp", "ssh", "smb", "hdfs", "arrow_hdfs", "webhdfs"}
_UNLISTED = {"http", "https"}


class Server:
    """The objects below a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fs: Any = None
        self._root = ""
        self.has_answered = False  # whether the server has answered on this connection

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
        """List the names of the objects in a place. The list is empty if the place does not exist."""
        self.connect()
        if not self._protocols & _UNLISTED:
            with suppress(PermissionError, NotImplementedError):
                return self._listed(f"{self._root}/{place}")
        return self._index(place)

    def _index(self, place: str) -> list[str]:
        """List the names in a place's index. The list is empty if there is no index."""
        with tempfile.NamedTemporaryFile(prefix="tkjit-") as file:
            try:
                self.get(place, INDEX, file.name, MAX_INDEX_BYTES)
            except FileNotFoundError:
                return []
            with open(file.name, "rb") as written:  # get_file may have replaced the file
                named = json.loads(written.read())
        if not isinstance(named, list) or not all(isinstance(name, str) and len(name) < 256 for name in named):
            raise ValueError(f"{place}/{INDEX} is not a list of names")
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
        # let the operating system enforce the limit, no matter what the library does
        resource.setrlimit(resource.RLIMIT_FSIZE, (lower, hard))
        try:
            self._fs.get_file(f"{self._root}/{place}/{name}", to)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))

    def put(self, place: str, name: str, files: list[str], statement: str, text: str) -> None:
        """Write the files, and then the statement, so that a reader who sees a statement also finds its files."""
        with tempfile.NamedTemporaryFile(prefix="tkjit-") as packed:
            for chunk in compressed(files):
                packed.write(chunk)
            packed.flush()
            with self._writing(place):
                self._put_file(packed.name, f"{self._root}/{place}/{name}")
                self._put_text(text, f"{self._root}/{place}/{statement}")

    def write(self, place: str, name: str, text: str) -> None:
        with self._writing(place):
            self._put_text(text, f"{self._root}/{place}/{name}")

    @contextmanager
    def _writing(self, place: str) -> Iterator[None]:
        """Let the block write objects to a place, and then write its index."""
        try:
            self.connect()
            if self._protocols & _RENAMING:
                self._fs.makedirs(f"{self._root}/{place}", exist_ok=True)
            yield
            self.write_index(place)
        except FileNotFoundError as error:
            # for example, the bucket is missing; the error kind "missing" would mean that the entry was removed
            raise OSError(text_of(error)) from None

    def write_index(self, place: str) -> None:
        """Write the list of a place's statements, and repeat this until the list is right.

        Concurrent writers lose nothing, because each one lists the objects again after it has written the index, and
        rewrites the index if the listing has changed.
        """
        self.connect()
        written = None
        with suppress(ValueError):  # the file with the index's name is not an index
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
            raise NotImplementedError("an HTTP server is read-only")
        else:
            self._fs.put_file(local, path)


def compressed(files: list[str]) -> Iterator[bytes]:
    """Concatenate the files, and yield them compressed as one zlib stream."""
    packer = zlib.compressobj(1)
    for path in files:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                yield packer.compress(chunk)
    yield packer.flush()


def answer(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    """Handle a request. Try a second time if a connection that has worked before fails."""
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
        if request["do"] == "write":
            server.write(place, request["name"], request["text"])
        if request["do"] == "index":
            server.write_index(place)
    except Exception as error:
        return {"error": kind_of(error), "text": text_of(error)}
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


def text_of(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 400 else f"{text[:400]}..."


def start_reading() -> queue.Queue[str]:
    """Return a queue that receives the lines of standard input, and an empty string at the end.

    A thread reads each line immediately, so that the sender never has to wait.
    """
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        signal.alarm(FINISH_S)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


def reply(value: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent has ended, but carry out its requests anyway
        os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


def main() -> None:
    # ignore Ctrl-C, which is meant for the parent; the parent kills this process if it is no longer needed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    lines = start_reading()
    url = lines.get().strip()
    try:
        from fsspec import get_filesystem_class

        for part in url.split("::"):
            get_filesystem_class(part.partition("://")[0] if "://" in part else part)
    except (ImportError, ValueError) as error:
        reply({"error": "unusable", "text": text_of(error)})
        return
    reply({})
    server = Server(url)
    with suppress(queue.Empty):
        while line := lines.get(timeout=IDLE_S):
            reply(answer(server, json.loads(line)))


if __name__ == "__main__":
    # remove this file's directory, because the modules in it are not top-level modules
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
    main()
    os._exit(0)  # do not wait for a library's threads
