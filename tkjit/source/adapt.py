"""Rewrites the parts of a CUDA source that keywords and macros alone cannot adapt to a host compiler.

* ``kernel<T><<<grid, block>>>(x)`` becomes ``TKJIT_SIM_LAUNCH(kernel<T>)(grid, block)(x)``.
* ``extern __shared__ T name[];`` becomes ``T (&name)[] = ::tkjit::sim::dynamic_shared;``. Outside of functions such a
  reference has no object to refer to, so it is declared in each function that uses the name.
* ``__shared__ alignas(16) T name`` becomes ``alignas(16) __shared__ T name``, the only order host compilers accept.
* ``cudaLaunchKernel((void*)kernel, ...)`` loses its cast, because the cast would hide the types of the kernel's
  parameters.
* ``(void*)kernel<T>`` elsewhere becomes ``::tkjit::sim::as_pointer(kernel<T>)``, so that the pointer can be launched.
* ``__cluster_dims__(2)`` leaves the head of a kernel, and a variable after its body tells the simulator.
* A call of a host function in device code becomes an error (``tkjit/source/host_calls.py``).
* ``__CUDA_ARCH__`` becomes a macro that is defined in device code, and another one that is undefined in host code
  (``tkjit/source/cuda_arch.py``).

Everything else stays unchanged, including comments, strings and line numbers. The new text uses definitions from
``tkjit/sim/detail/host_launch.h`` and ``tkjit/sim/detail/host_api.h``.
"""

from __future__ import annotations

import re
from collections.abc import Set

from tkjit.source.clusters import declared_clusters
from tkjit.source.cuda_arch import ARCH, architecture
from tkjit.source.entries import kernel_functions
from tkjit.source.host_calls import host_calls
from tkjit.source.launches import casts_of_kernels, kernels_as_pointers, launches
from tkjit.source.lexer import Token, apply_edits, macro_body, macros, tokens_of
from tkjit.source.shared_memory import alignments, dynamic_shared_memory

_CAST = re.compile(r"\bvoid\s*(?:const\s*)?\*\s*[)>]")


def adapt(text: str, used_by_host: Set[str] = frozenset(), *, for_gpus: bool = True) -> str:
    """Rewrite a source for the simulator, keeping its line numbers.

    Parameters
    ----------
    used_by_host : set of str
        The names from the source that host code outside the source uses.
    for_gpus : bool
        Whether the source is also compiled for GPUs. If so, host calls that nvcc rejects are rejected here as well.

    Examples
    --------
    >>> adapt("add<T><<<dim3(2), 32>>>(x); // add<<<1, 1>>>(x)")
    'TKJIT_SIM_LAUNCH(add<T>)(dim3(2), 32)(x); // add<<<1, 1>>>(x)'
    >>> adapt("__global__ void f() { extern __shared__ float tile[]; }")
    '__global__ void f() {   float (&tile)[] = ::tkjit::sim::dynamic_shared; }'
    """
    if not re.search(r"<<<|__shared__|cudaLaunch|alignas|__CUDA_ARCH__|__global__|__device__", text):
        return text
    tokens = tokens_of(text)
    edits = []
    kernels = set()
    if _CAST.search(text):
        kernels = {kernel.name.rpartition("::")[2] for kernel in kernel_functions(text)}
    for sequence in _sequences(tokens):
        edits += launches(sequence) + casts_of_kernels(sequence) + alignments(sequence)
        edits += kernels_as_pointers(sequence, kernels)
    edits += dynamic_shared_memory(tokens)
    if "__cluster_dims__" in text:
        edits += declared_clusters(text, tokens)
    if for_gpus:
        edits += host_calls(tokens)
    if ARCH in text:
        edits += architecture(tokens, used_by_host)
    return apply_edits(text, edits)


def _sequences(tokens: list[Token]) -> list[list[Token]]:
    """Split tokens into the sequences to search: the code without its directives, then each macro's body."""
    code = [token for token in tokens if token.kind != "directive"]
    return [code, *map(macro_body, macros(tokens))]
