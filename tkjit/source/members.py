"""Explains a compiler's first error: an unknown member, an undeclared name, and a few other common mistakes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from tkjit.source.entries import kernel_functions

# matches errors of g++, clang, nvcc and NVRTC
_NO_MEMBER = re.compile(
    r"(?:\W(?:const )?(?:struct |class )?(?P<owner>[\w:]+)(?:<[^\n]*>)?\W+has no member (?:named )?\W?(?P<name>\w+)"
    r"|no member named \W(?P<named>\w+)\W in \W(?P<of>[\w:]+))"
)
_UNKNOWN = re.compile(
    r"\W(?P<name>\w+)\W (?:was not declared|does not name a type|has not been declared)"
    r"|(?:undeclared identifier|unknown type name) \W(?P<named>\w+)"
    r'|identifier "(?P<identifier>\w+)" is undefined'
)
# Maps errors of g++, clang, nvcc and NVRTC to the remedy in a spec's terms.
_COMMON = (
    (
        r"redefinition of \W(?:struct )?Globals\b|\"Globals\" has already been defined",
        'the source defines Globals, which tkjit renders; remove it, or use the source\'s own with struct="Globals"',
    ),
    (
        r"ambiguous.*\b(?:__nv_bfloat16|__half|half)\b|more than one (?:conversion|operator).*(?:__half|__nv_bfloat16)",
        "convert a 16-bit number before computing with it: float(g.x[i])",
    ),
    (
        r"expected .{0,12}\W;\W (?:before|after|at end)|expected a \";\"",
        "a semicolon is missing on this line, or at the end of the line before",
    ),
    (
        r"storage size of \W\w+\W isn.t constant|variable length array.* cannot have .*storage duration",
        "an array's size must be a number, a constant or a template parameter; shared memory of another size is "
        'extern __shared__ float tile[]; and shared_memory="4 * N" in the spec, in bytes',
    ),
    (
        r"no match for call to .{0,3}const tkjit::gl<",
        "index a layout with g.x[i], g.x(row, col) or g.x(batch, depth, row, col); with three dims, the batch is 0",
    ),
    (
        r"call of overloaded \W(?:max|min|pow|fmod)\(|call to \W(?:max|min|pow)\W is ambiguous"
        r"|more than one instance of overloaded function \"(?:max|min|pow)",
        "the arguments must have the same type, as in max(float(g.x[i]), 0.f)",
    ),
    (
        r"missing terminating (?:'\"'|\") character",
        'a string literal contains a line break; write CUDA code with backslashes in a raw Python string, r"""..."""',
    ),
    (r"stray .#. in program", "a comment in CUDA begins with //, as in C++"),
    (
        r"\Wg\W is not a constant expression",
        "a value that the compiler must know has to be a variant: "
        'variants={"causal": (False, True)}, a parameter causal: bool, and template <bool causal>',
    ),
    (
        r"ConfiguredKernel<.*\bGlobals>",
        "the source launches the kernel itself, in a host function; remove that, because the spec launches the kernel",
    ),
    (
        r"operand types are.*\b(?:uint3|dim3)\b",
        "blockIdx, threadIdx, blockDim and gridDim have three members: blockIdx.x * blockDim.x + threadIdx.x",
    ),
    (
        r"return-statement with a value, in function returning .void|void function.*should not return a value",
        "a void function, such as a kernel, returns nothing; a kernel writes to the elements of an output",
    ),
    (
        r"\W->\W has non-pointer type .*\b(?:gl|strided)<",
        "a layout is not a pointer; write g.x.cols() with a dot, g.x[i] for an element, and g.x.raw_ptr for a pointer "
        "to the first element",
    ),
)
# Maps declarations to their header, which tkjit includes only if a field has one of the header's types.
_HEADERS = {
    r"__half2?|half2?|__float2half.*|__half2float|__h\w+": "cuda_fp16.h",
    r"__nv_bfloat162?|nv_bfloat162?|__float2bfloat16.*|__bfloat162float": "cuda_bf16.h",
    r"__nv_fp8\w*": "cuda_fp8.h",
    r"curand\w*": "curand_kernel.h",
    r"cooperative_groups": "cooperative_groups.h",
}
_UNSYNCED = re.compile(r"__(?:shfl|shfl_up|shfl_down|shfl_xor|any|all|ballot)")  # removed from CUDA
_LAYOUTS = {
    "gl": "a global layout has no {}; it has rows() and cols(), the last two extents, depth(), batch(), numel(), "
    "raw_ptr, and elements g.x[i]",
    "strided": "a strided layout has no {}; it has extent(i), stride(i), numel(), raw_ptr, and elements g.x(i, j)",
}


def why_no_member(text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str], log: str) -> str:
    """Explain the compiler's first error, such as a missing member or an undeclared name; empty for most others.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        The spec's entry, such as ``relu<T>``.
    fields : sequence of str
        The members of the rendered struct.
    dims : mapping
        Maps each dim of the spec to the expression by which a kernel reads it, such as ``g.x.rows()``, or to an empty
        string if there is none.
    log : str
        The compiler's output.

    Examples
    --------
    >>> source = "__global__ void a(Globals g) {} __global__ void b(Globals g) {}"
    >>> log = 'a.cu(2): error: class "Globals" has no member "z"'
    >>> why_no_member(source, "a", ["x", "y"], {"N": "g.x.cols()"}, log)[:38]
    'Globals has no field z; it has x, y. E'
    """
    errors = (line for line in log.splitlines() if re.search(r"\berror\b", line))
    # "variable or field declared void" is only a consequence of the error after it
    line = next((line for line in errors if "declared void" not in line), "")[:1000]
    if remedy := next((remedy for pattern, remedy in _COMMON if re.search(pattern, line)), ""):
        return remedy
    if (unknown := _UNKNOWN.search(line)) is not None:
        name = unknown["name"] or unknown["named"] or unknown["identifier"]
        parameters = [" ".join(kernel.parameters) for kernel in kernel_functions(text) if len(kernel.parameters) == 1]
        if (
            fields
            and any(re.search(rf"\b{name} \w+$", parameter) for parameter in parameters)
            and name not in (*fields, "Globals")
        ):
            return f"the struct that tkjit renders is called Globals, not {name}"
        known = _why_unknown(name, fields, dims)
        if known or "did you mean" in line:  # the compiler itself suggests a name
            return known
        return _undeclared(name, text, entry.partition("<")[0], fields, dims)
    match = _NO_MEMBER.search(line)
    owner = (match["owner"] or match["of"]).rpartition("::")[2] if match else ""
    if match and owner in _LAYOUTS:
        members = _LAYOUTS[owner].format(match["name"] or match["named"])
        return f"{members}; the device API in the documentation has all of its members"
    if match is None or owner != "Globals":
        return ""
    return _why_no_field(match["name"] or match["named"], text, entry.partition("<")[0], fields, dims)


def _why_no_field(name: str, text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """Explain what the source probably meant by a member that the struct does not have."""
    own = f"Globals has no field {name}; it has {', '.join(fields)}"
    if name in dims:
        computed = f'computed={{"{name}": "{name}"}}'
        read = f"read it from a tensor, {dims[name]}, or " if dims[name] else ""
        own = f"{name} is a dim, not a field; {read}add {computed}"
    elif near := difflib.get_close_matches(name, fields, 1):
        own += f"; did you mean g.{near[0]}?"
    others = [
        other_kernel.name
        for other_kernel in kernel_functions(text)
        if other_kernel.name != entry and "Globals" in " ".join(other_kernel.parameters)
    ]
    if not others:
        return own
    kernels = f"Each kernel has its own Globals, but the source also has {', '.join(others)}"
    return f"{own}. {kernels}; put each kernel in its own file, or let both take plain arguments with args=True"


def _undeclared(name: str, text: str, entry: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """Explain what the source probably meant by an undeclared variable."""
    # a use as a variable in the source: not as a function or a type, and not in a header
    is_variable = re.search(rf"\b{name}\b(?!\s*[(<:\w&*])|(?:[=+\-/%?[]|\breturn)\s*{name}\b(?!\s*[(<:\w])", text)
    dim = next((one for one in dims if one.casefold() == name.casefold()), "")
    is_macro = name.isupper() and len(name) > 1 and not dim
    if not is_variable or is_macro:  # the compiler's own error is more helpful
        return ""
    if fields:
        near = difflib.get_close_matches(name, fields, 1)
        meant = f"did you mean g.{near[0]}? " if near else ""
        extent = f"the spec's {dim} is an extent of its tensor; " if dim and not near else ""
        members = ", ".join(f"g.{one}" for one in fields)
        extents = f"g.{fields[0]}.numel() or g.{fields[0]}.cols()"
        return f"{name} is not declared; {meant}{extent}a kernel can use {members}, and extents such as {extents}"
    kernel = next((one for one in kernel_functions(text) if one.name == entry), None)
    if kernel is None or not dim:
        return ""
    parameter = f"pass the spec's {dim} to it as a parameter, {name}: int"
    return f"{name} is not declared; the kernel is {kernel}; {parameter}"


def _why_unknown(name: str, fields: Sequence[str], dims: Mapping[str, str]) -> str:
    """Explain an undeclared name that the spec, CUDA or a CUDA header knows; empty for any other name."""
    if name == "Globals":
        return "no struct Globals is rendered for plain arguments; leave args=True out"
    if name == "TODO":
        return "the spec still contains TODO"
    if name in fields:
        return f"{name} is a field of the struct: g.{name}, if the kernel's parameter is g"
    if name in dims and fields:
        as_field = f'as g.{name}, with computed={{"{name}": "{name}"}}'
        return f"{name} is a dim of the spec; read it {f'from its tensor: {dims[name]}' if dims[name] else as_field}"
    if _UNSYNCED.fullmatch(name):
        synced = f"{name}_sync, whose first argument is the mask of the lanes that take part"
        return f"{name} has become {synced}: {name}_sync(0xffffffff, ...)"
    header = next((header for pattern, header in _HEADERS.items() if re.fullmatch(pattern, name)), "")
    return f"{name} is declared in a header: #include <{header}>" if header else ""
