"""ptxas's report: the figures of the entry, and those of the other kernels in its file."""

from __future__ import annotations

import pytest

from tkjit.compile.resources import KernelResources, kernel_resources, resources_text

# nvcc 13.0 on a file with axpy<float>, axpy<double>, which calls a function that spills, and crowded
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4axpyIdEv7Globals' for 'sm_90a'
ptxas info    : Function properties for _Z4axpyIdEv7Globals
    248 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 248 bytes cumulative stack size, 40 bytes smem
ptxas info    : Compile time = 38.173 ms
ptxas info    : Function properties for _Z6helperPfi
    0 bytes stack frame, 424 bytes spill stores, 448 bytes spill loads
ptxas info    : Compiling entry function '_Z4axpyIfEv7Globals' for 'sm_90a'
ptxas info    : Function properties for _Z4axpyIfEv7Globals
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
ptxas info    : Compiling entry function '_ZN2ns7crowdedE7Globals' for 'sm_90a'
ptxas info    : Function properties for _ZN2ns7crowdedE7Globals
    0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 252 registers, 128 bytes smem
"""
NO_MEMORY = {"shared_memory_bytes": 0, "spill_load_bytes": 0, "spill_store_bytes": 0, "stack_bytes": 0}
FLOAT = NO_MEMORY | {"registers": 12}
DOUBLE = {
    "registers": 32,
    "shared_memory_bytes": 40,
    "stack_bytes": 248,
    "spill_load_bytes": 448,
    "spill_store_bytes": 424,
}
CROWDED = NO_MEMORY | {"registers": 252, "shared_memory_bytes": 128, "spill_load_bytes": 12, "spill_store_bytes": 8}
NAMES = {
    "void axpy<float>(Globals)": FLOAT,
    "void axpy<double>(Globals)": DOUBLE,
    "ns::crowded(Globals)": CROWDED,
}


def marked(symbol: str) -> bytes:
    """A shared object with a symbol from TKJIT_MARK_ENTRY."""
    return b"\x7fELF\0tkjit_marked_entry\0" + symbol.encode() + b"\0.text\0"


@pytest.mark.parametrize(
    "symbol, name",
    [
        ("_ZN5tkjit12entry_markerIXadL_Z4axpyIfEv7GlobalsEEEE", "void axpy<float>(Globals)"),
        ("_ZN5tkjit12entry_markerIXadL_Z4axpyIdEv7GlobalsEEEE", "void axpy<double>(Globals)"),
        ("_ZN5tkjit12entry_markerIXadL_ZN2ns7crowdedE7GlobalsEEEE", "ns::crowded(Globals)"),
    ],
)
def test_the_entrys_figures_are_separate_from_the_others(symbol, name):
    others = {other: figures for other, figures in NAMES.items() if other != name}
    assert kernel_resources(LOG, marked(symbol)) == KernelResources(NAMES[name], others)


def test_spills_of_functions_that_the_entry_calls_count_as_its_own():
    double = kernel_resources(LOG, marked("_ZN5tkjit12entry_markerIXadL_Z4axpyIdEv7GlobalsEEEE")).entry
    assert (double["spill_store_bytes"], double["spill_load_bytes"]) == (424, 448)
    single = kernel_resources(LOG, marked("_ZN5tkjit12entry_markerIXadL_Z4axpyIfEv7GlobalsEEEE")).entry
    assert (single["spill_store_bytes"], single["spill_load_bytes"]) == (0, 0)


@pytest.mark.parametrize("shared_object", [b"\x7fELF", marked("_ZN5tkjit12entry_markerIXadL_Z4gonevEEEE")])
def test_without_a_matching_marker_the_entry_is_unknown(shared_object):
    resources = kernel_resources(LOG, shared_object)
    assert resources == KernelResources(None, NAMES)
    assert resources.facts == {"other_kernels": NAMES}


def test_a_kernel_alone_in_its_file_is_the_entry():
    alone = LOG[: LOG.index("ptxas info    : Compiling entry function '_Z4axpyIfEv")]
    resources = kernel_resources(alone, b"")
    assert resources == KernelResources(DOUBLE)
    assert resources.facts == DOUBLE


def test_a_build_for_the_cpu_has_no_figures():
    assert kernel_resources("", b"").facts == {}


def test_serialized_wgmmas():
    warning = (
        "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non "
        "wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in "
        "the function '_ZN2ns7crowdedE7Globals'\n"
    )
    entry = kernel_resources(warning + LOG, marked("_ZN5tkjit12entry_markerIXadL_ZN2ns7crowdedE7GlobalsEEEE")).entry
    assert entry == CROWDED | {"serialized_wgmma": 1}
    assert resources_text(entry) == "252 registers, 20 B spilled, 128 B static shared memory, wgmma serialized"
    assert "wgmma" not in resources_text(CROWDED)
