"""Describes an export: its kernels, targets, names and version."""

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
        A lower-case word, which is the prefix of its functions, files and packages.
    kernels : tuple of tuple of Spec
        The overloads of each kernel.
    targets : tuple of Target
        The targets to compile for.
    types : tuple of str
        Export only the variants of these dtypes; all variants if empty.
    version : str
        For example ``1.0``. Programs stay compatible with a library as long as the first number is the same.
    package : str
        The name of the Go package and the Rust crate; ``name`` if empty.

    Raises
    ------
    SpecError
        If a name, the version or a dtype is not valid, there are no kernels or targets, a kernel is named twice, or C
        has no type for a parameter.
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
                    f"{name!r} cannot be the {what} of an export: expected lower-case letters, digits and _, "
                    "starting with a letter, and not with tkjit, the prefix of the functions that all exports share"
                )
        if not _VERSION.fullmatch(self.version):
            raise SpecError(
                f"{self.version!r} cannot be the version of an export; expected a version such as 1.0 or 1.2.3"
            )
        if unknown := set(self.types) - BY_NAME.keys():
            raise SpecError(f"unknown dtype {', '.join(sorted(unknown))}; expected one of {', '.join(BY_NAME)}")
        if not self.kernels or not self.targets:
            raise SpecError(
                f"the export {self.name} has no {'targets' if self.kernels else 'kernels'}; name at least one"
            )
        names = [signature.name for signature in self.signatures]
        if len(set(names)) < len(names):
            raise SpecError(f"the export {self.name} names a kernel twice: {', '.join(names)}")

    @cached_property
    def signatures(self) -> tuple[CSignature, ...]:
        """The functions of all overloads."""
        return tuple(c_signature(spec, index) for specs in self.kernels for index, spec in enumerate(specs))

    def variants(self, spec: Spec) -> tuple[tuple[Variant, bool], ...]:
        """Return all variants of a spec in order, and for each variant whether the export includes it.

        Raises
        ------
        SpecError
            If the export includes none of them.
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
    """Return a library's interface: the version of its tensors, its own version, and a digest of each function.

    A program contains the interface of the header that it was compiled with. A library fits the program if the
    library's interface contains every word of the program's interface. So the library may have more functions, but all
    functions that the program knows must have the same declarations.

    Parameters
    ----------
    declarations : mapping
        The declarations of each function, by its name.
    """
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in declarations.items()}
    return " ".join(f"{name}={value}" for name, value in {"tensors": "1", "version": export.major, **digests}.items())


def documentation(signature: CSignature) -> list[str]:
    """Return the lines of a kernel's comment: its docstring, and its parameters unless the docstring describes them."""
    spec = signature.spec
    doc = spec.doc.strip().split("\n") if spec.doc.strip() else [f"{spec.name}."]
    if not any(line.strip() == "Parameters" for line in doc):
        doc += ["", *(f"{p.name} : {parameter_text(signature, p)}" for p in signature.parameters)]
    return [_for_comments(line) for line in doc]


def _for_comments(line: str) -> str:
    """Change a line so that it neither begins nor ends a comment, nor continues on the next line."""
    for ended, shown in (("/*", "/ *"), ("*/", "* /"), ("```", "~~~")):
        line = line.replace(ended, shown)
    return line.rstrip("\\ \t")


def parameter_text(signature: CSignature, p: CParameter) -> str:
    """Describe a parameter: ``(M, K) float32 or bfloat16``, ``int``."""
    f = p.field
    if p.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.TENSORS):
        many = f"1 to {f.max_length} tensors, each " if p.kind is Kind.TENSORS else ""
        written = {"inout": ", overwritten", "out": ", written"}.get(f.direction, "")
        return f"{many}{shape_text(f)} {join_options(signature.spec.dtypes_of(f))}{written}"
    if p.kind is Kind.SEED:
        return "the seed of random numbers, and the offset in their sequence at which the call begins, a multiple of 4"
    text = f.value_type.text if f.value_type else "int" if f.is_integer else "bool" if f.dtype == "bool" else "float"
    return text + (f"; defaults to {f.default!r} in Python" if p.has_default else "")


def shape_text(f: Field) -> str:
    """Return a tensor's dims as text: ``(M, K)``, ``(..., N)``."""
    dims = [*(["..."] if f.leading else []), *(dim.text for dim in f.dims)]
    return f"({dims[0]},)" if len(dims) == 1 and not f.leading else f"({', '.join(dims)})"


def names(signatures: Sequence[CSignature]) -> str:
    """Return the kernels' names as text: ``gemm, softmax and axpy``."""
    listed = list(dict.fromkeys(signature.spec.name for signature in signatures))
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
