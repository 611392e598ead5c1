"""What an export is made of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tkjit.compile.targets import Target
from tkjit.errors import SpecError
from tkjit.spec import BY_NAME, Field, Spec, Variant, variants_of
from tkjit.spec.c_signature import CParameter, CSignature, Kind, c_signature
from tkjit.spec.signature import join_options

LANGUAGES = ("c", "cpp", "go", "rust")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Export:
    """A library of kernels.

    Parameters
    ----------
    name : str
        With which its functions, files and packages begin: a word in lower case.
    kernels : tuple of tuple of Spec
        The overloads of each kernel.
    targets : tuple of Target
        What it has code for.
    types : tuple of str
        Only variants of these dtypes; all if there is none.
    version : str
        ``1.0``: programs stay compatible with a library while the first number is the same.
    package : str
        The name of the Go package and of the Rust crate.

    Raises
    ------
    SpecError
        If a name or the version cannot be one, or C has no type for a parameter.
    """

    name: str
    kernels: tuple[tuple[Spec, ...], ...]
    targets: tuple[Target, ...]
    types: tuple[str, ...] = ()
    version: str = "1.0"
    package: str = ""

    def __post_init__(self) -> None:
        for what, name in (("name", self.name), ("package", self.package_name)):
            if not _NAME.fullmatch(name) or name.startswith("tkjit"):
                raise SpecError(
                    f"{name!r} cannot be the {what} of an export: expected letters in lower case, digits and _, "
                    "a letter first, and not tkjit, with which the functions begin that all exports have"
                )
        if not _VERSION.fullmatch(self.version):
            raise SpecError(f"{self.version!r} cannot be the version of an export; expected the like of 1.0 or 1.2.3")
        if unknown := set(self.types) - BY_NAME.keys():
            raise SpecError(f"unknown dtype {', '.join(sorted(unknown))}; known are {', '.join(BY_NAME)}")
        if not self.kernels or not self.targets:
            raise SpecError(
                f"the export {self.name} has no {'targets' if self.kernels else 'kernels'}; name one at least"
            )
        names = [signature.name for signature in self.signatures]
        if len(set(names)) < len(names):
            raise SpecError(f"the export {self.name} names a kernel twice: {', '.join(names)}")

    @cached_property
    def signatures(self) -> tuple[CSignature, ...]:
        """The functions of all overloads."""
        return tuple(c_signature(spec, index) for specs in self.kernels for index, spec in enumerate(specs))

    def variants(self, spec: Spec) -> tuple[tuple[Variant, bool], ...]:
        """All variants of a spec by their numbers, and whether the export has them.

        Raises
        ------
        SpecError
            If it has none.
        """
        kept = set(variants_of(spec, self.types))
        if not kept:
            raise SpecError(f"no variant of {spec.name} has only the dtypes {', '.join(self.types)}")
        return tuple((variant, variant in kept) for variant in variants_of(spec))

    @property
    def has_cuda(self) -> bool:
        return any(not target.is_cpu for target in self.targets)

    @property
    def major(self) -> str:
        return self.version.split(".")[0]

    @property
    def soname(self) -> str:
        return f"lib{self.name}.so.{self.major}"

    @property
    def package_name(self) -> str:
        return self.package or self.name


def interface_of(export: Export, declarations: Mapping[str, str]) -> str:
    """What a program asks of a library: the version of tensors, the library's own, and each function as it knows it.

    A library serves a program if it has all of the program's words: one with more functions does, one with another
    function of a name does not.

    Parameters
    ----------
    declarations : mapping
        The declarations of each function, by its name.
    """
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in declarations.items()}
    return " ".join(f"{name}={value}" for name, value in {"tensors": "1", "version": export.major, **digests}.items())


def documentation(signature: CSignature) -> list[str]:
    """What comments say of a kernel: its docstring, or what the spec knows; and what each parameter is."""
    spec = signature.spec
    doc = spec.doc.strip().split("\n") if spec.doc.strip() else [f"{spec.name}."]
    if not any(line.strip() == "Parameters" for line in doc):
        doc += ["", *(f"{p.name} : {parameter_text(signature, p)}" for p in signature.parameters)]
    return [_for_comments(line) for line in doc]


def _for_comments(line: str) -> str:
    """A line that ends no comment, begins none, and goes on to no other line."""
    for ended, shown in (("/*", "/ *"), ("*/", "* /"), ("```", "~~~")):
        line = line.replace(ended, shown)
    return line.rstrip("\\ \t")


def parameter_text(signature: CSignature, p: CParameter) -> str:
    """What a parameter is: ``(M, K) float32 or bfloat16``, ``an integer``."""
    f = p.field
    if p.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.TENSORS):
        many = f"1 to {f.max_length} tensors, each " if p.kind is Kind.TENSORS else ""
        written = {"inout": ", overwritten", "out": ", written"}.get(f.direction, "")
        return f"{many}{shape_text(f)} {join_options(signature.spec.dtypes_of(f))}{written}"
    if p.kind is Kind.SEED:
        return "the seed of random numbers, and where in their sequence the call begins: a multiple of 4"
    text = f.value_type.text if f.value_type else "int" if f.is_integer else "bool" if f.dtype == "bool" else "float"
    return text + (f"; {f.default!r} in Python if it is not given" if p.has_default else "")


def shape_text(f: Field) -> str:
    """``(M, K)``, ``(..., N)``."""
    dims = [*(["..."] if f.leading else []), *(dim.text for dim in f.dims)]
    return f"({dims[0]},)" if len(dims) == 1 and not f.leading else f"({', '.join(dims)})"


def names(signatures: Sequence[CSignature]) -> str:
    """``gemm, softmax and axpy``."""
    listed = list(dict.fromkeys(signature.spec.name for signature in signatures))
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
