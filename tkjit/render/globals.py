"""Renders the globals struct of a launcher, or the checks of the source's own struct, and the code that fills it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tkjit.render.expressions import render_expression
from tkjit.render.text import argument, field_text, repr_text, speller
from tkjit.spec import Field, Spec, Variant
from tkjit.spec.checks import AUTO, DEV_IDX, NUM_DEVICES
from tkjit.spec.expr import Expr


@dataclass(frozen=True)
class Layout:
    """A tensor's layout as a kernel sees it.

    Parameters
    ----------
    element : str
        The C++ type of its elements.
    extents : tuple of int or str
        The extents that the C++ type fixes, with -1 for all others; empty if the type fixes none.
    rank : int
        The rank of a strided layout; otherwise 0.
    """

    element: str
    extents: tuple[int | str, ...] = ()
    is_parallel: bool = False
    rank: int = 0

    @property
    def cpp_type(self) -> str:
        """The C++ type: ``tkjit::gl<float, 1, 1, 1, -1>``."""
        if self.rank:
            return f"tkjit::strided<{self.element}, {self.rank}>"
        arguments = ", ".join(map(str, (self.element, *self.extents)))
        return f"tkjit::{'pgl' if self.is_parallel else 'gl'}<{arguments}>"


def _element(spec: Spec, variant: Variant, tensor: Field) -> str:
    return tensor.dtype if tensor.dtype in spec.type_variants else variant.dtype_of(tensor).cpp


def _layout(spec: Spec, variant: Variant, field: Field) -> Layout:
    """Return the layout of a tensor, or of each tensor in a list."""
    if field.is_strided:
        return Layout(_element(spec, variant, field), rank=len(field.dims))
    constants = dict(variant.values)
    # an absent tensor has no extents, so its type cannot fix any
    member_names = frozenset(members(spec))
    extents = [-1 if field.optional else _static_extent(dim, constants, member_names) for dim in field.dims]
    missing = -1 if field.leading or field.optional else 1
    return Layout(_element(spec, variant, field), (*[missing] * (4 - len(extents)), *extents), field.is_parallel)


def _expected_type(spec: Spec, variant: Variant, field: Field) -> str:
    """Return the type that the source must use for a field.

    For a tensor that is neither strided nor in a list, this is only the type of its elements.
    """
    if not field.is_tensor:
        return field.dtype
    element = _element(spec, variant, field)
    if field.is_strided:
        return Layout(element, rank=len(field.dims)).cpp_type
    return f"std::vector<{Layout(element).cpp_type}>" if field.is_list else element


def _member_type(spec: Spec, variant: Variant, field: Field) -> str:
    if field.cpp_type:
        return field.cpp_type
    if spec.host and (field.value_type or field.is_list):
        given = _expected_type(spec, variant, field)
        return f"std::optional<{given}>" if field.optional else given
    if field.is_tensor:
        layout = _layout(spec, variant, field)
        return f"tkjit::list<{layout.cpp_type}, {field.max_length}>" if field.is_list else layout.cpp_type
    if field.draws is not None or (field.value_type is not None and field.value_type.members):
        return field.dtype
    item = field.value_type.item if field.value_type is not None else None
    value = f"tkjit::list<{item.cpp}, {field.max_length}>" if item is not None else field.dtype
    return f"tkjit::optional<{value}>" if field.optional else value


def _static_extent(dim: Expr, constants: dict[str, str | int], own: frozenset[str]) -> int | str:
    if not dim.names:
        return dim.evaluate({})
    if not isinstance(constants.get(dim.text), int):
        return -1
    # If a parameter chooses the variant, the struct also has a member of that name. The qualifier ``::`` refers to the
    # constant, because C++ does not allow a name to change its meaning within a struct.
    return f"::{dim.text}" if dim.text in own else dim.text


def globals_struct(spec: Spec, variant: Variant) -> list[str]:
    if spec.args or spec.struct:
        return []
    by_name = {f.name: f for f in spec.fields}
    computed = computed_members(spec)
    declared = [
        (f"int {name};", f"{computed[name]}")
        if name in computed
        else (f"{_member_type(spec, variant, by_name[name])} {name};", field_text(by_name[name]))
        for name in members(spec)
    ]
    width = max(len(member) for member, _ in declared)
    return ["struct Globals {", *(f"    {member:<{width}}  // {text}" for member, text in declared), "};", ""]


def members(spec: Spec) -> list[str]:
    """Return the struct's members in order. ``Globals`` for several devices also has the device's index and count."""
    device_members = [DEV_IDX, NUM_DEVICES] if spec.is_parallel and not spec.struct else []
    return [
        *(name for name in spec.taken if name not in spec.trailing),
        *(name for name in device_members if name not in spec.order),
    ]


def computed_members(spec: Spec) -> dict[str, Expr]:
    """Map each member that tkjit computes, rather than taking it from the call, to its expression."""
    device_members = [name for name in members(spec) if name in (DEV_IDX, NUM_DEVICES)]
    return {**{name: Expr.parse(name) for name in device_members}, **dict(spec.computed)}


def _path(field: Field) -> str:
    """Return the member that a field fills: ``x.real``, or the member with the field's name."""
    return field.member or field.name


