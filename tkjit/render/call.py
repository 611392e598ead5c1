"""Renders the part of a call that is the same in Python and C: read, check, choose a variant, allocate and pass on.

The rendered code calls functions of ``tkjit/call/checks.h``, and of one header for the caller's language:
``runtime/glue.h`` for Python, ``tkjit/export/call.h`` for C. In both, a null result means that the call was rejected.
"""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.render.tensors import TensorChecks
from tkjit.render.text import field_text, given, int64_literal, literal, local, repr_text, whole
from tkjit.spec import BY_NAME, SCALAR_TYPES, Field, Spec
from tkjit.spec.dtypes import enumerator
from tkjit.spec.model import MISSING
from tkjit.spec.signature import join_options
from tkjit.spec.values import ValueType


class CheckedCall:
    """Renders the call of one overload.

    Parameters
    ----------
    parameters : sequence of str
        The names of the call's parameters, in order.
    first_variant : int
        The number of this overload's first variant; variants are numbered across all overloads.
    """

    def __init__(self, spec: Spec, parameters: Sequence[str], first_variant: int = 0) -> None:
        self.spec = spec
        self.parameters = parameters
        self.outputs = spec.outputs
        self.first_variant = first_variant
        self.tensors = TensorChecks(spec, parameters)
        self.anchor = self.tensors.place

    def scalars(self) -> list[str]:
        """Render the code that reads all arguments except tensors and generators."""
        return [
            *(line for f in self.spec.fields if f.value_type and f.draws is None for line in self._value(f)),
            *(line for f in self.spec.fields if not f.is_tensor and not f.value_type for line in self._scalar(f)),
        ]

    def _scalar(self, f: Field) -> list[str]:
        bounds = SCALAR_TYPES[f.dtype]
        kind = "int64_t" if bounds else "bool" if f.dtype == "bool" else "double"
        default = literal(f.default) if f.default not in (MISSING, None) else "false" if kind == "bool" else "0"
        limits = f", {int64_literal(bounds[0])}, {int64_literal(bounds[1])}" if bounds else ""
        guard = "" if f.is_required else f"{given(f.name)} && "
        return [
            "",
            f"// {field_text(f)}",
            f"{kind} {local(f.name)} = {default};",
            f"if ({guard}!read(call, {repr_text(f.name)}, {given(f.name)}, {local(f.name)}{limits})) return nullptr;",
        ]

    def _value(self, f: Field) -> list[str]:
        value = f.value_type
        assert value is not None
        name = local(f.name)
        static, default = _default_value(f)
        guard = "" if f.is_required and not f.optional else f"{given(f.name)} && "
        most = 0 if self.spec.host else f.max_length
        what = f"{repr_text(f.name)}, {given(f.name)}, {repr_text(value.code)}, {repr_text(value.expected)}, {most}"
        return [
            "",
            f"// {field_text(f)}",
            *static,
            f"TkjitArg {name} = {default};",
            f"if ({guard}!read(call, {what}, {name})) return nullptr;",
        ]

    # ---- the variant

    def choices(self) -> list[str]:
        """Render the variables ``option_of_x``, which hold the options that arguments choose."""
        lines: list[str] = []
        for name, options in self.spec.integer_variants.items():
            lines += ["", *self._integer_choice(name, options)]
        for f in self.spec.dtype_fields:
            lines += ["", *self._dtype_choice(f)]
        for f in self.spec.name_fields:
            lines += ["", *self._name_choice(f)]
        return lines

    def chosen(self) -> str:
        """Return the expression for the chosen variant's number; variants are numbered across all overloads."""
        index = ""
        for i, (name, options) in enumerate(self.spec.variants):
            chosen_by_value = (self.spec.integer_variants, self.spec.name_variants, self.tensors.by_argument)
            is_argument = any(name in names for names in chosen_by_value)
            choice = f"option_of_{name}" if is_argument else local(name)
            choice = f"!{choice}" if options[0] is True else choice  # of (True, False), True is option 0
            before = f"({index})" if i > 1 else index
            index = f"{before} * {len(options)} + {choice}" if i else choice
        if not index:
            return str(self.first_variant)
        return f"{self.first_variant} + {index}" if self.first_variant else index

    def _integer_choice(self, name: str, options: Sequence[int]) -> list[str]:
        constraint = repr_text(f"{name} is {join_options(tuple(map(str, options)))}")
        value = f"{{{{{repr_text(name)}, {local(name)}}}}}"
        is_computed = name in dict(self.spec.derived)
        return [
            f"int option_of_{name} = 0;",
            f"switch ({f'value_or_least({local(name)})' if is_computed else local(name)}) {{",
            *(f"    case {option}: option_of_{name} = {i}; break;" for i, option in enumerate(options)),
            f"    default: return unsatisfied(call, {constraint}, {value});",
            "}",
        ]

    def _dtype_choice(self, f: Field) -> list[str]:
        options = self.spec.type_variants[f.name]
        expected = repr_text(join_options(options))
        return [
            f"int option_of_{f.name} = 0;",
            f"switch ({local(f.name)}.integer) {{",
            *(
                f"    case {enumerator(BY_NAME[option])}: option_of_{f.name} = {i}; break;"
                for i, option in enumerate(options)
            ),
            f"    default: return refuse_object(call, {repr_text(f.name)}, {given(f.name)}, {expected}), nullptr;",
            "}",
        ]

    def _name_choice(self, f: Field) -> list[str]:
        options = self.spec.name_variants[f.name]
        names = ", ".join(map(repr_text, options))
        refuse = f"refuse_text(call, {repr_text(f.name)}, {given(f.name)}, {repr_text(join_options(options))})"
        return [
            f"const int option_of_{f.name} = option_of({local(f.name)}, {{{names}}});",
            f"if (option_of_{f.name} < 0) return {refuse}, nullptr;",
        ]

    # ---- the arguments of the launch

    def allocations(self) -> list[str]:
        """Render the code that allocates scratch, and the outputs that the caller does not pass."""
        lines = []
        for f in self.outputs:
            dtype = self.tensors.dtype(f)
            allocate = (
                f"allocate(call, {repr_text(f.name)}, object_of_{f.name}, {local(f.name)}, shape_of_{f.name}, {dtype}, "
                f"{self.anchor})"
            )
            lines.append(f"if (!{given(f.name)} && !{allocate}) return nullptr;")
        for f in self.spec.scratch:
            allocate = (
                f"allocate_scratch(call, {repr_text(f.name)}, object_of_{f.name}, {local(f.name)}, shape_of_{f.name}, "
                f"{self.tensors.dtype(f)}, {self.anchor})"
            )
            lines.append(f"if (!{allocate}) return nullptr;")
        return lines

    def random(self) -> list[str]:
        """Render the code that draws random numbers, after all checks, so that a rejected call draws none."""
        lines = []
        for f in self.spec.fields:
            if f.draws is not None:
                what = f"{repr_text(f.name)}, {given(f.name)}, {self.tensors.value(f.draws)}, {self.anchor}"
                lines += [
                    f"TkjitArg {local(f.name)};",
                    f"if (!random(call, {what}, {local(f.name)})) return nullptr;",
                ]
        return lines

    def arguments(self) -> list[str]:
        """Render the array ``args`` of launcher arguments, with a last element for a number that is returned."""
        lines = ["", f"TkjitArg args[{len(self.spec.struct_fields) + bool(self.spec.result)}];"]
        for i, f in enumerate(self.spec.struct_fields):
            if f.is_list or f.is_parallel:
                lines.append(f"if (!set(args[{i}], {whole(f)}, call)) return nullptr;")
                continue
            setting = f"set(args[{i}], {local(f.name)});"
            if f.optional and f.default in (MISSING, None) and not f.value_type:
                setting = f"if ({given(f.name)}) {setting} else set_absent(args[{i}]);"
            lines.append(setting)
        return lines

    def something_to_write(self) -> str:
        """Return the condition that the kernel has something to write, followed by ``&&``; empty to launch always."""
        if self.spec.is_parallel or self.spec.result:
            return ""  # always launch: other devices may wait for this one, or the caller expects a number
        # empty inputs do not count: a matrix product with an inner size of 0 still has to write zeros
        to_write = [
            f"({given(f.name)} && !empty({local(f.name)}))" if f.optional else f"!empty({whole(f)})"
            for f in self.spec.tensors
            if f.is_written
        ]
        if not to_write:
            return ""
        return f"({' || '.join(to_write)}) && " if len(to_write) > 1 else f"{to_write[0]} && "


