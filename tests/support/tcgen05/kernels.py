"""Kernels for Blackwell, in inline PTX."""

from __future__ import annotations

from pathlib import Path

from support.define import define
from tkjit import Kernel

SOURCES = Path(__file__).parent


def define_for_blackwell(source: str | Path, signature: str, **options) -> Kernel:
    options = {"grid": 1, "block": 128, "include_dirs": [SOURCES], **options}
    return define(None, signature, archs={"100a": source}, **options)


# ---- loads and stores

SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # registers of one step
STEPS = 4


def moves(shape: str, packs: bool) -> str:
    """A branch that stores 1000 * thread + register with one shape, or loads with it."""
    count = SHAPES[shape] * STEPS
    split = ", 16" if shape == "16x32bx2" else ""
    targets = ", ".join(f"%{i}" for i in range(count))
    sources = ", ".join(f"%{i + 1}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    inputs = ", ".join(f'"r"(threadIdx.x * 1000 + {i})' for i in range(count))
    store, load = (".unpack::16b", ".pack::16b") if packs else ("", "")
    return f"""
    if (loads) {{
        asm volatile("tcgen05.ld.sync.aligned.{shape}.x{STEPS}{load}.b32 {{{targets}}}, [%{count}]{split};"
                     : {outputs} : "r"(own));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    }} else {{
        asm volatile("tcgen05.st.sync.aligned.{shape}.x{STEPS}{store}.b32 [%0]{split}, {{{sources}}};"
                     :: "r"(own), {inputs});
        asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    }}
    """


CASES = [(shape, packs) for shape in SHAPES for packs in (False, True)]
MOVES = f"""
#include "tensor_memory.cuh"

__global__ void moved(Globals g) {{
    __shared__ uint32_t slot;
    const bool loads = g.choice.raw_ptr[1];
    const uint32_t memory = allocate(&slot, 64), own = memory + (threadIdx.x / 32 << 21);
    uint32_t r[{4 * STEPS}];
    for (int i = 0; i < {4 * STEPS}; ++i) r[i] = ~0u;
    for (int column = 0; column < 64; ++column) {{
        const uint32_t word = loads ? threadIdx.x * 64 + column : 0;
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {{%1}};" :: "r"(own + column), "r"(word));
    }}
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    switch (g.choice.raw_ptr[0]) {{
        {"".join(f"case {i}: {{ {moves(*case)} break; }}" for i, case in enumerate(CASES))}
    }}
    for (int i = 0; i < {4 * STEPS}; ++i) g.registers(threadIdx.x, i) = static_cast<int>(r[i]);
    load_all(memory, 64, g.words.raw_ptr, 64);
    free_all(memory, 64);
}}
"""


moved = define_for_blackwell(
    MOVES,
    """(
    choice: In[Tensor, "int32", 2], registers: Out[Tensor, "int32", 128, 16], words: Out[Tensor, "int32", 128, 64],
) -> tuple[Tensor, Tensor]""",
    entry="moved",
)

# ---- products

OPERANDS = """(
    a: In[Tensor, "uint8", 4096], b: In[Tensor, "uint8", 8192], how: In[Tensor, "int32", 9],
    d: Out[Tensor, "int32", 128, 256],
) -> Tensor"""
multiplied = define_for_blackwell(SOURCES / "product.cu", OPERANDS, entry="multiplied")

PAIRS_OPERANDS = """(
    a: In[Tensor, "uint8", 2, 4096], b: In[Tensor, "uint8", 2, 4096], scales_a: In[Tensor, "uint8", 2, 512],
    scales_b: In[Tensor, "uint8", 2, 512], how: In[Tensor, "int32", 4], d: Out[Tensor, "int32", 2, 128, 256],
) -> Tensor"""
multiplied_by_pair = define_for_blackwell(SOURCES / "pair.cu", PAIRS_OPERANDS, entry="multiplied", grid=2, cluster=2)

copied = define_for_blackwell(
    SOURCES / "copies.cu",
    '(x: In[Tensor, "uint8", 4096], words: Out[Tensor, "int32", 128, 48]) -> Tensor',
    entry="copied",
)

# ---- mistakes, pairs of floats, clusterlaunchcontrol

mistaken = define_for_blackwell(
    SOURCES / "mistakes.cu", '(which: In[Tensor, "int32", 1], y: Out[Tensor, "int32", 1]) -> Tensor', entry="wrong"
)

PAIRS = """
__global__ void pairs(Globals g) {
    const uint64_t a = __double_as_longlong(g.x[0]), b = __double_as_longlong(g.x[1]);
    uint64_t product, sum, fused;
    asm("mul.f32x2 %0, %1, %2;" : "=l"(product) : "l"(a), "l"(b));
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(a), "l"(b));
    asm("fma.rn.ftz.f32x2 %0, %1, %2, %3;" : "=l"(fused) : "l"(a), "l"(b), "l"(sum));
    g.y[0] = __longlong_as_double(product), g.y[1] = __longlong_as_double(sum);
    g.y[2] = __longlong_as_double(fused);
}
"""
pairs = define_for_blackwell(
    PAIRS, '(x: In[Tensor, "float64", 2], y: Out[Tensor, "float64", 3]) -> Tensor', entry="pairs", block=1
)

squares = define_for_blackwell(
    SOURCES / "take_over.cu",
    '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "int32", "N"]) -> Tensor',
    entry="squares",
    grid="N",
    block=1,
)
