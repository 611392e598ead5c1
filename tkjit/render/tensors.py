"""Renders the code that reads and checks a call's tensors, as straight-line C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tkjit.render.expressions import render_expression
from tkjit.render.text import field_text, given, indent, literal, local, repr_text, stride_axis, whole
from tkjit.spec import BY_NAME, Field, Spec
from tkjit.spec.checks import DEV_IDX, NUM_DEVICES
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.dtypes import enumerator
from tkjit.spec.expr import EXTENTS, Expr
from tkjit.spec.signature import join_options


class _Place(NamedTuple):
    """The C++ expressions for a tensor: its name in messages, and its view."""

    name: str
    view: str


class TensorChecks:
    """Renders the checks of one overload's tensors. The checks of a tensor depend on the tensors before it.

    Parameters
    ----------
    parameters : sequence of str
        The names of the call's parameters, in order.
    """

    def __init__(self, spec: Spec, parameters: Sequence[str]) -> None:
        self.spec = spec
        self.parameters = parameters
        self.inputs = spec.inputs
        self.outputs = spec.outputs
        self.anchor = self.inputs[0] if self.inputs else None  # the tensor that sets the call's device
        self.by_argument = {f.name for f in spec.dtype_fields}  # type variants that an argument chooses
        self.bound = {f.name: f.name for f in spec.fields if f.is_integer}  # known name -> field that gave its value
        self.dtype_of: dict[str, str] = {}  # maps each type variant to the argument that chose it

    def render(self) -> list[str]:
        """Render the checks, in the order in which a call performs them."""
        open_dims = [local(name) for name in self.spec.dim_names if name not in self.bound]
        return [
            *([f"int64_t {', '.join(f'{name} = kUnbound' for name in open_dims)};"] if open_dims else []),
            *(["Leading leading;"] if any(f.leading for f in self.spec.tensors) else []),
            *self._given_place(),
            *(line for f in self.inputs for line in self._input(f)),
            *self._check_whole_or_no_overlap(),
            *self._devices(),
            *self._derive_dims(),
            *self._computed_dims(),
            *self._constraints(),
            *(line for f in self.outputs for line in self._output(f)),
            *(line for f in self.spec.scratch for line in self._shape(f)),
        ]

    def _input(self, f: Field) -> list[str]:
        if f.is_list:
            return self._list(f)
        if f.is_parallel:
            return self._parallel(f)
        body = self._check_tensor(f, self._place(f))
        if not f.optional:
            return ["", f"// {field_text(f)}", *self._view(f), *body]
        return [
            "",
            f"// {field_text(f)}",
            *self._view(f),
            f"if ({given(f.name)}) {{",
            *indent(body),
            "}",
        ]

    @property
    def place(self) -> str:
        """The C++ variable of the view that tells on which device the call runs."""
        return local(self.anchor.name) if self.anchor else "on"

    def _given_place(self) -> list[str]:
        device = self.spec.device_field
        if device is None:
            return []
        what = f"{repr_text(device.name)}, {local(device.name)}, on"
        return ["TensorView on;", f"if (!place(call, {what})) return nullptr;"]

    def _view(self, f: Field) -> list[str]:
        lines = [f"TensorView {local(f.name)};"]
        lines += [f"{local(f.name)}.strided = true;"] if f.is_strided else []
        return [*lines, f"{local(f.name)}.wide = true;"] if self._takes_wide_extents else lines

    @property
    def _takes_wide_extents(self) -> bool:
        """Whether extents may exceed 31 bits. If the source defines its own struct, the launcher checks them."""
        return self.spec.args or bool(self.spec.struct)

    def _place(self, f: Field) -> _Place:
        if f.is_parallel:
            return _Place(f"parallel_of_{f.name}.name", local(f.name))
        return _Place(repr_text(f.name), local(f.name))

    def _parallel(self, f: Field) -> list[str]:
        """Check a parallel layout: its part on the call's own device is checked like a single tensor."""
        position = self.parameters.index(f.name)
        first = next(other for other in self.inputs if other.is_parallel)
        same = f"if (!same_devices(call, parallel_of_{f.name}, parallel_of_{first.name})) return nullptr;"
        count = self.spec.num_devices
        fixed = f"if (!is_on(call, parallel_of_{f.name}, {count})) return nullptr;"
        return [
            "",
            f"// {field_text(f)}",
            f"ParallelTensor parallel_of_{f.name};",
            f"if (!read(call, {repr_text(f.name)}, {position}, {given(f.name)}, parallel_of_{f.name})) return nullptr;",
            *([same] if f is not first else [fixed] if count else []),
            f"const TensorView& {local(f.name)} = parallel_of_{f.name}.own;",
            *self._check_tensor(f, self._place(f)),
        ]

    def _devices(self) -> list[str]:
        """Render the variables through which expressions can use the call's device."""
        first = next((f for f in self.inputs if f.is_parallel), None)
        if first is None:
            return []
        layout = f"parallel_of_{first.name}.layout"
        index, count = local(DEV_IDX), local(NUM_DEVICES)
        return ["", f"[[maybe_unused]] const int64_t {index} = {layout}.dev_idx, {count} = {layout}.count;"]

    def _list(self, f: Field) -> list[str]:
        """Check each tensor of a list like a single tensor; the first tensor represents the list."""
        most = "INT_MAX" if self.spec.host else f.max_length
        takes_none = literal(f.has_optional_items)
        what = f"{repr_text(f.name)}, {given(f.name)}, {most}, {takes_none}, list_of_{f.name}"
        return [
            "",
            f"// {field_text(f)}",
            f"TensorList list_of_{f.name};",
            f"if (!read(call, {what})) return nullptr;",
            f"const TensorView& {local(f.name)} = list_of_{f.name}.first->view;",
            *([f"int {local(f.dtype)} = 0;"] if self._chooses(f) else []),
            *self._for_each(f, self._check_tensor(f, self._item(f))),
        ]

    @staticmethod
    def _item(f: Field) -> _Place:
        """Return the expressions for one tensor of a list, inside a loop over the list."""
        item = f"item_of_{f.name}"
        return _Place(f"{item}.name", f"{item}.view")

    @staticmethod
    def _for_each(f: Field, body: list[str]) -> list[str]:
        return [
            f"for (int i = 0; i < list_of_{f.name}.count; ++i) {{",
            f"    const TensorList::Item& item_of_{f.name} = list_of_{f.name}.items[i];",
            *([f"    if (!item_of_{f.name}.object) continue;"] if f.has_optional_items else []),
            *indent(body),
            "}",
        ]

    def _chooses(self, f: Field) -> bool:
        return f.dtype in self.spec.type_variants and f.dtype not in self.dtype_of and f.dtype not in self.by_argument

    def _read(self, f: Field, place: _Place) -> list[str]:
        name, view = place
        lines = []
        if not f.is_list and not f.is_parallel:
            lines.append(f"if (!read(call, {name}, {given(f.name)}, {view})) return nullptr;")
        if self.anchor is None:
            lines.append(f"if (!is_on(call, {view}, on)) return nullptr;")
        elif f is not self.anchor or f.is_list:
            lines.append(f"if (!same_device(call, {view}, {local(self.anchor.name)})) return nullptr;")
        if f.is_written:
            lines.append(f"if (!writable(call, {view})) return nullptr;")
        if f.is_written and f.is_strided:
            lines.append(f"if (!distinct(call, {view})) return nullptr;")
        if f.align_bytes:
            lines.append(f"if (!aligned(call, {view}, {f.align_bytes})) return nullptr;")
        return lines

    def _check_tensor(self, f: Field, place: _Place) -> list[str]:
        first: dict[str, int] = {}  # the dims whose values come from this tensor
        for i, dim in enumerate(f.dims):
            if dim.text in self.spec.dim_names and dim.text not in self.bound:
                first.setdefault(dim.text, i)
        conditions = (
            [f"{place.view}.ndim {'<' if f.leading else '!='} {len(f.dims)}"] if f.dims or not f.leading else []
        )
        later = []
        for i, dim in enumerate(f.dims):
            extent = self._extent(f, i, place.view)
            if not dim.names:
                conditions.append(f"{extent} != {dim.evaluate({})}")
            elif dim.text in self.bound:
                conditions.append(f"{extent} != {local(dim.text)}")
            elif dim.text in first and first[dim.text] != i:
                later.append(f"{extent} != {local(dim.text)}")
            elif dim.text in first and f.is_list:  # the first tensor of the list has already set the value
                conditions.append(f"({local(dim.text)} != kUnbound && {extent} != {local(dim.text)})")
        if f.leading:
            conditions.append(f"!leading.matches({place.view}, {len(f.dims)})")
        # the message shows the dims whose values are known before this tensor; for a tensor in a list, it also shows
        # the dims that get their values from the list's first tensor at run time
        known = {name: local(name) for name in first} if f.is_list else None
        refuse_dtype = self._refusal(f, place, known)
        chooses = self._chooses(f)
        dtype = self._check_dtype(f, place, refuse_dtype, conditions)
        refuse = self._refusal(f, place, known, of_list=f.is_list and chooses)
        lines = [*self._read(f, place), *dtype]
        if conditions:
            lines += _if(conditions, refuse)
        lines += [f"{local(name)} = {self._extent(f, i, place.view)};" for name, i in first.items()]
        if f.leading:
            lines.append(f"leading.bind({place.view}, {len(f.dims)});")
        self.bound |= dict.fromkeys(first, f.name)
        if later:
            lines += _if(later, self._refusal(f, place))
        return lines

    def _check_dtype(self, f: Field, place: _Place, refuse: str, conditions: list[str]) -> list[str]:
        """Check a tensor's dtype: add a comparison to ``conditions``, or return code that chooses a variant by it."""
        options = self.spec.type_variants.get(f.dtype)
        if options is None:
            conditions.append(f"{place.view}.dtype != {enumerator(BY_NAME[f.dtype])}")
        elif f.dtype in self.by_argument:
            conditions.append(f"{place.view}.dtype != {self.dtype(f)}")
        elif f.dtype in self.dtype_of:
            conditions.append(f"{place.view}.dtype != {local(self.dtype_of[f.dtype])}.dtype")
        else:
            self.dtype_of[f.dtype] = f.name
            if f.is_list:
                conditions.append(f"{place.view}.dtype != {local(f.name)}.dtype")
            cases = [
                f"    case {enumerator(BY_NAME[option])}: {local(f.dtype)} = {i}; break;"
                for i, option in enumerate(options)
            ]
            return [
                *([] if f.is_list else [f"int {local(f.dtype)} = 0;"]),
                f"switch ({place.view}.dtype) {{",
                *cases,
                f"    default: {refuse}",
                "}",
            ]
        return []

    def _extent(self, f: Field, i: int, view: str = "") -> str:
        view = view or local(f.name)
        return f"{view}.sizes[{view}.ndim - {len(f.dims) - i}]" if f.leading else f"{view}.sizes[{i}]"

    def _refusal(self, f: Field, place: _Place, values: dict[str, str] | None = None, *, of_list: bool = False) -> str:
        """Render the statement that rejects a tensor; its message shows the dims whose values are already known.

        Parameters
        ----------
        of_list : bool
            Whether the tensor is in a list, where it must have the first tensor's dtype.
        """
        dims = []
        for dim in f.dims:
            value = (values or {}).get(dim.text) or (local(dim.text) if dim.text in self.bound else None)
            by = self.bound.get(dim.text) if value else None
            dims.append(f"{{{', '.join([repr_text(dim.text), *filter(None, [value, by and repr_text(by)])])}}}")
        chosen_by = self.dtype_of.get(f.dtype)
        if of_list:
            wanted = f"list_of_{f.name}.first->name, {local(f.name)}"
        elif f.dtype in self.by_argument:
            wanted = f"{repr_text(f.dtype)}, {local(f.dtype)}.integer"
        elif chosen_by and chosen_by != f.name:
            wanted = f"{repr_text(chosen_by)}, {local(chosen_by)}"
        else:
            wanted = repr_text(join_options(self.spec.dtypes_of(f)))
        leading = "&leading" if f.leading else "nullptr"
        use = "Use::output" if f.direction == "out" else "Use::write" if f.is_written else "Use::read"
        return f"return mismatch(call, {place.view}, {{{', '.join(dims)}}}, {leading}, {use}, {wanted});"

    def value(self, expr: Expr) -> str:
        """Return the C++ expression for a value; its type converts to ``Int``."""
        if expr.is_name:
            return local(expr.text)
        ranks = {f.name: len(f.dims) for f in self.spec.tensors}
        derived = dict(self.spec.derived)

        def spell(name: str) -> str:
            field, _, extent = name.partition(".")
            if field not in ranks or not extent:
                return local(name) if name in derived else f"Int({local(name)})"
            view = local(field)
            if axis := stride_axis(extent, ranks[field]):
                return f"Int({view}.strides[{axis}])"
            return f"numel({view})" if extent == "numel" else f"Int(extent({view}, {EXTENTS.index(extent)}))"

        return render_expression(expr, spell)

    def _derive_dims(self) -> list[str]:
        outputs = [dim for f in self.spec.tensors for dim in f.dims]
        outputs += [f.draws for f in self.spec.fields if f.draws is not None]
        outputs += [Expr.parse(name) for name in self.spec.integer_variants]
        lines = [
            f"const Int {local(name)} = {self.value(expr)};"
            for name, expr in derived_in_order(self.spec, [*outputs, *self.spec.constraints])
        ]
        return ["", *lines] if lines else []

    def _computed_dims(self) -> list[str]:
        """Check inputs whose dims are expressions; by now, every name has its value."""
        lines = []
        for f in self.inputs:
            for i, dim in enumerate(f.dims):
                if not dim.names or dim.text in self.spec.dim_names or dim.text in self.bound:
                    continue
                present = f"{given(f.name)} && " if f.optional else ""
                value = f"dim_{i}_of_{f.name}"
                place = self._item(f) if f.is_list else self._place(f)
                differs = f"{present}!equals({self._extent(f, i, place.view)}, {value})"
                check = _if([differs], self._refusal(f, place, {dim.text: value}))
                lines += [
                    f"const Int {value} = {self.value(dim)};",
                    *(self._for_each(f, check) if f.is_list else check),
                ]
        return ["", *lines] if lines else []

    def _constraints(self) -> list[str]:
        lines = []
        for expr in self.spec.constraints:
            values = ", ".join(f"{{{repr_text(name)}, {self.value(Expr.parse(name))}}}" for name in sorted(expr.names))
            lines.append(
                f"if (!satisfied(call, {self.value(expr)}, {repr_text(expr.text)}, {{{values}}})) return nullptr;"
            )
        return ["", *lines] if lines else []

    def _shape(self, f: Field) -> list[str]:
        """Render the variables of an output or scratch tensor: its shape, its view, and the object that holds it."""
        dims = ", ".join(self.value(dim) for dim in f.dims)
        leading = "leading" if f.leading else "Leading{}"
        what = repr_text(f"{'output' if f.direction == 'out' else 'scratch'} {f.name}")
        return [
            "",
            f"// {field_text(f)}",
            f"Shape shape_of_{f.name};",
            *([f"shape_of_{f.name}.wide = true;"] if self._takes_wide_extents else []),
            f"if (!shape_of_{f.name}.compute(call, {what}, {leading}, {{{dims}}})) return nullptr;",
            *self._view(f),
            f"Object object_of_{f.name};",
        ]

    def _output(self, f: Field) -> list[str]:
        values = {dim.text: self.value(dim) for dim in f.dims if dim.names}
        conditions = [f"!shape_of_{f.name}.matches({local(f.name)})", f"{local(f.name)}.dtype != {self.dtype(f)}"]
        return [
            *self._shape(f),
            f"if ({given(f.name)}) {{",
            *indent(
                [
                    *self._read(f, self._place(f)),
                    *_if(conditions, self._refusal(f, self._place(f), values)),
                    *self._check_no_overlap(f),
                ]
            ),
            f"    object_of_{f.name}.borrow({given(f.name)});",
            "}",
        ]

    def _check_no_overlap(self, f: Field) -> list[str]:
        """Check that an output passed by the caller does not overlap any argument before it."""
        earlier = [*self.inputs, *self.outputs[: self.outputs.index(f)]]
        return [
            f"if (!apart(call, {repr_text(f.name)}, {local(f.name)}, {repr_text(other.name)}, "
            f"{whole(other)})) "
            "return nullptr;"
            for other in earlier
        ]

    def _check_whole_or_no_overlap(self) -> list[str]:
        """Check that no in-place tensor partly overlaps another input; each pair is checked once."""
        written = [f for f in self.inputs if f.is_written]
        pairs = [
            (f, other)
            for i, f in enumerate(written)
            for other in self.inputs
            if (other is not f or f.is_list) and other not in written[:i]
        ]
        lines = [
            f"if (!whole_or_apart(call, {repr_text(f.name)}, {whole(f)}, {repr_text(other.name)}, {whole(other)})) "
            "return nullptr;"
            for f, other in pairs
        ]
        return ["", *lines] if lines else []

    def dtype(self, f: Field) -> str:
        if f.dtype in self.by_argument:
            return f"int32_t({local(f.dtype)}.integer)"
        chosen_by = self.dtype_of.get(f.dtype)
        return f"{local(chosen_by)}.dtype" if chosen_by else enumerator(BY_NAME[f.dtype])


def _if(conditions: list[str], then: str) -> list[str]:
    return [f"if ({' || '.join(conditions)})", f"    {then}"]
