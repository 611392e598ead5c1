"""Renders a variant's launcher: the kernel, and one C function that fills the globals struct and launches."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tkjit.render.expressions import render_expression
from tkjit.render.globals import (
    argument_checks,
    computed_members,
    extent_checks,
    globals_struct,
    globals_value,
    struct_checks,
)
from tkjit.render.text import derived_in_order, indent, literal, repr_text, speller
from tkjit.spec import BY_NAME, CExpr, Spec, Variant
from tkjit.spec.checks import AUTO, DEV_IDX, NUM_DEVICES
from tkjit.spec.expr import EXTENTS, Expr

_NAME = "launcher.cu"
_ENTRY = "tkjit_entry"


def render_launcher(
    spec: Spec,
    variant: Variant,
    source: str,
    source_name: str,
    *,
    on_cpu: bool = False,
    checks_bounds: bool = False,
) -> str:
    """Render a launcher, the same text for every device but for what the source says to GPUs alone.

    Parameters
    ----------
    source : str
        The kernel's source, which becomes a part of the text; for the CPU as ``adapt`` gives it.
    source_name : str
        What the compiler's messages call it.
    on_cpu : bool
        Whether a C++ compiler and the simulator take it: what they have no words for is then said in others.
    checks_bounds : bool
        Whether its layouts check their indices, and so have names.
    """
    if on_cpu:
        from tkjit.source.adapt import adapt  # a warm call renders nothing

        source = adapt(source, _used_by_host(spec), for_gpus="cpu" not in dict(spec.sources))
    before = [*_opening(spec, variant), *_types(spec, variant), *globals_struct(spec, variant)]
    # a source with a main of its own is loaded as it is
    if on_cpu:  # the simulator names it to who debugs it
        before += [f'extern "C" {{ const char* tkjit_kernel_name = {repr_text(spec.name)}; }}', ""]
    before += ["#define main tkjit_source_main", f"#line 1 {repr_text(source_name)}"]
    body = source.rstrip("\n").split("\n")
    next_line = len(before) + len(body) + 2
    after = [
        f"#line {next_line} {repr_text(_NAME)}",
        "#undef main",
        "",
        *argument_checks(spec, variant),
        *_entry_marker(spec),
        *_entry(spec, variant, checks_bounds),
    ]
    return "\n".join([*before, *body, *after]) + "\n"


def _used_by_host(spec: Spec) -> frozenset[str]:
    """The names of the source that the launcher's host code uses."""
    names = (part.names for _, part in spec.launch.shape if isinstance(part, CExpr))
    return frozenset([spec.entry] if spec.host else []).union(*names)


def _opening(spec: Spec, variant: Variant) -> list[str]:
    headers = sorted({variant.dtype_of(f).header for f in spec.tensors} - {""})
    chosen = f" for {variant}" if variant.values else ""
    return [
        f"// Launcher of {spec.name}{chosen}, rendered by tkjit.",
        "#include <tkjit/launcher.h>",
        *(["#include <tkjit/driver.h>"] if any(library.uses_driver for library in spec.headers) else []),
        *(["#include <tkjit/containers.h>"] if spec.host and any(f.value or f.is_list for f in spec.fields) else []),
        *(f"#include <{header}>" for header in headers),
        "",
    ]


def _types(spec: Spec, variant: Variant) -> list[str]:
    lines = []
    for name, value in variant.values:
        if isinstance(value, str):
            lines.append(f"using {name} = {BY_NAME[value].cpp};")
        else:
            lines.append(f"constexpr {'bool' if isinstance(value, bool) else 'int'} {name} = {literal(value)};")
    return [*lines, ""] if lines else []


def _entry_marker(spec: Spec) -> list[str]:
    """Names the kernel for whoever reads ptxas's report; which kernels a host function launches is not known."""
    if spec.host:
        return []
    entry = spec.entry
    if spec.config:
        struct = f"decltype(tkjit::struct_of(&{entry}))::type" if spec.struct == AUTO else spec.struct or "Globals"
        entry = f"tkjit::configured<{spec.config}, {struct}, {entry}>"
    return [f"TKJIT_MARK_ENTRY({entry})", ""]


def _entry(spec: Spec, variant: Variant, checks_bounds: bool) -> list[str]:
    struct = "TkjitGlobals" if spec.struct else "Globals"
    body = [
        *([f"const auto {_ENTRY} = {spec.entry};"] if _is_hidden(spec) else []),
        *([] if spec.args else extent_checks(spec, struct)),
        *_dims(spec),
        *_computed_checks(spec),
        *([] if spec.args else globals_value(spec, struct)),
        *_shape(spec),
        *_launch(spec, checks_bounds),
    ]
    own = []
    if spec.struct:
        # a template, whose text reaches the host's compiler as it is: nvcc cannot spell each struct itself
        own = [
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
        *own,
        'extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {',
        "    return tkjit::without_exceptions([&]() -> const char* {",
        *indent(body, 8),
        "    });",
        "}",
    ]


