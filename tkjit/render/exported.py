"""Renders the source of an exported library: C functions that make the same checks as the glue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tkjit.render.c_declarations import ITEMS, NUMBERS, c_parameters, c_pointer_parameters, tensors_of
from tkjit.render.call import CheckedCall
from tkjit.render.expressions import render_expression
from tkjit.render.results import RESULTS
from tkjit.render.text import field_text, given, indent, local, repr_text, wrap
from tkjit.spec import BY_NAME, Variant
from tkjit.spec.c_signature import CParameter, CSignature, Kind, identifier
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.dtypes import enumerator


class Code(NamedTuple):
    """The compiled code of one variant for one target. The ``symbol`` is empty if the code was left out."""

    symbol: str
    what: str
    is_cpu: bool


class ExportedFunction(NamedTuple):
    """An overload in an exported library.

    Parameters
    ----------
    variants : sequence of Variant
        All variants of the spec, in order.
    code : sequence of sequence of Code
        For each variant, its code for each target.
    """

    signature: CSignature
    variants: Sequence[Variant]
    code: Sequence[Sequence[Code]]


class _Body(CheckedCall):
    """Renders the function that checks and launches; the functions for tensors and for pointers call it."""

    def __init__(self, function: ExportedFunction) -> None:
        self.signature = function.signature
        super().__init__(self.signature.spec, [p.name for p in self.signature.parameters])

    def render(self) -> list[str]:
        spec, name = self.spec, self.signature.name
        parameters = ["Call& call", *(f"{_taken(p)} {_taken_name(p)}" for p in self.signature.parameters)]
        parameters += [f"{RESULTS[spec.result].cpp}* result"] if spec.result else []
        launcher = f"launcher(call, code_of_{name}, targets, {self.chosen()}, {self.anchor})"
        body = [
            *self._places(),
            *self.scalars(),
            "",
            *self.tensors.render(),
            *self.choices(),
            *self._answers(),
            "",
            f"const TkjitLaunch launch_function = {launcher};",
            "if (!launch_function) return nullptr;",
            *self.allocations(),
            *self.random(),
            *self.arguments(),
            *([f"set_place(args[{len(spec.struct_fields)}], result);"] if spec.result else []),
            f"if ({self.something_to_write()}!launch(call, launch_function, args, {self.anchor})) return nullptr;",
            *(f"object_of_{f.name}.release(output_{f.name});" for f in self.outputs),
            "return &call;",
        ]
        return [
            f"// {spec.name}({', '.join(field_text(f) for f in spec.fields)})",
            *wrap(f"const void* call_{name}(", parameters, ") {"),
            *indent(body),
            "}",
            "",
        ]

    def _places(self) -> list[str]:
        lines = []
        for f in self.outputs:
            lines += [
                f"if (!has_place(call, {repr_text(f.name)}, output_{f.name})) return nullptr;",
                f"const tkjit_tensor* const {given(f.name)} = given_output(call, output_{f.name});",
            ]
        if self.spec.result:
            lines.append(
                'if (!result) return call.refuse(Refusal::argument, "the argument result is missing"), nullptr;'
            )
        return lines

    def _answers(self) -> list[str]:
        """Render the code that answers a call which asks only for the outputs' shapes."""
        if not self.outputs:
            return []
        return [
            "",
            "if (call.asks) {",
            *(
                f"    if (!answer(call, {repr_text(f.name)}, output_{f.name}, shape_of_{f.name}, "
                f"{self.tensors.dtype(f)}, {self.anchor})) return nullptr;"
                for f in self.outputs
            ),
            "    return &call;",
            "}",
        ]


def _taken_name(p: CParameter) -> str:
    return f"output_{p.name}" if p.kind is Kind.OUTPUT else given(p.name)


def _taken(p: CParameter) -> str:
    """Return the C++ type that the checks use for an argument."""
    kinds = {
        Kind.TENSOR: "const tkjit_tensor*",
        Kind.OUTPUT: "tkjit_tensor*",
        Kind.TENSORS: "Tensors",
        Kind.STR: "const char*",
        Kind.DTYPE: "Dtype",
        Kind.DEVICE: "Place",
        Kind.SEED: "Seed",
        **{kind: f"Items<{item}>" for kind, item in ITEMS.items()},
    }
    if p.is_number:
        return f"const {NUMBERS[p.kind]}*" if p.is_optional else f"Given<{NUMBERS[p.kind]}>"
    return kinds[p.kind]


