"""Ed25519 signatures, made with the package ``cryptography`` and keys from ``ssh-keygen -t ed25519``."""

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

# prepended before signing, so that a signature that the same key made for another purpose is not valid here
_DOMAIN = b"tkjit remote cache, statement 1\n"
_MAKE_ONE = "make one: ssh-keygen -t ed25519 -N '' -f cache_key"


class RefusedError(DamagedError):
    """A remote cache sent something that is untrusted, invalid, or belongs to another entry."""


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a writer's private key, in OpenSSH's format or as PEM.

    Raises
    ------
    CacheError
        If the key cannot be read, has a passphrase, or is not an Ed25519 key.
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
        problem = f"{path} is not a private key without a passphrase: {error}"
        raise CacheError(f"TKJIT_CACHE_REMOTE_KEY: {problem}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CacheError(f"TKJIT_CACHE_REMOTE_KEY: {path} is not an Ed25519 key; {_MAKE_ONE}")
    return key


def public_keys(path: Path) -> dict[str, Ed25519PublicKey]:
    """Read the keys that a reader trusts, and return them by fingerprint.

    Parameters
    ----------
    path : Path
        A file with one key per line, such as ``ssh-ed25519 AAAA... comment``. ``cache_key.pub`` has this format.

    Raises
    ------
    CacheError
        If the file cannot be read, contains no key, or has a line that is not a key.
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
            raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path}:{number} is not a public key: {error}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path}:{number} is not an Ed25519 key; {_MAKE_ONE}")
        found[fingerprint(key)] = key
    if not found:
        raise CacheError(f"TKJIT_CACHE_REMOTE_TRUST: {path} contains no public key")
    return found


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return a key's name in the form that ``ssh-keygen -l`` shows: ``SHA256:...``."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", key.public_bytes_raw()))
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class Keyring:
    """The signing key and the trusted keys, read on demand."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings

    @cached_property
    def private(self) -> Ed25519PrivateKey | None:
        return private_key(self._settings.key) if self._settings.key else None

    @cached_property
    def trusted(self) -> dict[str, Ed25519PublicKey]:
        """The keys whose entries are accepted. A writer trusts its own key.

        Raises
        ------
        CacheError
            If there is no key, but signatures are required.
        """
        found = public_keys(self._settings.trust) if self._settings.trust else {}
        if self.private is not None:
            found[fingerprint(self.private.public_key())] = self.private.public_key()
        if not found and not self._settings.unsigned:
            raise CacheError(
                "TKJIT_CACHE_REMOTE needs the keys of its trusted writers: set TKJIT_CACHE_REMOTE_TRUST to a file of "
                "public keys (ssh-keygen -t ed25519 makes one), or TKJIT_CACHE_REMOTE_UNSIGNED=1 to use entries from "
                "anybody"
            )
        return found

    def signed(self, text: bytes) -> bytes:
        """Prepend a line to a text: the key's name and the signature, or ``{}`` if there is no key."""
        head: dict[str, str] = {}
        if self.private is not None:
            signature = base64.b64encode(self.private.sign(_DOMAIN + text)).decode()
            head = {"key": fingerprint(self.private.public_key()), "signature": signature}
        return json.dumps(head).encode() + b"\n" + text

    def checked(self, content: bytes) -> bytes:
        """Check the result of ``signed``, and return its text.

        Raises
        ------
        RefusedError
            If signatures are required and no trusted key has signed the text, or if a trusted key's signature is wrong.
        """
        head, _, text = content.partition(b"\n")
        try:
            header = files.from_json(head)
            signer, signature = header.get("key"), header.get("signature", "")
        except (ValueError, AttributeError):
            raise RefusedError("it is not a statement") from None
        if not isinstance(signer, str):
            if not self._settings.unsigned:
                raise RefusedError("it is not signed")
        elif (key := self.trusted.get(signer)) is None:
            if not self._settings.unsigned:
                raise RefusedError(f"it is signed by {signer}, which is not in TKJIT_CACHE_REMOTE_TRUST")
        elif not isinstance(signature, str) or not is_signed(key, text, signature):
            raise RefusedError(f"the signature of {signer} is wrong")
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
        raise CacheError(f"signatures in a remote cache need the package cryptography: {install}") from None
