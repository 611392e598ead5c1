"""Renders a variant's launcher: the kernel, and a C function that fills the globals struct and launches the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tkjit.render.expressions import render_expression
from tkjit.render.globals import (
    argument_checks,
    computed_members,
    extent_checks,
    fill_arrays,
    globals_struct,
    globals_value,
    struct_checks,
    struct_values,
)
from tkjit.render.launch_names import launch_names, origin_of, used_names
from tkjit.render.launch_program import launch_program
from tkjit.render.results import RESULTS
from tkjit.render.text import argument, indent, literal, number, repr_text, speller, stride_axis, wrap
from tkjit.spec import BY_NAME, CExpr, Spec, Variant
from tkjit.spec.checks import AUTO, DEV_IDX, NUM_DEVICES
from tkjit.spec.expr import EXTENTS, Expr
from tkjit.spec.variants import with_names

_NAME = "launcher.cu"
_ENTRY = "tkjit_entry"
_MAIN = re.compile(r"\bmain\s*\(([^()]*)\)")


def render_launcher(
    spec: Spec,
    variant: Variant,
    source: str,
    source_name: str,
    *,
    on_cpu: bool = False,
    checks_bounds: bool = False,
    preamble: str = "",
) -> str:
    """Render a launcher, for a GPU or for the simulator.

    Parameters
    ----------
    source : str
        The kernel's source, which is included in the text. For the CPU, ``adapt`` rewrites the source first.
    source_name : str
        The source's name in compiler messages.
    on_cpu : bool
        Whether the launcher is for the simulator and a C++ compiler, which lack some constructs of device code.
    checks_bounds : bool
        Whether layouts check indices, and therefore need names for their error messages.
    preamble : str
        The text's first lines: declarations from the stand-ins for torch's headers.
    """
    if on_cpu:
        from tkjit.source.adapt import adapt  # imported here, because a warm call renders nothing

        source = adapt(source, _used_by_host(spec), for_gpus="cpu" not in dict(spec.sources))
    before = [*preamble.splitlines(), *declarations(spec, variant)]
    spec = with_names(spec, variant)
    if on_cpu:  # the simulator shows this name when a kernel crashes
        before += [f'extern "C" {{ const char* tkjit_kernel_name = {repr_text(spec.name)}; }}', ""]
    body = [*_main(source), f"#line 1 {repr_text(source_name)}", *source.rstrip("\n").split("\n")]
    after = [
        f"#line {len(before) + len(body) + 2} {repr_text(_NAME)}",
        "#undef main",
        "",
        *struct_values(spec),
        *argument_checks(spec, variant),
        *_entry_marker(spec),
    ]
    entry = _entry(spec, variant, checks_bounds)
    if not on_cpu and not why_host_code(spec):  # NVRTC may compile the text, but not the host code
        entry = ["#ifdef __CUDACC_RTC__", *_layout(spec, variant), "#else", *entry, "#endif"]
    return "\n".join([*before, *body, *after, *entry]) + "\n"


def why_host_code(spec: Spec) -> str:
    """Explain why a launch needs host code in C++; return "" if a launch program can describe it.

    The answer affects the launcher's text, so it depends only on the spec.
    """
    if spec.host:
        return "its entry is a host function"
    if spec.struct:
        return "its entry takes a struct that the source defines"
    if spec.config:
        return "it is launched by a struct of constants"
    if spec.headers:
        return f"it uses the headers of {spec.headers[0].name}"
    if any(isinstance(part, CExpr) for _, part in spec.launch.shape):
        return "its launch is computed in C++"
    if spec.constants or spec.symbols:
        return "its host code reads or writes variables of the source"
    if any(f.value_type is not None and f.value_type.members for f in spec.fields):
        return "it takes a struct by value"
    if any(f.cpp_type for f in spec.fields):
        return "a member of its struct has a type of its own"
    if any(f.fill is not None for f in spec.tensors):
        return "an output is filled before the launch"
    return ""


def _layout(spec: Spec, variant: Variant) -> list[str]:
    """Render the offsets and sizes that the launch program needs, for NVRTC to store them in the cubin.

    With plain parameters there are none, and ``argument_checks`` compares their types.
    """
    if spec.args:
        return []
    expressions = launch_program(spec, variant).layout
    taken = f"tkjit::takes_struct<decltype(&{spec.entry}), Globals, {len(spec.trailing)}>()"
    otherwise = f"the parameters of {spec.entry}; the spec of {spec.name} says otherwise"
    return [
        f"static_assert({taken}, {repr_text(otherwise)});",
        *wrap("TKJIT_LAYOUT(", ["sizeof(Globals)", *expressions], ")"),
    ]


def declarations(spec: Spec, variant: Variant) -> list[str]:
    """Return the lines before the source: the headers, types and constants of the variant, and the globals struct."""
    opening = [*_opening(spec, variant), *_types(spec, variant)]
    return [*opening, *globals_struct(with_names(spec, variant), variant)]


def _main(source: str) -> list[str]:
    """Rename a source's ``main``."""
    is_of_void = {parameters.strip() for parameters in _MAIN.findall(source)} == {"void"}
    return [*(["#define TKJIT_MAIN_OF_VOID"] if is_of_void else []), "#include <tkjit/source_main.h>"]


