"""Renders the function of one overload: it reads and checks the arguments, chooses a variant and launches."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.render.tensors import TensorChecks
from tkjit.render.text import field_text, given, indent, literal, local, repr_text, whole, wrap
from tkjit.spec import BY_NAME, SCALAR_TYPES, Field, Spec
from tkjit.spec.dtypes import enumerator
from tkjit.spec.model import MISSING
from tkjit.spec.signature import join_options
from tkjit.spec.values import ValueType


class Overload:
    """Renders one overload's function."""

    def __init__(self, spec: Spec, index: int, first_variant: int) -> None:
        self.spec = spec
        self.index = index
        self.first_variant = first_variant
        self.outputs = spec.outputs
        self.parameters = [
            *(f.name for f in spec.given if not f.keyword_only),
            *(f.name for f in spec.given if f.keyword_only),
            *(["out"] if self.outputs else []),
            *(["club"] if spec.is_parallel else []),
            "stream",
        ]
        self.tensors = TensorChecks(spec, self.parameters)
        self.anchor = self.tensors.place

    def render(self) -> list[str]:
        spec = self.spec
        body = [
            f"PyObject* given[{len(self.parameters)}];",
            f"if (!bind(call, signature_{self.index}, given)) return nullptr;",
            *wrap("auto& [", map(given, self.parameters), "] = given;"),
            *self._out_tuple(),
            *(line for f in spec.fields if f.value_type and f.draws is None for line in self._value(f)),
            *(line for f in spec.fields if not f.is_tensor and not f.value_type for line in self._scalar(f)),
            "",
            *self.tensors.render(),
            *self._variant(),
            *self._launch(),
            *self._result(),
        ]
        return [
            *self._parameter_table(),
            f"// {spec.name}({', '.join(field_text(f) for f in spec.fields)})",
            f"PyObject* overload_{self.index}(Call& call) {{",
            *indent(body),
            "}",
            "",
        ]

    # ---- parameters and scalars

    def _parameter_table(self) -> list[str]:
        by_name = {f.name: f for f in self.spec.fields}
        name = self.spec.name
        rows = []
        for parameter in self.parameters:
            f = by_name.get(parameter)
            required = f is not None and f.is_required
            nullable = f is None or f.optional or f.direction == "out"
            spread = f", {_spread(f)}" if self.spec.is_parallel and (f is None or f.is_tensor) else ""
            spread = "" if parameter in ("club", "stream") else spread
            rows.append(f"    {{{repr_text(parameter)}, {literal(required)}, {literal(nullable)}{spread}}},")
        positional = sum(not f.keyword_only for f in self.spec.given)
        table = f"parameters_{self.index}"
        return [
            f"Parameter {table}[] = {{  // name, required, None means not given",
            *rows,
            "};",
            f"const Signature signature_{self.index}{{{repr_text(name)}, {table}, {len(rows)}, {positional}}};",
            *self._numbers(),
            "",
        ]

    def _numbers(self) -> list[str]:
        """What a prepared launch may be given anew: numbers that decide no shape, no variant and no memory."""
        spec = self.spec
        exprs = [*(dim for f in spec.tensors for dim in f.dims), *spec.constraints, *(expr for _, expr in spec.derived)]
        fixed = {name for expr in exprs for name in expr.names} | dict(spec.variants).keys()
        rows, names = [], []
        for i, f in enumerate(spec.struct_fields):
            if f.is_tensor or f.value_type or f.name in fixed:
                continue
            bounds = SCALAR_TYPES[f.dtype]
            kind = "i" if bounds else "b" if f.dtype == "bool" else "d"
            low, high = map(_int64, bounds) if bounds else ("0", "0")
            nullable = literal(f.optional and f.default in (MISSING, None))  # else None means the default
            rows.append(f"{{{repr_text(f.name)}, {i}, '{kind}', {nullable}, {low}, {high}}}")
            names.append(f.name)
        table = f"number_table_{self.index}"
        listed = (
            [f"Number {table}[] = {{  // name, position, kind", *(f"    {row}," for row in rows), "};"] if rows else []
        )
        what = f"{table if rows else 'nullptr'}, {len(rows)}, {repr_text(', '.join(names))}"
        return [*listed, f"const Numbers numbers_{self.index}{{{what}}};"]

    def _out_tuple(self) -> list[str]:
        if not self.outputs:
            return []
        positions = ", ".join(str(self.parameters.index(f.name)) for f in self.outputs)
        signature = f"signature_{self.index}"
        return [f"if (!spread_out(call, {signature}, given, {given('out')}, {{{positions}}})) return nullptr;"]

    def _scalar(self, f: Field) -> list[str]:
        bounds = SCALAR_TYPES[f.dtype]
        kind = "int64_t" if bounds else "bool" if f.dtype == "bool" else "double"
        default = literal(f.default) if f.default not in (MISSING, None) else "false" if kind == "bool" else "0"
        limits = f", {_int64(bounds[0])}, {_int64(bounds[1])}" if bounds else ""
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
        what = f"{repr_text(f.name)}, {given(f.name)}, {repr_text(value.code)}, {repr_text(value.text)}, {most}"
        return [
            "",
            f"// {field_text(f)}",
            *static,
            f"TkjitArg {name} = {default};",
            f"if ({guard}!read(call, {what}, {name})) return nullptr;",
        ]

    # ---- the launch

    def _variant(self) -> list[str]:
        lines: list[str] = []
        for name, options in self.spec.integer_variants.items():
            lines += ["", *self._integer_choice(name, options)]
        for f in self.spec.dtype_fields:
            lines += ["", *self._dtype_choice(f)]
        return [
            *lines,
            "",
            "void* stream = nullptr;",
            f"if (!find_stream(call, {given('stream')}, {self.anchor}, stream)) return nullptr;",
            "",
            "call.decided = true;",
            f"if (call.choosing) return PyLong_FromLong({self.index});",
            *self._deprecation(),
            f"const TkjitLaunch launch_function = launcher(call, {self.index}, {self._chosen()}, {self.anchor});"
            "  // overload, variant",
            "if (!launch_function) return nullptr;",
        ]

    def _chosen(self) -> str:
        """The number of the chosen variant among those of all overloads."""
        index = ""
        for i, (name, options) in enumerate(self.spec.variants):
            is_argument = name in self.spec.integer_variants or name in self.tensors.by_argument
            choice = f"option_of_{name}" if is_argument else local(name)
            choice = f"!{choice}" if options[0] is True else choice  # (True, False)
            before = f"({index})" if i > 1 else index
            index = f"{before} * {len(options)} + {choice}" if i else choice
        if not index:
            return str(self.first_variant)
        return f"{self.first_variant} + {index}" if self.first_variant else index

    def _deprecation(self) -> list[str]:
        if not self.spec.deprecated:
            return []
        return [f"if (!deprecated(call, {repr_text(self.spec.deprecated)})) return nullptr;"]

    def _integer_choice(self, name: str, options: Sequence[int]) -> list[str]:
        constraint = repr_text(f"{name} is {join_options(tuple(map(str, options)))}")
        value = f"{{{{{repr_text(name)}, {local(name)}}}}}"
        return [
            f"int option_of_{name} = 0;",
            f"switch ({local(name)}) {{",
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

    def _launch(self) -> list[str]:
        launch = f"launch(call, launch_function, args, {self.anchor}, stream)"
        return [
            *self._allocations(),
            *self._random(),
            *self._arguments(),
            f"if ({self._something_to_write()}!{launch}) return nullptr;",
            *self._uses(),
        ]

    def _allocations(self) -> list[str]:
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

    def _random(self) -> list[str]:
        """Random numbers are taken when nothing can be refused any more."""
        lines = []
        for f in self.spec.fields:
            if f.draws is not None:
                what = f"{repr_text(f.name)}, {given(f.name)}, {self.tensors.value(f.draws)}, {self.anchor}"
                lines += [
                    f"TkjitArg {local(f.name)};",
                    f"if (!random(call, {what}, {local(f.name)})) return nullptr;",
                ]
        return lines

    def _arguments(self) -> list[str]:
        lines = ["", f"TkjitArg args[{len(self.spec.struct_fields)}];"]
        for i, f in enumerate(self.spec.struct_fields):
            if f.is_list or f.is_parallel:
                lines.append(f"if (!set(args[{i}], {whole(f)}, call)) return nullptr;")
                continue
            setting = f"set(args[{i}], {local(f.name)});"
            if f.optional and f.default in (MISSING, None) and not f.value_type:
                setting = f"if ({given(f.name)}) {setting} else set_absent(args[{i}]);"
            lines.append(setting)
        return lines

    def _something_to_write(self) -> str:
        """The condition of the launch: where there is nothing to write there is nothing to launch."""
        if self.spec.is_parallel:
            return ""  # other devices may wait for this one
        to_write = [
            f"({given(f.name)} && !empty({local(f.name)}))" if f.optional else f"!empty({whole(f)})"
            for f in self.spec.tensors
            if f.is_written
        ]
        if not to_write:
            return ""
        return f"({' || '.join(to_write)}) && " if len(to_write) > 1 else f"{to_write[0]} && "

    def _uses(self) -> list[str]:
        """What the allocator and autograd are told after the launch."""
        tensors = self.spec.tensors
        used = [
            f"object_of_{f.name}.get()" if f.is_allocated else given(f.name)
            for f in tensors
            if not f.is_list and not f.is_parallel
        ]
        lists = [whole(f) for f in tensors if f.is_list or f.is_parallel]
        uses = [f"{{{', '.join(used)}}}"] * bool(used) + lists
        where = f"call, {given('stream')}, {self.anchor}"
        lines = [f"if (!record_stream({where}, {each})) return nullptr;" for each in uses]
        for f in (f for f in tensors if f.is_written):
            if f.is_list or f.is_parallel:
                lines.append(f"if (!written(call, {whole(f)})) return nullptr;")
                continue
            # a tensor that is allocated here has no past to tell autograd of
            guard = f"{given(f.name)} && " if f.optional or f.direction == "out" else ""
            lines.append(f"if ({guard}!written(call, {given(f.name)})) return nullptr;")
        return lines

    def _result(self) -> list[str]:
        by_name = {f.name: f for f in self.spec.fields}
        returned = [by_name[name] for name in self.spec.returns]
        if not returned:
            return ["Py_RETURN_NONE;"]
        lines = [
            f"if (!{given(f.name)} && !as_given(call, object_of_{f.name}, {self.anchor})) return nullptr;"
            for f in self.outputs
        ]
        if len(returned) == 1:
            (f,) = returned
            value = f"object_of_{f.name}.release()" if f.direction == "out" else f"Py_NewRef({_given_or_none(f)})"
            return [*lines, f"return {value};"]
        borrowed = [
            line
            for f in returned
            if f.direction == "inout"
            for line in (f"Object object_of_{f.name};", f"object_of_{f.name}.borrow({_given_or_none(f)});")
        ]
        listed = ", ".join(f"&object_of_{f.name}" for f in returned)
        return [*borrowed, *lines, f"return named_tuple(call, {self.index}, {{{listed}}});"]


def _given_or_none(f: Field) -> str:
    return f"{given(f.name)} ? {given(f.name)} : Py_None" if f.optional else given(f.name)


def _spread(f: Field | None) -> str:
    """How a call over several devices brings a tensor, or ``out``: and whether each device writes its own."""
    if f is None:
        return "Spread::each, true"
    return f"{'Spread::parallel' if f.is_parallel else 'Spread::each'}{', true' if f.is_written else ''}"


def _default_value(f: Field) -> tuple[list[str], str]:
    """What an absent argument means: static data, and the expression that makes the value."""
    default = f.default
    if f.value_type is None or default in (MISSING, None):
        return [], "{}"
    if isinstance(default, tuple):
        items = [_number_value(item, f.value_type.item) for item in default] or ["{}"]
        name = f"default_of_{f.name}"
        return [f"static const TkjitArg {name}[] = {{{', '.join(items)}}};"], f"list_value({name}, {len(default)})"
    if f.value_type.code == "t":
        return [], f"number_value({enumerator(BY_NAME[default])})"
    if f.value_type.code == "d":
        kind, _, index = default.partition(":")
        return [], f"number_value({index or -1}, TKJIT_{kind.upper()})"
    return [], f"text_value({repr_text(default)})"


def _number_value(value: float, kind: ValueType | None) -> str:
    if kind is not None and kind.code == "f":
        return f"real_value({literal(float(value))})"
    return f"number_value({_int64(int(value))})"


def _int64(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else str(value)
