"""Checks a spec for contradictions in names, dtypes, dims and the launch. Each error names the kernel and the part."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from math import prod

from tkjit.config import COMPILERS
from tkjit.errors import ShapeError, SpecError
from tkjit.spec.advice import advice_on_dim, advice_on_dtype
from tkjit.spec.annotations import CExpr
from tkjit.spec.cpp_words import CPP_KEYWORDS, MACROS
from tkjit.spec.description import Description
from tkjit.spec.dtypes import BY_NAME, SCALAR_TYPES
from tkjit.spec.expr import EXTENTS, Expr
from tkjit.spec.model import MISSING, Field
from tkjit.spec.structs import VECTORS

MAX_DIMS, MAX_RANK = 4, 8  # the most dims of a global layout, and of a strided layout
MAX_DEVICES = 32  # as in include/tkjit/pgl.h
DEV_IDX, NUM_DEVICES = "dev_idx", "num_devices"  # a device's index, and the number of devices, in expressions
AUTO = "auto"  # the struct is the type of the entry's first parameter
MAX_CLUSTER_BLOCKS = 16  # on Hopper and later, for a kernel that opts in to more than the portable 8
NEEDED = "needed"  # a backward function's parameter for the names of the inputs that require gradients
MAX_OUTPUTS = 32  # kMaxOutputs in runtime/glue_arguments.h
_MAX_THREADS = 1024  # per block
RESERVED = ("out", "stream", "self", "Globals", "min", "max", "cdiv")


def check(spec: Description) -> None:
    """Reject a spec that contradicts itself.

    Raises
    ------
    SpecError
        If there is a contradiction; the message describes the first one.
    """
    _check_variants(spec)
    _check_names(spec)
    _check_dtypes(spec)
    _check_dims(spec)
    _check_tuning(spec)
    _check_fills(spec)
    _check_values(spec)
    _check_launch(spec)
    _check_backward(spec)
    _check_autocast(spec)
    _check_compiler(spec)
    _check_parallel(spec)


def differentiable(spec: Description) -> tuple[Field, ...]:
    """Return the inputs that gradients can flow to."""
    return tuple(
        f
        for f in spec.tensors
        if f.direction == "in" and any(name.startswith(("float", "bfloat")) for name in spec.dtypes_of(f))
    )


def _check_values(spec: Description) -> None:
    for f in spec.fields:
        value = f.value_type
        if value is None or spec.host or f.draws is not None or f.name in spec.deciding:
            continue
        if value.members:
            _check_struct_value(spec, f)
            continue
        if value.item is None or value.item.code not in "ifb":
            _fail(spec, f"{f.name}: a kernel takes numbers and lists of numbers; {value.text} is for a host function")
        if spec.args:
            _fail(spec, f"{f.name}: a list needs a struct, but args=True passes plain arguments")
        if spec.struct and f.optional:
            _fail(spec, f"{f.name}: an array in the source's own struct is always present, so it cannot be None")
    if spec.constants and (spec.host or spec.is_parallel):
        _fail(spec, f"{spec.constants[0].name}: Constant is only for kernels on one device, and not for host functions")
    if spec.args and any(f.is_list for f in spec.fields) and not spec.host:
        _fail(spec, "a list of tensors needs a rendered struct, but args=True passes plain arguments")


def _check_struct_value(spec: Description, f: Field) -> None:
    assert f.value_type is not None
    for other in spec.fields:
        if (
            other.value_type is not None
            and other.value_type.cpp == f.value_type.cpp
            and other.value_type != f.value_type
        ):
            _fail(spec, f"{f.name} and {other.name} describe the struct {f.value_type.cpp} in two ways")
    if f.value_type.cpp not in VECTORS and not spec.args and not spec.struct:
        _fail(
            spec,
            f"{f.name}: {f.value_type.cpp} is a struct of the source, which comes after the rendered Globals; "
            "write the kernel with args=True, or with its own struct (struct=)",
        )


def _fail(spec: Description, text: str) -> None:
    raise SpecError(f"{spec.name}: {text}")


def _check_names(spec: Description) -> None:
    reserved = (*RESERVED, *((DEV_IDX, NUM_DEVICES, "club") if spec.is_parallel else ()))
    if not spec.name.isidentifier():
        _fail(spec, f"the kernel's name {spec.name!r} is not an identifier")
    if not any(f.is_input and f.is_required and not f.optional for f in spec.fields) and not spec.device_field:
        _fail(spec, "no required tensor argument and no torch.device, so a call cannot choose the device")
    if (device := spec.device_field) is not None and (device.optional or not spec.outputs):
        _fail(spec, f"{device.name} chooses the device of a call: it cannot be None, and there must be an output")
    if spec.host and spec.deciding:
        _fail(spec, f"{', '.join(sorted(spec.deciding))}: arguments of a host function cannot choose device or variant")
    if len(spec.returns) > MAX_OUTPUTS:
        _fail(spec, f"a call would return {len(spec.returns)} tensors; the maximum is {MAX_OUTPUTS}")
    _check_cpp_names(spec)
    no_dims = {f.name for f in spec.fields if not f.is_integer}
    for name in dict(spec.tuning):
        if name in {*spec.dim_names, *dict(spec.derived), *dict(spec.variants), *(f.name for f in spec.fields)}:
            _fail(spec, f"{name} in tune= is also a dim, a variant or a parameter")
    for name in [*spec.dim_names, *dict(spec.derived), *spec.compile_time_integers]:
        if name in no_dims:
            kind = "tensor" if name in {f.name for f in spec.tensors} else "scalar that is not an integer"
            _fail(spec, f"{name} names both a {kind} and a dim or variant")
    for name in [*spec.dim_names, *dict(spec.derived), *dict(spec.variants), *dict(spec.tuning)]:
        if name in reserved or name.startswith("tkjit_"):
            _fail(spec, f"a dim or variant cannot be named {name}: tkjit uses the name itself")
    for name in [*spec.dim_names, *dict(spec.derived)]:
        if name in spec.type_variants:
            _fail(spec, f"{name} names both a dim and a dtype variant")
    seen: set[str] = set()
    for f in spec.fields:
        if f.name in seen:
            _fail(spec, f"the field {f.name} is defined twice")
        if f.name in reserved or f.name.startswith("tkjit_"):
            why = "calls pass outputs as out=" if f.name == "out" else "tkjit uses the name itself"
            _fail(spec, f"a field cannot be named {f.name}: {why}; choose another, such as {f.name}_")
        seen.add(f.name)
    if len(set(spec.order)) != len(spec.order):
        _fail(spec, f"fields={' '.join(spec.order)!r} names a field twice")
    for name, _ in spec.computed:
        if name in seen or name in RESERVED:
            _fail(spec, f"computed[{name!r}] is also a parameter, or not allowed as a member's name")
        seen.add(name)
    # a number that chooses a variant can be a template argument without being a member
    members = seen - {f.name for f in spec.fields if not f.is_tensor and f.name in dict(spec.variants)} - spec.deciding
    if inside := spec.deciding & set(spec.order):
        _fail(
            spec,
            f"fields={' '.join(spec.order)!r}: {', '.join(sorted(inside))} chooses the device or a variant, "
            "so it is not a member",
        )
    if not members <= set(spec.order) <= seen:
        _fail(spec, f"fields={' '.join(spec.order)!r} must name each parameter once: {', '.join(sorted(seen))}")
    if missing := set(spec.trailing) - set(spec.order):
        _fail(spec, f"trailing={' '.join(spec.trailing)!r} names unknown parameters: {', '.join(sorted(missing))}")
    if any(f.name in spec.trailing and (f.is_tensor or f.value_type or f.optional) for f in spec.fields):
        _fail(spec, f"trailing={' '.join(spec.trailing)!r}: only numbers that cannot be None can follow the struct")
    if spec.trailing and (spec.args or spec.host):
        _fail(spec, "trailing= adds arguments after a globals struct, so it excludes args=True and host=True")
    for f in spec.fields:
        if f.member and not spec.struct and not f.is_constant:
            _fail(spec, f"{f.name}: Member({f.member!r}) needs a struct of the source: name it in struct=")


def _check_variants(spec: Description) -> None:
    fields = {f.name: f for f in spec.fields}
    for name, options in spec.variants:
        if not options or len({type(option) for option in options}) != 1 or type(options[0]) not in (str, int, bool):
            if dtypes := [str(option)[6:] for option in options if str(option).startswith("torch.")]:
                _fail(spec, f"variants[{name!r}]: write dtypes as strings: {tuple(dtypes)!r}")
            expected = "dtype names, integers, (False, True), or names of the source for a str parameter"
            _fail(spec, f"variants[{name!r}] is {options!r}; expected {expected}")
        if len(set(options)) != len(options):
            _fail(spec, f"variants[{name!r}] names an option twice: {options!r}")
        if name in fields and isinstance(options[0], str) and name not in spec.deciding:
            kind = "a str, for names of the source such as Mode::add, or a torch.dtype"
            _fail(spec, f"{name} is a field and a variant with string options; annotate it as {kind}")
        if name in spec.name_variants:
            _check_name_variant(spec, fields[name], spec.name_variants[name])
        if isinstance(options[0], bool):
            if name not in fields or fields[name].dtype != "bool" or fields[name].is_tensor:
                _fail(spec, f"no parameter {name}: bool, so a call cannot choose its variant")
            if len(options) != 2:
                _fail(spec, f"variants[{name!r}] has one option; expected (False, True)")


_NAME_OF_SOURCE = re.compile(r"[\w:<>,.()&* +-]+")  # Mode::add, Policy<64>, float4


def _check_name_variant(spec: Description, f: Field, options: tuple[str, ...]) -> None:
    for option in options:
        if not _NAME_OF_SOURCE.fullmatch(option):
            _fail(spec, f"variants[{f.name!r}]: {option!r} is not a C++ enumerator or type")
    if f.optional or f.default not in (MISSING, *options):
        wanted = f"its default must be one of {', '.join(options)}"
        _fail(spec, f"{f.name} chooses a variant: it cannot be None, and {wanted}")
    parts = (part.text for _, part in spec.launch.shape if isinstance(part, CExpr))
    texts = (spec.entry, spec.struct or "", spec.config or "", *parts)
    if not any(re.search(rf"\b{f.name}\b", text) for text in texts):
        _fail(
            spec,
            f"{f.name} chooses a variant, but the entry {spec.entry!r} does not use it; write {spec.entry}<{f.name}>",
        )


def _check_cpp_names(spec: Description) -> None:
    """Reject names that C++ does not allow for a struct member or a variable."""
    if (kernel := spec.entry.partition("<")[0].strip()) in CPP_KEYWORDS:
        _fail(
            spec, f"entry={spec.entry!r}: {kernel} is a C++ keyword, and cannot be a kernel's name; rename the kernel"
        )
    named = (spec.variants, spec.derived, spec.computed, spec.tuning)
    for name in (*(f.name for f in spec.fields), *spec.dim_names, *(name for pairs in named for name, _ in pairs)):
        if name in CPP_KEYWORDS or not name.isascii() or not name.isidentifier():
            _fail(spec, f"the name {name} cannot be used in C++")
        if name in MACROS or re.match("_[_A-Z]|TKJIT_", name):
            whose = "is a C macro" if name in MACROS else "is reserved for compilers and for tkjit's own macros"
            _fail(spec, f"{name} {whose}, and cannot be the name of a member or a variable; choose another")


def _check_dtypes(spec: Description) -> None:
    types = spec.type_variants
    for name, options in types.items():
        for option in options:
            if option not in BY_NAME:
                advice = advice_on_dtype(option, [])
                _fail(spec, f"variants[{name!r}]: unknown dtype {option!r}{advice} known are {', '.join(BY_NAME)}")
        chooser = next((f for f in spec.dtype_fields if f.name == name), None)
        if chooser is not None and (chooser.optional or chooser.default not in (MISSING, *options)):
            wanted = f"its default must be one of {', '.join(options)}"
            _fail(spec, f"{name} chooses a variant: it cannot be None, and {wanted}")
        if not chooser and not any(f.dtype == name and f.is_input and not f.optional for f in spec.fields):
            remedy = f'; add one: x: In[Tensor, "{name}", "N"]'
            _fail(
                spec, f"no required tensor argument has the dtype {name}, so a call cannot choose its variant{remedy}"
            )
    for f in spec.fields:
        if f.is_tensor and f.dtype not in BY_NAME and f.dtype not in types:
            known = ", ".join([*types, *BY_NAME])
            dims = {dim.text for other in spec.fields for dim in other.dims}
            _fail(spec, f"{f.name}: unknown dtype {f.dtype!r}{advice_on_dtype(f.dtype, types, dims)} known are {known}")
        if not f.is_tensor and f.value_type is None and f.dtype not in SCALAR_TYPES:
            _fail(spec, f"{f.name}: unknown scalar type {f.dtype!r}; known are {', '.join(SCALAR_TYPES)}")


def _bound_names(spec: Description) -> set[str]:
    """Return all names that an expression may use after the arguments have been read."""
    alone = [f for f in spec.inputs if not f.is_list]
    other_names = {DEV_IDX, NUM_DEVICES} if spec.is_parallel else set()
    other_names |= set().union(*(stride_names(f) for f in alone))
    tensors = {f"{f.name}.{extent}" for f in alone for extent in EXTENTS}
    return {*spec.dim_names, *(f.name for f in spec.fields if f.is_integer), *tensors, *other_names}


def stride_names(f: Field) -> set[str]:
    """Return the names of a strided tensor's strides in expressions."""
    return {f"{f.name}.stride({axis})" for axis in range(-len(f.dims), len(f.dims))} if f.is_strided else set()