def _passed(p: CParameter) -> str:
    """Return the expression that passes an argument on to the checks."""
    match p.kind:
        case Kind.TENSORS:
            return f"{{{p.identifier}, count_of_{p.identifier}}}"
        case Kind.SEED:
            return f"{{seed_of_{p.identifier}, offset_of_{p.identifier}}}"
        case Kind.DTYPE | Kind.DEVICE:
            return f"{{{p.identifier}}}"
    if p.kind in ITEMS:
        return f"{{{p.identifier}, count_of_{p.identifier}}}"
    return f"{{{p.identifier}}}" if p.is_number and not p.is_optional else p.identifier


def render_library(
    library: str,
    functions: Sequence[ExportedFunction],
    targets: Sequence[str],
    interface: str,
    *,
    is_source: bool = False,
    has_header: bool = True,
) -> str:
    """Render the library's source.

    Parameters
    ----------
    library : str
        The export's name, which is the prefix of its functions.
    targets : sequence of str
        The targets, such as ``sm_90a`` or ``cpu-x86-64-v3``, in the order of each variant's code.
    interface : str
        The library's versions and a digest of each function: ``tensors=1 version=1 axpy=2f0c...``.
    is_source : bool
        Whether the text is part of a torch package, whose build defines ``CUDA_KERNEL``, ``CPU_KERNEL`` or both.
    has_header : bool
        Whether programs call the library through a header that declares all of its functions.
    """
    symbols = [code for function in functions for variant in function.code for code in variant if code.symbol]
    if is_source:  # one symbol may serve several targets
        symbols = list({code.symbol: code for code in symbols}.values())
    lines = [
        f"// {library}, rendered by tkjit: functions that check their arguments, allocate outputs and launch kernels.",
        "// v_x is the argument or the extent x; given_x is what was passed for the parameter x, or null.",
        *(_AS_SOURCE if is_source else []),
        "#include <tkjit/export/call.h>",
        *([f"#include <{library}.h>"] if has_header else []),
        "",
        *(_guarded_launchers(symbols) if is_source else _launchers(symbols)),
        "",
        "namespace {",
        "",
        "using namespace tkjit;",
        "using namespace tkjit::exported;",
        "",
        "constexpr Target targets[] = {",
        *(f"    {_target(name)}," for name in targets),
        "};",
        "",
        *([] if is_source else _shared_pool(symbols)),
    ]
    for function in functions:
        lines += [*_code(function), *_Body(function).render()]
    lines += ["}  // namespace", "", 'extern "C" {', ""]
    for function in functions:
        lines += _entries(library, function.signature, with_pointers=has_header)
    return "\n".join([*lines, *(_interface(library, interface) if has_header else []), "", "}"]) + "\n"


# The build chooses the devices by defining CUDA_KERNEL and CPU_KERNEL.
_AS_SOURCE = [
    "#define TKJIT_EXPORT_TORCH",
    "#ifdef CUDA_KERNEL",
    "#define TKJIT_EXPORT_CUDA",
    "#endif",
]


def _launchers(symbols: Sequence[Code]) -> list[str]:
    return [
        "#include <tkjit/sim_pool.h>",
        "",
        'extern "C" {',
        *map(_launcher, symbols),
        *(f"extern tkjit::sim::Pool* {pool};" for pool in _pools(symbols)),
        "}",
    ]


def _launcher(code: Code) -> str:
    return f"const char* {code.symbol}(const TkjitArg*, int32_t, void*);  // {code.what}"


def _guarded_launchers(symbols: Sequence[Code]) -> list[str]:
    """Render each device's launchers, which are null if the library is built without that device."""
    lines: list[str] = []
    for macro, codes in (("CPU", [c for c in symbols if c.is_cpu]), ("CUDA", [c for c in symbols if not c.is_cpu])):
        if codes:
            absent = (f"constexpr TkjitLaunch {code.symbol} = nullptr;" for code in codes)
            lines += [
                f"#ifdef {macro}_KERNEL",
                'extern "C" {',
                *map(_launcher, codes),
                "}",
                "#else",
                *absent,
                "#endif",
                "",
            ]
    return lines[:-1]


def _pools(symbols: Iterable[Code]) -> list[str]:
    return [pool_symbol(code.symbol) for code in symbols if code.is_cpu]


def pool_symbol(symbol: str) -> str:
    """Return the name of the variable that points a CPU launcher to the pool of stacks for the simulator's threads."""
    return f"{symbol}_pool"


def _shared_pool(symbols: Sequence[Code]) -> list[str]:
    pools = _pools(symbols)
    if not pools:
        return []
    return [
        "// The stacks of the simulator's threads, shared by all launchers.",
        "sim::Pool pool;",
        "[[maybe_unused]] const bool is_pool_shared = [] {",
        *wrap("    for (sim::Pool** const place : {", (f"&{name}" for name in pools), "}) *place = &pool;"),
        "    return true;",
        "}();",
        "",
    ]


