"""Helpers for several test folders: processes, caches, fake compilers, sample libraries, comparison programs."""