def _used_by_host(spec: Spec) -> frozenset[str]:
    """Return the names from the source that the launcher's host code uses."""
    names = (part.names for _, part in spec.launch.shape if isinstance(part, CExpr))
    return frozenset([spec.entry] if spec.host else []).union(*names)


def _opening(spec: Spec, variant: Variant) -> list[str]:
    headers = sorted({variant.dtype_of(f).header for f in spec.tensors} - {""})
    chosen = f" for {variant}" if variant.values else ""
    takes_containers = spec.host and any((f.value_type and f.draws is None) or f.is_list for f in spec.fields)
    return [
        f"// Launcher of {spec.name}{chosen}, rendered by tkjit.",
        "// arg_x is the argument x; v_N is the value of N.",
        "#include <tkjit/launcher.h>",
        *(["#include <tkjit/driver.h>"] if any(library.uses_driver for library in spec.headers) else []),
        *(["#include <tkjit/containers.h>"] if takes_containers else []),
        *(["#include <tkjit/symbol.h>"] if spec.constants or spec.symbols else []),
        *(["#include <tkjit/philox.h>"] if any(f.draws is not None for f in spec.fields) else []),
        *(["#include <tkjit/fill.h>"] if any(f.fill is not None for f in spec.tensors) else []),
        *(f"#include <{header}>" for header in headers),
        "",
    ]


def _types(spec: Spec, variant: Variant) -> list[str]:
    lines: list[str] = []
    for name, value in (*variant.values, *variant.configuration):
        if name in spec.name_variants:
            continue  # needs no declaration: with_names has replaced the parameter with the option's name
        if isinstance(value, str):
            lines.append(f"using {name} = {BY_NAME[value].cpp};")
        else:
            lines.append(f"constexpr {'bool' if isinstance(value, bool) else 'int'} {name} = {literal(value)};")
    return [*lines, ""] if lines else []


def _entry_marker(spec: Spec) -> list[str]:
    """Render a mark for the kernel in ptxas's report; empty for a host function, whose kernels are not known."""
    if spec.host:
        return []
    return [f"TKJIT_MARK_ENTRY({_kernel(spec, spec.struct or 'Globals')})", ""]


