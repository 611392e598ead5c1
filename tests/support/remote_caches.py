"""Remote caches for tests: keys, caches of several machines that share one, and servers that misbehave."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tkjit.cache.remote import signing
from tkjit.config import RemoteSettings


def write_key(path: Path) -> Path:
    """Write a private key and, next to it, the public key in ``.pub``, as ``ssh-keygen`` does."""
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public + b" somebody@example.org\n")
    return path


def writer(url: str, key: Path) -> RemoteSettings:
    return RemoteSettings(url=url, key=key)


def reader(url: str, key: Path) -> RemoteSettings:
    return RemoteSettings(url=url, trust=key.with_name(f"{key.name}.pub"))


def statements(root: Path) -> list[Path]:
    """Return the statements in a remote cache's directory."""
    return sorted(path for path in root.rglob("*.json") if path.name != "index.json")


def objects(root: Path) -> list[Path]:
    """Return the objects that contain files."""
    return sorted(root.rglob("*.z"))


def resign(path: Path, key: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a statement and sign it again."""
    value = json.loads(path.read_bytes().partition(b"\n")[2])
    change(value)
    text = json.dumps(value, sort_keys=True).encode()
    path.write_bytes(signing.Keyring(RemoteSettings(key=key)).signed(text))


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server on loopback that answers each connection with a function, and yield its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client may have closed the connection
                answer(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def path_of(request: bytes) -> str:
    return request.split(b" ")[1].decode()


def http(status: str, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n".encode() + body
