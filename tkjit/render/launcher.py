"""The launcher: a variant's file, the kernel and one C function that builds the globals struct and launches."""

from __future__ import annotations

from collections.abc import Callable

from tkjit.expr import EXTENTS, Expr
from tkjit.render.text import derived_in_order, field_text, indent, local, repr_text
from tkjit.spec import BY_NAME, CExpr, Field, Spec, Variant

_NAME = "launcher.cu"


def render_launcher(spec: Spec, variant: Variant, source: str, source_name: str, *, on_cpu: bool = False) -> str:
    """Render a launcher, the same text for every device but for what the source says to GPUs alone.

    Parameters
    ----------
    source : str
        The kernel's source, which becomes a part of the text; for the CPU as ``adapt`` gives it.
    source_name : str
        What the compiler's messages call it.
    on_cpu : bool
        Whether a C++ compiler and the simulator take it: what they have no words for is then said in others.
    """
    if on_cpu:
        from tkjit.render.adapt import adapt  # a warm call renders nothing

        source = adapt(source)
    before = [*_opening(spec, variant), *_types(spec, variant), *_globals_struct(spec, variant)]
    # a source with a main of its own is loaded as it is
    before += ["#define main tkjit_source_main", f"#line 1 {repr_text(source_name)}"]
    body = source.rstrip("\n").split("\n")
    next_line = len(before) + len(body) + 2
    after = [f"#line {next_line} {repr_text(_NAME)}", "#undef main", "", *_checks(spec, variant), *_entry(spec)]
    return "\n".join([*before, *body, *after]) + "\n"


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
        cpp = BY_NAME[value].cpp if isinstance(value, str) else str(value)
        lines.append(f"using {name} = {cpp};" if isinstance(value, str) else f"constexpr int {name} = {cpp};")
    return [*lines, ""] if lines else []


def _element(spec: Spec, variant: Variant, field: Field) -> str:
    """The element type of a tensor, the type of a scalar or a container."""
    if not field.is_tensor:
        return field.dtype
    element = field.dtype if field.dtype in spec.type_variants else variant.dtype_of(field).cpp
    return f"std::vector<tkjit::gl<{element}>>" if field.is_list else element


def _member_type(spec: Spec, variant: Variant, field: Field) -> str:
    element = _element(spec, variant, field)
    if field.cpp_type:
        return field.cpp_type
    if spec.host and (field.value or field.is_list):
        return f"std::optional<{element}>" if field.optional else element
    if field.value is not None and field.value.item is not None:
        items = field.value.cpp.removeprefix("std::vector<").removesuffix(">")
        element = f"tkjit::list<{items}, {field.max_length}>"
    if not field.is_tensor:
        return f"tkjit::optional<{element}>" if field.optional else element
    if field.is_list:
        layout = _layout(variant, field, element.removeprefix("std::vector<tkjit::gl<").removesuffix(">>"))
        return f"tkjit::list<{layout}, {field.max_length}>"
    return _layout(variant, field, element)


def _layout(variant: Variant, field: Field, element: str) -> str:
    constants = dict(variant.values)
    extents = [_static_extent(dim, constants) for dim in field.dims]
    # an absent tensor has no extents, so its type can fix none
    missing = -1 if field.leading or field.optional else 1
    padded = [missing] * (4 - len(extents)) + ([-1] * len(extents) if field.optional else extents)
    return f"tkjit::gl<{element}, {', '.join(map(str, padded))}>"


def _static_extent(dim: Expr, constants: dict[str, str | int]) -> int | str:
    if not dim.names:
        return dim.evaluate({})
    return dim.text if isinstance(constants.get(dim.text), int) else -1


def _globals_struct(spec: Spec, variant: Variant) -> list[str]:
    if spec.args or spec.struct:
        return []
    by_name = {f.name: f for f in spec.fields}
    computed = dict(spec.computed)
    members = [
        (f"int {name};", f"{computed[name]}")
        if name in computed
        else (f"{_member_type(spec, variant, by_name[name])} {name};", field_text(by_name[name]))
        for name in _members(spec)
    ]
    width = max(len(member) for member, _ in members)
    return ["struct Globals {", *(f"    {member:<{width}}  // {text}" for member, text in members), "};", ""]


