"""The glue: a kernel's module, straight-line code that parses a call, checks it, allocates and calls the launcher."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tkjit.expr import EXTENTS, Expr
from tkjit.render.text import derived_in_order, field_text, indent, literal, local, repr_text, signature_text
from tkjit.spec import BY_NAME, SCALAR_TYPES, Field, Spec
from tkjit.spec.dtypes import enumerator
from tkjit.spec.model import MISSING


def render_glue(specs: Sequence[Spec]) -> str:
    """Render a kernel's glue from its overloads, in the order in which a call tries them."""
    name = specs[0].name
    counts = [prod(len(options) for _, options in spec.variants) for spec in specs]
    lines = [
        f"// Glue of {name}, rendered by tkjit: parses a call, checks it, allocates the outputs and calls the launcher.",
        "#include <glue.h>",
        "",
        "using namespace tkjit;",
        "using namespace tkjit::glue;",
        "",
        "namespace {",
        "",
    ]
    for index, spec in enumerate(specs):
        lines += _Overload(spec, index, first_variant=sum(counts[:index])).render()
    return "\n".join([*lines, *_module(name, specs, sum(counts))]) + "\n"


def _module(name: str, specs: Sequence[Spec], variant_count: int) -> list[str]:
    overloads = [f"    {{overload_{i}, {repr_text(signature_text(spec))}}}," for i, spec in enumerate(specs)]
    interned = " && ".join(f"intern_names(signature_{i})" for i in range(len(specs)))
    return [
        "const Overload overloads[] = {",
        *overloads,
        "};",
        "",
        "PyObject* call_kernel(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {",
        "    const auto dispatcher = reinterpret_cast<Dispatcher*>(self);",
        f"    Call call{{dispatcher, *dispatcher->table, {repr_text(name)}, args, PyVectorcall_NARGS(nargsf), kwnames}};",
        f"    return dispatch(call, overloads, {len(specs)});",
        "}",
        "",
        f"const GlueEntry entry{{kTableVersion, call_kernel, {variant_count}}};",
        "",
        "int execute(PyObject* module) {",
        f"    return {interned} ? add_entry(module, entry) : -1;",
        "}",
        "",
        "PyModuleDef_Slot slots[] = {",
        "    {Py_mod_exec, reinterpret_cast<void*>(execute)},",
        "#ifdef Py_GIL_DISABLED",
        "    {Py_mod_gil, Py_MOD_GIL_NOT_USED},",
        "#endif",
        "    {0, nullptr},",
        "};",
        f"PyModuleDef module_definition = {{PyModuleDef_HEAD_INIT, {repr_text(name)}, nullptr, 0, nullptr, slots}};",
        "",
        "}  // namespace",
        "",
        "#define TKJIT_JOIN(a, b) a##b",
        "#define TKJIT_INIT(name) TKJIT_JOIN(PyInit_, name)",
        "PyMODINIT_FUNC TKJIT_INIT(TORCH_EXTENSION_NAME)() { return PyModuleDef_Init(&module_definition); }",
    ]


