"""The host's cost of a call, and of launching an empty kernel, compared with other bindings; needs a GPU."""

from __future__ import annotations

from dataclasses import replace

import tkjit
from benchmarks import peers
from benchmarks.calls import CALLS, Peer, compare
from benchmarks.cpu.bench_call import BINDINGS, OURS
from benchmarks.harness import Row
from tkjit import In, Out, Tensor


@tkjit.kernel(
    "__global__ void empty(const float* x, const float* y, float* z, float alpha) {}",
    entry="empty",
    grid="cdiv(N, 256)",
    block=256,
    args=True,
)
def empty(
    x: In[Tensor, "float32", "N"],
    y: In[Tensor, "float32", "N"],
    z: Out[Tensor, "float32", "N"],
    alpha: float = 1.0,
) -> Tensor:
    """Launch an empty kernel."""
    return x.new_empty(x.shape)


LAUNCHES = CALLS["cuda"]
LAUNCHERS = (
    Peer(
        "a loop in C, no Python",
        peers.bare_loop,
        f"call({LAUNCHES}, x.data_ptr(), y.data_ptr(), z.data_ptr(), 1.0)",
        limit=1.15,
        calls=LAUNCHES,
    ),
    Peer("Triton", peers.triton, "call[(1,)](x, y, z, 1.0)"),
    Peer("CuPy RawKernel", peers.cupy, "call((1,), (256,), (x.data_ptr(), y.data_ptr(), z.data_ptr(), 1.0))"),
    Peer("torch.add(out=)", peers.torch_add, "call(x, y, alpha=1.0, out=z)", limit=1),
)


def run() -> list[Row]:
    """Time calls on the host in microseconds, with random inputs; the queue is emptied between runs."""

    def ours(statement: str) -> Peer:
        return Peer("tkjit", lambda device: tkjit.load(empty), statement)

    bindings = [replace(peer, limit=None) for peer in BINDINGS]  # the limits are for the CPU
    plus = Peer("a + b", peers.torch_add, "x + y")
    return [
        *compare("call: 3 CUDA tensors and a float, all checks, no kernel", OURS, bindings, "cuda"),
        *compare("call that launches an empty kernel, out= given", ours("call(x, y, 1.0, out=z)"), LAUNCHERS, "cuda"),
        *compare("call that allocates and launches an empty kernel", ours("call(x, y, 1.0)"), [plus], "cuda"),
    ]