def _check_dims(spec: Description) -> None:
    bound = _bound_names(spec)
    for f in spec.tensors:
        most, kind = (MAX_RANK, "strided") if f.is_strided else (MAX_DIMS, "global")
        if len(f.dims) > most:
            _fail(spec, f"{f.name} has {len(f.dims)} dims; a {kind} layout has at most {most}")
        if f.is_strided and f.cpp_type:
            _fail(spec, f"{f.name}: CType({f.cpp_type!r}) has no strides; a strided layout always has tkjit's own type")
        if f.is_strided and not f.dims:
            _fail(spec, f"{f.name} has no dims; a strided layout has 1 to {MAX_RANK}")
        if f.leading and f.is_allocated and not any(g.leading for g in spec.inputs):
            _fail(spec, f"{f.name}: no input has leading dims '...', so those of {f.name} are unknown")
        for dim in f.dims:
            if not dim.names and _constant(spec, f.name, dim) < 0:
                _fail(spec, f"{f.name}: the dim {dim} is negative")
    derived = dict(spec.derived)
    for name in derived:
        if name in bound:
            _fail(spec, f"dims[{name!r}] is already bound by an argument")
    try:
        tuple(TopologicalSorter({name: expr.names & derived.keys() for name, expr in spec.derived}).static_order())
    except CycleError as error:
        _fail(spec, f"circular shape: {' -> '.join(map(str, error.args[1]))}")
    known = bound | derived.keys()
    _check_optional_dims(spec)
    of_launch = [what for what, _ in spec.launch.shape] + [f"computed[{name!r}]" for name, _ in spec.computed]
    for where, expr in _expressions(spec):
        allowed = spec.tuning if where in of_launch else spec.variants if where == "flops" else ()
        for name in sorted(expr.names - known - dict(allowed).keys()):
            if ".stride(" in name:
                _fail(spec, f"{where}: {name} in {expr.text!r}: {_why_no_stride(spec, name.partition('.')[0])}")
            defined = ", ".join(sorted(name for name in known if "." not in name)) or "none"
            is_dim = "." not in name and name not in [f.name for f in spec.fields]
            inputs = [f.name for f in spec.inputs]
            advice = advice_on_dim(name, where, expr.text, known, inputs) if is_dim else ""
            if name in dict(spec.computed):
                advice = f"; {name} is computed for the kernel: write {dict(spec.computed)[name]} here as well"
            if name in dict(spec.tuning):
                advice = f"; {name} is chosen by tuning, so only the launch can depend on it"
            if name in spec.integer_variants:
                option = dict(spec.variants)[name][0]
                advice = f"; {name} is a variant that no call can choose yet: add the parameter {name}: int = {option}"
            _fail(spec, f"{where}: undefined dim {name} in {expr.text!r}; defined are {defined}{advice}")
    integer_fields = {f.name for f in spec.fields if f.is_integer}
    for name in spec.integer_variants:
        if name not in spec.dim_names and name not in integer_fields and name not in derived:
            _fail(spec, f"no dim and no integer parameter is named {name}, so a call cannot choose its variant")


