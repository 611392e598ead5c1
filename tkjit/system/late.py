"""What is used of ``hashlib`` and ``json``, whose import takes 4 ms: where there is a call torch has imported them."""

from __future__ import annotations


def sha256_of(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def to_json(value: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    import json

    return json.dumps(value, indent=indent, sort_keys=sort_keys)
