"""The numbers that a host function may return, keyed by the name of the Python type."""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    """How a number reaches Python: its type in the launcher and the glue, and the CPython function that converts it."""

    cpp: str
    box: str


RESULTS = {
    "float": Result("double", "PyFloat_FromDouble"),
    "int": Result("int64_t", "PyLong_FromLongLong"),
    "bool": Result("bool", "PyBool_FromLong"),
}
