"""Invalid calls: the exact message, the exception class, unchanged arguments, and the same error when repeated.

Each test runs for each way of reading tensors: through the TensorImpl, and through DLPack's two protocols, which other
versions of torch need.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from support.bad_calls import CASES, Subclass, good_arguments, probe, x23
from support.forking import Server
from torch.utils._python_dispatch import TorchDispatchMode

import tkjit
from tkjit import ArgumentError, In, InOut, LaunchError, Out, Scalar, ShapeError, Tensor, TkjitError

pytestmark = [pytest.mark.compiles, pytest.mark.usefixtures("reading")]


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[0] = g.x[0]; g.z[0] = g.x[0]; }",
    entry="f",
    grid="2 * n * n, m",
    block="block",
)
def launch(
    x: In[Tensor, "float32", "... N"],
    n: Scalar[int, "int64_t"] = 1,
    m: Scalar[int, "int64_t"] = 1,
    block: Scalar[int, "int64_t"] = 1,
    *,
    y: Out[Tensor, "float32", "... N"] = None,
    z: Out[Tensor, "float32", "max(n, 1) - 1 + N"] = None,
) -> tuple[Tensor, Tensor]: ...


class Seen(TorchDispatchMode):
    """Sends every call through the kernel's operator."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def is_plain(value: object) -> bool:
    return type(value) is torch.Tensor and value.layout == torch.strided and value.device.type == "cpu"


# torch's dispatcher resolves conjugate and negative views before an operator sees them; for a class, the operator's
# error has another text
NOT_OF_OPERATORS = ("conjugate", "negative", "class")


def refused(
    kernel: Callable, keywords: dict, kind: type[TkjitError], message: str, *positional: object, operator: bool = True
) -> None:
    """Check that a call is rejected with this message, and leaves its arguments unchanged."""
    values = [value for value in (*positional, *keywords.values()) if is_plain(value) and not value.is_neg()]
    before = [value.detach().clone() for value in values]
    for mode in [nullcontext(), Seen()][: 1 + operator]:  # a plain call, and one through the kernel's operator
        with mode, pytest.raises(TkjitError) as raised:
            kernel(*positional, **keywords)
        assert str(raised.value) == message
        assert type(raised.value) is kind
    assert isinstance(raised.value, {ArgumentError: TypeError, ShapeError: ValueError, LaunchError: RuntimeError}[kind])
    assert all(map(torch.equal, values, before))


def good_calls(count: int) -> None:
    loaded, arguments = tkjit.load(probe), good_arguments()
    for _ in range(count):
        y = loaded(**arguments)
    assert y.tolist() == [0, 1, 2] and arguments["acc"].tolist() == [count, count]


@pytest.mark.parametrize("name", CASES)
def test_bad_call(name):
    case = CASES[name]
    keywords = good_arguments() | case.change()
    loaded = tkjit.load(probe)
    good_calls(1)
    operator = name not in NOT_OF_OPERATORS
    refused(loaded, keywords, case.kind, case.message, operator=operator)
    good_calls(1000)
    refused(loaded, keywords, case.kind, case.message, operator=operator)


COUNTED = """
import sys, torch
made = []
real, torch.empty = torch.empty, lambda *args, **kwargs: made.append(1) or real(*args, **kwargs)
sys.path[:0] = {directories!r}
import tkjit
from support import bad_calls as cases
loaded = tkjit.load(cases.probe)
for name, case in cases.CASES.items():
    keywords = cases.good_arguments() | case.change()
    made.clear()
    try:
        loaded(**keywords)
        print(name, "was accepted")
    except tkjit.TkjitError:
        print(f"{{name}} allocated" if made else "", end="")
made.clear()
loaded(**cases.good_arguments())
print("a good call allocated", len(made))
"""


def test_rejected_call_allocates_nothing(fresh: Server):
    # in a new process, because the runtime looks up torch.empty only once
    assert fresh.run(COUNTED.format(directories=[str(Path(__file__).parents[1])])).strip() == "a good call allocated 1"