def _dims(spec: Spec) -> list[str]:
    """The names that the grid, the block and the shared memory use, as 64-bit integers."""
    expressions = [expr for _, part in spec.launch.shape if isinstance(part, tuple) for expr in part]
    expressions += computed_members(spec).values()
    expressions += [
        Expr.parse(name) for _, part in spec.launch.shape if isinstance(part, CExpr) for name in _used(spec, part)
    ]
    derived = derived_in_order(spec, expressions)
    names = {name for expr in [*expressions, *(expr for _, expr in derived)] for name in expr.names}
    names -= {name for name, _ in derived}
    # an integer variant is already a constant of that name, with the value that the call has
    names -= spec.integer_variants.keys()
    position = {f.name: i for i, f in enumerate(spec.struct_fields)}
    spell = speller(spec)
    lines = [f"const tkjit::Int {spell(name)} = {_value(spec, name, position)};" for name in sorted(names)]
    lines += [f"const tkjit::Int {spell(name)} = {render_expression(expr, spell)};" for name, expr in derived]
    return [*lines, ""] if lines else []


def _value(spec: Spec, name: str, position: dict[str, int]) -> str:
    if name in (DEV_IDX, NUM_DEVICES) and spec.is_parallel:
        parallel = next(f for f in spec.struct_fields if f.is_parallel)
        member = DEV_IDX if name == DEV_IDX else "count"
        return f"static_cast<const TkjitParallel*>(args[{position[parallel.name]}].data)->{member}"
    if "." in name:
        field, extent = name.split(".")
        extents = f"args[{position[field]}].extents"
        if extent == "numel":
            return " * ".join(f"tkjit::Int({extents}[{axis}])" for axis in range(4))
        return f"{extents}[{EXTENTS.index(extent)}]"
    if name in position:
        return f"args[{position[name]}].integer"
    field_, index = spec.binder(name)
    axis = 4 - len(field_.dims) + index
    arg = f"args[{position[field_.name]}]"
    return f"static_cast<const TkjitArg*>({arg}.data)->extents[{axis}]" if field_.is_list else f"{arg}.extents[{axis}]"


def _computed_checks(spec: Spec) -> list[str]:
    """Refuse computed members that overflow, before anything is filled."""
    spell = speller(spec)
    checks = [
        f"tkjit::check_computed({render_expression(expr, spell)}, {repr_text(name)})"
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


def _shape_in_cpp(spec: Spec, what: str, part: CExpr) -> list[str]:
    """A part of the launch that the source computes: its names are plain integers there."""
    spell = speller(spec)
    names = [name for name in _used(spec, part) if name not in spec.integer_variants]
    parameters = ", ".join(f"int {name}" for name in names)
    given = ", ".join(f"int({spell(name)}.value())" for name in names)
    made = f"tkjit::Int(int64_t({part}))" if what == "shared_memory" else f"dim3({part})"
    return [f"shape.set_{what}([&]({parameters}) {{ return {made}; }}({given}));"]


def _used(spec: Spec, part: CExpr) -> list[str]:
    """The dims and integers that an expression in C++ uses."""
    known = {*spec.dim_names, *dict(spec.derived), *(f.name for f in spec.fields if f.is_integer)}
    known |= {DEV_IDX, NUM_DEVICES} if spec.is_parallel else set()
    return sorted(part.names & known)


def _names(args: str, names: Iterable[str]) -> list[str]:
    """What arguments are called in a message about an index."""
    listed = ", ".join(map(repr_text, names))
    return [f"static const char* const tkjit_names[] = {{{listed}}};", f"tkjit::name_fields({args}, tkjit_names);"]


def _launch(spec: Spec, checks_bounds: bool) -> list[str]:
    if spec.args:
        function = "call_host_with_arguments" if spec.host else "launch_with_arguments"
        shape = "" if spec.host else "shape, "
        lines, given = _arguments(spec)
        lines += _names(given, spec.order) if checks_bounds else []
        if any(not f.is_list for f in spec.tensors):
            names = ", ".join(map(repr_text, spec.order))
            check = f"tkjit::check_arguments({spec.entry}, {given}, {{{names}}})"
            lines.append(f"if (const char* error = {check}) return error;")
        return [*lines, f"return tkjit::{function}({spec.entry}, {shape}device, stream, {given});"]
    if spec.host:
        return [f"return tkjit::call_host({spec.entry}, device, stream, globals);"]
    entry = _ENTRY if _is_hidden(spec) else spec.entry
    if spec.config:
        entry = f"tkjit::configured<{spec.config}, {'TkjitGlobals' if spec.struct else 'Globals'}, {spec.entry}>"
    behind = "".join(f", {value}" for value in _behind(spec))
    return [f"return tkjit::launch({entry}, shape, device, stream, globals{behind});"]


def _is_hidden(spec: Spec) -> bool:
    """Whether the entry, ``kernel<globals>``, means another thing where the struct is filled under that name."""
    return not (spec.args or spec.host or spec.config) and re.search(r"\bglobals\b", spec.entry) is not None


def _arguments(spec: Spec) -> tuple[list[str], str]:
    """What a function with plain arguments is given, and what has to stand before that."""
    if not spec.computed:
        return [], "args"
    values = {f.name: f"args[{i}]" for i, f in enumerate(spec.struct_fields)}
    for name, expr in spec.computed:
        values[name] = f"tkjit::integer_arg({render_expression(expr, speller(spec))})"
    listed = ", ".join(values[name] for name in spec.order)
    return [f"const TkjitArg all[] = {{{listed}}};"], "all"


def _behind(spec: Spec) -> list[str]:
    """What the entry takes behind the struct."""
    position = {f.name: (i, f) for i, f in enumerate(spec.struct_fields)}
    computed, spell = dict(spec.computed), speller(spec)
    return [
        f"tkjit::convert<int>({render_expression(computed[name], spell)})"
        if name in computed
        else f"tkjit::convert<{position[name][1].dtype}>(args[{position[name][0]}])"
        for name in spec.behind
    ]
