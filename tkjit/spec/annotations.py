"""The annotations of kernels: ``In[Tensor, "T", "M", "K"]``.

At run time an annotation is ``typing.Annotated`` with a marker. Type checkers see plain tensors and numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tkjit.errors import SpecError


@dataclass(frozen=True)
class Align:
    """The pointer alignment, in bytes, that a kernel's vector loads need: ``In[Tensor, "T", "N", Align(16)]``."""

    bytes: int

    def __post_init__(self) -> None:
        if self.bytes <= 0 or self.bytes & (self.bytes - 1):
            raise SpecError(f"Align({self.bytes}): expected a power of two, in bytes")


@dataclass(frozen=True)
class CType:
    """A C++ type from another library for a field of the rendered struct: ``CType("gl<bf16, 1, 1, -1, 64>")``."""

    name: str


@dataclass(frozen=True)
class CExpr:
    """A C++ expression for launch values that only the source knows: ``grid=CExpr("matmul<2, 4>::grid(M, N, K)")``.

    The expression can use dims and integer parameters by name, as ``int``, and the filled struct as ``globals``.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise SpecError("CExpr: expected a C++ expression")

    @property
    def names(self) -> frozenset[str]:
        """All unqualified names: those that do not follow ``::`` or a dot."""
        return frozenset(re.findall(r"(?<![\w.:])[A-Za-z_]\w*", self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Member:
    """The struct member that a parameter fills, if the member is nested or has another name: ``Member("x.real")``.

    For a ``Constant``, this is the variable in the source: ``Member("mine::taps")``.
    """

    path: str

    def __post_init__(self) -> None:
        parts = self.path.split(".")
        if len(parts) > 2 or not all(part.isidentifier() for part in self.path.replace("::", ".").split(".")):
            raise SpecError(f"Member({self.path!r}): expected a member, or a nested one, as in Member('x.real')")


@dataclass(frozen=True)
class MaxLength:
    """The maximum length of a list in a kernel's struct: ``In[list[Tensor], "T", "N", MaxLength(32)]``."""

    items: int

    def __post_init__(self) -> None:
        if not 1 <= self.items <= 256:
            raise SpecError(f"MaxLength({self.items}): expected 1 to 256 items")


@dataclass(frozen=True)
class Fill:
    """The value that fills an output or scratch before the kernel runs: ``Out[Tensor, "T", "N", Fill(1)]``."""

    value: float


Zero = Fill(0)


@dataclass(frozen=True)
class Marker:
    """The metadata of an annotation: the direction, such as ``"inout"``, and the items after the type."""

    direction: str
    items: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The marker as annotations spell it: ``InOut``."""
        return {"inout": "InOut"}.get(self.direction, self.direction.title())


class _TensorMarker:
    def __init_subclass__(cls, *, direction: str) -> None:
        cls._direction = direction

    _direction: str

    def __new__(cls, *items: Any) -> Any:
        raise SpecError(f'{cls.__name__} is written with square brackets: {cls.__name__}[Tensor, "float32", "N"]')

    def __class_getitem__(cls, items: Any) -> Any:
        python_type, *rest = items if isinstance(items, tuple) else (items,)
        return Annotated[python_type, Marker(cls._direction, tuple(rest))]


if TYPE_CHECKING:
    from typing import Annotated as Constant
    from typing import Annotated as In
    from typing import Annotated as InOut
    from typing import Annotated as Out
    from typing import Annotated as Scalar
    from typing import Annotated as Scratch

    from torch import Tensor

    Strided = Tensor
else:

    class In(_TensorMarker, direction="in"):
        """A tensor that the kernel reads: ``In[Tensor, dtype, *dims]``."""

    class Constant(_TensorMarker, direction="constant"):
        """A tensor that is copied into the ``__constant__`` variable of the same name before each launch."""

    class InOut(_TensorMarker, direction="inout"):
        """A tensor that the kernel reads and writes in place."""

    class Out(_TensorMarker, direction="out"):
        """A tensor that the kernel writes. The call allocates it from its dims unless the caller passes one."""

    class Scratch(_TensorMarker, direction="scratch"):
        """Temporary memory for one call, allocated from its dims; callers never pass it or get it back."""

    class Scalar(_TensorMarker, direction="scalar"):
        """A number with an explicit C++ type: ``Scalar[int, "uint32_t"]``."""

    class Tensor:
        """A global layout; type checkers see ``torch.Tensor``."""

    class Strided:
        """A tensor with any strides and up to 8 dims; type checkers see ``torch.Tensor``."""


if TYPE_CHECKING:
    Struct = Any
else:

    class Struct:
        """A struct passed by value: ``Scalar[Struct, "float3"]``. For a source's struct, list its members in order."""


if TYPE_CHECKING:
    from torch import Generator
else:

    class Generator:
        """Random numbers, in C++ a ``tkjit::philox``. With ``In[Generator, 8]``, a thread may draw up to 8."""


if TYPE_CHECKING:
    from torch import dtype as DType
else:

    class DType:
        """A ``torch.dtype``, for a spec that does not import torch."""


class ParallelLayout:
    """The base class of arguments for a parallel global layout, such as ``tkjit.ParallelTensor``."""

    tensor: Any  # this process's part


__all__ = [
    "Align",
    "CExpr",
    "CType",
    "Constant",
    "DType",
    "Fill",
    "Generator",
    "In",
    "InOut",
    "Marker",
    "MaxLength",
    "Member",
    "Out",
    "ParallelLayout",
    "Scalar",
    "Scratch",
    "Strided",
    "Struct",
    "Tensor",
    "Zero",
]
