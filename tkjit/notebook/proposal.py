"""Proposes the Python part of a cell that contains only CUDA."""

from __future__ import annotations

import re

from tkjit.errors import SpecError
from tkjit.importer.dtypes import annotation_of, dtype_of_cpp
from tkjit.source.entries import KernelFunction, kernel_functions, template_names

# Maps type names in sources to the names that clang reports.
_TYPEDEFS = {
    "half": "__half",
    "nv_bfloat16": "__nv_bfloat16",
    "int8_t": "signed char",
    "int32_t": "int",
    "int64_t": "long",
    "uint8_t": "unsigned char",
}


def entry_of(source: str, name: str) -> str:
    """Return the entry of a source's only kernel, or of the kernel that has the function's name.

    Raises
    ------
    SpecError
        If there is no kernel, or there are several and none has that name.
    """
    found = list(kernel_functions(source))
    named = [candidate for candidate in found if candidate.name == name] or found
    if len(named) != 1:
        has = f"it has {', '.join(map(str, found))}; choose one with entry=" if found else "it has none"
        raise SpecError(f"{name}: the cell's source needs one __global__ function; {has}")
    (kernel,) = named
    names = template_names(kernel.template) if kernel.template else []
    return f"{kernel.name}<{', '.join(names)}>" if names else kernel.name


def propose(source: str) -> str:
    """Propose a function for the first kernel of a source.

    Raises
    ------
    SpecError
        If the source has no kernel.

    Examples
    --------
    >>> print(propose("__global__ void twice(const float* x, float* y, int n) {}"))
    @tkjit.kernel(grid="cdiv(n, 256)", block=256, args=True)
    def twice(x: In[Tensor, "float32", "..."], y: InOut[Tensor, "float32", "..."], n: int): ...
    """
    kernel = next(kernel_functions(source), None)
    if kernel is None:
        raise SpecError("the cell has no __global__ function")
    parameters = [_parameter(parameter) for parameter in kernel.parameters]
    takes_struct = any("Globals" in parameter for parameter in kernel.parameters)
    names = ["x", "y"] if takes_struct else [name for name, _ in parameters]
    if takes_struct:
        parameters = [("x", 'In[Tensor, "float32", "..."]'), ("y", 'Out[Tensor, "float32", "..."]')]
    size = next((name for name, kind in parameters if kind == "int"), f"{names[0]}.numel" if names else "1")
    variants = "".join(f', variants={{"{name}": ("float32", "bfloat16")}}' for name in _types_of(kernel))
    args = "" if takes_struct else ", args=True"
    signature = ", ".join(f"{name}: {kind}" for name, kind in parameters)
    return (
        f'@tkjit.kernel(grid="cdiv({size}, 256)", block=256{variants}{args})\n'
        f"def {kernel.name.rpartition('::')[2]}({signature}): ..."
    )


def _parameter(text: str) -> tuple[str, str]:
    """Return the name of a kernel's parameter, and an annotation for the parameter."""
    kind, name = re.fullmatch(r"(.*?)(\w+)(?:\[\d*\])?", text).groups()  # type: ignore[union-attr]
    base = " ".join(word for word in re.sub(r"[*&]", " ", kind).split() if word not in ("const", "volatile"))
    canonical = _TYPEDEFS.get(base, base)
    if "*" in kind:
        direction = "In" if re.match(r"\s*const\b|.*\bconst\s*\*", kind) else "InOut"
        return name, f'{direction}[Tensor, "{dtype_of_cpp(canonical) or base}", "..."]'
    return name, annotation_of(canonical) or f'Scalar[int, "{base}"]'


def _types_of(kernel: KernelFunction) -> list[str]:
    return re.findall(r"\b(?:typename|class) (\w+)", kernel.template)