def _members(spec: Spec) -> list[str]:
    """The names of what the struct holds, in its order."""
    return [name for name in spec.order if name not in spec.behind]


def _path(field: Field) -> str:
    """A field's member: ``x.real``, or its own name."""
    return field.member or field.name


def _checks(spec: Spec, variant: Variant) -> list[str]:
    """What the compiler must find true of a struct, or of parameters, that the source brings."""
    said = "; the spec of " + spec.name + " says otherwise"
    elements = {f.name: _element(spec, variant, f) for f in spec.struct_fields}
    if spec.args:
        taken = [elements.get(name, "int") for name in spec.order]
        listed = ", ".join(["decltype(&TkjitEntry)", *taken]).replace("&TkjitEntry", f"&{spec.entry}")
        return [f"static_assert(tkjit::takes<{listed}>(), {repr_text('the parameters of ' + spec.entry + said)});", ""]
    if not spec.struct:
        return []
    paths = {f.name: _path(f) for f in spec.struct_fields}
    outermost = {paths.get(name, name).split(".")[0] for name in _members(spec)}
    lines = [
        f"using TkjitGlobals = {spec.struct};",
        f"static_assert(tkjit::has_fields<TkjitGlobals, {len(outermost)}>(),",
        f"              {repr_text('the number of fields of ' + spec.struct + said)});",
    ]
    for f in spec.struct_fields:
        if f.name not in spec.behind:
            lines += [
                f"static_assert(tkjit::holds<decltype(TkjitGlobals::{_path(f)}), {elements[f.name]}>(),",
                f"              {repr_text(f'the type of {spec.struct}::{_path(f)}' + said)});",
            ]
    return [*lines, ""]


def _entry(spec: Spec) -> list[str]:
    struct = "TkjitGlobals" if spec.struct else "Globals"
    body = [
        *([] if spec.args else _extent_checks(spec, struct)),
        *_dims(spec),
        *_computed_checks(spec),
        *([] if spec.args else _globals_value(spec, struct)),
        *_shape(spec),
        *_launch(spec),
    ]
    return [
        'extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {',
        "    return tkjit::without_exceptions([&]() -> const char* {",
        *indent(body, 8),
        "    });",
        "}",
    ]


def _extent_checks(spec: Spec, struct: str) -> list[str]:
    # of a struct rendered here the glue has checked the extents
    checked = [(i, f) for i, f in enumerate(spec.struct_fields) if f.is_tensor and (spec.struct or f.cpp_type)]
    checks = [
        f"tkjit::check_extents<decltype({struct}::{_path(f)})>(args[{i}], {repr_text(f.name)})" for i, f in checked
    ]
    lines = [f"if (const char* error = {check}) return error;" for check in checks]
    return [*lines, ""] if lines else []


def _dims(spec: Spec) -> list[str]:
    """The names that the grid, the block and the shared memory use, as 64-bit integers."""
    expressions = [expr for _, part in spec.launch if isinstance(part, tuple) for expr in part]
    expressions += [expr for _, expr in spec.computed]
    expressions += [
        Expr.parse(name) for _, part in spec.launch if isinstance(part, CExpr) for name in _used(spec, part)
    ]
    derived = derived_in_order(spec, expressions)
    names = {name for expr in [*expressions, *(expr for _, expr in derived)] for name in expr.names}
    names -= {name for name, _ in derived}
    # an integer variant is already a constant of that name, with the value that the call has
    names -= spec.integer_variants.keys()
    position = {f.name: i for i, f in enumerate(spec.struct_fields)}
    spell = _speller(spec)
    lines = [f"const tkjit::Int {spell(name)} = {_value(spec, name, position)};" for name in sorted(names)]
    lines += [f"const tkjit::Int {spell(name)} = {expr.cpp(spell)};" for name, expr in derived]
    return [*lines, ""] if lines else []


def _value(spec: Spec, name: str, position: dict[str, int]) -> str:
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
    spell = _speller(spec)
    return [
        f"if (const char* error = tkjit::check_computed({expr.cpp(spell)}, {repr_text(name)})) return error;"
        for name, expr in spec.computed
    ]


