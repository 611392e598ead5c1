"""The cache: keys, entries, turns, publishing, layers, eviction. It knows no compiler and no torch.

``<root>/v1/<abi>/<arch>/<name>-<build_key>/<deps_key>/`` holds an entry: ``manifest.json``, ``dependencies.json``, the
text, the log and the shared object. ``build_key`` names the texts, flags and versions that went in; ``deps_key`` the
tools and the contents of every file that the compiler said it read. ``docs/cache.md`` has all of it on a page.
"""

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import DEPENDENCIES, MANIFEST, Entry
from tkjit.cache.recipe import PATHS, TEXT, Product, Recipe
from tkjit.cache.store import Cache

__all__ = ["DEPENDENCIES", "MANIFEST", "PATHS", "TEXT", "Cache", "DamagedError", "Entry", "Product", "Recipe"]