def _entry(spec: Spec, variant: Variant, checks_bounds: bool) -> list[str]:
    struct = _filled(spec)
    kernel = _kernel(spec, struct)
    body = [
        *([f"const auto {_ENTRY} = {kernel};"] if _is_hidden(spec) else []),
        *_named_arguments(spec),
        *([] if spec.args else extent_checks(spec, struct)),
        *_dims(spec),
        *_computed_checks(spec),
        *([] if spec.args else globals_value(spec, struct)),
        *([] if spec.args else fill_arrays(spec)),
        *_shape(spec),
        *_fills(spec, variant),
        *_set_constants(spec),
        *_launch(spec, _ENTRY if _is_hidden(spec) else kernel, checks_bounds),
    ]
    own_struct_function = []
    if spec.struct:
        # The function is a template, because nvcc passes a template's text on to the host compiler unchanged. In other
        # code, nvcc would have to spell the struct's type, and it cannot spell every struct.
        own_struct_function = [
            "template <class TkjitGlobals>",
            "const char* tkjit_launch_own(const TkjitArg* args, int32_t device, void* stream,",
            "                             std::type_identity<TkjitGlobals>) {",
            *indent([*struct_checks(spec, variant), *body]),
            "}",
            "",
        ]
        named = f"std::type_identity<{spec.struct}>{{}}"
        deduced = f"tkjit::struct_of(&{spec.entry})" if spec.struct == AUTO else named
        body = [f"return tkjit_launch_own(args, device, stream, {deduced});"]
    if checks_bounds and not spec.args:
        body = [*_names("args", [f.name for f in spec.struct_fields]), *body]
    return [
        *_symbols(spec, variant),
        *own_struct_function,
        'extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {',
        "    return tkjit::without_exceptions([&]() -> const char* {",
        *indent(body, 8),
        "    });",
        "}",
    ]


def _named_arguments(spec: Spec) -> list[str]:
    """Render a variable for each argument that the rest of the function uses by name."""
    used = _used_arguments(spec)
    given = [f"&{argument(f.name)} = args[{i}]" for i, f in enumerate(spec.struct_fields) if f.name in used]
    return wrap("const TkjitArg ", given, ";") if given else []


def _used_arguments(spec: Spec) -> set[str]:
    if not spec.args or spec.computed or spec.constants:
        return {f.name for f in spec.fields}
    return {origin_of(spec, name).name for name in launch_names(spec)[0]}


def _dims(spec: Spec) -> list[str]:
    """Render the names that the launch uses, as 64-bit integers."""
    names, derived = launch_names(spec)
    spell = speller(spec)
    lines = [f"const tkjit::Int {spell(name)} = {_value(spec, name)};" for name in names]
    lines += [f"const tkjit::Int {spell(name)} = {render_expression(expr, spell)};" for name, expr in derived]
    return [*lines, ""] if lines else []


def _value(spec: Spec, name: str) -> str:
    origin = origin_of(spec, name)
    arg = argument(origin.name)
    if origin.is_parallel and name in (DEV_IDX, NUM_DEVICES):
        return f"tkjit::parallel_of({arg}).{DEV_IDX if name == DEV_IDX else 'count'}"
    if name == origin.name:
        return f"{arg}.integer"
    if "." in name:
        _, extent = name.split(".")
        if axis := stride_axis(extent, len(origin.dims)):
            return f"{arg}.strides[{axis}]"
        return f"tkjit::numel({arg})" if extent == "numel" else f"tkjit::padded_extent({arg}, {EXTENTS.index(extent)})"
    dim = spec.binder(name)[1]
    tensor = f"tkjit::first_of({arg})." if origin.is_list else f"{arg}."
    from_end = len(origin.dims) - dim
    return f"{tensor}extents[{tensor}rank - {from_end}]" if origin.leading else f"{tensor}extents[{dim}]"


def _computed_checks(spec: Spec) -> list[str]:
    """Render the checks that no computed member overflows; they run before any tensor is filled."""
    spell = speller(spec)

    # plain arguments count as int64_t here, because their types are checked where the entry is called
    def member(name: str) -> str:
        if name in spec.trailing or not spec.struct:
            return "int64_t" if spec.args else "int"
        return f"decltype({_filled(spec)}::{name})"

    checks = [
        f"tkjit::check_computed<{member(name)}>({render_expression(expr, spell)}, {repr_text(name)})"
        for name, expr in computed_members(spec).items()
    ]
    return [f"if (const char* error = {check}) return error;" for check in checks]