def _target(name: str) -> str:
    if not name.startswith("cpu-"):
        digits = name.removeprefix("sm_")
        feature = f"'{digits[-1]}'" if digits[-1] in "af" else "0"
        return f"{{{repr_text(name)}, false, {digits.rstrip('af')}, {feature}, nullptr}}"
    needed = {"cpu-x86-64-v3": ["avx2", "fma", "bmi2"], "cpu-x86-64-v2": ["sse4.2"]}.get(name, [])
    runs = " && ".join(f'__builtin_cpu_supports("{feature}")' for feature in needed) or "true"
    return f"{{{repr_text(name.removeprefix('cpu-'))}, true, 0, 0, [] {{ return bool({runs}); }}}}"


def _code(function: ExportedFunction) -> list[str]:
    name = function.signature.name
    rows = [", ".join(code.symbol or "nullptr" for code in variant) for variant in function.code]
    names = [repr_text(str(variant)) for variant in function.variants]
    return [
        f"const TkjitLaunch launchers_of_{name}[] = {{",
        *(f"    {row}," for row in rows),
        "};",
        *wrap(f"const char* const variants_of_{name}[] = {{", names, "};"),
        f"const Code code_of_{name}{{launchers_of_{name}, variants_of_{name}, {len(rows)}}};",
        "",
    ]


def _entries(library: str, signature: CSignature, *, with_pointers: bool) -> list[str]:
    """Render the functions that a program calls."""
    result = ["result"] if signature.spec.result else []
    passed = ", ".join(["call", *map(_passed, signature.parameters), *result])
    parameters = c_parameters(signature)
    lines = [
        *_entry(library, signature, "", [*parameters, "void* stream"], "stream, false", [], passed),
    ]
    if signature.outputs:
        lines += _entry(library, signature, "_shape", parameters, "nullptr, true", [], passed)
    if with_pointers and signature.takes_pointers:
        passed = ", ".join(
            ["call", *(_pointed(p) or _passed(p) for p in signature.parameters), *result],
        )
        parameters = [*c_pointer_parameters(signature), "void* stream"]
        lines += _entry(library, signature, "_pointers", parameters, "stream, false", _pointing(signature), passed)
    return lines


def _entry(
    library: str, signature: CSignature, suffix: str, parameters: list[str], how: str, before: list[str], passed: str
) -> list[str]:
    name = signature.name
    opening = f"make_call({repr_text(signature.spec.name)}, {how}, [&](Call& call) "
    body = (
        [f"return {opening}{{ return call_{name}({passed}); }});"]
        if not before
        else [f"return {opening}{{", *indent([*before, f"return call_{name}({passed});"]), "});"]
    )
    return [
        *wrap(f"TKJIT_EXPORT tkjit_error {library}_{name}{suffix}(", parameters, ") {"),
        *indent(body),
        "}",
        "",
    ]


def _pointed(p: CParameter) -> str:
    """Return the expression for a tensor that was made from a pointer."""
    if p.kind is Kind.OUTPUT:
        return f"{local(p.name)}.output()"
    if p.kind is not Kind.TENSOR:
        return ""
    return f"{p.identifier} ? {local(p.name)}.get() : nullptr" if p.is_optional else f"{local(p.name)}.get()"


def _pointing(signature: CSignature) -> list[str]:
    """Render the code that makes tensors from pointers, extents and dtypes."""
    spec = signature.spec
    tensors = tensors_of(signature)
    dims = [dim for f in tensors for dim in f.dims]
    derived = derived_in_order(spec, dims)
    known = {name for name, _ in derived}

    def spell(name: str) -> str:
        return local(name) if name in known else f"Int({identifier(name)})"

    lines = [f"const Int {local(name)} = {render_expression(expr, spell)};" for name, expr in derived]
    by_argument = {f.name for f in spec.dtype_fields}
    for f in tensors:
        typed = f.dtype in signature.types or f.dtype in by_argument
        dtype = identifier(f.dtype) if typed else enumerator(BY_NAME[f.dtype])
        leading = "{leading_sizes, leading_ndim}" if f.leading else "{}"
        extents = ", ".join(render_expression(dim, spell) for dim in f.dims)
        strides = f", strides_of_{f.name}" if f.is_strided else ""
        what = f"{identifier(f.name)}, {dtype}, {signature.place}, {leading}, {{{extents}}}{strides}"
        lines.append(f"{'' if f.direction == 'out' else 'const '}Pointed {local(f.name)}({what});")
    return lines


def _interface(library: str, interface: str) -> list[str]:
    return [
        f"TKJIT_EXPORT tkjit_error {library}_check_interface(const char* interface) {{",
        f"    return check_interface({repr_text(library)}, {repr_text(interface)}, interface);",
        "}",
    ]