class _Overload:
    """Renders one overload's function; what has been read so far decides how the next field is checked."""

    def __init__(self, spec: Spec, index: int, first_variant: int) -> None:
        self.spec = spec
        self.index = index
        self.first_variant = first_variant
        self.inputs = [f for f in spec.tensors if f.direction != "out"]
        # an optional tensor comes after those that are there in every call
        self.inputs.sort(key=lambda f: f.optional)
        self.outputs = [f for f in spec.fields if f.direction == "out"]
        self.anchor = self.inputs[0]  # says on which device the call runs
        self.parameters = [
            *(f.name for f in spec.fields if not f.keyword_only),
            *(f.name for f in spec.fields if f.keyword_only),
            *(["out"] if self.outputs else []),
            "stream",
        ]
        self.bound: set[str] = set()  # dims that have their value
        self.dtype_of: dict[str, str] = {}  # type variant -> the argument that chose it

    def render(self) -> list[str]:
        spec = self.spec
        dims = [
            f"int64_t {', '.join(f'{local(name)} = kUnbound' for name in spec.dim_names if not self._is_field(name))};"
        ]
        body = [
            f"PyObject* given[{len(self.parameters)}];",
            f"if (!bind(call, signature_{self.index}, given)) return nullptr;",
            *self._out_tuple(),
            *(line for f in spec.fields if not f.is_tensor for line in self._scalar(f)),
            "",
            *(dims if any(not self._is_field(name) for name in spec.dim_names) else []),
            *(["Leading leading;"] if any(f.leading for f in spec.tensors) else []),
            *(line for f in self.inputs for line in self._input(f)),
            *self._derived(),
            *self._computed_dims(),
            *self._constraints(),
            *(line for f in self.outputs for line in self._output(f)),
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
        rows = []
        for name in self.parameters:
            f = by_name.get(name)
            required = f is not None and f.is_required
            nullable = f is None or f.optional or f.direction == "out"
            rows.append(f"    {{{repr_text(name)}, {literal(required)}, {literal(nullable)}}},")
        positional = sum(not f.keyword_only for f in self.spec.fields)
        table = f"parameters_{self.index}"
        return [
            f"Parameter {table}[] = {{  // name, required, None means not given",
            *rows,
            "};",
            f"const Signature signature_{self.index}{{{repr_text(self.spec.name)}, {table}, {len(rows)}, {positional}}};",
            "",
        ]

    def _given(self, name: str) -> str:
        return f"given[{self.parameters.index(name)}]"

    def _is_field(self, name: str) -> bool:
        return any(f.name == name for f in self.spec.fields)

    def _out_tuple(self) -> list[str]:
        if not self.outputs:
            return []
        positions = ", ".join(str(self.parameters.index(f.name)) for f in self.outputs)
        signature = f"signature_{self.index}"
        return [f"if (!spread_out(call, {signature}, given, {self._given('out')}, {{{positions}}})) return nullptr;"]

    def _scalar(self, f: Field) -> list[str]:
        bounds = SCALAR_TYPES[f.dtype]
        kind = "int64_t" if bounds else "bool" if f.dtype == "bool" else "double"
        default = literal(f.default) if f.default is not MISSING else "false" if kind == "bool" else "0"
        limits = f", {_int64(bounds[0])}, {_int64(bounds[1])}" if bounds else ""
        given = self._given(f.name)
        guard = "" if f.is_required else f"{given} && "
        if f.is_integer:
            self.bound.add(f.name)
        return [
            "",
            f"// {field_text(f)}",
            f"{kind} {local(f.name)} = {default};",
            f"if ({guard}!read(call, {repr_text(f.name)}, {given}, {local(f.name)}{limits})) return nullptr;",
        ]

    # ---- tensors

    def _input(self, f: Field) -> list[str]:
        body = self._check_tensor(f)
        if not f.optional:
            return ["", f"// {field_text(f)}", f"TensorView {local(f.name)};", *body]
        return [
            "",
            f"// {field_text(f)}",
            f"TensorView {local(f.name)};",
            f"if ({self._given(f.name)}) {{",
            *indent(body),
            "}",
        ]

    def _read(self, f: Field) -> list[str]:
        name, given, view = repr_text(f.name), self._given(f.name), local(f.name)
        lines = [f"if (!read(call, {name}, {given}, {view})) return nullptr;"]
        if f is not self.anchor:
            anchor = self.anchor.name
            lines.append(
                f"if (!same_device(call, {name}, {given}, {view}, {repr_text(anchor)}, {self._given(anchor)}, {local(anchor)})) "
                "return nullptr;"
            )
        if f.align_bytes:
            lines.append(f"if (!aligned(call, {name}, {view}, {f.align_bytes})) return nullptr;")
        return lines

    def _check_tensor(self, f: Field) -> list[str]:
        first: dict[str, int] = {}  # dims whose value this tensor gives
        for i, dim in enumerate(f.dims):
            if dim.text in self.spec.dim_names and dim.text not in self.bound:
                first.setdefault(dim.text, i)
        conditions = (
            [f"{local(f.name)}.ndim {'<' if f.leading else '!='} {len(f.dims)}"] if f.dims or not f.leading else []
        )
        later = []
        for i, dim in enumerate(f.dims):
            extent = self._extent(f, i)
            if not dim.names:
                conditions.append(f"{extent} != {dim.evaluate({})}")
            elif dim.text in self.bound:
                conditions.append(f"{extent} != {local(dim.text)}")
            elif dim.text in first and first[dim.text] != i:
                later.append(f"{extent} != {local(dim.text)}")
        if f.leading:
            conditions.append(f"!leading.matches({local(f.name)}, {len(f.dims)})")
        # the message names the values that were known before this tensor
        refuse = f"return {self._mismatch(f)};"
        dtype = self._check_dtype(f, refuse, conditions)
        lines = [*self._read(f), *dtype]
        if conditions:
            lines += _if(conditions, refuse)
        lines += [f"{local(name)} = {self._extent(f, i)};" for name, i in first.items()]
        if f.leading:
            lines.append(f"leading.bind({local(f.name)}, {len(f.dims)});")
        self.bound |= first.keys()
        if later:
            lines += _if(later, f"return {self._mismatch(f)};")
        return lines

    def _check_dtype(self, f: Field, refuse: str, conditions: list[str]) -> list[str]:
        """Check a dtype, where it can be with one comparison among `conditions`; or choose a variant by it."""
        options = self.spec.type_variants.get(f.dtype)
        if options is None:
            conditions.append(f"{local(f.name)}.dtype != {enumerator(BY_NAME[f.dtype])}")
        elif f.dtype in self.dtype_of:
            conditions.append(f"{local(f.name)}.dtype != {local(self.dtype_of[f.dtype])}.dtype")
        else:
            self.dtype_of[f.dtype] = f.name
            cases = [
                f"    case {enumerator(BY_NAME[option])}: {local(f.dtype)} = {i}; break;"
                for i, option in enumerate(options)
            ]
            return [
                f"int {local(f.dtype)} = 0;",
                f"switch ({local(f.name)}.dtype) {{",
                *cases,
                f"    default: {refuse}",
                "}",
            ]
        return []

    def _extent(self, f: Field, i: int) -> str:
        if f.leading:
            return f"{local(f.name)}.sizes[{local(f.name)}.ndim - {len(f.dims) - i}]"
        return f"{local(f.name)}.sizes[{i}]"

    def _mismatch(self, f: Field, values: dict[str, str] | None = None) -> str:
        """The expression that refuses a tensor, with the dims that have a value by now."""
        dims = []
        for dim in f.dims:
            value = (values or {}).get(dim.text) or (local(dim.text) if dim.text in self.bound else None)
            dims.append(f"{{{repr_text(dim.text)}{f', {value}' if value else ''}}}")
        chosen_by = self.dtype_of.get(f.dtype)
        if chosen_by and chosen_by != f.name:
            wanted = f"{repr_text(chosen_by)}, {local(chosen_by)}"
        else:
            wanted = repr_text(_listed(self.spec.dtypes_of(f)))
        what = f"{repr_text(f.name)}, {self._given(f.name)}, {local(f.name)}"
        return f"mismatch(call, {what}, {{{', '.join(dims)}}}, {literal(f.leading)}, {wanted}), nullptr"

    # ---- what is computed from the arguments

    def _expression(self, expr: Expr) -> str:
        tensors = {f.name for f in self.spec.tensors}

        def spell(name: str) -> str:
            field, _, extent = name.partition(".")
            if field not in tensors or not extent:
                return f"Int({local(name)})"
            view = local(field)
            return f"numel({view})" if extent == "numel" else f"Int(extent({view}, {EXTENTS.index(extent)}))"

        return expr.cpp(spell)

    def _derived(self) -> list[str]:
        outputs = [dim for f in self.spec.tensors for dim in f.dims]
        lines = [
            f"const Int {local(name)} = {self._expression(expr)};"
            for name, expr in derived_in_order(self.spec, [*outputs, *self.spec.constraints])
        ]
        return ["", *lines] if lines else []

    def _computed_dims(self) -> list[str]:
        """Inputs whose dims are expressions, checked when every name has its value."""
        lines = []
        for f in self.inputs:
            for i, dim in enumerate(f.dims):
                if not dim.names or dim.text in self.spec.dim_names or dim.text in self.bound:
                    continue
                present = f"{self._given(f.name)} && " if f.optional else ""
                value = f"{f.name}_dim_{i}"
                refuse = self._mismatch(f, {dim.text: f"{value}.value()"})
                lines += [
                    f"const Int {value} = {self._expression(dim)};",
                    f"if ({present}(!{value}.valid() || {self._extent(f, i)} != {value}.value())) return {refuse};",
                ]
        return ["", *lines] if lines else []

    def _constraints(self) -> list[str]:
        lines = []
        for expr in self.spec.constraints:
            values = ", ".join(
                f"{{{repr_text(name)}, {self._expression(Expr.parse(name))}.value()}}" for name in sorted(expr.names)
            )
            lines.append(
                f"if (!satisfied(call, {self._expression(expr)}, {repr_text(expr.text)}, {{{values}}})) return nullptr;"
            )
        return ["", *lines] if lines else []

    def _output(self, f: Field) -> list[str]:
        dims = ", ".join(self._expression(dim) if dim.names else dim.text for dim in f.dims)
        leading = "leading" if f.leading else "Leading{}"
        values = {dim.text: f"{self._expression(dim)}.value()" for dim in f.dims if dim.names}
        conditions = [f"!{f.name}_shape.matches({local(f.name)})", f"{local(f.name)}.dtype != {self._dtype(f)}"]
        return [
            "",
            f"// {field_text(f)}",
            f"Shape {f.name}_shape;",
            f"if (!{f.name}_shape.compute(call, {repr_text(f.name)}, {leading}, {{{dims}}})) return nullptr;",
            f"TensorView {local(f.name)};",
            f"Object {f.name}_object;",
            f"if ({self._given(f.name)}) {{",
            *indent([*self._read(f), *_if(conditions, f"return {self._mismatch(f, values)};")]),
            f"    {f.name}_object.borrow({self._given(f.name)});",
            "}",
        ]

    def _dtype(self, f: Field) -> str:
        chosen_by = self.dtype_of.get(f.dtype)
        return f"{local(chosen_by)}.dtype" if chosen_by else enumerator(BY_NAME[f.dtype])

    # ---- the launch

    def _variant(self) -> list[str]:
        lines = [""]
        index = ""
        for name, options in self.spec.variants:
            choice = local(name)
            if isinstance(options[0], int):
                choice = f"{name}_option"
                lines += self._integer_choice(name, [int(option) for option in options])
            index = f"({index}) * {len(options)} + {choice}" if index else choice
        offset = f"{self.first_variant} + " if self.first_variant else ""
        return [
            *lines,
            "call.decided = true;",
            f"const TkjitLaunch launcher_ = launcher(call, {self.index}, {offset}{index or '0'}, {local(self.anchor.name)});",
            "if (!launcher_) return nullptr;",
        ]

    def _integer_choice(self, name: str, options: list[int]) -> list[str]:
        text = f"{name} is {_listed(tuple(map(str, options)))}"
        return [
            f"int {name}_option = 0;",
            f"switch ({local(name)}) {{",
            *(f"    case {option}: {name}_option = {i}; break;" for i, option in enumerate(options)),
            f"    default: return satisfied(call, 0, {repr_text(text)}, {{{{{repr_text(name)}, {local(name)}}}}}), nullptr;",
            "}",
        ]

    def _launch(self) -> list[str]:
        spec = self.spec
        lines = []
        for f in self.outputs:
            allocate = f"allocate(call, {f.name}_object, {local(f.name)}, {f.name}_shape, {self._dtype(f)}, {local(self.anchor.name)})"
            lines.append(f"if (!{self._given(f.name)} && !{allocate}) return nullptr;")
        lines += ["", f"TkjitArg args[{len(spec.order)}] = {{}};"]
        for i, f in enumerate(spec.struct_fields):
            guard = f"if ({self._given(f.name)}) " if f.optional and f.default is MISSING else ""
            lines.append(f"{guard}set(args[{i}], {local(f.name)});")
        launch = f"launch(call, launcher_, args, {local(self.anchor.name)}, {self._given('stream')})"
        written = [f for f in spec.tensors if f.is_written]
        # where there is nothing to write there is nothing to launch
        to_write = [
            f"({self._given(f.name)} && !empty({local(f.name)}))" if f.optional else f"!empty({local(f.name)})"
            for f in written
        ]
        guard = f"({' || '.join(to_write)}) && " if len(to_write) > 1 else f"{to_write[0]} && " if to_write else ""
        return [*lines, f"if ({guard}!{launch}) return nullptr;"]

    def _result(self) -> list[str]:
        by_name = {f.name: f for f in self.spec.fields}
        lines = []
        for name in self.spec.returns:
            if by_name[name].direction == "inout":
                value = (
                    f"{self._given(name)} ? {self._given(name)} : Py_None"
                    if by_name[name].optional
                    else self._given(name)
                )
                lines += [f"Object {name}_object;", f"{name}_object.borrow({value});"]
        objects = [f"{name}_object" for name in self.spec.returns]
        if not objects:
            return ["Py_RETURN_NONE;"]
        if len(objects) == 1:
            return [*lines, f"return {objects[0]}.release();"]
        listed = ", ".join(f"&{name}" for name in objects)
        return [*lines, f"return named_tuple(call, {self.index}, {{{listed}}});"]


def _if(conditions: list[str], then: str) -> list[str]:
    return [f"if ({' || '.join(conditions)})", f"    {then}"]


def _listed(options: Sequence[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def _int64(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else str(value)