def _shape(spec: Spec) -> list[str]:
    if spec.host:
        return []
    spell = speller(spec)
    lines = ["tkjit::LaunchShape shape;"]
    for what, part in spec.launch.shape:
        if isinstance(part, CExpr):
            lines += _shape_in_cpp(spec, what, part)
        elif part:
            lines.append(f"shape.set_{what}({', '.join(render_expression(expr, spell) for expr in part)});")
            if what == "grid" and any("//" in expr.text for expr in part):
                lines.append(_no_blocks(spec, part))
        elif spec.config:
            lines.append(f"tkjit::use_config_{what}<{spec.config}>(shape, globals);")
        elif spec.struct:
            lines.append(f"tkjit::use_own_{what}(shape, globals);")
    if spec.config:
        lines.append(f"tkjit::use_config_cluster<{spec.config}>(shape);")
    if spec.cluster:
        lines.append(f"shape.cluster = dim3({', '.join(map(str, spec.cluster))});")
    if spec.pdl:
        lines.append("shape.overlaps = true;")
    if spec.cooperative:
        lines.append("shape.cooperative = true;")
    return lines


def _no_blocks(spec: Spec, grid: Sequence[Expr]) -> str:
    """Render the check that rounding down does not leave a grid with no blocks when every tensor has elements."""
    tensors = [i for i, f in enumerate(spec.struct_fields) if f.is_tensor and not f.is_list and not f.is_parallel]
    written = repr_text(", ".join(expr.text for expr in grid))
    return f"tkjit::check_blocks(shape, args, {{{', '.join(map(str, tensors))}}}, {written});"


def _fills(spec: Spec, variant: Variant) -> list[str]:
    """Render the code that fills tensors before the launch."""
    lines = []
    for i, f in enumerate(spec.struct_fields):
        if f.fill is not None:
            what = f"args[{i}], {literal(f.is_strided)}, {number(f.fill)}, device, stream"
            fill = f"tkjit::fill<{variant.dtype_of(f).cpp}>({what})"
            lines.append(f"if (const char* error = {fill}) return error;  // {f.name}")
    return lines


def _set_constants(spec: Spec) -> list[str]:
    """Render the code that copies arguments into variables of the source before the launch."""
    lines = []
    for f in spec.constants:
        copied = f"tkjit::set_symbol({f.member or f.name}, {argument(f.name)}, {repr_text(f.name)}, device, stream)"
        lines.append(f"if (const char* error = {copied}) return error;")
    return lines


def _symbols(spec: Spec, variant: Variant) -> list[str]:
    """Render ``tkjit_symbol``, which describes the variables in the spec, after assertions on the constants' types."""
    otherwise = f"; the spec of {spec.name} says otherwise"
    checks = [
        f"static_assert(tkjit::holds<std::remove_all_extents_t<decltype({f.member or f.name})>, "
        f"{variant.dtype_of(f).cpp}>(), {repr_text(f'the type of {f.member or f.name}{otherwise}')});"
        for f in spec.constants
    ]
    names = dict.fromkeys([*(f.member or f.name for f in spec.constants), *spec.symbols])
    if not names:
        return []
    body = [
        f"if (std::strcmp(name, {repr_text(name)}) == 0) return tkjit::describe_symbol({name}, device, symbol);"
        for name in names
    ]
    return [
        *checks,
        'extern "C" TKJIT_EXPORT const char* tkjit_symbol(const char* name, int32_t device, TkjitArg* symbol) {',
        *indent([*body, 'return "no such symbol";']),
        "}",
        "",
    ]


