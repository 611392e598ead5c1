"""Launches each case twice, by a launch program and by a compiled launch function, and prints what both do.

Runs in a process of its own, in which ``libcuda.so.1`` is the fake driver.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
from ctypes import c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from tkjit.config import Settings
from tkjit.loader import loader_for

EXTENTS = (0, 1, 2, 3, 7, 64, 1000, 65536, 2**31 - 1, 2**31, 2**40)
INTEGERS = (*EXTENTS, -1, -5, -(2**31), 2**63 - 1, -(2**63))


class Arg(ctypes.Structure):
    _fields_ = (
        ("data", c_int64),
        ("extents", c_int64 * 8),
        ("strides", c_int64 * 8),
        ("rank", c_int32),
        ("dtype", c_int32),
        ("present", c_int32),
    )


class Parallel(ctypes.Structure):
    _fields_ = (("data", ctypes.POINTER(c_int64)), ("multicast", c_int64), ("count", c_int32), ("dev_idx", c_int32))


def argument(field: dict[str, Any], rng: random.Random, kept: list[Any]) -> Arg:
    """Make a random argument of a field. ``kept`` keeps the memory that it points to."""
    if field["optional"] and rng.random() < 0.3:
        return Arg()
    made = Arg(present=1)
    if field["kind"] in ("integer", "real"):
        value = c_double(rng.gauss(0, 1e3))
        made.data = ctypes.cast(ctypes.pointer(value), ctypes.POINTER(c_int64))[0]
        if field["kind"] == "integer":
            made.data = rng.randrange(2) if field["is_bool"] else rng.choice(INTEGERS)
    elif field["kind"] == "random":
        made.data, made.extents[0] = rng.randrange(2**63), 4 * rng.randrange(1000)
    elif field["kind"] == "list":
        count = rng.randint(1, field["max_length"])
        items = (Arg * count)(*(argument(field["item"], rng, kept) for _ in range(count)))
        kept.append(items)
        made.data, made.extents[0] = ctypes.addressof(items), count
    else:
        made.rank = field["rank"] + (rng.randrange(3) if field["leading"] else 0)
        small = rng.random() < 0.7
        for dim in range(made.rank):
            made.extents[dim] = rng.choice(EXTENTS[:7] if small else EXTENTS)
            made.strides[dim] = rng.choice(INTEGERS)
        made.data = rng.randrange(2**47)
        if field["kind"] == "parallel":
            pointers = (c_int64 * 8)(*(rng.randrange(2**47) for _ in range(8)))
            parallel = Parallel(pointers, rng.choice((0, 4096)), rng.randint(1, 8), rng.randrange(8))
            kept += [pointers, parallel]
            made.data = ctypes.addressof(parallel)
    return made


def main() -> None:
    cases = json.loads(Path(sys.argv[1]).read_text())
    compiled = ctypes.CDLL(sys.argv[2])
    loader = loader_for(Settings.from_environment())
    for case in cases:
        launcher = c_void_p(loader.open_launcher(Path(case["program"])))
        function = c_void_p.from_address(launcher.value or 0).value or 0
        run = ctypes.CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_int32, c_void_p)(function)
        expected = getattr(compiled, case["function"])
        expected.restype = c_char_p
        os.environ["DRIVER_PARAMETERS"] = case["sizes"]
        rng = random.Random(case["name"])
        for number in range(case["calls"]):
            kept: list[Any] = []
            args = (Arg * len(case["fields"]))(*(argument(field, rng, kept) for field in case["fields"]))
            for who, launch, given in (("compiled", expected, (args,)), ("program", run, (launcher, args))):
                print(f"case {case['name']} {number} {who}", flush=True)
                error = launch(*given, 0, None)
                compiled.flush_output()
                print(f"error {error.decode() if error else None}", flush=True)


main()
