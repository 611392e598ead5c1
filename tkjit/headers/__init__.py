"""Finds header libraries, and installs them into the cache."""

from tkjit.headers.find import (
    bundled_sources,
    cached_root,
    check_complete,
    find_root,
    forward_to_curand,
    how_to_find_curand,
    how_to_install,
    locate,
)

__all__ = [
    "bundled_sources",
    "cached_root",
    "check_complete",
    "find_root",
    "forward_to_curand",
    "how_to_find_curand",
    "how_to_install",
    "locate",
]
