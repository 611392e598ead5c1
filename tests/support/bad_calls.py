"""Invalid calls of one kernel: each changes a valid call, and has the exact error message."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tkjit
from tkjit import ArgumentError, In, InOut, Out, ShapeError, Tensor, TkjitError


@tkjit.kernel(
    """
    __global__ void f(Globals g) {
        const int i = threadIdx.x;
        g.y[i] = g.x(0, i);
        if (i < g.acc.cols()) g.acc[i] += T(g.alpha * g.count);
    }
    """,
    entry="f",
    grid="count",
    block="N",
    variants={"T": ("float32", "bfloat16")},
    constraints=["N % divisor == 0", "M < 100"],
)
def probe(
    x: In[Tensor, "T", "M", "N"],
    acc: InOut[Tensor, "T", "M"],
    bias: In[Tensor, "int32", "N"] | None = None,
    alpha: float = 1.0,
    count: int = 1,
    flag: bool = False,
    divisor: int = 1,
    *,
    y: Out[Tensor, "T", "N"] = None,
) -> Tensor: ...


class Case(NamedTuple):
    """An invalid call: the arguments that it changes, and the expected error."""

    change: Callable[[], dict]
    kind: type[TkjitError]
    message: str


def x23() -> torch.Tensor:
    return torch.arange(6, dtype=torch.float32).view(2, 3)


class Subclass(torch.Tensor):
    pass


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(2, 3)


def complex_view(view: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], dict]:
    return lambda: {"x": view(torch.zeros(2, 3, dtype=torch.complex64))}


def negative_view() -> torch.Tensor:
    return torch.zeros(2, 3, dtype=torch.complex64).conj().imag


TENSORS = {
    "not contiguous": Case(
        lambda: {"x": x23().t().contiguous().t()},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu with strides (1, 2); "
        "expected contiguous; pass x.contiguous(), which copies it",
    ),
    "every second element": Case(
        lambda: {"acc": torch.zeros(4)[::2]},
        ArgumentError,
        "probe: acc is (2,) float32 on cpu with strides (2,); "
        "expected contiguous; pass acc.contiguous(), which copies it",
    ),
    "expanded": Case(
        lambda: {"acc": torch.zeros(1).expand(2)},
        ArgumentError,
        "probe: acc is (2,) float32 on cpu with strides (0,); "
        "expected contiguous; pass acc.contiguous(), which copies it",
    ),
    "dtype of no variant": Case(
        lambda: {"x": x23().double()},
        ArgumentError,
        "probe: x is (2, 3) float64 on cpu; expected (M, N) float32 or bfloat16; pass x.to(torch.float32)",
    ),
    "dtype unlike another argument's": Case(
        lambda: {"acc": torch.zeros(2, dtype=torch.bfloat16)},
        ArgumentError,
        "probe: acc is (2,) bfloat16 on cpu; expected (M=2,) of x's type float32",
    ),
    "dtype of an optional argument": Case(
        lambda: {"bias": torch.zeros(3)},
        ArgumentError,
        "probe: bias is (3,) float32 on cpu; expected (N=3,) int32",
    ),
    "complex": Case(
        lambda: {"x": torch.zeros(2, 3, dtype=torch.complex64)},
        ArgumentError,
        "probe: x is (2, 3) complex64 on cpu; expected (M, N) float32 or bfloat16",
    ),
    "complex for an integer": Case(
        lambda: {"bias": torch.zeros(3, dtype=torch.complex128)},
        ArgumentError,
        "probe: bias is (3,) complex128 on cpu; expected (N=3,) int32",
    ),
    "dim unlike another argument's": Case(
        lambda: {"acc": torch.zeros(3)},
        ShapeError,
        "probe: acc is (3,) float32 on cpu; expected (M=2,) of x's type float32; dim 0 is 3, but M=2 from x",
    ),
    "dim of an optional argument": Case(
        lambda: {"bias": torch.zeros(2, dtype=torch.int32)},
        ShapeError,
        "probe: bias is (2,) int32 on cpu; expected (N=3,) int32; dim 0 is 2, but N=3 from x",
    ),
    "too few dims": Case(
        lambda: {"x": torch.zeros(3)},
        ShapeError,
        "probe: x is (3,) float32 on cpu; expected (M, N) float32 or bfloat16; x has 1 dimension, but 2 are expected",
    ),
    "no dims": Case(
        lambda: {"acc": torch.tensor(1.0)},
        ShapeError,
        "probe: acc is () float32 on cpu; expected (M=2,) of x's type float32; acc has 0 dimensions, but 1 is expected",
    ),
    "too many dims for the spec": Case(
        lambda: {"x": torch.zeros(1, 2, 3)},
        ShapeError,
        "probe: x is (1, 2, 3) float32 on cpu; expected (M, N) float32 or bfloat16; "
        "x has 3 dimensions, but 2 are expected",
    ),
    "five dims": Case(
        lambda: {"x": torch.zeros(1, 1, 1, 2, 3)},
        ShapeError,
        "probe: x is (1, 1, 1, 2, 3) float32 on cpu, of 5 dimensions; expected at most 4",
    ),
    "extent over 31 bits": Case(
        lambda: {"x": torch.empty(2**31, 0)},
        ShapeError,
        "probe: x is (2147483648, 0) float32 on cpu; an extent must fit in 31 bits, "
        "unless the kernel takes pointers (args=True)",
    ),
    "meta": Case(
        lambda: {"x": torch.empty(2, 3, device="meta")},
        ArgumentError,
        'probe: acc is (2,) float32 on cpu; expected meta, where x is; acc = acc.to("meta") moves it',
    ),
    "meta beside cpu": Case(
        lambda: {"acc": torch.empty(2, device="meta")},
        ArgumentError,
        "probe: acc is (2,) float32 on meta; expected cpu, where x is; a meta tensor holds no data",
    ),
    "sparse": Case(
        lambda: {"x": x23().to_sparse()},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu with the layout torch.sparse_coo; expected a dense, strided tensor; "
        "pass x.to_dense()",
    ),
    "sparse rows": Case(
        lambda: {"x": sparse_rows()},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu with the layout torch.sparse_csr; expected a dense, strided tensor; "
        "pass x.to_dense()",
    ),
    "conjugate": Case(
        complex_view(torch.conj),
        ArgumentError,
        "probe: x is (2, 3) complex64 on cpu, a conjugate view; pass x.resolve_conj()",
    ),
    "negative": Case(
        lambda: {"x": negative_view()},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu, a negative view; pass x.resolve_neg()",
    ),
    "requires grad": Case(
        lambda: {"x": x23().requires_grad_()},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu and requires a gradient, which this kernel does not record; "
        "call it under torch.no_grad(), or pass x.detach(); backward= in its spec would record it",
    ),
    "parameter": Case(
        lambda: {"acc": torch.nn.Parameter(torch.zeros(2))},
        ArgumentError,
        "probe: acc is (2,) float32 on cpu and requires a gradient, which this kernel does not record; "
        "call it under torch.no_grad(), or pass acc.detach(); backward= in its spec would record it",
    ),
    "result of a recorded operation": Case(
        lambda: {"x": x23().requires_grad_() * 2},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu and requires a gradient, which this kernel does not record; "
        "call it under torch.no_grad(), or pass x.detach(); backward= in its spec would record it",
    ),
    "zero tensor": Case(
        lambda: {"x": torch._efficientzerotensor(2, 3)},
        ArgumentError,
        "probe: x is (2, 3) float32 on cpu with strides (0, 0); "
        "expected contiguous; pass x.contiguous(), which copies it",
    ),
}


def sparse_rows() -> torch.Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that sparse CSR tensors are in beta
        return x23().to_sparse_csr()


NOT_TENSORS = {
    "list": Case(
        lambda: {"x": [[1.0, 2.0]]},
        ArgumentError,
        "probe: x is [[1.0, 2.0]] (list); expected a torch.Tensor; torch.tensor(x) makes one",
    ),
    "none": Case(lambda: {"x": None}, ArgumentError, "probe: x is None (NoneType); expected a torch.Tensor"),
    "float": Case(
        lambda: {"acc": 1.5},
        ArgumentError,
        "probe: acc is 1.5 (float); expected a torch.Tensor; torch.tensor(acc) makes one",
    ),
    "long text": Case(
        lambda: {"x": "a" * 100},
        ArgumentError,
        "probe: x is '" + "a" * 59 + "... (str); expected a torch.Tensor",
    ),
    "class": Case(
        lambda: {"x": torch.Tensor},
        ArgumentError,
        "probe: x is <class 'torch.Tensor'> (torch._C._TensorMeta); expected a torch.Tensor",
    ),
}

SCALARS = {
    "str for float": Case(lambda: {"alpha": "1"}, ArgumentError, "probe: alpha is '1' (str); expected a float"),
    "complex for float": Case(lambda: {"alpha": 1j}, ArgumentError, "probe: alpha is 1j (complex); expected a float"),
    "none for float": Case(lambda: {"alpha": None}, ArgumentError, "probe: alpha is None (NoneType); expected a float"),
    "float for int": Case(lambda: {"count": 1.0}, ArgumentError, "probe: count is 1.0 (float); expected an int"),
    "bool for int": Case(lambda: {"count": True}, ArgumentError, "probe: count is True (bool); expected an int"),
    "str for int": Case(lambda: {"count": "1"}, ArgumentError, "probe: count is '1' (str); expected an int"),
    "int too large": Case(
        lambda: {"count": 2**31},
        ArgumentError,
        "probe: count is 2147483648 (int); expected an int from -2147483648 to 2147483647",
    ),
    "int far too large": Case(
        lambda: {"count": -(10**30)},
        ArgumentError,
        "probe: count is -1" + "0" * 30 + " (int); expected an int from -2147483648 to 2147483647",
    ),
    "int for bool": Case(lambda: {"flag": 1}, ArgumentError, "probe: flag is 1 (int); expected a bool"),
    "constraint": Case(
        lambda: {"divisor": 2}, ShapeError, "probe: the constraint N % divisor == 0 does not hold (N=3, divisor=2)"
    ),
    "division by zero": Case(
        lambda: {"divisor": 0},
        ShapeError,
        "probe: the constraint N % divisor == 0 overflows or divides by zero (N=3, divisor=0)",
    ),
    "stream on the cpu": Case(
        lambda: {"stream": 1},
        ArgumentError,
        "probe: stream is 1 (int); expected no stream, since the tensors are on the cpu",
    ),
}

OUTPUTS = {
    "shape of out": Case(
        lambda: {"out": torch.zeros(2)},
        ShapeError,
        "probe: y is (2,) float32 on cpu; expected (N=3,) of x's type float32; "
        "dim 0 is 2, but N=3 from x; leave y out to have it made",
    ),
    "dims of out": Case(
        lambda: {"y": torch.zeros(1, 3)},
        ShapeError,
        "probe: y is (1, 3) float32 on cpu; expected (N=3,) of x's type float32; "
        "y has 2 dimensions, but 1 is expected; leave y out to have it made",
    ),
    "dtype of out": Case(
        lambda: {"out": torch.zeros(3, dtype=torch.float64)},
        ArgumentError,
        "probe: y is (3,) float64 on cpu; expected (N=3,) of x's type float32; leave y out to have it made",
    ),
    "out not contiguous": Case(
        lambda: {"out": torch.zeros(6)[::2]},
        ArgumentError,
        "probe: y is (3,) float32 on cpu with strides (2,); expected contiguous; pass y.contiguous(), which copies it",
    ),
    "out on meta": Case(
        lambda: {"out": torch.zeros(3, device="meta")},
        ArgumentError,
        "probe: y is (3,) float32 on meta; expected cpu, where x is; a meta tensor holds no data",
    ),
    "out requires grad": Case(
        lambda: {"out": torch.zeros(3, requires_grad=True)},
        ArgumentError,
        "probe: y is (3,) float32 on cpu and requires a gradient, which this kernel does not record; "
        "call it under torch.no_grad(), or pass y.detach(); backward= in its spec would record it",
    ),
    "out no tensor": Case(
        lambda: {"out": (torch.zeros(3),)},
        ArgumentError,
        "probe: y is (tensor([0., 0., 0.]),) (tuple); expected a torch.Tensor",
    ),
    "out twice": Case(
        lambda: {"out": torch.zeros(3), "y": torch.zeros(3)},
        ArgumentError,
        "probe: y is given both by name and in out=",
    ),
}

CASES = {**TENSORS, **NOT_TENSORS, **SCALARS, **OUTPUTS}


def good_arguments() -> dict:
    return {"x": x23(), "acc": torch.zeros(2), "bias": torch.ones(3, dtype=torch.int32)}
