"""Structs by value, arrays, variants by a name, constants and symbols, compiled for sm_90a."""

import pytest
from support.named_variants import combine
from support.sampling import sample
from support.struct_values import blend, filter_row, place
from support.symbols import convolve, scaled
from support.wide import ends, mark

from tkjit.compile.targets import Target
from tkjit.spec import variants_of

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize(
    "kernel",
    sample(
        [combine, blend, filter_row, place, convolve, scaled, mark, ends],
        *("blend", "ends"),
        name=lambda kernel: kernel.name,
    ),
)
def test_kernel_compiles_for_hopper(kernel, loader):
    (spec,) = kernel.specs
    loader.open_variant(spec, variants_of(spec)[-1], Target("90a"))
