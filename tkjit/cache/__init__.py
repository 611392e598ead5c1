"""The cache: keys, entries, build locks, publishing, layers and eviction. It depends on neither compilers nor torch.

An entry is a directory, ``<root>/v1/<abi>/<arch>/<name>-<build_key>/<deps_key>/``. It contains ``manifest.json``,
``dependencies.json``, the text, the log and the shared object. ``build_key`` is a hash of texts, flags and versions.
``deps_key`` is a hash of the tools and of every file that the compiler reported. See
``docs/reference/cache.md`` for details.
"""

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import DEPENDENCIES, MANIFEST, Entry
from tkjit.cache.recipe import PATHS, TEXT, Product, Recipe
from tkjit.cache.store import Cache

__all__ = ["DEPENDENCIES", "MANIFEST", "PATHS", "TEXT", "Cache", "DamagedError", "Entry", "Product", "Recipe"]
