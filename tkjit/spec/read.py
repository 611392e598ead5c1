"""Reads a Python function as a spec: its name, parameters, defaults, annotations, docstring and body."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import SpecError
from tkjit.spec.advice import name_without_quotes
from tkjit.spec.cpp_words import CPP_KEYWORDS
from tkjit.spec.dispatch_arguments import deciding
from tkjit.spec.expr import Expr, parse_list
from tkjit.spec.fields import field_of, parse_at
from tkjit.spec.headers import LIBRARIES, HeaderLibrary
from tkjit.spec.model import (
    Backward,
    Benchmark,
    Compilation,
    Field,
    Launch,
    Operator,
    Parameters,
    Source,
    Verification,
)
from tkjit.spec.options import Options, check_options
from tkjit.spec.spec import Spec

if TYPE_CHECKING:
    from typing_extensions import Unpack


def spec_of_function(function: Callable[..., Any], source: str | Path | None, **options: Unpack[Options]) -> Spec:
    """Read a spec from a function; the options are those of ``tkjit.kernel``.

    Raises
    ------
    SpecError
        If an option is unknown or missing, an annotation cannot be read, or the parts contradict each other.
    """
    name = function.__name__
    check_options(name, options, source)
    parameters = _parameters(function, options)
    return Spec(
        name,
        parameters,
        _launch(name, options),
        compilation_of(function, source, options),
        Operator(
            doc=inspect.getdoc(function) or "",
            backward=_backward(name, options.get("backward")),
            deprecated=options.get("deprecated", ""),
            autocast=options.get("autocast"),
            module=function.__module__,
            reference=function if has_body(function) else None,
            verification=_verification(name, options, parameters.fields),
            benchmark=_benchmark(name, options, parameters),
        ),
    )


def _parameters(function: Callable[..., Any], options: Options) -> Parameters:
    name = function.__name__
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise SpecError(f"{name}: an annotation uses an undefined name: {error}{name_without_quotes(error)}") from None
    fields = tuple(field_of(name, parameter) for parameter in signature.parameters.values())
    computed = _parsed_each(name, "computed", options.get("computed"))
    given = _names(options.get("fields") or "")
    variants = options.get("variants") or {}
    members = (f.name for f in fields if f.name not in deciding(fields, variants) and not f.is_constant)
    constants = tuple(f.name for f in fields if f.is_constant and f.name not in given)
    tuning = _tuning(name, options.get("tune") or {})
    constraints = [parse_at(name, "constraints", text, Expr.parse) for text in _as_list(options.get("constraints", ()))]
    return Parameters(
        fields=fields,
        order=(*(given or (*members, *(member for member, _ in computed))), *constants),
        returns=_returns(name, fields, signature.return_annotation),
        variants=tuple((key, tuple(_as_list(choices))) for key, choices in variants.items()),
        derived=_parsed_each(name, "dims", options.get("dims")),
        constraints=tuple(one for one in constraints if not one.names & dict(tuning).keys()),
        tuning=tuning,
        tuning_constraints=tuple(one for one in constraints if one.names & dict(tuning).keys()),
        struct=options.get("struct"),
        args=options.get("args", False),
        computed=computed,
        trailing=_names(options.get("trailing", "")),
        result=_result(signature.return_annotation),
    )


def _tuning(kernel: str, options: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if not isinstance(options, Mapping):
        raise SpecError(f"{kernel}: tune is {options!r}; expected the options of each constant: {{'STAGES': (3, 4)}}")
    tuning = tuple((name, tuple(_as_list(values))) for name, values in options.items())
    for name, values in tuning:
        if not values or not all(type(value) is int for value in values):
            raise SpecError(f"{kernel}: tune[{name!r}] is {options[name]!r}; expected integers, the default first")
    return tuning


def _launch(name: str, options: Options) -> Launch:
    return Launch(
        entry=options["entry"],
        host=options.get("host", False),
        grid=parse_at(name, "grid", options.get("grid"), parse_list) or (),
        block=parse_at(name, "block", options.get("block"), parse_list) or (),
        shared_memory=parse_at(name, "shared_memory", options.get("shared_memory"), Expr.parse),
        cooperative=options.get("cooperative", False),
        cluster=tuple(_as_list(options.get("cluster", ()))),
        pdl=options.get("pdl", False),
        config=options.get("config"),
        num_devices=options.get("num_devices", 0),
    )


def compilation_of(function: Callable[..., Any], source: str | Path | None, options: Options) -> Compilation:
    """Read the sources of a kernel and the options that affect their compilation.

    Raises
    ------
    SpecError
        If there is no source.
    """
    name = function.__name__
    directory = directory_of(function)
    cpu = options.get("cpu")
    sources = {"": source, **(options.get("archs") or {}), **({"cpu": cpu} if cpu else {})}
    given = {_arch(name, arch): _source(where, directory) for arch, where in sources.items() if where is not None}
    if not given:
        hint = (
            f'; {name}.cu is next to the spec file: @tkjit.kernel("{name}.cu", ...)'
            if (directory / f"{name}.cu").is_file()
            else ""
        )
        raise SpecError(f"{name}: no source; give a file name, the text itself, or archs={hint}")
    flags = options.get("flags", ())
    return Compilation(
        sources=tuple(given.items()),
        headers=_libraries(name, options.get("headers", ()), given.values()),
        std=options.get("std", "c++20"),
        flags=tuple(flags.split() if isinstance(flags, str) else flags),
        defines=tuple((key, str(value)) for key, value in (options.get("defines") or {}).items()),
        include_dirs=tuple((directory / path).absolute() for path in _as_list(options.get("include_dirs", ()))),
        libraries=tuple(_as_list(options.get("libraries", ()))),
        compiler=options.get("compiler", ""),
        symbols=_symbols(name, options.get("symbols", "")),
    )


def _symbols(kernel: str, symbols: object) -> tuple[str, ...]:
    """Split the C++ names of variables, given as ``"counter, mine::table"``."""
    names = _names(symbols) if isinstance(symbols, str) else ()
    words = [word for name in names for word in name.removeprefix("::").split("::")]
    if not isinstance(symbols, str) or not all(word.isidentifier() and word not in CPP_KEYWORDS for word in words):
        raise SpecError(f'{kernel}: symbols={symbols!r}; expected names of variables: "counter, mine::table"')
    return names


def directory_of(function: Callable[..., Any]) -> Path:
    """Return the directory that a kernel's files are relative to."""
    # a notebook cell has no file, or only a temporary one; its sources are next to the notebook
    file = Path(function.__code__.co_filename)
    return file.parent if file.is_file() and "ipykernel" not in file.parent.name else Path.cwd()