def _default_value(f: Field) -> tuple[list[str], str]:
    """Render the value of an omitted argument: static data, and the expression for the value."""
    default = f.default
    if f.value_type is None or default in (MISSING, None):
        return [], "{}"
    if isinstance(default, tuple):
        items = [_number_value(*pair) for pair in zip(default, _kinds(f.value_type, default), strict=True)] or ["{}"]
        name = f"default_of_{f.name}"
        return [f"static const TkjitArg {name}[] = {{{', '.join(items)}}};"], f"list_value({name}, {len(default)})"
    if f.value_type.code == "t":
        return [], f"number_value({enumerator(BY_NAME[default])})"
    if f.value_type.code == "d":
        kind, _, index = default.partition(":")
        return [], f"number_value({index or -1}, TKJIT_{kind.upper()})"
    return [], f"text_value({repr_text(default)})"


def _kinds(value: ValueType, default: Sequence[object]) -> list[str]:
    """Return the C++ types of a default's numbers, which are the items of a list or the members of a struct."""
    if value.members:
        return [member.cpp for member in value.members for _ in range(member.count)]
    is_real = value.item is not None and value.item.code == "f"
    return ["double" if is_real else "int64_t"] * len(default)


def _number_value(value: float, kind: str) -> str:
    if kind in ("float", "double"):
        return f"real_value({literal(float(value))})"
    return f"number_value({int64_literal(int(value))})"
