"""One call with three tensors and a float, the kernel excluded: what parsing, checking and dispatching cost."""

from __future__ import annotations

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
    """A call without a kernel."""
    ...


OURS = Peer("tkjit", lambda device: tkjit.load(nothing))
BINDINGS = (
    Peer("tvm-ffi, no checks", peers.tvm_ffi, limit=0.35),
    Peer("nanobind, dtype, device, contiguity", peers.nanobind),
    Peer("pybind11, at::Tensor, no checks", peers.pybind11),
    Peer("torch.ops, the overload", peers.torch_op),
    Peer("torch.ops, the packet", peers.torch_op_packet),
    Peer("ctypes, no checks", peers.ctypes_function, "call(x.data_ptr(), y.data_ptr(), z.data_ptr(), 1.0)"),
)
ADD = Peer("torch.add(out=), 8 elements", peers.torch_add, "call(x, y, alpha=1.0, out=z)", limit=0.2)


def run() -> list[Row]:
    """tkjit with all its checks, against other bindings and torch's own operator with its arithmetic."""
    what = "call: 3 tensors and a float on the CPU, all checks, no kernel"
    return compare(what, OURS, (*BINDINGS, ADD), "cpu")
