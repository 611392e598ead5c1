"""The options of ``tkjit.kernel`` and ``Kernel.overload``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tkjit.errors import SpecError
from tkjit.spec.advice import advice_on_entry, advice_on_option
from tkjit.spec.annotations import CExpr
from tkjit.spec.headers import HeaderLibrary

if TYPE_CHECKING:
    from typing_extensions import Required


class Options(TypedDict, total=False):
    """A kernel's options, except its source; ``tkjit.kernel`` documents them."""

    entry: Required[str]
    # the launch
    grid: str | int | tuple[str | int, ...] | CExpr
    block: str | int | tuple[str | int, ...] | CExpr
    shared_memory: str | int | CExpr
    cluster: int | Sequence[int]
    pdl: bool
    cooperative: bool
    config: str
    # variants and dims
    variants: Mapping[str, Sequence[str | int] | str | int]
    dims: Mapping[str, str | int]
    computed: Mapping[str, str | int]
    constraints: Sequence[str] | str
    tune: Mapping[str, Sequence[int] | int]
    # the entry's arguments
    struct: str
    fields: str
    trailing: str
    args: bool
    host: bool
    schema: str
    schema_from: str | Path
    num_devices: int
    # sources and compilation
    archs: Mapping[str, str | Path]
    cpu: str | Path
    headers: str | HeaderLibrary | Sequence[str | HeaderLibrary]
    flags: Sequence[str] | str
    defines: Mapping[str, object]
    include_dirs: Sequence[str | Path] | str | Path
    libraries: Sequence[str] | str
    std: str
    symbols: str
    compiler: Literal["nvcc", "nvrtc"]
    # PyTorch
    backward: str | Callable[..., Any]
    autocast: Literal["lower", "float32"]
    deprecated: str
    # verification
    examples: Sequence[Mapping[str, int | float | str | None]] | Mapping[str, int | float | str | None]
    prepare: Callable[[dict[str, Any]], Mapping[str, Any] | None]
    zeroed: str
    tolerance: float
    unchecked: str
    # benchmarks
    flops: str | int
    sizes: Sequence[Mapping[str, int | float | str | None]] | Mapping[str, int | float | str | None]
    peers: Mapping[str, Callable[..., Any]]


def check_options(kernel: str, options: Mapping[str, Any], source: object = None) -> None:
    """Reject unknown options, options of the wrong type, and a spec without an entry.

    Raises
    ------
    SpecError
        If an option is wrong; for an unknown one, the message lists the options that exist.
    """
    known = Options.__annotations__
    for option in options:
        if option not in known:
            advice = advice_on_option(option, known)
            raise SpecError(f"{kernel}: tkjit.kernel has no option {option!r}{advice}; it has {', '.join(known)}")
    if not isinstance(options.get("entry", ""), str):
        raise SpecError(f"{kernel}: entry is {options['entry']!r}; expected the name of a __global__ function")
    if not isinstance(options.get("variants") or {}, Mapping):
        wanted = 'expected the choices of each parameter: {"T": ("float32", "bfloat16")}'
        raise SpecError(f"{kernel}: variants is {options['variants']!r}; {wanted}")
    if "entry" not in options:
        raise SpecError(
            f"{kernel}: entry= is missing; expected the name of a __global__ function{advice_on_entry(source)}"
        )
