"""The cache: keys, entries, build locks, publishing, layers, eviction. It is independent of compilers and torch.

``<root>/v1/<abi>/<arch>/<name>-<build_key>/<deps_key>/`` is an entry: ``manifest.json``, ``dependencies.json``, the
text, the log and the shared object. ``build_key`` is a hash of texts, flags and versions. ``deps_key`` is a hash of the
tools and of every file that the compiler reported. ``docs/cache.md`` has the details.
"""

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import DEPENDENCIES, MANIFEST, Entry
from tkjit.cache.recipe import PATHS, TEXT, Product, Recipe
from tkjit.cache.store import Cache

__all__ = ["DEPENDENCIES", "MANIFEST", "PATHS", "TEXT", "Cache", "DamagedError", "Entry", "Product", "Recipe"]