def _backward(kernel: str, backward: str | Callable[..., Any] | None) -> Backward | None:
    """Read ``backward=``, which is a function, a kernel or the name of a kernel."""
    if backward is None:
        return None
    if isinstance(backward, str):
        return Backward(kernel=backward)
    if isinstance(specs := getattr(backward, "specs", None), tuple):  # a Kernel, which this package cannot import
        return Backward(kernel=specs[0].name, function=backward)
    if not inspect.isfunction(backward):
        raise SpecError(f"{kernel}: backward is {backward!r}; expected a function, a kernel or a kernel's name")
    return Backward(parameters=tuple(inspect.signature(backward).parameters), function=backward)


def _verification(kernel: str, options: Options, fields: Sequence[Field]) -> Verification:
    examples, prepare = _calls(kernel, "examples", options.get("examples", ()), fields), options.get("prepare")
    if prepare is not None and not callable(prepare):
        raise SpecError(f"{kernel}: prepare is {prepare!r}; expected a function of a call's arguments by name")
    tolerance = options.get("tolerance", 0.0)
    if not isinstance(tolerance, (int, float)) or tolerance < 0:
        raise SpecError(
            f"{kernel}: tolerance is {tolerance!r}; expected a number above 0, an error relative to a result's row"
        )
    for option in ("unchecked", "zeroed"):
        if not isinstance(options.get(option, ""), str):
            raise SpecError(f'{kernel}: {option} is {options[option]!r}; expected names in one string: "x y"')
    unchecked, zeroed = _names(options.get("unchecked", "")), _names(options.get("zeroed", ""))
    if unknown := set(unchecked) - {f.name for f in fields if f.is_written}:
        raise SpecError(f"{kernel}: unchecked= names {', '.join(sorted(unknown))}, which the kernel does not write")
    if unknown := set(zeroed) - {f.name for f in fields if f.is_input}:
        raise SpecError(
            f"{kernel}: zeroed= names {', '.join(sorted(unknown))}, which is not an input that verify could zero; "
            'an output starts as zero with Out[Tensor, "float32", "N", Zero]'
        )
    return Verification(examples, prepare, float(tolerance), unchecked, zeroed)


