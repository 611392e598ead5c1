"""Loads one extension with tkjit or with torch, in a process of ``benchmarks.real_extensions``.

``python -m benchmarks.real_extension_loading WAY JSON`` prints the outcome as a line of JSON. WAY is ``tkjit``,
``tkjit-fallback`` or ``torch``; JSON holds the arguments of ``load`` or ``load_inline``, and a scratch directory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STAND_INS, TORCH, FAILED = "stand-ins", "torch's headers", "failed"
_FALLS_BACK = re.compile(r"is compiled with torch's own headers.*: tkjit's lack (?P<name>.*)", re.DOTALL)
_ERROR = re.compile(r"\berror\b[ :]|\bfatal\b.*:|undefined reference")
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_LIBRARIES_OF_TORCH = "-lc10_cuda", "-ltorch_cuda"
# headers of a CUDA build of torch, and of a toolkit with cuSOLVER
_HEADERS = {
    "c10/cuda/impl/cuda_cmake_macros.h": "#define C10_CUDA_BUILD_SHARED_LIBS",
    "THC/THCAtomics.cuh": "#include <ATen/cuda/Atomic.cuh>",
    "THC/THCDeviceUtils.cuh": "#include <ATen/cuda/DeviceUtils.cuh>",
    "cusolver_common.h": "enum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS, CUSOLVER_STATUS_INVALID_VALUE = 3 };",
}


def load_with_tkjit(arguments: Mapping[str, Any], *, falls_back: bool) -> dict[str, Any]:
    """Load an extension; returns which headers it was compiled with, or why it failed.

    Parameters
    ----------
    falls_back : bool
        Whether to use torch's own headers if tkjit's stand-ins lack a name.
    """
    from tkjit import cpp_extension
    from tkjit.errors import CompileError, TkjitWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not falls_back:
            warnings.filterwarnings("error", ".*is compiled with torch's own headers", TkjitWarning)
        try:
            _load(cpp_extension, arguments)
        except TkjitWarning as warning:
            compiling = warning.__context__
            log = compiling.log if isinstance(compiling, CompileError) else ""
            found = {"lacks": _lacking(str(warning)), "missing": _missing_names(log), "error": _first_error(log)}
            return {"outcome": FAILED, **found}
        except CompileError as error:
            return {"outcome": FAILED, "error": _first_error(error.log) or _first_line(error)}
        except Exception as error:
            return {"outcome": FAILED, "error": f"{type(error).__name__}: {_first_line(error)}"}
    lacking = [name for each in caught if (name := _lacking(str(each.message)))]
    return {"outcome": TORCH, "lacks": lacking[0]} if lacking else {"outcome": STAND_INS}


def load_with_torch(arguments: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """Compile and link an extension with ``torch.utils.cpp_extension``.

    A CPU build of torch lacks some headers and the CUDA libraries, so these are stubbed. The module links with the
    stubs but cannot be imported.
    """
    import torch.utils.cpp_extension as peer

    from tkjit.config import Settings
    from tkjit.loader import loader_for

    toolkit = loader_for(Settings.from_environment()).env.toolchain.cuda_root
    peer.CUDA_HOME = str(toolkit)
    stubs = _stub_headers(scratch, [*peer.include_paths(), str(toolkit / "include")])
    given = {
        **arguments,
        "extra_include_paths": [*arguments["extra_include_paths"], *map(str, stubs)],
        "extra_ldflags": [*arguments["extra_ldflags"], *stub_libraries(scratch, _LIBRARIES_OF_TORCH)],
    }
    build = scratch / "build"
    build.mkdir(exist_ok=True)
    try:
        _load(peer, {**given, "build_directory": str(build)})
    except (ImportError, OSError) as error:
        if not any(build.glob("*.so")):
            return {"outcome": FAILED, "error": _first_line(error)}
    except Exception as error:
        return {"outcome": FAILED, "error": _first_error(str(error)) or _first_line(error)}
    return {"outcome": TORCH}


def stub_libraries(scratch: Path, ldflags: Sequence[str]) -> list[str]:
    """Write an empty archive for each ``-lNAME`` that the linker would not find, and return the flags to find them."""
    directory = scratch / "libraries"
    directory.mkdir(exist_ok=True)
    for name in (flag.removeprefix("-l") for flag in ldflags if flag.startswith("-l")):
        asked = ["g++", f"-print-file-name=lib{name}.so"]
        if not Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).is_absolute():
            subprocess.run(["ar", "rcs", directory / f"lib{name}.a"], check=True)
    return [f"-L{directory}"]


def _stub_headers(scratch: Path, searched: Sequence[str]) -> list[Path]:
    """Write stubs for headers that are in none of the searched directories, and return the stubs' directories."""
    from tkjit.compile.flags import CUDA_LIBRARIES

    def is_missing(name: str) -> bool:
        return not any((Path(directory) / name).is_file() for directory in searched)

    own = scratch / "headers"
    for name, text in _HEADERS.items():
        if is_missing(name):
            (own / name).parent.mkdir(parents=True, exist_ok=True)
            (own / name).write_text(f"#pragma once\n{text}\n")
    return [own, CUDA_LIBRARIES] if is_missing("cublas_v2.h") else [own]


def _load(cpp_extension: Any, arguments: Mapping[str, Any]) -> None:
    load = cpp_extension.load_inline if "cuda_sources" in arguments else cpp_extension.load
    load(**arguments)


def _lacking(warning: str) -> str:
    found = _FALLS_BACK.search(warning)
    return found["name"] if found else ""


def _missing_names(log: str) -> list[str]:
    """The names that the stand-ins lack according to a log, in its order."""
    from tkjit.extensions.fallback import lacking_in

    return list(dict.fromkeys(name for line in log.splitlines() if (name := lacking_in(line))))


def _first_error(log: str) -> str:
    lines = _COLOUR.sub("", log).splitlines()
    return next((line.strip() for line in lines if _ERROR.search(line)), "")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _main(way: str, given: str) -> None:
    options = json.loads(given)
    scratch = Path(options.pop("scratch"))
    options["extra_ldflags"] = [*options["extra_ldflags"], *stub_libraries(scratch, options["extra_ldflags"])]
    try:
        if way == "torch":
            found = load_with_torch(options, scratch)
        else:
            found = load_with_tkjit(options, falls_back=way == "tkjit-fallback")
    except Exception as error:  # a mistake of this module; the traceback shows where
        traceback.print_exc()
        found = {"outcome": FAILED, "error": f"{type(error).__name__}: {_first_line(error)}"}
    print(json.dumps(found), flush=True)
    os._exit(0)  # other people's modules may crash when Python unloads them


if __name__ == "__main__":
    _main(*sys.argv[1:])
