"""Specs: immutable descriptions of kernels, and the reader of decorated functions."""

from tkjit.spec.annotations import (
    Align,
    CExpr,
    Constant,
    CType,
    Fill,
    Generator,
    In,
    InOut,
    MaxLength,
    Member,
    Out,
    ParallelLayout,
    Scalar,
    Scratch,
    Strided,
    Struct,
    Tensor,
    Zero,
)
from tkjit.spec.dtypes import BY_NAME, DTYPES, SCALAR_TYPES, DType
from tkjit.spec.headers import LIBRARIES, HeaderLibrary
from tkjit.spec.model import Compilation, Field, Launch, Operator, Parameters, Source
from tkjit.spec.options import Options
from tkjit.spec.read import spec_of_function
from tkjit.spec.spec import Spec
from tkjit.spec.variants import Variant, variants_of

__all__ = [
    "BY_NAME",
    "DTYPES",
    "LIBRARIES",
    "SCALAR_TYPES",
    "Align",
    "CExpr",
    "CType",
    "Compilation",
    "Constant",
    "DType",
    "Field",
    "Fill",
    "Generator",
    "HeaderLibrary",
    "In",
    "InOut",
    "Launch",
    "MaxLength",
    "Member",
    "Operator",
    "Options",
    "Out",
    "ParallelLayout",
    "Parameters",
    "Scalar",
    "Scratch",
    "Source",
    "Spec",
    "Strided",
    "Struct",
    "Tensor",
    "Variant",
    "Zero",
    "spec_of_function",
    "variants_of",
]