def _check_tuning(spec: Description) -> None:
    if spec.tuning and (spec.host or spec.is_parallel):
        _fail(spec, f"tune= is not for {'host functions' if spec.host else 'kernels over several devices'}")
    known = spec.compile_time_integers
    for expr in spec.tuning_constraints:
        if unknown := expr.names - known:
            _fail(
                spec,
                f"constraints: {', '.join(sorted(unknown))} in {expr.text!r}: a condition on constants of tune= "
                f"can only use these and integer variants: {', '.join(sorted(known))}",
            )


def _check_fills(spec: Description) -> None:
    """Reject Zero and Fill on tensors that cannot be filled, and values that a dtype cannot hold."""
    if spec.pdl and any(f.fill is not None for f in spec.tensors):
        _fail(
            spec, "pdl=True lets the kernel start before Zero and Fill have finished; fill in the kernel, or remove pdl"
        )
    for f in spec.tensors:
        if f.fill is None:
            continue
        if not f.is_allocated:
            _fail(spec, f"{f.name}: Zero and Fill are for outputs and scratch, but {f.name} holds the caller's values")
        for dtype in spec.dtypes_of(f):
            if f.fill and dtype in ("float4_e2m1fn_x2", "complex64", "complex128"):
                _fail(spec, f"{f.name}: {dtype} can only be filled with Zero")
            bounds = (0, 1) if dtype == "bool" else SCALAR_TYPES.get(f"{dtype}_t")
            if bounds and not (float(f.fill).is_integer() and bounds[0] <= f.fill <= bounds[1]):
                _fail(spec, f"{f.name}: Fill({f.fill!r}) is not a value of {dtype}")


