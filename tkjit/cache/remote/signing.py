"""Ed25519 signatures: keys as ``ssh-keygen -t ed25519`` makes them, through the package ``cryptography``."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache.checked_json import DamagedError
from tkjit.config import RemoteSettings
from tkjit.errors import CacheError
from tkjit.system import files
from tkjit.system.fork_safe import cached_property
from tkjit.system.install import pip_install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# nothing else that the same key has signed is a statement of this format
_DOMAIN = b"tkjit remote cache, statement 1\n"
_MAKE_ONE = "make one: ssh-keygen -t ed25519 -N '' -f cache_key"


class RefusedError(DamagedError):
    """What a remote has sent is not to be trusted, or is no entry of its place."""


def private_key(path: Path) -> Ed25519PrivateKey:
    """A writer's key, in OpenSSH's format or as PEM.

    Raises
    ------
    CacheError
        If it cannot be read, has a passphrase, or is of another kind.
    """
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    text = _content(path, "TKJIT_CACHE_REMOTE_KEY")
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in text else load_pem_private_key
    try:
        key = load(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CacheError(f"TKJIT_CACHE_REMOTE_KEY: {path} is no private key without a passphrase: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CacheError(f"TKJIT_CACHE_REMOTE_KEY: {path} is no Ed25519 key; {_MAKE_ONE}")
    return key


def public_keys(path: Path) -> dict[str, Ed25519PublicKey]:
    """The keys that a reader trusts, by their fingerprints.

    Parameters
    ----------
    path : Path
        A file with a key on each line, ``ssh-ed25519 AAAA... comment``, like ``cache_key.pub``.

    Raises
    ------
    CacheError
        If it cannot be read, has no key, or a line of it is none.
    """
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    found = {}
    for number, line in enumerate(_content(path, "TKJIT_CACHE_REMOTE_TRUST").splitlines(), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            key = load_ssh_public_key(line.strip())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path}:{number} is no public key: {error}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path}:{number} is no Ed25519 key; {_MAKE_ONE}")
        found[fingerprint(key)] = key
    if not found:
        raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path} has no public key")
    return found


def fingerprint(key: Ed25519PublicKey) -> str:
    """A key's name, as ``ssh-keygen -l`` shows it: ``SHA256:...``."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", key.public_bytes_raw()))
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class Keyring:
    """The key to sign with, and those whose signatures count, read when they are needed."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings

    @cached_property
    def private(self) -> Ed25519PrivateKey | None:
        return private_key(self._settings.key) if self._settings.key else None

    @cached_property
    def trusted(self) -> dict[str, Ed25519PublicKey]:
        """The keys whose entries are used; a writer trusts itself.

        Raises
        ------
        CacheError
            If there is none, and signatures are wanted.
        """
        found = public_keys(self._settings.trust) if self._settings.trust else {}
        if self.private is not None:
            found[fingerprint(self.private.public_key())] = self.private.public_key()
        if not found and not self._settings.unsigned:
            raise CacheError(
                "TKJIT_CACHE_REMOTE needs the keys of those who may write to it: set TKJIT_CACHE_REMOTE_TRUST to a "
                "file of public keys (ssh-keygen -t ed25519 makes one), or TKJIT_CACHE_REMOTE_UNSIGNED=1 to use what "
                "anybody has put there"
            )
        return found

    def signed(self, text: bytes) -> bytes:
        """The text behind a line that names the key and has the signature; behind an empty one without a key."""
        head: dict[str, str] = {}
        if self.private is not None:
            signature = base64.b64encode(self.private.sign(_DOMAIN + text)).decode()
            head = {"key": fingerprint(self.private.public_key()), "signature": signature}
        return json.dumps(head).encode() + b"\n" + text

    def checked(self, content: bytes) -> bytes:
        """The text of what ``signed`` has made, if a trusted key has signed it.

        Raises
        ------
        RefusedError
        """
        head, _, text = content.partition(b"\n")
        try:
            said = files.from_json(head)
            signer, signature = said.get("key"), said.get("signature", "")
        except (ValueError, AttributeError):
            raise RefusedError("it is no statement") from None
        if not isinstance(signer, str):
            if not self._settings.unsigned:
                raise RefusedError("it is not signed")
        elif (key := self.trusted.get(signer)) is None:
            if not self._settings.unsigned:
                raise RefusedError(f"it is signed by {signer}, which is not in TKJIT_CACHE_REMOTE_TRUST")
        elif not isinstance(signature, str) or not is_signed(key, text, signature):
            raise RefusedError(f"the signature of {signer} does not fit")
        return text


def is_signed(key: Ed25519PublicKey, text: bytes, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature, validate=True), _DOMAIN + text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _content(path: Path, variable: str) -> bytes:
    try:
        return files.read(path, follow=True)
    except OSError as error:
        raise CacheError(f"{variable}: cannot read {path}: {error.strerror or error}") from None


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        install = pip_install("tkjit[remote]")
        raise CacheError(f"signatures of a remote cache need the package cryptography: {install}") from None
