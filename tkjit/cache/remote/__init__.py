"""A cache on a server: tkjit looks for entries there before it compiles, and uploads them after a build.

In ``<url>/v1/<abi>/<arch>/<name>-<build_key>/`` each entry has a *statement*, ``<deps_key>.json``, which contains the
entry's inputs, the hash of each file, and a signature. The entry's files are packed into one object, whose name depends
on their hashes. A reader selects a statement and then downloads the object with the entry's files.
"""

from tkjit.cache.remote.remote import Remote

__all__ = ["Remote"]
