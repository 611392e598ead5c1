"""A library rejects the same calls as Python, with the same texts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from support.exportable import mix, ones, pick, turn
from support.exported import ABI, NUMBERS, CTensor, Device, Failed, c_tensor

import tkjit
from tkjit import TkjitError

pytestmark = pytest.mark.compiles
F32 = torch.float32


def new() -> CTensor:
    return CTensor()


def refusal_in_python(kernel: Any, arguments: list[Any], keywords: dict[str, Any]) -> tuple[str, str]:
    """The kind and the text of the error, without the advice on what to pass in Python instead."""
    with pytest.raises(TkjitError) as raised:
        kernel(*arguments, **keywords)
    return type(raised.value).__name__, re.sub(r"; (?:pass [\w\[\]]+\.to\(|leave \w+ out ).*", "", str(raised.value))


def refusal_in_c(library: Any, function: str, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(Failed) as raised:
        library(function, *arguments)
    return raised.value.kind, str(raised.value)


def same(kernel: Any, library: Any, arguments: list[Any], *, out: torch.Tensor | None = None, **keywords: Any) -> None:
    """Check that Python and the library reject a call with the same text.

    Python gets tensors that are not contiguous as arrays, because its advice for tensors names a method of torch.
    """
    name = kernel.name
    in_python = refusal_in_python(kernel, [as_array(argument) for argument in arguments], {"out": out, **keywords})
    in_c = refusal_in_c(library, name, *arguments, *keywords.values(), new() if out is None else out)
    assert in_c == in_python


def as_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) and not value.is_contiguous() else value


def x(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.ones(*sizes, dtype=dtype)


GEMM = {
    "extents": ([x(2, 3), x(4, 5)], None),
    "a dtype": ([x(2, 3), x(3, 5, dtype=torch.float16)], None),
    "an unsupported dtype": ([x(2, 3, dtype=torch.int8), x(3, 5, dtype=torch.int8)], None),
    "dimensions": ([x(2, 3, 1), x(3, 5)], None),
    "too many dimensions": ([x(1, 1, 1, 2, 3), x(3, 5)], None),
    "not contiguous": ([x(3, 2).t(), x(3, 5)], None),
    "an output's extents": ([x(2, 3), x(3, 5)], x(2, 4)),
    "an output's dtype": ([x(2, 3), x(3, 5)], x(2, 5, dtype=torch.float64)),
}


@pytest.mark.parametrize("case", GEMM)
def test_bad_matrix_products(zoo, case):
    arguments, out = GEMM[case]
    same(tkjit.load("gemm"), zoo, arguments, out=out)


def test_overlapping_memory(zoo):
    shared = torch.ones(4, 4)
    same(tkjit.load("gemm"), zoo, [shared, x(4, 4)], out=shared)
    axpy = tkjit.load("axpy")
    room = torch.ones(9)
    in_python = refusal_in_python(axpy, [room[1:], room[:-1]], {})
    assert refusal_in_c(zoo, "axpy", room[1:], room[:-1], 1.0) == in_python
    turned = torch.ones(3, 4)
    in_python = refusal_in_python(tkjit.load(turn), [turned], {"out": turned.t()})
    assert refusal_in_c(zoo, "turn", turned, turned.t()) == in_python


def test_any_leading_dims(zoo):
    softmax = tkjit.load("softmax")
    same(softmax, zoo, [x(2, 3, 4)], out=x(3, 2, 4))
    same(softmax, zoo, [torch.tensor(1.0)])


MIX = {
    "no constraint holds": {"divisor": 2},
    "a constraint divides by zero": {"divisor": 0},
    "a number over its range": {"count": 256},
    "a number below its range": {"count": -1},
    "no variant": {"width": 3},
    "a bias of another length": {"bias": x(4)},
    "a bias of another dtype": {"bias": x(3, dtype=torch.float64)},
}


@pytest.mark.parametrize("case", MIX)
def test_numbers_constraints_and_optional_tensors(zoo, case):
    given = {"bias": None, "alpha": 1.0, "count": 1, "shift": None, "flag": False, "divisor": 1, "width": 1}
    same(tkjit.load(mix), zoo, [x(2, 3), x(2)], **{**given, **MIX[case]})


def test_alignment(zoo):
    room = torch.ones(8)
    in_python = refusal_in_python(tkjit.load(mix), [x(2, 3), room[1:3]], {})
    numbers = [None, 1.0, 1, None, False, 1, 1]
    assert refusal_in_c(zoo, "mix", x(2, 3), room[1:3], *numbers, new()) == in_python
    misaligned = c_tensor(x(2, 3))
    misaligned.data += 1
    kind, text = refusal_in_c(zoo, "gemm", misaligned, x(3, 2), new())
    assert kind == "ArgumentError" and text.startswith("gemm: a starts at an address that is not a multiple of 4 bytes")


def test_strides(zoo):
    backwards = np.ones((3, 4), "f")[::-1]
    in_python = refusal_in_python(tkjit.load(turn), [backwards], {})
    tensor = c_tensor(torch.ones(3, 4))
    tensor.strides[0] = -4
    assert refusal_in_c(zoo, "turn", tensor, new()) == in_python
    expanded = torch.ones(1, 4).expand(3, 4)
    in_python = refusal_in_python(tkjit.load(turn), [x(4, 3)], {"out": expanded})
    assert refusal_in_c(zoo, "turn", x(4, 3), expanded) == in_python


def test_read_only_tensors(zoo):
    array = np.ones(4, "f")
    array.flags.writeable = False
    in_python = refusal_in_python(tkjit.load("axpy"), [x(4), array], {})
    assert refusal_in_c(zoo, "axpy", x(4), c_tensor(x(4), read_only=True), 1.0) == in_python


def test_lists(zoo):
    ten = torch.arange(10.0)
    kind, text = refusal_in_c(zoo, "pick", ten, [1] * 5, [0.5], new())
    assert (kind, text) == ("ArgumentError", "pick: indices is 5 items; expected at most 4 items")
    assert refusal_in_c(zoo, "pick", ten, [2**31], [0.5], new())[1] == (
        "pick: indices is with the item 2147483648 (int); expected list[int]"
    )
    kind, text = refusal_in_c(zoo, "add", [x(2)] * 4, new())
    assert text == "add: xs is 4 tensors; expected 1 to 3 tensors"
    in_python = refusal_in_python(tkjit.load(pick), [ten, [1], (0.5,)], {"out": x(5)})
    assert refusal_in_c(zoo, "pick", ten, [1], [0.5], x(5)) == in_python


def test_lists_of_tensors(zoo):
    from support.exportable import add

    for tensors in ([x(2), x(3)], [x(2), x(2, dtype=torch.float64)], [None, None]):
        in_python = refusal_in_python(tkjit.load(add), [tensors], {})
        in_c = refusal_in_c(zoo, "add", tensors, new())
        assert in_c[0] == in_python[0]
        if tensors[0] is not None:
            assert in_c == in_python


def test_arguments_that_choose_the_dtype_and_the_device(zoo):
    cpu = Device(0, 0)
    kernel = tkjit.load(ones)
    in_python = refusal_in_python(kernel, [3, torch.float32, "cpu"], {"out": x(4)})
    assert refusal_in_c(zoo, "ones", 3, NUMBERS["float32"], cpu, x(4)) == in_python
    kind, text = refusal_in_c(zoo, "ones", 3, NUMBERS["int8"], cpu, new())
    assert (kind, text) == ("ArgumentError", "ones: T is int8 (tkjit_dtype); expected float32 or int32")
    same_text = refusal_in_python(kernel, [-3, torch.float32, "cpu"], {})
    assert refusal_in_c(zoo, "ones", -3, NUMBERS["float32"], cpu, new()) == same_text


def test_launch_that_fails(zoo):
    """The launcher itself rejects the shape of this launch."""
    big = x(2, 2000)
    in_python = refusal_in_python(tkjit.load(mix), [big, x(2)], {})
    numbers = [None, 1.0, 1, None, False, 1, 1]
    assert refusal_in_c(zoo, "mix", big, x(2), *numbers, new()) == in_python


# ---- calls that are impossible in Python

BROKEN = {
    "null": (None, "gemm: the argument a is missing"),
    "zero": (CTensor(), "gemm: a is not a tensor: it was never made, or was freed"),
    "something else": (CTensor(77), "gemm: a is not a tensor: its memory holds something else"),
    "another version": (
        CTensor(ABI + 1),
        "gemm: a is a tensor of version 2 of tkjit's C interface; expected version 1",
    ),
    "an unknown dtype": (c_tensor(x(2, 3), dtype=99), "gemm: a is of the unknown dtype 99"),
    "too many dims": (c_tensor(x(2, 3), ndim=9), "gemm: a is a tensor of 9 dimensions; expected 0 to 8"),
    "no memory": (
        c_tensor(x(2, 3), data=None),
        "gemm: a is (2, 3) float32 on cpu without memory: its data is null; expected a tensor",
    ),
    "an unknown device": (
        c_tensor(x(2, 3), device=Device(7, 0)),
        "gemm: a is (2, 3) float32 on a device of the unknown type 7; expected cpu or cuda",
    ),
    "a GPU's": (
        c_tensor(x(2, 3), device=Device(1, 0)),
        "gemm: b is (3, 5) float32 on cpu; expected cuda:0, where a is",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_tensors(zoo, case):
    tensor, text = BROKEN[case]
    assert refusal_in_c(zoo, "gemm", tensor, x(3, 5), new()) == ("ArgumentError", text)
    zoo("gemm", x(2, 3), x(3, 5), x(2, 5))  # and the next call works


def test_negative_extents(zoo):
    tensor = c_tensor(x(2, 3))
    tensor.sizes[0] = -2
    assert refusal_in_c(zoo, "gemm", tensor, x(3, 5), new())[1] == (
        "gemm: a is (-2, 3); expected extents that are not negative"
    )


def test_missing_architecture(zoo):
    on_gpu = [c_tensor(x(2, 3), device=Device(1, 0)), c_tensor(x(3, 5), device=Device(1, 0))]
    kind, text = refusal_in_c(zoo, "gemm", *on_gpu, new())
    level = tkjit.loader.loader_for(tkjit.config.Settings.from_environment()).target("cpu").name
    assert (kind, text) == ("LaunchError", f"gemm: this library has no code for cuda:0; it has code for {level}")


def test_long_texts_are_not_truncated(zoo):
    """A text may have any length: here, it has all extents of a tensor of 8 dimensions."""
    tensor = c_tensor(torch.ones(1, 1, 1, 1, 1, 1, 1, 1))
    for i in range(8):
        tensor.sizes[i] = 2**62 + i
    text = refusal_in_c(zoo, "softmax", tensor, new())[1]
    assert str(2**62 + 7) in text and text.endswith("of 8 dimensions; expected at most 4")


def test_missing_output(zoo):
    assert refusal_in_c(zoo, "gemm", x(2, 3), x(3, 5), None)[1] == "gemm: the argument c is missing"
