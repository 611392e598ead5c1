"""Wrong inline PTX and tensor maps raise typed errors with the line, at compilation or when a kernel reaches them."""

from __future__ import annotations

import pytest
import torch
from support.hopper.kernels import DIRECTORY

import tkjit
from tkjit import CompileError, In, InOut, LaunchError, Out, Tensor, ToolchainError

pytestmark = pytest.mark.compiles
_HEAD = """
__device__ inline unsigned shared(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void broken(float* x) {
    __shared__ unsigned long long barrier;
    BODY
}
"""

MULTIPLY = """
    float d[4] = {};
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(DESCRIPTORull));
    x[0] = d[0];
"""


def run(body: str, threads: int = 32, **options) -> torch.Tensor:
    @tkjit.kernel(_HEAD.replace("BODY", body), entry="broken", args=True, grid=1, block=threads, **options)
    def broken(x: InOut[Tensor, "float32", "N"]) -> None: ...

    x = torch.zeros(4)
    broken(x)
    return x


# statements that compile, but raise an error when a kernel reaches them
REFUSED = [
    (
        'asm volatile("tcgen05.shift.cta_group::1.down [%0];" :: "r"(0));',
        "the simulator has no tcgen05.shift.cta_group::1.down",
    ),
    (
        'asm volatile("ld.global.mystery.b32 %0, [%1];" : "=f"(x[0]) : "l"(x));',
        "the simulator has no ld.global.mystery.b32: unsupported modifier .mystery",
    ),
    (
        'asm volatile("st.shared.b32 [%0], %1;" :: "r"(300000), "r"(1));',
        "the shared address 0x493e0, of 1 bytes, is outside of the block's 228 KiB",
    ),
    (
        'asm volatile("st.shared.b32 [%0], %1;" :: "r"(shared(&barrier) + 2), "r"(1));',
        "a misaligned access of 4 bytes",
    ),
    ('asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(100));', "setmaxnreg of 100: the number must be"),
    (
        'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(&barrier)));',
        "mbarrier_arrive: the mbarrier is used before mbarrier_init",
    ),
    (
        'asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];"'
        ' :: "l"(x), "r"(0), "r"(shared(&barrier)));',
        "cp.async.bulk.tensor: there is no tensor map at",
    ),
    (
        MULTIPLY.replace("DESCRIPTOR", "0"),
        "wgmma needs a warpgroup of 128 threads; the block has 32",
    ),
]


@pytest.fixture(scope="module")
def refused() -> tkjit.Kernel:
    """Returns a kernel whose argument ``which`` chooses one of the statements."""
    bodies = "\n".join(f"if (which == {i}) {{ {body} }}" for i, (body, _) in enumerate(REFUSED))
    source = _HEAD.replace("float* x", "float* x, int which").replace("BODY", bodies)

    @tkjit.kernel(source, entry="broken", args=True, grid=1, block=32)
    def broken(x: InOut[Tensor, "float32", "N"], which: int) -> None: ...

    return broken


@pytest.mark.parametrize("which", range(len(REFUSED)))
def test_an_error_is_raised_when_a_kernel_reaches_it(refused, which):
    with pytest.raises(LaunchError) as raised:
        refused(torch.zeros(4), which)
    assert REFUSED[which][1] in str(raised.value) and "inline.cu:" in str(raised.value)


def test_an_instruction_that_is_never_reached_raises_no_error():
    assert run('if (x[0] > 5) asm volatile("tcgen05.fence::before_thread_sync;"); x[1] = 3;')[1] == 3


def test_a_constant_text_that_no_array_of_the_source_contains():
    body = 'constexpr const char* kind = "u32"; asm volatile("mov.%1 %0, 1;" : "=f"(x[0]) : "C"(kind));'
    with pytest.raises(LaunchError, match=r"mov\.%1 %0, 1; with the text of its constraint C.*inline.cu:5"):
        run(body)


def test_a_descriptor_outside_of_shared_memory():
    body = MULTIPLY.replace("DESCRIPTOR", "0x3fff")
    with pytest.raises(LaunchError, match=r"of 16 bytes, is outside of the block's 228 KiB.*inline.cu:"):
        run(body, threads=128)


