"""Maps PTX's special registers to C++ expressions."""

from __future__ import annotations


def _index(name: str) -> dict[str, str]:
    variable = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}[name]
    return {f"{name}.{axis}": f"::{variable}.{axis}" for axis in "xyz"}


# Source: PTX ISA, "Special Registers"
SPECIAL = {
    **_index("tid"),
    **_index("ntid"),
    **_index("ctaid"),
    **_index("nctaid"),
    "laneid": "tkjit_ptx::laneid()",
    "warpid": "tkjit_ptx::warpid()",
    "nwarpid": "32u",
    "smid": "tkjit_ptx::smid()",
    "nsmid": "132u",
    "gridid": "0ull",
    "clock": "tkjit_ptx::clock()",
    "clock_hi": "(tkjit_ptx::clock() >> 32)",
    "clock64": "tkjit_ptx::clock()",
    "globaltimer": "tkjit_ptx::globaltimer()",
    "globaltimer_lo": "tkjit_ptx::globaltimer()",
    "globaltimer_hi": "(tkjit_ptx::globaltimer() >> 32)",
    "dynamic_smem_size": "tkjit_ptx::dynamic_smem_size()",
    "total_smem_size": "tkjit_ptx::total_smem_size()",
    "lanemask_eq": "(1u << tkjit_ptx::laneid())",
    "lanemask_lt": "((1u << tkjit_ptx::laneid()) - 1)",
    "lanemask_le": "((2u << tkjit_ptx::laneid()) - 1)",
    "lanemask_gt": "~((2u << tkjit_ptx::laneid()) - 1)",
    "lanemask_ge": "~((1u << tkjit_ptx::laneid()) - 1)",
    **{f"cluster_ctaid.{axis}": f"::tkjit::sim::block_in_cluster().{axis}" for axis in "xyz"},
    **{f"cluster_nctaid.{axis}": f"::tkjit::sim::cluster_dims().{axis}" for axis in "xyz"},
    **{f"clusterid.{axis}": f"::tkjit::sim::cluster_index().{axis}" for axis in "xyz"},
    **{f"nclusterid.{axis}": f"::tkjit::sim::clusters_in_grid().{axis}" for axis in "xyz"},
    "cluster_ctarank": "::tkjit::sim::cluster_rank()",
    "cluster_nctarank": "::tkjit::sim::cluster_size()",
    "is_explicit_cluster": "(::tkjit::sim::cluster_size() > 1)",
}