def _check_optional_dims(spec: Description) -> None:
    """Reject expressions that need an extent or stride of an optional tensor."""
    if not any(f.optional for f in spec.tensors):
        return
    optional = {f"{f.name}.{extent}": f.name for f in spec.tensors if f.optional for extent in EXTENTS}
    optional |= {name: f.name for f in spec.tensors if f.optional for name in stride_names(f)}
    optional |= {name: spec.binder(name)[0].name for name in spec.dim_names if spec.binder(name)[0].optional}
    inputs = {id(dim) for f in spec.inputs for dim in f.dims}
    for where, expr in _expressions(spec):
        for name in sorted(expr.names & optional.keys()):
            if id(expr) not in inputs:
                _fail(spec, f"{where}: {name} has no value when a call omits {optional[name]}")


def _why_no_stride(spec: Description, field: str) -> str:
    """Explain why an expression cannot use a tensor's stride."""
    f = next((f for f in spec.tensors if f.name == field), None)
    if f is None:
        return f"there is no tensor {field}"
    if not f.is_strided:
        return f"{field} is contiguous; only In[Strided, ...] has strides"
    if f.is_allocated:
        return f"{field} has no strides before it is allocated"
    return f"{field} has {len(f.dims)} dims"


def _constant(spec: Description, name: str, dim: Expr) -> int:
    try:
        return dim.evaluate({})
    except ShapeError as error:
        raise SpecError(f"{spec.name}: {name}: the dim {error}") from None


