"""Turns specs into loaded code: renders them, looks them up in the cache, compiles and loads them."""

from tkjit.loader.first_variant import first_variant
from tkjit.loader.loader import Loader, loader_for
from tkjit.loader.plan import Opened, Plan
from tkjit.loader.warm_start import Origin, Use, WarmStart

__all__ = ["Loader", "Opened", "Origin", "Plan", "Use", "WarmStart", "first_variant", "loader_for"]
