"""Reads a Python function as a spec: its name, parameters, defaults, annotations, docstring and body."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError
from tkjit.spec.annotations import Align, CExpr, CType, Marker, MaxLength, Member, ParallelLayout, Tensor
from tkjit.spec.dtypes import BY_NAME, SCALAR_TYPES
from tkjit.spec.expr import Expr, parse_list
from tkjit.spec.headers import LIBRARIES, HeaderLibrary
from tkjit.spec.model import MISSING, Backward, Compilation, Field, Launch, Operator, Parameters, Source
from tkjit.spec.spec import Spec
from tkjit.spec.values import ValueType, value_type_of

_MAX_LENGTH = 16  # of a list in a kernel's struct, where the spec says no other
_SCALARS = {float: "float", int: "int", bool: "bool"}


def spec_of_function(
    function: Callable[..., Any],
    source: str | Path | None,
    *,
    entry: str,
    grid: str | int | tuple[str | int, ...] | CExpr | None = None,
    block: str | int | tuple[str | int, ...] | CExpr | None = None,
    shared_memory: str | int | CExpr | None = None,
    variants: Mapping[str, Sequence[str | int] | str | int] | None = None,
    dims: Mapping[str, str | int] | None = None,
    computed: Mapping[str, str | int] | None = None,
    behind: str = "",
    constraints: Sequence[str] | str = (),
    fields: str | None = None,
    struct: str | None = None,
    args: bool = False,
    host: bool = False,
    archs: Mapping[str, str | Path] | None = None,
    cpu: str | Path | None = None,
    flags: Sequence[str] | str = (),
    defines: Mapping[str, object] | None = None,
    include_dirs: Sequence[str | Path] | str | Path = (),
    libraries: Sequence[str] | str = (),
    std: str = "c++20",
    cooperative: bool = False,
    forbid_spills: bool = False,
    cluster: int | Sequence[int] = (),
    pdl: bool = False,
    config: str | None = None,
    num_devices: int = 0,
    headers: str | HeaderLibrary | Sequence[str | HeaderLibrary] = (),
    backward: str | Callable[..., Any] | None = None,
    deprecated: str = "",
    autocast: str | None = None,
) -> Spec:
    """Read a spec off a function; the keywords are those of ``tkjit.kernel``.

    Raises
    ------
    SpecError
        If an annotation cannot be read, or the parts contradict each other.
    """
    name = function.__name__
    # a notebook's cell has no file, or a temporary one: sources are beside the notebook then
    file = Path(function.__code__.co_filename)
    directory = file.parent if file.is_file() and "ipykernel" not in file.parent.name else Path.cwd()
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise SpecError(f"{name}: an annotation names something unknown: {error}") from None
    parsed = tuple(_field(name, parameter) for parameter in signature.parameters.values())
    sources = {"": source, **(archs or {}), **({"cpu": cpu} if cpu else {})}
    given = {_arch(name, arch): _source(where, directory) for arch, where in sources.items() if where is not None}
    if not given:
        raise SpecError(f"{name}: no source; give a file name, the text itself, or archs=")
    return Spec(
        name,
        Parameters(
            fields=parsed,
            order=_names(fields) if fields else (*(f.name for f in parsed), *(computed or ())),
            returns=_returns(name, parsed, signature.return_annotation),
            variants=tuple((key, tuple(_listed(options))) for key, options in (variants or {}).items()),
            derived=_parsed_each(name, "dims", dims),
            constraints=tuple(_parsed(name, "constraints", text, Expr.parse) for text in _listed(constraints)),
            struct=struct,
            args=args,
            computed=_parsed_each(name, "computed", computed),
            behind=_names(behind),
        ),
        Launch(
            entry=entry,
            host=host,
            grid=_parsed(name, "grid", grid, parse_list) or (),
            block=_parsed(name, "block", block, parse_list) or (),
            shared_memory=_parsed(name, "shared_memory", shared_memory, Expr.parse),
            cooperative=cooperative,
            cluster=tuple(_listed(cluster)),
            pdl=pdl,
            config=config,
            num_devices=num_devices,
        ),
        Compilation(
            sources=tuple(given.items()),
            headers=_libraries(name, headers, given.values()),
            std=std,
            flags=tuple(flags.split() if isinstance(flags, str) else flags),
            defines=tuple((key, str(value)) for key, value in (defines or {}).items()),
            include_dirs=tuple((directory / path).absolute() for path in _listed(include_dirs)),
            libraries=tuple(_listed(libraries)),
            forbid_spills=forbid_spills,
        ),
        Operator(
            doc=inspect.getdoc(function) or "",
            backward=_backward(name, backward),
            deprecated=deprecated,
            autocast=autocast,
            module=function.__module__,
            reference=function if _has_body(function) else None,
        ),
    )


def _backward(kernel: str, backward: str | Callable[..., Any] | None) -> Backward | None:
    """What ``backward=`` names: a kernel by its name, or a function."""
    if backward is None:
        return None
    if isinstance(backward, str):
        return Backward(kernel=backward)
    if not inspect.isfunction(backward):
        raise SpecError(f"{kernel}: backward is {backward!r}; expected a function, or a kernel's name")
    return Backward(parameters=tuple(inspect.signature(backward).parameters), function=backward)


def _arch(kernel: str, arch: str) -> str:
    """An architecture of ``archs=`` without its ``sm_``."""
    short = arch.removeprefix("sm_")
    digits = short[:-1] if short[-1:] in ("a", "f") else short
    if arch not in ("", "cpu") and not (digits.isascii() and digits.isdigit() and len(digits) in (2, 3)):
        raise SpecError(f"{kernel}: archs[{arch!r}] is no architecture; expected the like of '80', '90a', 'cpu'")
    return short


def _source(where: str | Path, directory: Path) -> Source:
    if isinstance(where, str) and ("\n" in where or "{" in where):
        return Source(text=where)
    if in_library := re.fullmatch(r"<(\w+)>/(.+)", str(where)):
        return Source(path=Path(in_library[2]), library=in_library[1])
    return Source(path=(directory / where).absolute())


def _libraries(
    kernel: str, given: str | HeaderLibrary | Sequence[str | HeaderLibrary], sources: Iterable[Source]
) -> tuple[HeaderLibrary, ...]:
    """The header libraries that a spec names, and those in which its sources lie."""
    found: dict[str, HeaderLibrary] = {}
    for library in (*_listed(given), *(source.library for source in sources if source.library)):
        if isinstance(library, HeaderLibrary):
            found[library.name] = library
        elif library not in found:
            if library not in LIBRARIES:
                raise SpecError(
                    f"{kernel}: no header library is named {library!r}; known are {', '.join(LIBRARIES)}; "
                    "for another give a tkjit.HeaderLibrary"
                )
            found[library] = LIBRARIES[library]
    return tuple(found.values())


def _field(kernel: str, parameter: inspect.Parameter) -> Field:
    name, annotation = parameter.name, parameter.annotation
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SpecError(f"{kernel}: *{name} is not a field; a kernel's parameters are fixed")
    if annotation is parameter.empty:
        raise SpecError(f"{kernel}: {name} has no annotation; expected In[Tensor, ...], float, int or bool")
    annotation, optional = _strip_none(annotation)
    default: Any = MISSING if parameter.default is parameter.empty else parameter.default
    if default is None:
        optional = True
    python_type, marker = _marker(kernel, name, annotation)
    common: dict[str, Any] = {
        "name": name,
        "optional": optional,
        "default": default,
        "keyword_only": parameter.kind is parameter.KEYWORD_ONLY,
    }
    if marker.direction == "scalar":
        if python_type not in _SCALARS and value_type_of(python_type) is not None:
            return _value_field(kernel, python_type, marker, common)
        return _scalar_field(kernel, python_type, marker, common)
    if isinstance(python_type, type) and issubclass(python_type, ParallelLayout):
        if marker.direction == "out" or optional:
            raise SpecError(
                f"{kernel}: {name}: a parallel layout is an input that every call gives; InOut writes to it"
            )
        common["is_parallel"] = True
    elif python_type not in (Tensor, list[Tensor]):
        raise SpecError(
            f"{kernel}: {name} is {python_type!r} with dims; expected Tensor, list[Tensor] or ParallelTensor"
        )
    elif python_type is not Tensor:
        if marker.direction == "out" or optional:
            raise SpecError(f"{kernel}: {name}: a list of tensors is an input that every call gives")
        common["max_length"] = _MAX_LENGTH
    if default is not MISSING and default is not None:
        raise SpecError(f"{kernel}: a tensor's default can only be None, {name} has {default!r}")
    if marker.direction == "out":
        common |= {"keyword_only": True, "optional": False, "default": MISSING}
    return _tensor_field(kernel, marker, common)


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        if len(members) == 1:
            return members[0], True
    return annotation, False


def _marker(kernel: str, name: str, annotation: Any) -> tuple[Any, Marker]:
    if isinstance(annotation, type) and annotation in _SCALARS:
        return annotation, Marker("scalar", ())
    if typing.get_origin(annotation) is typing.Annotated:
        python_type, *rest = typing.get_args(annotation)
        markers = [item for item in rest if isinstance(item, Marker)]
        if len(markers) == 1:
            return python_type, markers[0]
    if value_type_of(annotation) is not None:
        return annotation, Marker("scalar", ())
    raise SpecError(
        f"{kernel}: {name} is annotated {annotation!r}; expected In[...], InOut[...], Out[...], Scalar[...], float, "
        "int, bool, str, torch.dtype, torch.device, or a list, tuple, dict or set of such"
    )


def _value_field(kernel: str, python_type: Any, marker: Marker, common: dict[str, Any]) -> Field:
    value = value_type_of(python_type)
    assert value is not None
    lengths = [item.items for item in marker.items if isinstance(item, MaxLength)]
    named = [item for item in marker.items if isinstance(item, str)]
    if named:
        value = _items_as(kernel, common["name"], value, named[0])
    common["default"] = _value_default(kernel, common["name"], value, common["default"])
    return Field(
        direction="scalar",
        dtype=value.cpp,
        value=value,
        max_length=lengths[0] if lengths else _MAX_LENGTH if value.code[0] == "L" else 0,
        **common,
    )


def _items_as(kernel: str, name: str, value: ValueType, cpp: str) -> ValueType:
    """A list whose numbers have a C++ type that the spec says."""
    if value.item is None:
        raise SpecError(f"{kernel}: {name}: a scalar is float, int or bool, not {value.text}")
    codes = {"int": {"int": "j", "int32_t": "j", "int64_t": "i"}, "float": {"float": "f", "double": "f"}}
    known = codes.get(value.item.text, {})
    if cpp not in known:
        raise SpecError(f"{kernel}: {name}: the items of {value.text} cannot be {cpp}; known are {', '.join(known)}")
    return replace(value, code=f"L{known[cpp]}", cpp=f"std::vector<{cpp}>")


def _value_default(kernel: str, name: str, value: ValueType, default: Any) -> Any:
    """A default as a value that nobody can change and that C++ can be rendered of."""
    if default is MISSING or default is None:
        return default
    numbers = value.item is not None and value.item.code in "ifb"
    if numbers and isinstance(default, (list, tuple)):
        kinds = {"i": (int,), "f": (int, float), "b": (bool,)}[value.item.code if value.item else "i"]
        if all(isinstance(item, kinds) and (isinstance(item, bool) == (kinds == (bool,))) for item in default):
            return tuple(default)
    if value.code == "s" and isinstance(default, str):
        return default
    if value.code == "t" and str(default).removeprefix("torch.") in BY_NAME:
        return str(default).removeprefix("torch.")
    if value.code == "d" and re.fullmatch(r"cpu|cuda(:\d{1,3})?", str(default)):
        return str(default)
    raise SpecError(f"{kernel}: {name}: {default!r} cannot be the default of {value.text}; None can")


def _scalar_field(kernel: str, python_type: Any, marker: Marker, common: dict[str, Any]) -> Field:
    name = common["name"]
    if python_type not in _SCALARS:
        raise SpecError(f"{kernel}: {name}: a scalar is float, int or bool, not {python_type!r}")
    cpp = str(marker.items[0]) if marker.items else _SCALARS[python_type]
    kind = "int" if SCALAR_TYPES.get(cpp) else {"double": "float"}.get(cpp, cpp)
    if cpp in SCALAR_TYPES and kind != python_type.__name__:
        raise SpecError(f"{kernel}: {name}: {python_type.__name__} cannot be a C++ {cpp}")
    default: Any = common["default"]
    if default not in (MISSING, None):
        _check_default(kernel, name, default, python_type, SCALAR_TYPES.get(cpp))
    return Field(direction="scalar", dtype=cpp, **common)


def _check_default(kernel: str, name: str, default: Any, python_type: type, bounds: tuple[int, int] | None) -> None:
    # bool is a subclass of int, and no number
    kinds = {float: (int, float), int: (int,), bool: (bool,)}[python_type]
    if not isinstance(default, kinds) or (isinstance(default, bool) and python_type is not bool):
        raise SpecError(f"{kernel}: {name}: the default {default!r} is not {python_type.__name__}")
    if bounds and not bounds[0] <= default <= bounds[1]:
        raise SpecError(f"{kernel}: {name}: the default {default!r} does not fit {bounds[0]} to {bounds[1]}")


def _tensor_field(kernel: str, marker: Marker, common: dict[str, Any]) -> Field:
    name = common["name"]
    align, cpp_type, member, plain = 0, None, "", []
    for item in marker.items:
        if isinstance(item, Align):
            align = item.bytes
        elif isinstance(item, CType):
            cpp_type = item.name
        elif isinstance(item, Member):
            member = item.path
        elif isinstance(item, MaxLength):
            common["max_length"] = item.items
        else:
            plain.append(item)
    if not plain or not isinstance(plain[0], str):
        raise SpecError(f"{kernel}: {name} says no dtype; expected {marker.direction.title()}[Tensor, dtype, dims...]")
    dtype, *dims = plain
    texts = [part for dim in dims for part in (["..."] if dim is Ellipsis else _split_dims(dim))]
    leading = bool(texts) and texts[0] == "..."
    if "..." in texts[leading:]:
        raise SpecError(f"{kernel}: {name}: '...' can only stand before the other dims")
    return Field(
        direction=marker.direction,
        dtype=dtype,
        dims=tuple(_parsed(kernel, name, text, Expr.parse) for text in texts[leading:]),
        leading=leading,
        align_bytes=align,
        cpp_type=cpp_type,
        member=member,
        **common,
    )


def _split_dims(dim: str | int) -> list[str]:
    """``"... N"`` is two dims; ``"2 * N"`` is one."""
    text = str(dim).strip()
    if text.startswith("..."):
        return ["...", *text[3:].split()]
    return [text]


def _returns(kernel: str, fields: tuple[Field, ...], annotation: Any) -> tuple[str, ...]:
    """Which fields a call returns: the outputs, and in-place fields too where the annotation counts them."""
    outs = tuple(f.name for f in fields if f.direction == "out")
    written = tuple(f.name for f in fields if f.is_written)
    if annotation in (inspect.Signature.empty, None, types.NoneType):
        return outs
    count = len(typing.get_args(annotation)) if typing.get_origin(annotation) is tuple else 1
    for names in (outs, written):
        if names and len(names) == count:
            return names
    raise SpecError(
        f"{kernel}: the annotation returns {count} tensor(s); the outputs are {', '.join(written) or 'none'}"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _parsed_each(kernel: str, option: str, given: Mapping[str, str | int] | None) -> tuple[tuple[str, Expr], ...]:
    return tuple((key, _parsed(kernel, f"{option}[{key!r}]", text, Expr.parse)) for key, text in (given or {}).items())


def _parsed(kernel: str, where: str, text: Any, parse: Callable[[Any], Any]) -> Any:
    """Parse an expression where there is one and it is ours, and say where it stands if it cannot be read."""
    try:
        return text if text is None or isinstance(text, CExpr) else parse(text)
    except SpecError as error:
        raise SpecError(f"{kernel}: {where}: {error}") from None


def _listed(given: Sequence[Any] | Any) -> Sequence[Any]:
    """One thing as a list of one: a string would be read as its letters."""
    return given if isinstance(given, (list, tuple)) else [given]


def _empty() -> None: ...
def _documented() -> None:
    """A body of nothing but a docstring."""


def _has_body(function: Callable[..., Any]) -> bool:
    """Whether a function does anything: a reference, where ``...`` stands for none."""
    code = function.__code__
    returns_none = set(code.co_consts) <= {None, ..., function.__doc__}
    return not returns_none or code.co_code not in (_empty.__code__.co_code, _documented.__code__.co_code)
