"""Header libraries: finds them, and installs them into the cache."""

from tkjit.headers.find import bundled_sources, cached_root, check_complete, find_root, locate

__all__ = ["bundled_sources", "cached_root", "check_complete", "find_root", "locate"]