def _benchmark(kernel: str, options: Options, parameters: Parameters) -> Benchmark:
    flops = parse_at(kernel, "flops", options.get("flops"), Expr.parse)
    peers = options.get("peers", {})
    if not isinstance(peers, Mapping) or not all(inspect.isfunction(peer) for peer in peers.values()):
        raise SpecError(f"{kernel}: peers is {peers!r}; expected a function for each name: {{'cuBLAS': torch_mm}}")
    for name, peer in peers.items():
        if others := set(inspect.signature(peer).parameters) - {f.name for f in parameters.fields}:
            raise SpecError(f"{kernel}: the peer {name} takes {', '.join(sorted(others))}, which the kernel does not")
    sizes = _calls(kernel, "sizes", options.get("sizes", ()), parameters.fields)
    return Benchmark(flops if isinstance(flops, Expr) else None, sizes, tuple(peers.items()))


def _calls(kernel: str, option: str, given: Any, fields: Sequence[Field]) -> tuple[Mapping[str, Any], ...]:
    """Read calls that are given as values by name, such as ``examples={"M": 128, "...": (2, 3)}``."""
    calls = _as_list(given)
    omittable = {f.name for f in fields if f.optional}
    for call in calls:
        if not isinstance(call, Mapping) or not all(isinstance(name, str) for name in call):
            raise SpecError(f"{kernel}: {option}= takes dictionaries such as {{'M': 128, 'N': 64}}, one for each call")
        if not isinstance(call.get("...", ()), (tuple, list)):
            raise SpecError(f"{kernel}: '...' in {option}= is {call['...']!r}; expected a tuple of leading dims")
        if wrong := sorted(name for name, value in call.items() if value is None and name not in omittable):
            raise SpecError(f"{kernel}: {option}= omits {', '.join(wrong)}, which is not optional")
    return tuple(calls)


def _arch(kernel: str, arch: str) -> str:
    """Return an architecture in ``archs=`` without the prefix ``sm_``."""
    short = arch.removeprefix("sm_")
    digits = short[:-1] if short[-1:] in ("a", "f") else short
    if arch not in ("", "cpu") and not (digits.isascii() and digits.isdigit() and len(digits) in (2, 3)):
        raise SpecError(f"{kernel}: archs[{arch!r}] is not an architecture; expected one such as '80', '90a' or 'cpu'")
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
    """Return the header libraries that a spec names, and those that contain its sources."""
    found: dict[str, HeaderLibrary] = {}
    for library in (*_as_list(given), *(source.library for source in sources if source.library)):
        if isinstance(library, HeaderLibrary):
            found[library.name] = library
        elif library not in found:
            if library not in LIBRARIES:
                raise SpecError(
                    f"{kernel}: no header library is named {library!r}; known are {', '.join(LIBRARIES)}; "
                    "for another one, pass a tkjit.HeaderLibrary"
                )
            found[library] = LIBRARIES[library]
    return tuple(found.values())


def _returns(kernel: str, fields: tuple[Field, ...], annotation: Any) -> tuple[str, ...]:
    """Return the fields that a call returns: the outputs, plus in-place fields if the annotation includes them."""
    outs = tuple(f.name for f in fields if f.direction == "out")
    written = tuple(f.name for f in fields if f.is_written)
    if annotation in (inspect.Signature.empty, None, types.NoneType) or _result(annotation):
        return outs
    count = len(typing.get_args(annotation)) if typing.get_origin(annotation) is tuple else 1
    for names in (outs, written):
        if names and len(names) == count:
            return names
    every = ", ".join(["Tensor"] * len(written))
    remedy = f"write -> {every if len(written) == 1 else f'tuple[{every}]'}"
    if not written:
        remedy = 'outputs are also parameters: y: Out[Tensor, "float32", "N"]'
    raise SpecError(
        f"{kernel}: the annotation returns {count} tensor(s); the outputs are {', '.join(written) or 'none'}; {remedy}"
    )


def _result(annotation: Any) -> str:
    """Return the type of the number that a call returns; empty if the call returns tensors or nothing."""
    return annotation.__name__ if annotation in (float, int, bool) else ""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _parsed_each(kernel: str, option: str, given: Mapping[str, str | int] | None) -> tuple[tuple[str, Expr], ...]:
    return tuple((key, parse_at(kernel, f"{option}[{key!r}]", text, Expr.parse)) for key, text in (given or {}).items())


def _as_list(given: Sequence[Any] | Any) -> Sequence[Any]:
    """Wrap a single value in a list, because iterating over a string would give its letters."""
    return given if isinstance(given, (list, tuple)) else [given]


def _empty() -> None: ...
def _documented() -> None:
    """A body with only a docstring."""


def has_body(function: Callable[..., Any]) -> bool:
    """Return whether a function does anything and so is a reference; a body of ``...`` does nothing."""
    code = function.__code__
    returns_none = set(code.co_consts) <= {None, ..., function.__doc__}
    return not returns_none or code.co_code not in (_empty.__code__.co_code, _documented.__code__.co_code)