def _expressions(spec: Description) -> list[tuple[str, Expr]]:
    return [
        *((f"{f.name}'s dims", dim) for f in spec.tensors for dim in f.dims),
        *((f"dims[{name!r}]", expr) for name, expr in spec.derived),
        *((what, expr) for what, part in spec.launch.shape if isinstance(part, tuple) for expr in part),
        *((f"computed[{name!r}]", expr) for name, expr in spec.computed),
        *((f"{f.name}'s draws", f.draws) for f in spec.fields if f.draws is not None),
        *(("constraints", expr) for expr in spec.constraints),
        *([("flops", spec.benchmark.flops)] if spec.benchmark.flops is not None else []),
    ]


def _check_constant_shape(spec: Description) -> None:
    """Check a constant grid and block, which are known before any call."""
    for what, parts in (("grid", spec.grid), ("block", spec.block)):
        if not isinstance(parts, tuple) or any(part.names for part in parts):
            continue
        try:
            sizes = [part.evaluate({}) for part in parts]
        except ShapeError as error:
            _fail(spec, f"{what}: {error}")
        if min(sizes, default=1) < 1:
            _fail(spec, f"{what} is {', '.join(map(str, sizes))}: no {'block' if what == 'grid' else 'thread'} runs")
        if what == "block" and prod(sizes) > _MAX_THREADS:
            remedy = f"take more blocks instead, block={_MAX_THREADS} and a grid of cdiv(size, {_MAX_THREADS})"
            _fail(spec, f"block is {prod(sizes)} threads; the limit is {_MAX_THREADS}: {remedy}")