def struct_values(spec: Spec) -> list[str]:
    """Render the code that turns a call's numbers into structs by value, with static_asserts on their members."""
    otherwise = f"; the spec of {spec.name} says otherwise"
    types = {f.value_type.cpp: f.value_type for f in spec.fields if f.value_type is not None and f.value_type.members}
    lines = []
    for cpp, value in types.items():
        count = sum(member.count for member in value.members)
        lines += [
            f"static_assert(tkjit::has_elements<{cpp}, {count}>(),",
            f"              {repr_text(f'the number of fields of {cpp}{otherwise}')});",
            *(
                f"static_assert(tkjit::holds_items<decltype({cpp}::{member.name}), {member.cpp}, {member.count}>(), "
                f"{repr_text(f'the type of {cpp}::{member.name}{otherwise}')});"
                for member in value.members
            ),
            "template <>",
            f"struct tkjit::converter<{cpp}> {{",
            f"    static {cpp} from(const TkjitArg& arg) {{",
            "        const TkjitArg* item = tkjit::items_of(arg);",
            f"        {cpp} made{{}};",
            *(f"        tkjit::take(made.{member.name}, item);" for member in value.members),
            "        return made;",
            "    }",
            "};",
            "",
        ]
    return lines


def arrays(spec: Spec) -> list[Field]:
    """Return the lists that fill arrays in the source's own struct."""
    lists = (f for f in spec.struct_fields if f.value_type is not None and f.value_type.item is not None)
    return [f for f in lists if spec.struct and not spec.host and f.name not in spec.trailing]


def fill_arrays(spec: Spec) -> list[str]:
    """Render the code that fills the arrays of the source's own struct; each list must be as long as its array."""
    calls = (f"tkjit::fill_array(globals.{_path(f)}, {argument(f.name)}, {repr_text(f.name)})" for f in arrays(spec))
    return [f"if (const char* error = {call}) return error;" for call in calls]


def argument_checks(spec: Spec, variant: Variant) -> list[str]:
    """Render the static assertions on an entry with plain arguments."""
    if not spec.args:
        return []
    types = {f.name: _expected_type(spec, variant, f) for f in spec.struct_fields}
    taken = [types.get(name, "tkjit::computed") for name in spec.taken]
    listed = ", ".join([f"decltype(&{spec.entry})", *taken])
    otherwise = repr_text(f"the parameters of {spec.entry}; the spec of {spec.name} says otherwise")
    return [f"static_assert(tkjit::takes<{listed}>(), {otherwise});", ""]


def struct_checks(spec: Spec, variant: Variant) -> list[str]:
    """Render the static assertions on a struct that the source defines."""
    struct = f"the struct of {spec.entry}" if spec.struct == AUTO else str(spec.struct)
    otherwise = f"; the spec of {spec.name} says otherwise"
    types = {f.name: _expected_type(spec, variant, f) for f in spec.struct_fields}
    paths = {f.name: _path(f) for f in spec.struct_fields}
    within = Counter(path.split(".")[0] for path in paths.values() if "." in path)
    outermost = {paths.get(name, name).split(".")[0] for name in members(spec)}
    more = sum(f.max_length - 1 for f in arrays(spec) if "." not in paths[f.name])  # an array counts as its elements
    lines = [
        f"static_assert(tkjit::has_fields<TkjitGlobals, {len(outermost) + more}>(),",
        f"              {repr_text('the number of fields of ' + struct + otherwise)});",
    ]
    for member, count in within.items():  # a nested member that no field fills would be null
        lines += [
            f"static_assert(tkjit::has_fields<decltype(TkjitGlobals::{member}), {count}>(),",
            f"              {repr_text(f'the number of fields of {struct}::{member}' + otherwise)});",
        ]
    own_arrays = arrays(spec)
    for f in own_arrays:
        assert f.value_type is not None and f.value_type.item is not None
        item = f.value_type.item.cpp
        lines += [
            f"static_assert(tkjit::holds_items<decltype(TkjitGlobals::{_path(f)}), {item}, {f.max_length}>(),",
            f"              {repr_text(f'the type of {struct}::{_path(f)}' + otherwise)});",
        ]
    for f in spec.struct_fields:
        if f.name not in spec.trailing and f not in own_arrays and not f.is_constant:
            lines += [
                f"static_assert(tkjit::holds<decltype(TkjitGlobals::{_path(f)}), {types[f.name]}>(),",
                f"              {repr_text(f'the type of {struct}::{_path(f)}' + otherwise)});",
            ]
    return [*lines, ""]


def extent_checks(spec: Spec, struct: str) -> list[str]:
    # for a struct that is rendered here, the glue has already checked the extents
    checked = [f for f in spec.struct_fields if f.is_tensor and (spec.struct or f.cpp_type) and not f.is_constant]
    checks = [
        f"tkjit::check_extents<decltype({struct}::{_path(f)})>({argument(f.name)}, {repr_text(f.name)})"
        for f in checked
    ]
    lines = [f"if (const char* error = {check}) return error;" for check in checks]
    return [*lines, ""] if lines else []


def globals_value(spec: Spec, struct: str) -> list[str]:
    """Render the code that fills the struct by member; a nested member is inside its parent's braces."""
    by_name = {f.name: f for f in spec.fields}
    computed, spell = computed_members(spec), speller(spec)
    lines, outer = [], ""
    in_arrays = {f.name for f in arrays(spec)}
    for name in members(spec):
        if name in in_arrays:
            continue
        if name in computed:
            path = [name]
            value = f"tkjit::convert<decltype({struct}::{name})>({render_expression(computed[name], spell)})"
        else:
            whole_path = _path(by_name[name])
            path = whole_path.split(".")
            value = f"tkjit::convert<decltype({struct}::{whole_path})>({argument(name)})"
        around = path[0] if len(path) > 1 else ""
        if outer and around != outer:
            lines.append("    },")
        if around and around != outer:
            lines.append(f"    .{around} = {{")
        outer = around
        lines.append(f"{'        ' if outer else '    '}.{path[-1]} = {value},")
    const = "" if spec.struct else "const "  # a source's own struct may set its launch in functions that are not const
    return [f"{const}{struct} globals{{", *lines, *(["    },"] if outer else []), "};"]
