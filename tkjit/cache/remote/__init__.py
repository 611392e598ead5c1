"""A cache on a server: entries are read from it before anything is compiled, and written to it after a build.

Under ``<url>/v1/<abi>/<arch>/<name>-<build_key>/`` lies for each entry a *statement*, ``<deps_key>.json``: what it was
made from, the hash of each file, and a signature. The files themselves are one object, which is named by their hashes.
A reader chooses by the statements, and takes the files of one.
"""

from tkjit.cache.remote.remote import Remote

__all__ = ["Remote"]