def _check_launch(spec: Description) -> None:
    if not spec.entry.strip():
        _fail(spec, "entry is empty; expected the name of a __global__ function")
    if spec.result and (not spec.host or spec.outputs or spec.is_parallel):
        what = (
            "a kernel" if not spec.host else "a call over several devices" if spec.is_parallel else "one with outputs"
        )
        _fail(spec, f"the annotation returns {spec.result}: a host function can, but {what} cannot")
    if spec.args and spec.struct:
        _fail(spec, "args=True passes plain arguments, struct= a globals struct; use only one of them")
    if spec.struct == AUTO and spec.config:
        _fail(
            spec,
            'struct="auto" does not work with config=, because a __device__ function has no address; name the struct',
        )
    if spec.args and spec.config:
        _fail(spec, "config= needs an entry that takes a globals struct, but args=True passes plain arguments")
    if not spec.host and spec.struct is None and spec.config is None:
        for what, value in (("grid", spec.grid), ("block", spec.block)):
            if not value:
                example = 'grid="cdiv(N, 256)", block=256'
                alternative = "only struct= or config= can provide it instead"
                _fail(spec, f"{what} is missing, as in {example}; {alternative}")
    _check_constant_shape(spec)
    if spec.host and (spec.grid or spec.block or spec.shared_memory):
        _fail(spec, "a host function does its own launches: grid, block and shared_memory do not apply")
    for what in ("cooperative", "cluster", "pdl", "config"):
        if spec.host and getattr(spec, what):
            _fail(spec, f"a host function does its own launches: {what} does not apply")
    _check_cluster(spec)


