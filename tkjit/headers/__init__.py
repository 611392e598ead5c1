"""Header libraries: where they lie, and how one gets into the cache."""

from tkjit.headers.find import cached_root, find_root, located

__all__ = ["cached_root", "find_root", "located"]
