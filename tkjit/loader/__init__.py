"""From specs to what runs: joins rendering, keys, the cache and the compilers; chooses variants; holds the runtime."""

from tkjit.loader.guess import guess_variant
from tkjit.loader.loader import Loader, Opened, loader_for
from tkjit.loader.plan import Plan

__all__ = ["Loader", "Opened", "Plan", "guess_variant", "loader_for"]
