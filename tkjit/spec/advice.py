"""Suggestions for errors in specs: what the author probably meant, and what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

from tkjit.spec.dtypes import BY_NAME

# Maps dtype names of C++, NumPy and other loaders to tkjit's names.
_DTYPES = {
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
    "uint": "uint32",
    "fp8": "float8_e4m3fn",
}
_OPTIONS = {
    "shared": "shared_memory",
    "smem": "shared_memory",
    "shared_mem": "shared_memory",
    "dynamic_shared_memory": "shared_memory",
    "blocks": "grid (how many blocks) or block (the threads of one)",
    "num_blocks": "grid",
    "threads": "block",
    "num_threads": "block",
    "block_size": "block",
    "kernel": "entry",
    "name": "entry",
    "function": "entry",
    "types": "variants",
    "dtypes": "variants",
    "templates": "variants",
    "template_args": "variants",
    "includes": "include_dirs",
    "include": "include_dirs",
    "include_paths": "include_dirs",
    "macros": "defines",
    "arch": "archs",
    "grad": "backward",
    "vjp": "backward",
    "plain": "args",
}
_TORCH_EXTENT = re.compile(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))")


def _near(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is most similar to ``name``, or an empty string if none is similar."""
    import difflib  # only errors need it

    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), "")


def advice_on_dtype(name: str, variants: Iterable[str], dims: Iterable[str] = ()) -> str:
    """Suggest a dtype in place of an unknown one; the text ends with punctuation, so a list of dtypes can follow.

    ``dims`` are the dims of the spec's tensors. If one of them is where a dtype should be, the dtype was forgotten.

    >>> advice_on_dtype("fp16", []), advice_on_dtype("T", [])
    ('; did you mean "float16"?', '; a template parameter is a variant: variants={"T": ("float32", "bfloat16")};')
    """
    known = [*variants, *BY_NAME]
    if near := _DTYPES.get(name) or _near(name, known):
        return f'; did you mean "{near}"?'
    if name in dims or name.startswith("..."):
        return f'; the dtype comes before the dims: [Tensor, "float32", "{name}", ...];'
    if re.fullmatch(r"[A-Z]\w*", name):
        return f'; a template parameter is a variant: variants={{"{name}": ("float32", "bfloat16")}};'
    return ";"


def advice_on_option(name: str, known: Iterable[str]) -> str:
    """Suggest an option in place of an unknown one: ``; did you mean shared_memory?``."""
    near = _OPTIONS.get(name) or _near(name, known)
    return f"; did you mean {near}?" if near else ""


def advice_on_entry(source: object) -> str:
    """List the kernels of a source that is given as text: ``; the source has relu: entry="relu"``.

    >>> advice_on_entry("__global__ void __launch_bounds__(256) relu(Globals g) {}")
    '; the source has relu: entry="relu"'
    """
    if not isinstance(source, str) or "__global__" not in source:
        return ""
    plain = re.sub(r"//[^\n]*|/\*[\s\S]*?\*/|__\w+__\s*\([^)]*\)", "", source)
    names = list(dict.fromkeys(re.findall(r"__global__[^({;]*?(\w+)\s*\(", plain)))
    if len(names) == 1:
        return f'; the source has {names[0]}: entry="{names[0]}"'
    return f"; the source has {', '.join(names)}" if names else ""


def advice_on_expression(node: ast.expr) -> str:
    """Suggest an expression in place of a construct that the expression language lacks.

    >>> advice_on_expression(ast.parse("x.shape[0]", mode="eval").body)
    ': name the dim, x: In[Tensor, ..., "N"], and use N'
    """
    text = ast.unparse(node)
    if isinstance(getattr(node, "op", None), ast.Div):
        return ": use // (rounds down) or cdiv (rounds up)"
    if match := _TORCH_EXTENT.fullmatch(text):
        return f': name the dim, {match[1]}: In[Tensor, ..., "N"], and use N'
    if match := re.fullmatch(r"(\w+)\.(numel|stride|rows|cols|depth|batch)\(\)", text):
        return f": {match[1]}.{match[2]}, without parentheses" if match[2] != "stride" else ""
    if match := re.fullmatch(r"(?:math\.)?ceil\((.+) / (.+)\)", text):
        return f": cdiv({match[1]}, {match[2]})"
    if match := re.fullmatch(r"(?:triton\.|tl\.)cdiv\((.+)\)", text):
        return f": cdiv({match[1]})"
    if isinstance(node, (ast.Tuple, ast.List)):
        return ': list dims one after the other: In[Tensor, "float32", "M", "N"]'
    return ""


def advice_on_annotation(name: str, annotation: Any) -> str:
    """Suggest an annotation for a parameter that is annotated with ``Tensor`` alone."""
    written = getattr(annotation, "__name__", "")
    if written == "Tensor":
        return f'; annotate a tensor with its dtype and dims, {name}: In[Tensor, "float32", "N"], or InOut or Out'
    return ""


def advice_on_dim(name: str, where: str, text: str, known: Set[str], inputs: Iterable[str]) -> str:
    """Suggest how to define a dim that an expression uses but no argument defines.

    Parameters
    ----------
    name : str
        The dim.
    where, text : str
        The place of the expression that uses the dim, such as ``"x's dims"``, and the expression itself.
    known : set of str
        The names that expressions can use.
    inputs : iterable of str
        The tensors that a call passes.

    Examples
    --------
    >>> advice_on_dim("D", "x's dims", "2 * D", {"N"}, ["x"])
    '; name the whole dim "D_all", and add dims={"D": "D_all // 2"}'
    """
    if name.lower() in ("zero", "zeros", "zeroed") and where.endswith("'s dims"):
        return "; to zero an output before the launch, use the marker Zero, without quotes: from tkjit import Zero"
    multiple = re.fullmatch(rf"(\d+) \* {name}|{name} \* (\d+)", text)
    if multiple and where in [f"{one}'s dims" for one in inputs]:
        full_dim = f"{name}_all"
        while full_dim in known:
            full_dim += "_"
        dims = f'dims={{"{name}": "{full_dim} // {multiple[1] or multiple[2]}"}}'
        return f'; name the whole dim "{full_dim}", and add {dims}'
    if near := _near(name, [one for one in known if "." not in one]):
        return f"; did you mean {near}?"
    return f'; to compute it from other dims, add dims={{"{name}": ...}}'


def near_file(path: Path) -> str:
    """Suggest a file in place of a missing file: a file with a similar name, or the only file with that suffix."""
    try:
        siblings = sorted(file.stem for file in path.parent.iterdir() if file.suffix == path.suffix)
    except OSError:
        return ""
    near = _near(path.stem, siblings, 0.5) or (siblings[0] if len(siblings) == 1 else "")
    return f"; did you mean {near}{path.suffix}?" if near else ""


_SPEC_LINE = re.compile(r"\b(?:In|InOut|Out|Scratch)\s*\[|\b(?:grid|block|shared_memory|dims|variants|constraints)\s*=")


def name_without_quotes(error: BaseException, line: str = "") -> str:
    """Suggest quotes around an undefined name if it is a dtype, or in capitals like most dims and variants.

    Parameters
    ----------
    line : str, optional
        The line that uses the name. If the line does not look like part of a spec, nothing is suggested.
    """
    name = (error.name or "") if isinstance(error, NameError) else ""
    if line and not _SPEC_LINE.search(line):
        return ""
    if name in BY_NAME or name in _DTYPES:
        return f'; write dtypes as strings: "{_DTYPES.get(name, name)}"'
    return f'; write dims as strings: "{name}", "cdiv({name}, 256)"' if name.isupper() else ""
