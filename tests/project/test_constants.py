"""Constants with a Python and a C++ definition are equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkjit
from tkjit.loader import static_shared
from tkjit.spec import checks
from tkjit.spec.dtypes import DTYPES

PACKAGE = Path(tkjit.__file__).parent


def constant(file: str, name: str) -> int:
    """Return the value of a constant that a header defines with ``= 32;`` or ``= 48 << 10;``."""
    value = re.search(rf"\bconstexpr [\w ]*\b{name} = ([0-9 <]+)[;,]", (PACKAGE / file).read_text())
    assert value, f"{file} has no constant {name}"
    number, _, shift = value[1].partition("<<")
    return int(number) << int(shift or 0)


@pytest.mark.parametrize(
    "ours, file, name",
    [
        (checks.MAX_DEVICES, "include/tkjit/pgl.h", "max_devices"),
        (checks.MAX_DEVICES, "runtime/table.h", "kMaxParallelDevices"),
        (checks.MAX_DEVICES, "runtime/club.h", "kMostDevices"),
        (checks.MAX_DIMS, "include/tkjit/call/view.h", "kMaxDims"),
        (checks.MAX_OUTPUTS, "runtime/glue_arguments.h", "kMaxOutputs"),
        (static_shared.MAX_BYTES, "include/tkjit/launch.h", "without_asking"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_number_is_the_same_in_cpp(ours: int, file: str, name: str):
    assert constant(file, name) == ours


def test_element_types_have_one_order():
    """Python, launchers and exports each have a list, because launchers and exports share no header."""
    listed = [f"TKJIT_{dtype.name.upper()}" for dtype in DTYPES]
    for file in ("include/tkjit/arg.h", "include/tkjit/export/tensors.h"):
        text = (PACKAGE / file).read_text()
        assert re.findall(r"^    (TKJIT_(?!DTYPE_COUNT)\w+),?$", text, re.MULTILINE) == listed, file
