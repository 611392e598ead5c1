"""Renders one overload's function, which reads and checks the arguments, chooses a variant and launches it."""

from __future__ import annotations

from tkjit.render.call import CheckedCall
from tkjit.render.results import RESULTS
from tkjit.render.text import field_text, given, indent, int64_literal, literal, repr_text, whole, wrap
from tkjit.spec import SCALAR_TYPES, Field, Spec
from tkjit.spec.model import MISSING


class Overload(CheckedCall):
    """Renders one overload's function."""

    def __init__(self, spec: Spec, index: int, first_variant: int) -> None:
        self.index = index
        parameters = [
            *(f.name for f in spec.given if not f.keyword_only),
            *(f.name for f in spec.given if f.keyword_only),
            *(["out"] if spec.outputs else []),
            *(["club"] if spec.is_parallel else []),
            "stream",
        ]
        super().__init__(spec, parameters, first_variant)

    def render(self) -> list[str]:
        spec = self.spec
        body = [
            f"PyObject* given[{len(self.parameters)}];",
            f"if (!bind(call, signature_{self.index}, given)) return nullptr;",
            *wrap("auto& [", map(given, self.parameters), "] = given;"),
            *self._out_tuple(),
            *self.scalars(),
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

    # ---- parameters

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
        """Render the table of numbers that a prepared launch may change: they affect no shape, variant or memory."""
        spec = self.spec
        exprs = [*(dim for f in spec.tensors for dim in f.dims), *spec.constraints, *(expr for _, expr in spec.derived)]
        fixed = {name for expr in exprs for name in expr.names} | dict(spec.variants).keys()
        rows, names = [], []
        for i, f in enumerate(spec.struct_fields):
            if f.is_tensor or f.value_type or f.name in fixed:
                continue
            bounds = SCALAR_TYPES[f.dtype]
            kind = "i" if bounds else "b" if f.dtype == "bool" else "d"
            low, high = map(int64_literal, bounds) if bounds else ("0", "0")
            nullable = literal(f.optional and f.default in (MISSING, None))  # otherwise None means the default
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

    # ---- the launch

    def _variant(self) -> list[str]:
        return [
            *self.choices(),
            "",
            "void* stream = nullptr;",
            f"if (!find_stream(call, {given('stream')}, {self.anchor}, stream)) return nullptr;",
            "",
            "call.decided = true;",
            f"if (call.choosing) return PyLong_FromLong({self.index});",
            *self._deprecation(),
            f"const TkjitLauncher* const found = launcher(call, {self.index}, {self.chosen()}, {self.anchor});"
            "  // overload, variant",
            "if (!found) return nullptr;",
        ]

    def _deprecation(self) -> list[str]:
        if not self.spec.deprecated:
            return []
        return [f"if (!deprecated(call, {repr_text(self.spec.deprecated)})) return nullptr;"]

    def _launch(self) -> list[str]:
        launch = f"launch(call, found, args, {self.anchor}, stream)"
        return [
            *self.allocations(),
            *self.random(),
            *self.arguments(),
            *self._kept_result(),
            f"if ({self.something_to_write()}!{launch}) return nullptr;",
            *self._uses(),
        ]

    def _kept_result(self) -> list[str]:
        """Render the variable for the number that a host function returns."""
        if not self.spec.result:
            return []
        return [
            f"if (call.prepares) return refuse_to_prepare(call, {repr_text(self.spec.result)}), nullptr;",
            f"{RESULTS[self.spec.result].cpp} result{{}};",
            f"set_place(args[{len(self.spec.struct_fields)}], &result);",
        ]

    def _uses(self) -> list[str]:
        """Render the code that tells the allocator and autograd which tensors the launch uses."""
        tensors = self.spec.tensors
        used = [
            f"object_of_{f.name}.get()" if f.is_allocated else given(f.name)
            for f in tensors
            if not f.is_list and not f.is_parallel
        ]
        lists = [whole(f) for f in tensors if f.is_list or f.is_parallel]
        uses = [f"{{{', '.join(used)}}}"] * bool(used) + lists
        call_arguments = f"call, {given('stream')}, {self.anchor}"
        lines = [f"if (!record_stream({call_arguments}, {each})) return nullptr;" for each in uses]
        for f in (f for f in tensors if f.is_written):
            if f.is_list or f.is_parallel:
                lines.append(f"if (!written(call, {whole(f)})) return nullptr;")
                continue
            # autograd does not know a tensor that is allocated here
            guard = f"{given(f.name)} && " if f.optional or f.direction == "out" else ""
            lines.append(f"if ({guard}!written(call, {given(f.name)})) return nullptr;")
        return lines

    def _result(self) -> list[str]:
        by_name = {f.name: f for f in self.spec.fields}
        returned = [by_name[name] for name in self.spec.returns]
        if self.spec.result:
            return [f"return {RESULTS[self.spec.result].box}(result);"]
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
    """Describe how a call over several devices passes a tensor or ``out``, and whether the devices write the tensor."""
    if f is None:
        return "Spread::each, true"
    return f"{'Spread::parallel' if f.is_parallel else 'Spread::each'}{', true' if f.is_written else ''}"
