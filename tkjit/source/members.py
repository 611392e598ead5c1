"""Explains a compiler's first error: a name that it has not found, a member's or a header's, and a few others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from tkjit.source.entries import kernel_functions

# g++, clang, nvcc and NVRTC
_NO_MEMBER = re.compile(
    r"(?:\W(?:const )?(?:struct |class )?(?P<owner>[\w:]+)(?:<[^\n]*>)?\W+has no member (?:named )?\W?(?P<name>\w+)"
    r"|no member named \W(?P<named>\w+)\W in \W(?P<of>[\w:]+))"
)
_UNKNOWN = re.compile(
    r"\W(?P<name>\w+)\W (?:was not declared|does not name a type|has not been declared)"
    r"|(?:undeclared identifier|unknown type name) \W(?P<named>\w+)"
    r'|identifier "(?P<identifier>\w+)" is undefined'
)
# what g++, clang, nvcc and NVRTC say, and what a spec says to it
_COMMON = (
    (
        r"redefinition of \W(?:struct )?Globals\b|\"Globals\" has already been defined",
        'the source defines Globals, which tkjit renders: leave it out, or take the source\'s own, struct="Globals"',
    ),
    (
        r"ambiguous.*\b(?:__nv_bfloat16|__half|half)\b|more than one (?:conversion|operator).*(?:__half|__nv_bfloat16)",
        "a number of 16 bits is converted before it is computed with: float(g.x[i])",
    ),
    (
        r"expected .{0,12}\W;\W (?:before|after|at end)|expected a \";\"",
        "a semicolon is missing, at the end of the line before or in this one",
    ),
    (
        r"storage size of \W\w+\W isn.t constant|variable length array.* cannot have .*storage duration",
        "an array's size is a number, a constant or a template parameter; shared memory of another size is "
        'extern __shared__ float tile[]; and shared_memory="4 * N" in the spec, in bytes',
    ),
    (
        r"no match for call to .{0,3}const tkjit::gl<",
        "a layout is indexed by g.x[i], g.x(row, col) or g.x(batch, depth, row, col); of three dims the batch is 0",
    ),
    (
        r"call of overloaded \W(?:max|min|pow|fmod)\(|call to \W(?:max|min|pow)\W is ambiguous"
        r"|more than one instance of overloaded function \"(?:max|min|pow)",
        "the numbers have to be of one type, as in max(float(g.x[i]), 0.f)",
    ),
    (
        r"missing terminating (?:'\"'|\") character",
        'a text has a line break in it: a Python string with a backslash in its CUDA is r"""..."""',
    ),
    (r"stray .#. in program", "a comment in CUDA begins with //, as in C++"),
    (
        r"\Wg\W is not a constant expression",
        'what the compiler has to know is a variant: variants={"causal": (False, True)}, a parameter causal: bool, and '
        "template <bool causal>",
    ),
    (
        r"ConfiguredKernel<.*\bGlobals>",
        "the source launches the kernel itself, in a function of the host: leave that out; the spec launches it",
    ),
    (
        r"operand types are.*\b(?:uint3|dim3)\b",
        "blockIdx, threadIdx, blockDim and gridDim have three members: blockIdx.x * blockDim.x + threadIdx.x",
    ),
    (
        r"return-statement with a value, in function returning .void|void function.*should not return a value",
        "a void function, as a kernel is one, returns nothing: a kernel writes to the elements of an output",
    ),
    (
        r"\W->\W has non-pointer type .*\b(?:gl|strided)<",
        "a layout is no pointer: g.x.cols() has a dot, an element is g.x[i], and g.x.raw_ptr points to the first",
    ),
)
# what a header declares that tkjit includes only for a field of its type
_HEADERS = {
    r"__half2?|half2?|__float2half.*|__half2float|__h\w+": "cuda_fp16.h",
    r"__nv_bfloat162?|nv_bfloat162?|__float2bfloat16.*|__bfloat162float": "cuda_bf16.h",
    r"__nv_fp8\w*": "cuda_fp8.h",
    r"curand\w*": "curand_kernel.h",
    r"cooperative_groups": "cooperative_groups.h",
}
_UNSYNCED = re.compile(r"__(?:shfl|shfl_up|shfl_down|shfl_xor|any|all|ballot)")  # which CUDA no longer has
_LAYOUTS = {
    "gl": "a global layout has no {}; it has rows() and cols(), the last two extents, depth(), batch(), numel(), "
    "raw_ptr, and elements g.x[i]",
    "strided": "a strided layout has no {}; it has extent(i), stride(i), numel(), raw_ptr, and elements g.x(i, j)",
}


def why_no_member(text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str], log: str) -> str:
    """What the compiler's first error means: which members there are, what an undeclared name is. Empty of most others.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        As the spec has it: ``relu<T>``.
    fields : sequence of str
        The members of the struct that is rendered.
    dims : mapping
        By each dim of the spec how a kernel asks for it, ``g.x.rows()``; empty where it cannot.
    log : str
        What the compiler has printed.

    Examples
    --------
    >>> source = "__global__ void a(Globals g) {} __global__ void b(Globals g) {}"
    >>> log = 'a.cu(2): error: class "Globals" has no member "z"'
    >>> why_no_member(source, "a", ["x", "y"], {"N": "g.x.cols()"}, log)[:38]
    'Globals has no field z; it has x, y. E'
    """
    errors = (line for line in log.splitlines() if re.search(r"\berror\b", line))
    line = next((line for line in errors if "declared void" not in line), "")[:1000]  # which follows from the next one
    if said := next((said for pattern, said in _COMMON if re.search(pattern, line)), ""):
        return said
    if (unknown := _UNKNOWN.search(line)) is not None:
        name = unknown["name"] or unknown["named"] or unknown["identifier"]
        parameters = [" ".join(one.parameters) for one in kernel_functions(text) if len(one.parameters) == 1]
        if fields and any(re.search(rf"\b{name} \w+$", one) for one in parameters) and name not in (*fields, "Globals"):
            return f"the struct that tkjit renders is called Globals, and not {name}"
        known = _why_unknown(name, fields, dims)
        if known or "did you mean" in line:  # the compiler has found it
            return known
        return _undeclared(name, text, entry.partition("<")[0], fields, dims)
    match = _NO_MEMBER.search(line)
    owner = (match["owner"] or match["of"]).rpartition("::")[2] if match else ""
    if match and owner in _LAYOUTS:
        said = _LAYOUTS[owner].format(match["name"] or match["named"])
        return f"{said}; docs/device-api.md describes all of its members"
    if match is None or owner != "Globals":
        return ""
    return _why_no_field(match["name"] or match["named"], text, entry.partition("<")[0], fields, dims)


def _why_no_field(name: str, text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """What a member of the struct probably is that it does not have."""
    own = f"Globals has no field {name}; it has {', '.join(fields)}"
    if name in dims:
        computed = f'computed={{"{name}": "{name}"}}'
        asks = f"a tensor has it, {dims[name]}, or " if dims[name] else ""
        own = f"{name} is a dim and no field: {asks}{computed}"
    elif near := difflib.get_close_matches(name, fields, 1):
        own += f"; did you mean g.{near[0]}?"
    others = [one.name for one in kernel_functions(text) if one.name != entry and "Globals" in " ".join(one.parameters)]
    if not others:
        return own
    return f"{own}. Each kernel has Globals of its own, and the source has {', '.join(others)} too: give each a file"


def _undeclared(name: str, text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """What a source could have meant by a name of its own that it does not declare."""
    # no header's, and no function or type
    is_variable = re.search(rf"\b{name}\b(?!\s*[(<:\w&*])|(?:[=+\-/%?[]|\breturn)\s*{name}\b(?!\s*[(<:\w])", text)
    dim = next((one for one in dims if one.casefold() == name.casefold()), "")
    is_macro = name.isupper() and len(name) > 1 and not dim
    if not is_variable or is_macro:  # the compiler says more
        return ""
    if fields:
        near = difflib.get_close_matches(name, fields, 1)
        meant = f"did you mean g.{near[0]}? " if near else ""
        extent = f"the spec's {dim} is an extent of its tensor; " if dim and not near else ""
        members = ", ".join(f"g.{one}" for one in fields)
        extents = f"g.{fields[0]}.numel() or g.{fields[0]}.cols()"
        return f"{name} is not declared; {meant}{extent}a kernel has {members}, and extents by {extents}"
    kernel = next((one for one in kernel_functions(text) if one.name == entry), None)
    if kernel is None or not dim:
        return ""
    reaches = f"the spec's {dim} reaches it as a parameter, {name}: int"
    return f"{name} is not declared; the kernel is {kernel}, and {reaches}"


def _why_unknown(name: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """What an undeclared name probably is."""
    if name == "Globals":
        return "no struct Globals is rendered for plain arguments: leave args=True out"
    if name == "TODO":
        return "the spec still says TODO"
    if name in fields:
        return f"{name} is a field of the struct: g.{name}, where the kernel's parameter is g"
    if name in dims and fields:
        asks = (
            f"its tensor for it: {dims[name]}" if dims[name] else f'for g.{name}, with computed={{"{name}": "{name}"}}'
        )
        return f"{name} is a dim of the spec; a kernel asks {asks}"
    if _UNSYNCED.fullmatch(name):
        return (
            f"{name} has become {name}_sync, which takes the lanes that take part first: {name}_sync(0xffffffff, ...)"
        )
    header = next((header for pattern, header in _HEADERS.items() if re.fullmatch(pattern, name)), "")
    return f"{name} is declared in a header: #include <{header}>" if header else ""