def _globals_value(spec: Spec, struct: str) -> list[str]:
    """The struct, filled by member; one that lies within another is filled inside that one's braces."""
    position = {f.name: (i, f) for i, f in enumerate(spec.struct_fields)}
    computed, spell = dict(spec.computed), _speller(spec)
    lines, outer = [], ""
    for name in _members(spec):
        if name in computed:
            path, value = (
                [name],
                f"static_cast<decltype({struct}::{name})>(tkjit::Int({computed[name].cpp(spell)}).value())",
            )
        else:
            index, f = position[name]
            path, value = _path(f).split("."), f"tkjit::convert<decltype({struct}::{_path(f)})>(args[{index}])"
        around = path[0] if len(path) > 1 else ""
        if outer and around != outer:
            lines.append("    },")
        if around and around != outer:
            lines.append(f"    .{around} = {{")
        outer = around
        lines.append(f"{'        ' if outer else '    '}.{path[-1]} = {value},")
    return [f"const {struct} globals{{", *lines, *(["    },"] if outer else []), "};"]


def _shape(spec: Spec) -> list[str]:
    if spec.host:
        return []
    spell = _speller(spec)
    lines = ["tkjit::LaunchShape shape;"]
    for what, part in spec.launch:
        if isinstance(part, CExpr):
            lines += _shape_in_cpp(spec, what, part)
        elif part:
            lines.append(f"shape.set_{what}({', '.join(expr.cpp(spell) for expr in part)});")
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
    spell = _speller(spec)
    names = [name for name in _used(spec, part) if name not in spec.integer_variants]
    parameters = ", ".join(f"int {name}" for name in names)
    given = ", ".join(f"int({spell(name)}.value())" for name in names)
    made = f"tkjit::Int(int64_t({part}))" if what == "shared_memory" else f"dim3({part})"
    return [f"shape.set_{what}([&]({parameters}) {{ return {made}; }}({given}));"]


def _used(spec: Spec, part: CExpr) -> list[str]:
    """The dims and integers that an expression in C++ uses."""
    known = {*spec.dim_names, *dict(spec.derived), *(f.name for f in spec.fields if f.is_integer)}
    return sorted(part.names & known)


def _speller(spec: Spec) -> Callable[[str], str]:
    """Names as the launch function knows them."""
    # a variable of such a name would hide what the entry is made of
    entry = frozenset("".join(c if c.isalnum() or c == "_" else " " for c in spec.entry).split())

    def spell(name: str) -> str:
        if name in spec.integer_variants:
            return f"tkjit::Int({name})"  # a plain constant there
        return f"{local(name)}_" if local(name) in entry else local(name)

    return spell


def _launch(spec: Spec) -> list[str]:
    if spec.args:
        function = "call_host_with_arguments" if spec.host else "launch_with_arguments"
        shape = "" if spec.host else "shape, "
        lines, given = _arguments(spec)
        return [*lines, f"return tkjit::{function}({spec.entry}, {shape}device, stream, {given});"]
    if spec.host:
        return [f"return tkjit::call_host({spec.entry}, device, stream, globals);"]
    entry = spec.entry
    if spec.config:
        entry = f"tkjit::configured<{spec.config}, {'TkjitGlobals' if spec.struct else 'Globals'}, {spec.entry}>"
    behind = "".join(f", {value}" for value in _behind(spec))
    return [f"return tkjit::launch({entry}, shape, device, stream, globals{behind});"]


def _arguments(spec: Spec) -> tuple[list[str], str]:
    """What a function with plain arguments is given, and what has to stand before that."""
    if not spec.computed:
        return [], "args"
    position = {f.name: i for i, f in enumerate(spec.struct_fields)}
    computed, spell = dict(spec.computed), _speller(spec)
    values = [
        f"tkjit::integer_arg({computed[name].cpp(spell)})" if name in computed else f"args[{position[name]}]"
        for name in spec.order
    ]
    return [f"const TkjitArg all[] = {{{', '.join(values)}}};"], "all"


def _behind(spec: Spec) -> list[str]:
    """What the entry takes behind the struct."""
    position = {f.name: (i, f) for i, f in enumerate(spec.struct_fields)}
    computed, spell = dict(spec.computed), _speller(spec)
    return [
        f"tkjit::Int({computed[name].cpp(spell)}).value()"
        if name in computed
        else f"tkjit::convert<{position[name][1].dtype}>(args[{position[name][0]}])"
        for name in spec.behind
    ]
