"""Decides from a compiler's errors whether the stand-ins for torch's headers lack a name, or the source is wrong."""

from __future__ import annotations

import re

_TORCH = r"(?:torch|at|c10|caffe2|pybind11|py)"
_SIGNS = [
    # the errors of nvcc's front end
    rf'(?:namespace|class) "{_TORCH}(?:::[\w:]*)?" has no member "(?P<name>[^"]+)"',
    r'cannot open source file "(?P<name>(?:torch|ATen|c10|caffe2|pybind11)/[^"]+)"',
    r'identifier "(?P<name>(?:TORCH|AT|C10|THO|THP|STD_TORCH|PYBIND11)_\w+)" is undefined',
    rf"argument list: \((?P<name>[^)]*{_TORCH}::)",
    # the errors of g++, which nvcc runs as well
    rf"'(?P<name>\w+)' is not a member of '{_TORCH}",
    rf"'(?:const )?(?:class |struct )?{_TORCH}::[^']*' has no member named '(?P<name>\w+)",
    r"(?P<name>(?:torch|ATen|c10|caffe2|pybind11)/[\w./]+): No such file",
    r"'(?P<name>(?:TORCH|AT|C10|THO|THP|STD_TORCH|PYBIND11)_\w+|python_error|THPVariable\w*)' was not declared",
    rf"'(?P<name>\w+)' in namespace '{_TORCH}[^']*' does not name a type",
]
_IN_STAND_INS = re.compile(r"(?P<name>include/(?:tkjit/torch|stand_ins/torch)/[^\s(:]+)[(:]\d+(?::\d+)?\)?: error")
_TYPE = re.compile(r"\b(?:Passed|Reader)<(?:const )?(?:\w+::)*(?P<name>\w+)")  # a type without a known conversion


def lacking_in(log: str) -> str:
    """Return the first name of torch that the compiler did not find; empty if the source itself is wrong."""
    for line in log.translate({0x2018: "'", 0x2019: "'"}).splitlines():
        if "error" not in line:
            continue
        for sign in _SIGNS:
            if found := re.search(sign, line):
                return found["name"]
        if found := _IN_STAND_INS.search(line):
            type_ = _TYPE.search(log)
            return type_["name"] if type_ else found["name"]
    return ""