def _shape_in_cpp(spec: Spec, what: str, part: CExpr) -> list[str]:
    """Render a part of the launch that the source computes in C++, where names are plain integers."""
    spell = speller(spec)
    names = [name for name in used_names(spec, part) if name not in spec.compile_time_integers]
    parameters = ", ".join(f"int {name}" for name in names)
    values = ", ".join(f"int({spell(name)}.value())" for name in names)
    checks = [
        f"if (const char* error = tkjit::check_computed<int>({spell(name)}, {repr_text(name)})) return error;"
        for name in names
    ]
    result = f"tkjit::Int(int64_t({part}))" if what == "shared_memory" else f"dim3({part})"
    return [*checks, f"shape.set_{what}([&]({parameters}) {{ return {result}; }}({values}));"]


def _names(args: str, names: Iterable[str]) -> list[str]:
    """Render the code that names the arguments for error messages about indices."""
    listed = ", ".join(map(repr_text, names))
    return [f"static const char* const tkjit_names[] = {{{listed}}};", f"tkjit::name_fields({args}, tkjit_names);"]


def _launch(spec: Spec, entry: str, checks_bounds: bool) -> list[str]:
    if spec.args:
        function = "call_host_with_arguments" if spec.host else "launch_with_arguments"
        shape = "" if spec.host else "shape, "
        lines, array = _arguments(spec)
        lines += _names(array, spec.taken) if checks_bounds else []
        if any(not f.is_list for f in spec.tensors):
            names = ", ".join(map(repr_text, spec.taken))
            check = f"tkjit::check_arguments({entry}, {array}, {{{names}}})"
            lines.append(f"if (const char* error = {check}) return error;")
        keeps = f", {_keeper(spec)}" if spec.result else ""
        return [*lines, f"return tkjit::{function}({entry}, {shape}device, stream, {array}{keeps});"]
    if spec.host:
        called = f"{_keeper(spec)}({entry})" if spec.result else entry
        return [f"return tkjit::call_host({called}, device, stream, globals);"]
    trailing = "".join(f", {value}" for value in _trailing(spec))
    return [f"return tkjit::launch({entry}, shape, device, stream, globals{trailing});"]


def _keeper(spec: Spec) -> str:
    """Render the code that stores the number returned by the host function, in the element after the arguments."""
    return f"tkjit::KeepNumber<{RESULTS[spec.result].cpp}>{{args[{len(spec.struct_fields)}].data}}"


def _kernel(spec: Spec, struct: str) -> str:
    """Return the kernel to launch or the host function to call, as C++; ``struct`` is the name of its struct."""
    return f"tkjit::configured<{spec.config}, {struct}, {spec.entry}>" if spec.config else spec.entry


def _filled(spec: Spec) -> str:
    """Return the name that the launch function uses for the struct that it fills."""
    return "TkjitGlobals" if spec.struct else "Globals"


def _is_hidden(spec: Spec) -> bool:
    """Return whether a local variable would hide a name in the entry, like ``globals`` in ``kernel<globals>``."""
    local_names = {argument(name) for name in _used_arguments(spec)} | (set() if spec.args else {"globals"})
    return not local_names.isdisjoint(re.findall(r"\w+", spec.entry))


def _arguments(spec: Spec) -> tuple[list[str], str]:
    """Render the lines before the call of a function with plain arguments. Also return the argument array's name."""
    if not spec.computed and not spec.constants:
        return [], "args"
    values = {f.name: argument(f.name) for f in spec.fields}
    for name, expr in spec.computed:
        values[name] = f"tkjit::integer_arg({render_expression(expr, speller(spec))})"
    listed = ", ".join(values[name] for name in spec.taken)
    return [f"const TkjitArg all[] = {{{listed}}};"], "all"


def _trailing(spec: Spec) -> list[str]:
    """Return the arguments that the entry takes after the struct."""
    by_name = {f.name: f for f in spec.fields}
    computed, spell = dict(spec.computed), speller(spec)
    return [
        f"tkjit::convert<int>({render_expression(computed[name], spell)})"
        if name in computed
        else f"tkjit::convert<{by_name[name].dtype}>({argument(name)})"
        for name in spec.trailing
    ]