@pytest.mark.parametrize(
    "body, message",
    [
        ('asm volatile("mov.u32 %0 1;" : "=f"(x[0]));', "inline PTX: expected ',' or ';', found '1;'"),
        *(
            pytest.param(body, message, marks=pytest.mark.slow)
            for body, message in [
                ('asm volatile("mov.u32 %3, 1;" : "=f"(x[0]));', "inline PTX: %3: the statement has no such operand"),
                ('asm volatile("mov.u32 %0, %1;" : "=f"(x[0]) : "r"(x));', 'needs the constraint "l"'),
                ('asm volatile("mov.u32 %0, 1;" : "f"(x[0]));', "the constraint 'f' is for an input"),
            ]
        ),
        ('long y = 0; asm volatile("mov.u32 %0, %1;" : "=f"(x[0]) : "r"(y));', "larger than its constraint"),
    ],
)
def test_a_syntax_error_or_a_wrong_constraint_is_a_compile_error(body, message):
    with pytest.raises(CompileError) as raised:
        run(body)
    assert message in raised.value.log and "inline.cu:5" in raised.value.log


def test_an_mbarrier_that_never_completes_reports_what_is_missing():
    body = """
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 3;" :: "r"(shared(&barrier)));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(shared(&barrier)));
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(shared(&barrier)));
    """
    with pytest.raises(LaunchError, match="its phase of parity 0 lacks 2 of 3 arrivals and lacks 256 expected bytes"):
        run(body)


def test_all_lanes_may_initialise_a_barrier_together():
    body = """
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&barrier)));
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(&barrier)));
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(shared(&barrier)));
    x[0] = 7;
    """
    assert run(body)[0] == 7


def test_static_shared_memory_that_does_not_fit():
    body = '__shared__ float more[60000]; more[threadIdx.x] = 1; asm volatile("bar.sync 0;"); x[0] = more[1];'
    with pytest.raises((LaunchError, ToolchainError), match="shared memory"):
        run(body)


def test_an_architecture_that_is_not_modelled():
    @tkjit.kernel(
        archs={"120a": "__global__ void one(float* x) { x[0] = 1; }"}, entry="one", args=True, grid=1, block=1
    )
    def newer(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(ToolchainError, match="written for sm_120a, which the simulator does not model; it models"):
        newer(torch.zeros(1))


@tkjit.kernel(DIRECTORY / "encode.cu", entry="encode", args=True, host=True, fields="result numbers")
def encode(numbers: In[Tensor, "int64", 28], result: Out[Tensor, "int32", 1]) -> Tensor: ...


TYPE, RANK = 0, 1


def numbers_of(**changes: int) -> torch.Tensor:
    """Return a valid map of float32, 16 x 8 with boxes of 8 x 4, with the given changes."""
    numbers = torch.zeros(28, dtype=torch.int64)
    numbers[TYPE], numbers[RANK] = 7, 2
    for number in range(5):
        numbers[8 + 4 * number : 12 + 4 * number] = torch.tensor([16, 64, 8, 1])
    for name, value in changes.items():
        numbers[int(name[1:])] = value
    return numbers


def test_a_valid_map_is_encoded():
    assert encode(numbers_of()).item() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"_0": 13},  # a type that is not modelled, and an invalid one
        {"_0": 99},
        {"_1": 0},
        {"_1": 6},
        {"_2": 8},  # an address that is not a multiple of 16
        {"_3": 1},  # interleaved layouts are not modelled
        {"_4": 4},
        {"_5": 4},
        {"_6": 2},
        {"_0": 3, "_6": 1},  # integers have no NaN
        {"_7": 32},  # a map that is not aligned to 64
        {"_8": 0},
        {"_8": (1 << 32) + 1},
        {"_9": 24},  # strides
        {"_9": 1 << 40},
        {"_10": 0},  # boxes
        {"_10": 257},
        {"_14": 300},
        {"_10": 3},  # a row that is not a multiple of 16 bytes
        {"_11": 0},  # element strides
        {"_15": 9},
        {"_4": 1, "_10": 16},  # a row that is longer than its swizzle
        {"_4": 2, "_10": 32},
        {"_4": 3, "_10": 64},
    ],
    ids=str,
)
def test_an_invalid_map_is_rejected(changes):
    assert encode(numbers_of(**changes)).item() == 1