def _check_parallel(spec: Description) -> None:
    """Check that a kernel that runs on several devices gets its device's index and the number of devices."""
    if not spec.is_parallel:
        if spec.num_devices:
            _fail(spec, "num_devices= is only for kernels with a ParallelTensor parameter")
        return
    if spec.backward:
        _fail(spec, "a kernel over several devices cannot have backward=")
    if any(f.is_list or f.optional for f in spec.tensors):
        _fail(
            spec, "a kernel over several devices cannot have lists of tensors or optional tensors: its calls pass lists"
        )
    if not 0 <= spec.num_devices <= MAX_DEVICES:
        _fail(spec, f"num_devices={spec.num_devices}; expected up to {MAX_DEVICES}")
    if spec.struct or spec.args:
        computed = dict(spec.computed)
        taker = f"struct {spec.struct}" if spec.struct else f"entry {spec.entry}"
        for name in (DEV_IDX, NUM_DEVICES):
            fixed = name == NUM_DEVICES and spec.num_devices
            if not fixed and (name not in computed or computed[name].text != name):
                how = ", or num_devices=8 if its type fixes the number" if name == NUM_DEVICES else ""
                _fail(
                    spec,
                    f"the {taker} has no {name}, which a kernel over several devices needs; "
                    f"add computed={{{name!r}: {name!r}}}{how}",
                )


def _check_cluster(spec: Description) -> None:
    blocks = prod(spec.cluster)
    if len(spec.cluster) > 3 or any(extent < 1 for extent in spec.cluster) or blocks > MAX_CLUSTER_BLOCKS:
        _fail(
            spec, f"cluster={spec.cluster} is invalid; expected up to 3 numbers, {MAX_CLUSTER_BLOCKS} blocks in total"
        )
    if spec.config and (spec.cluster or spec.pdl):
        _fail(spec, f"{spec.config} sets the cluster size and the overlap of launches: cluster and pdl do not apply")
    if spec.cooperative and (spec.pdl or spec.config):
        _fail(spec, "a cooperative launch waits for the previous one, so pdl and config do not apply")


def _check_compiler(spec: Description) -> None:
    if spec.compiler not in ("", *COMPILERS):
        _fail(spec, f"compiler is {spec.compiler!r}; expected {' or '.join(map(repr, COMPILERS))}")


def _check_autocast(spec: Description) -> None:
    if spec.autocast is None:
        return
    if spec.autocast not in ("lower", "float32"):
        _fail(spec, f"autocast is {spec.autocast!r}; expected 'lower', 'float32' or None")
    in_place = [f.name for f in spec.tensors if f.direction == "inout"]
    if in_place:
        # torch's own operators have the same restriction
        _fail(spec, f"autocast= needs a kernel that changes no argument, but {', '.join(in_place)} is written in place")
    if not differentiable(spec):
        _fail(spec, "autocast= needs a kernel with floating-point tensors among its inputs")
    untyped = [f.name for f in spec.unknown_to_torch]
    if untyped:
        _fail(spec, f"autocast= needs a kernel with an operator, but PyTorch has no type for {', '.join(untyped)}")


def _check_backward(spec: Description) -> None:
    if spec.backward is None:
        return
    in_place = [f.name for f in spec.tensors if f.direction == "inout"]
    if in_place:
        _fail(spec, f"backward= needs a kernel that changes no argument, but {', '.join(in_place)} is written in place")
    if any(f.is_list for f in spec.tensors):
        _fail(spec, "backward= needs a kernel without lists of tensors")
    outputs = [f.name for f in spec.outputs]
    if not outputs or not differentiable(spec):
        _fail(spec, "backward= needs a kernel with outputs, and with floating-point tensors among its inputs")
    known = {*(f.name for f in spec.given), *(f"grad_{name}" for name in outputs), NEEDED}
    for name in spec.backward.parameters:
        if name not in known:
            _fail(spec, f"backward takes {name}; it can take {', '.join(sorted(known))}")