NAMES = ", ".join(probe.signature.parameters)


@pytest.mark.parametrize(
    ("positional", "keywords", "message"),
    [
        ((x23(),) * 8, {}, "probe: takes at most 7 positional arguments, got 8; by name it takes y=, out=, stream="),
        ((), {}, f"probe: the argument x is missing; it takes {NAMES}"),
        ((x23(),), {}, f"probe: the argument acc is missing; it takes {NAMES}"),
        ((x23(), torch.zeros(2)), {"x": x23()}, "probe: the argument x is given twice"),
        ((x23(), torch.zeros(2)), {"gamma": 1.0}, f"probe: unknown argument gamma; it takes {NAMES}"),
        (
            (x23(), torch.zeros(2)),
            {"Alpha": 1.0},
            f"probe: unknown argument Alpha; did you mean alpha? it takes {NAMES}",
        ),
        ((x23(), torch.zeros(2)), {"\u03b1": 1.0}, f"probe: unknown argument \u03b1; it takes {NAMES}"),
    ],
)
def test_bad_argument_list(positional, keywords, message):
    loaded = tkjit.load(probe)
    refused(loaded, keywords, ArgumentError, message, *positional)
    good_calls(1000)
    refused(loaded, keywords, ArgumentError, message, *positional)


def test_nested_tensor_is_rejected():
    for layout in (torch.strided, torch.jagged):
        nested = nested_tensor(layout)
        with pytest.raises(ArgumentError, match=r"^probe: x is .*nested|^probe: x is .*NestedTensor"):
            tkjit.load(probe)(nested, torch.zeros(2))


def nested_tensor(layout: torch.layout) -> torch.Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that nested tensors are a prototype
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=layout)


def test_quantized_tensor_is_rejected():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, but still available
        quantized = torch.quantize_per_tensor(x23(), 0.1, 0, torch.qint8)
    keywords = good_arguments() | {"x": quantized}
    with pytest.raises(ArgumentError, match=r"^probe: x is \(2, 3\) qint8 on cpu") as raised:
        tkjit.load(probe)(**keywords)
    # not to_dense(), which fails because the layout is strided
    assert "quantized" in str(raised.value) and "dequantize()" in str(raised.value)


@pytest.mark.parametrize("held_bytes", [0, 20])
def test_freed_storage_is_rejected(held_bytes):
    # some training code leaves parameters in this state after gathering them; torch itself crashes when it reads one
    x = x23()
    x.untyped_storage().resize_(held_bytes)
    message = r"^probe: x is \(2, 3\) float32 on cpu, but its storage holds less: it was freed or resized$"
    with pytest.raises(ArgumentError, match=message):
        tkjit.load(probe)(x, torch.zeros(2))


def test_requires_grad_does_not_matter_if_nothing_is_recorded():
    parameter = torch.nn.Parameter(x23())
    with torch.no_grad():
        assert tkjit.load(probe)(parameter, torch.zeros(2)).tolist() == [0, 1, 2]
    with torch.inference_mode():
        assert tkjit.load(probe)(x23().requires_grad_(), torch.zeros(2)).tolist() == [0, 1, 2]
    y = tkjit.load(probe)(parameter.detach(), torch.zeros(2))
    assert not y.requires_grad
    frozen = torch.nn.Parameter(x23(), requires_grad=False)
    assert tkjit.load(probe)(frozen, torch.zeros(2)).tolist() == [0, 1, 2]


def test_plain_subclass_is_accepted():
    y = tkjit.load(probe)(x23().as_subclass(Subclass), torch.zeros(2))
    assert torch.equal(torch.Tensor(y), torch.tensor([0.0, 1.0, 2.0]))


def test_writing_a_copy_on_write_tensor_keeps_the_original():
    original = torch.zeros(2)
    lazy = torch._lazy_clone(original)
    tkjit.load(probe)(x23(), lazy)
    assert lazy.tolist() == [1, 1] and original.tolist() == [0, 0]


