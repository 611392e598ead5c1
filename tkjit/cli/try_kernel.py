"""Calls each kernel of an imported spec file once in the simulator, in a separate process.

The process runs ``python -m tkjit.cli.try_kernel FILE KERNEL SIZES`` and prints one readable line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import TkjitError

if TYPE_CHECKING:
    import torch

    from tkjit.spec import Spec

_TIMEOUT_S = 300
# Defaults for sizes that the source does not give. Kernels index with products of up to three integers, so a pointer
# gets an array of 32**3 elements.
_INTEGER, _POINTER = 32, 32**3
_LARGEST = 4096  # larger sizes are meant for a whole GPU and take too long in the simulator


def try_kernel(file: Path, name: str, sizes: Mapping[str, int]) -> str:
    """Call a kernel once, and return a line that describes the result.

    Parameters
    ----------
    file : Path
        The spec file.
    sizes : mapping
        The extents and integers found in the source. Defaults are used for those that were not found.
    """
    command = [sys.executable, "-m", "tkjit.cli.try_kernel", str(file), name, json.dumps(dict(sizes))]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{name}: did not end within {_TIMEOUT_S} s"
    printed = ended.stdout.strip() or ended.stderr.strip().rpartition("\n")[2]
    return printed if ended.returncode >= 0 else f"{name}: ended by signal {-ended.returncode}: {printed}".rstrip(": ")


def _run(file: Path, name: str, sizes: Mapping[str, int]) -> str:
    from tkjit.check.cases import cases_of
    from tkjit.kernel_objects.loading import kernel_of_file
    from tkjit.spec import variants_of

    kernel = kernel_of_file(file, name)
    spec = kernel.specs[0]
    case = cases_of(spec, variants_of(spec)[0], _sizes(spec, sizes), seed=0)[0]
    names = list(kernel.__signature__.parameters)
    allocated = [f.name for f in spec.fields if f.is_allocated]
    passed = {key: value for key, value in case.arguments.items() if key in names and key not in allocated}
    before = {key: value.clone() for key, value in passed.items() if _is_tensor(value)}
    returned = kernel(**passed)
    outputs = [] if returned is None else [returned] if _is_tensor(returned) else list(returned)
    written = dict(zip(spec.returns, outputs, strict=False))
    written |= {f.name: passed[f.name] for f in spec.fields if f.is_written and f.name in passed}
    call = ", ".join(f"{key}={_described(value)}" for key, value in passed.items())
    changes = [f"{key}: {_outcome(tensor, before.get(key))}" for key, tensor in written.items() if _is_tensor(tensor)]
    return f"{name}({call}): {'; '.join(changes) or 'it returned'}"


def _sizes(spec: Spec, found: Mapping[str, int]) -> dict[str, int]:
    """Return a value for each dim and each integer in a spec."""
    flat = {f.name: str(f.dims[0]) for f in spec.tensors if len(f.dims) == 1}
    pointers = {dim for name, dim in flat.items() if dim.startswith(f"{name}_size")}
    integers = [f.name for f in spec.fields if f.is_integer and f.name not in dict(spec.variants)]
    wanted = dict.fromkeys([*spec.dim_names, *integers], _INTEGER) | dict.fromkeys(pointers, _POINTER)
    known = {name: min(size, _LARGEST) for name, size in found.items() if name in wanted}
    return {name: size for name, size in (wanted | known).items() if name not in dict(spec.variants)}


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _described(value: Any) -> str:
    if not _is_tensor(value):
        return repr(value)
    return f"{'x'.join(map(str, value.shape)) or 'one'} {str(value.dtype).removeprefix('torch.')}"


def _outcome(tensor: torch.Tensor, before: torch.Tensor | None) -> str:
    """Describe a tensor that a kernel has written: how many elements changed, and the range of its values."""
    import torch

    if before is None:
        changed = f"{tensor.numel()} elements"
    else:
        same = torch.eq(before.view(torch.uint8), tensor.view(torch.uint8)).view(tensor.numel(), -1).all(1)
        changed = f"{int((~same).sum())} of {tensor.numel()} elements changed"
    if not tensor.dtype.is_floating_point or tensor.element_size() == 1:
        return changed
    values = tensor.float()
    finite = values[values.isfinite()]
    span = f", from {finite.min():.4g} to {finite.max():.4g}" if finite.numel() else ""
    unusual = values.numel() - finite.numel()
    return f"{changed}{span}{f', {unusual} not finite' if unusual else ''}"


if __name__ == "__main__":
    try:
        print(_run(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
    except TkjitError as error:
        lines = str(error).splitlines()
        print(f"{sys.argv[2]}: {next((line for line in lines if 'error: ' in line), lines[0])}")
