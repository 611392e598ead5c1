"""One call with three tensors and a float, without a kernel: the cost of parsing, checking and dispatching."""

from __future__ import annotations

from collections.abc import Callable

import torch

import tkjit
from benchmarks import peers
from benchmarks.calls import Peer, compare
from benchmarks.harness import Row
from tkjit import In, InOut, Tensor


@tkjit.kernel(
    "inline void nothing(const float* x, const float* y, float* z, float alpha) {}",
    entry="nothing",
    args=True,
    host=True,
)
def nothing(
    x: In[Tensor, "float32", "N"],
    y: In[Tensor, "float32", "N"],
    z: InOut[Tensor, "float32", "N"],
    alpha: float,
) -> None:
    """Do nothing, without a kernel."""
    ...


OURS = Peer("tkjit", lambda device: tkjit.load(nothing))
BINDINGS = (
    Peer("tvm-ffi, no checks", peers.tvm_ffi, limit=0.35),
    Peer("nanobind, dtype, device, contiguity", peers.nanobind),
    Peer("pybind11, at::Tensor, no checks", peers.pybind11),
    Peer("ThunderKittens' pyutils, contiguity and kind of device", peers.pyutils, "call()", limit=0.45),
    Peer("torch.ops, the overload", peers.torch_op),
    Peer("torch.ops, the packet", peers.torch_op_packet),
    Peer("ctypes, no checks", peers.ctypes_function, "call(x.data_ptr(), y.data_ptr(), z.data_ptr(), 1.0)"),
)
ADD = Peer("torch.add(out=), 8 elements", peers.torch_add, "call(x, y, alpha=1.0, out=z)", limit=0.2)


OPERATOR = Peer("tkjit's operator", lambda device: nothing.operator.default)
COMPILED = Peer("tkjit, compiled", lambda device: _compiled(tkjit.load(nothing)), "call(x, y, z)")
COMPILED_PEERS = (
    # the limit is 1.1, because two runs of the same code differ by a tenth
    Peer(
        "an operator in C++, no checks",
        lambda device: _compiled(_traceable(peers.torch_op)),
        "call(x, y, z)",
        limit=1.1,
    ),
    Peer("torch.library.custom_op in Python", lambda device: _compiled(_custom_op()), "call(x, y, z)"),
)


def run() -> list[Row]:
    """Compare tkjit, with all its checks, with other bindings and with torch's own addition."""
    what = "call: 3 tensors and a float on the CPU, all checks, no kernel"
    in_torch = Peer("an operator in C++, no checks", peers.torch_op)
    return [
        *compare(what, OURS, (*BINDINGS, ADD), "cpu"),
        *compare("the same through torch.ops", OPERATOR, (in_torch,), "cpu"),
        *compare("the same in a compiled graph, beside an addition", COMPILED, COMPILED_PEERS, "cpu"),
    ]


def _compiled(call: Callable[..., object]) -> Callable[..., object]:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        call(x, y, z, 1.0)
        return x + z

    compiled: Callable[..., object] = torch.compile(function, fullgraph=True)
    return compiled


def _traceable(peer: Callable[[str], Callable[..., object]]) -> Callable[..., object]:
    """Register a fake of a peer's operator, from which ``torch.compile`` learns that it returns nothing."""
    operator = peer("cpu")
    name = str(operator).removesuffix(".default").replace(".", "::")
    torch.library.register_fake(name, lambda x, y, z, alpha: None)
    return operator


def _custom_op() -> Callable[..., object]:
    @torch.library.custom_op("bench_call::nothing", mutates_args=("z",))
    def nothing(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, alpha: float) -> None: ...

    return nothing