def test_numbers_of_other_libraries():
    loaded = tkjit.load(probe)
    acc = torch.zeros(2)
    loaded(x23(), acc, alpha=np.float32(0.5), count=np.int64(1))
    loaded(x23(), acc, alpha=2)
    loaded(x23(), acc, alpha=torch.tensor(0.25), count=torch.tensor(1))
    loaded(x23(), acc, flag=np.bool_(True))
    loaded(x23(), acc, flag=torch.tensor(True))
    with Seen():
        loaded(x23(), acc, alpha=np.float32(0.5), count=np.int64(1), flag=np.bool_(True))
        loaded(x23(), acc, alpha=torch.tensor(0.25), count=torch.tensor(1), flag=torch.tensor(True))
    assert acc.tolist() == [5.5, 5.5]
    refused(
        loaded,
        {"x": x23(), "acc": acc, "flag": torch.tensor(1.0)},
        ArgumentError,
        "probe: flag is () float32 on cpu; expected a bool",
    )


def test_object_whose_index_method_raises():
    class Odd:
        def __index__(self) -> int:
            raise ValueError("no")

        def __repr__(self) -> str:
            return "Odd()"

    refused(
        tkjit.load(probe),
        good_arguments() | {"count": Odd()},
        ArgumentError,
        "probe: count is Odd() (Odd); expected an int",
    )


# ---- grids and several outputs

