"""From specs to what runs: joins rendering, keys, the cache and the compilers; chooses variants; holds the runtime."""

from tkjit.loader.first_variant import first_variant
from tkjit.loader.loader import Loader, loader_for
from tkjit.loader.plan import Opened, Plan
from tkjit.loader.warm_start import Use, WarmStart

__all__ = ["Loader", "Opened", "Plan", "Use", "WarmStart", "first_variant", "loader_for"]
