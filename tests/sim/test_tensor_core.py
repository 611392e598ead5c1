"""The wrappers' C++ bodies: mma, ldmatrix, stmatrix, cp.async, setmaxnreg."""

import numpy as np
import pytest
import torch
from support.simulator.compiled import SOURCES, Library, compile_source, compile_with

pytestmark = pytest.mark.compiles
TYPES = {"half": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return compile_source(SOURCES / "tensor_core.cu", tmp_path_factory.mktemp("tensor_core"))


def random_matrix(name: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random numbers of the type: their bits, and their values in float64."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(TYPES[name])
    return numbers.view(torch.int16).numpy().view(np.uint16), numbers.double().numpy()


@pytest.mark.parametrize("name", TYPES)
def test_mma(library, name):
    a, a_values = random_matrix(name, 16, 16)
    b, b_values = random_matrix(name, 16, 8)
    c = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    d = np.zeros_like(c)
    assert library.launch(f"one_mma_{name}", 1, 32, a, b, c, d) is None
    np.testing.assert_allclose(d, a_values @ b_values + c, atol=1e-5)


def test_ldmatrix_plain_and_transposed(library):
    x = np.arange(256, dtype=np.uint16) + 1000
    result = np.zeros((32, 14), np.uint32)
    assert library.launch("load_matrices", 1, 32, x, result) is None
    matrices = x.reshape(4, 8, 8).astype(np.uint32)
    for transposed, first_word in [(False, 0), (True, 7)]:
        source = matrices.transpose(0, 2, 1) if transposed else matrices
        # Lane l holds row l / 4, columns 2 (l % 4) and the next, of each matrix.
        words = (source[:, :, 0::2] | source[:, :, 1::2] << 16).reshape(4, 32).T
        np.testing.assert_array_equal(result[:, first_word], words[:, 0])
        np.testing.assert_array_equal(result[:, first_word + 1 : first_word + 3], words[:, :2])
        np.testing.assert_array_equal(result[:, first_word + 3 : first_word + 7], words)


def aligned_copy(x: np.ndarray) -> np.ndarray:
    """Return a copy of ``x`` at an address that is a multiple of 16."""
    room = np.zeros(x.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    result = room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def test_asynchronous_copies_land_when_waited_for(library):
    x = aligned_copy(np.arange(512, dtype=np.uint16).reshape(32, 16))
    seen = np.zeros((3, 32, 16), np.uint16)
    assert library.launch("copies", 1, 32, x, seen) is None
    assert (seen[0] == 0xFFFF).all()
    np.testing.assert_array_equal(seen[1], np.where(np.arange(16) < 8, x, 0xFFFF))
    np.testing.assert_array_equal(seen[2], np.where(np.arange(16) < 8 + 3, x, 0))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (128, 192, 160)])
def test_gemm(library, name, m, n, k):
    a, a_values = random_matrix(name, m, k)
    b, b_values = random_matrix(name, n, k)
    c = np.zeros((m, n), np.float32)
    shared = 2 * 2 * 64 * 40 * 2  # two stages of A and B, 64 rows of 40 elements of two bytes
    grid = (n // 64, m // 64)
    text = library.launch(f"gemm_{name}", grid, 128, aligned_copy(a), aligned_copy(b), c, n, k, shared=shared)
    assert text is None
    np.testing.assert_allclose(c, a_values @ b_values.T, atol=1e-4)


def test_mma_needs_a_full_warp(library):
    text = library.launch("mma_in_half_a_warp", 1, 32, np.zeros(32, np.float32))
    assert text.startswith("mma with mask 0xffffffff waits for lane 16, thread (16, 0, 0), which has exited")
    assert library.line("mma of 16 lanes") in text


def test_a_misaligned_copy_is_an_error(library):
    text = library.launch("misaligned_copy", 1, 32, aligned_copy(np.zeros(16, np.uint16)))
    assert "cp.async of 16 bytes: both addresses must be multiples of 16" in text
    assert library.line("misaligned copy") in text


def test_a_misaligned_store_is_an_error(library):
    text = library.launch("misaligned_store", 1, 32, 3)
    assert "stmatrix: a row must be aligned to 16 bytes" in text
    assert library.line("misaligned store") in text
    assert library.launch("misaligned_store", 1, 32, 8) is None, "x1 does not read the addresses of lanes 8 to 31"


@pytest.mark.parametrize("count, is_right", [(232, True), (236, False), (16, False), (264, False)])
def test_register_counts_are_checked(count, is_right):
    arguments = "-fsyntax-only", f"-DREGISTERS={count}", "-x", "c++", SOURCES / "tensor_core.cu"
    if is_right:
        compile_with(*arguments)
        return
    with pytest.raises(RuntimeError, match="the number of registers is a multiple of 8 from 24 to 256"):
        compile_with(*arguments)
