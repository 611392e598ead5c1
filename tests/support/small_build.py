"""Builds one small shared object through the cache, in a process without torch; it takes a tenth of a second.

``small_build.py ROOT NUMBER [os|libc]`` builds a function that returns the number, and prints its result. With a third
argument, it forks a long-lived child during the build and first prints the child's process ID.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
from pathlib import Path

from tkjit.cache import TEXT, Cache, Entry, Product, Recipe
from tkjit.compile.compiler import Unit, compile_binary

# including <string> makes the compilation take a fifth of a second
TEXT_OF = '#include <string>\nextern "C" int number() {{ return {}; }}\n'


def build(root: Path, text: str, fork: str = "") -> Entry:
    cache = Cache(root, "abi")
    recipe = Recipe("cpu", "small", ((TEXT, text),))

    def commands(source: Path, output: Path, depfile: Path) -> list[list[str]]:
        files = ["-MD", "-MF", str(depfile), "-x", "c++", str(source), "-o", str(output)]
        return [[str(shutil.which(os.environ.get("CXX", "g++"))), "-shared", "-fPIC", *files]]

    def make(staging: Path) -> Product:
        if fork:
            print(_child_that_stays(fork), flush=True)
        unit = Unit("small", "launcher.cu", text, cache.failure_directory(recipe))
        return compile_binary(unit, staging, "launcher.so", commands, lambda path: ctypes.CDLL(str(path)))

    return cache.build(
        recipe, make, what="small", report_wait=lambda reason: print(reason, file=sys.stderr, flush=True)
    )


def _child_that_stays(fork: str) -> int:
    """Fork with Python's function, or with libc's and without Python's knowledge, as a library may."""
    # PyDLL keeps the GIL during the call. Otherwise another thread could hold the GIL at the fork, and the child, which
    # lacks that thread, would wait for it forever.
    libc = ctypes.PyDLL(None)
    pid = os.fork() if fork == "os" else libc.fork()
    while pid == 0:
        libc.pause() if fork == "libc" else time.sleep(1)
    return int(pid)


if __name__ == "__main__":
    root, number, *fork = sys.argv[1:]
    entry = build(Path(root), TEXT_OF.format(number), *fork)
    print(ctypes.CDLL(str(entry.shared_object)).number())