LAUNCHES = {
    "grid too large": ({"n": 2**20}, LaunchError, "launch: grid x is 2199023255552; the limit is 2147483647"),
    "second dimension too large": ({"m": 65536}, LaunchError, "launch: grid y is 65536; the limit is 65535"),
    "grid negative": ({"m": -1}, LaunchError, "launch: grid y is -1; the limit is 65535"),
    "grid overflows": ({"n": 2**62}, LaunchError, "launch: grid x: overflow or division by zero"),
    "block too large": (
        {"block": 1025},
        LaunchError,
        "launch: block x is 1025; the limit is 1024: take more blocks instead, block=1024 and a grid of "
        "cdiv(size, 1024)",
    ),
    "block empty": ({"block": 0}, LaunchError, "launch: threads a block is 0; the limit is 1024"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_bad_launch_shape(name):
    keywords, kind, message = LAUNCHES[name]
    out = torch.full((2,), 7.0), torch.full((keywords.get("n", 1) - 1 + 2,), 7.0) if name != "grid overflows" else None
    if name == "grid overflows":  # with 2**62 an output's dim would overflow first, but a negative n leaves it small
        keywords = {"n": -(2**62)}
        out = torch.full((2,), 7.0), torch.full((2,), 7.0)
    loaded = tkjit.load(launch)
    for _ in range(2):
        with pytest.raises(LaunchError) as raised:
            loaded(torch.ones(2), **keywords, out=out)
        assert str(raised.value) == message and type(raised.value) is kind
        assert all((tensor == 7).all() for tensor in out)
        assert loaded(torch.ones(2)).y.shape == (2,)


@pytest.mark.parametrize(
    ("keywords", "kind", "message"),
    [
        ({"n": 2**62}, ShapeError, "launch: an extent of the output z would be 4611686018427387905"),
        ({"out": torch.ones(2)}, ArgumentError, "launch: out= must be a tuple of 2 tensors, one for each output"),
        ({"out": (torch.ones(2),)}, ArgumentError, "launch: out= must be a tuple of 2 tensors, one for each output"),
        (
            {"out": (torch.ones(2),) * 3},
            ArgumentError,
            "launch: out= must be a tuple of 2 tensors, one for each output",
        ),
        (
            {"out": (None, torch.ones(2)), "z": torch.ones(2)},
            ArgumentError,
            "launch: z is given both by name and in out=",
        ),
        (
            {"out": (torch.ones(2), torch.ones(3))},
            ShapeError,
            "launch: z is (3,) float32 on cpu; expected (max(n, 1) - 1 + N=2,) float32; "
            "dim 0 is 3, but max(n, 1) - 1 + N=2; leave z out to have it made",
        ),
        (
            {"y": torch.ones(1, 2)},
            ShapeError,
            'launch: y is (1, 2) float32 on cpu; expected (N=2,) float32; the dims of "..." must be the same '
            "for all tensors; leave y out to have it made",
        ),
    ],
)
def test_bad_outputs(keywords, kind, message):
    loaded = tkjit.load(launch)
    loaded(torch.ones(2))
    # if a call passes only some outputs, the operator completes them, and its message differs
    refused(loaded, {"x": torch.ones(2), **keywords}, kind, message, operator="y" not in keywords)
    with Seen(), pytest.raises(kind):
        loaded(torch.ones(2), **keywords)


# ---- a kernel that has not been called yet


@pytest.mark.parametrize(
    "bad", [[1.0], None, torch.empty(2, 2), torch.empty(2, dtype=torch.int8)], ids=["list", "None", "matrix", "int8"]
)
def test_first_call_with_bad_arguments(bad):
    @tkjit.kernel(
        "template <class T> __global__ void f(Globals g) { g.x[threadIdx.x] += T(mode); }",
        entry="f<T>",
        grid=1,
        block="N",
        variants={"T": ("float32",), "mode": (1, 2)},
    )
    def first(x: InOut[Tensor, "T", "N"], mode: int = 1) -> Tensor: ...

    with pytest.raises((ArgumentError, ShapeError), match=r"^first: x is "):
        first(bad)
    with pytest.raises(ArgumentError, match=r"^first: mode is 'two' \(str\); expected an int$"):
        tkjit.Kernel(*first.specs)(torch.ones(2), "two")
    with pytest.raises(ShapeError, match=r"^first: the constraint mode is 1 or 2 does not hold \(mode=3\)$"):
        tkjit.Kernel(*first.specs)(torch.ones(2), 3)
    assert first(torch.zeros(2), 2).tolist() == [2, 2]


class Surrogate:
    """Its repr has a character that UTF-8 cannot encode."""

    def __repr__(self) -> str:
        return "\ud800"


def test_message_with_non_ascii_reprs():
    loaded = tkjit.load(probe)
    with pytest.raises(ArgumentError, match=r"probe: x is \\ud800 \(Surrogate\); expected a torch.Tensor"):
        loaded(Surrogate(), torch.zeros(2))
    with pytest.raises(ArgumentError, match="é" * 59 + r"\.\.\. \(str\); expected a torch.Tensor"):
        loaded("é" * 100, torch.zeros(2))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"alpha": torch.ones(1)}, r"alpha is \(1,\) float32 on cpu; expected a float"),
        (
            {"alpha": torch.tensor(2.0, requires_grad=True)},
            r"alpha is \(\) float32 on cpu; expected a float; it requires a gradient, and numbers get none: "
            "declare a tensor in the spec, or detach it",
        ),
        ({"alpha": torch.tensor(1j)}, r"alpha is \(\) complex64 on cpu; expected a float"),
        ({"alpha": np.complex64(1)}, r"alpha is np.complex64\(1\+0j\) \(numpy.complex64\); expected a float"),
        ({"count": torch.ones(1, dtype=torch.int64)}, r"count is \(1,\) int64 on cpu; expected an int"),
    ],
)
def test_only_single_real_numbers_are_accepted(keywords, message):
    with pytest.raises(ArgumentError, match=f"^probe: {message}$"):
        tkjit.load(probe)(x23(), torch.zeros(2), **keywords)


def test_ctrl_c_in_a_conversion_is_not_swallowed():
    class Interrupted:
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tkjit.load(probe)(x23(), torch.zeros(2), alpha=Interrupted())
