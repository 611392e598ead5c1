"""Reads the facts about the kernels of a CUDA source, in three runs of libclang.

The first run gives the declarations of the source. The second gives the type of each kernel, and of each instance of a
kernel template that the source launches. The third gives the members of the structs that these kernels take. The last
two append lines of C++ to the source, so that the compiler itself computes the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tkjit.errors import SpecError
from tkjit.importer.clang import Error, Parsed, parse
from tkjit.importer.dtypes import dtype_of_cpp
from tkjit.importer.host_launches import is_host, is_plain, without_stream
from tkjit.importer.launches import launches_of
from tkjit.importer.macros import expand_launches
from tkjit.importer.members import Resolved, aliases, errors_at, strip_qualifiers, with_members, without_reference
from tkjit.importer.model import Declared, Found, Launch
from tkjit.importer.thunderkittens_bindings import with_bindings
from tkjit.importer.undeclared import unknown_names, words_of_kernel
from tkjit.importer.variants import template_arguments

_KERNEL, _DEVICE = "CUDAGLOBAL_ATTR", "CUDADEVICE_ATTR"


@dataclass(frozen=True)
class Wanted:
    """The kernels and instances that a user asks for.

    Parameters
    ----------
    kernel : str
        Only kernels of this name, with or without its namespaces; empty for all.
    instances : tuple of str
        Instances of kernel templates, which replace those that the source launches.
    """

    kernel: str = ""
    instances: tuple[str, ...] = ()


def kernels_of(path: Path, arguments: Sequence[str], wanted: Wanted = Wanted(), cxx: Path | None = None) -> Found:
    """Read the kernels of a source.

    Parameters
    ----------
    cxx : Path or None
        A C++ compiler, whose preprocessor expands macros. If None, launches inside macros are not found.

    Raises
    ------
    ToolchainError
        If libclang is missing.
    SpecError
        If there is no kernel to describe, or its declaration has errors.
    """
    source = path.read_text(encoding="utf-8-sig", errors="replace")
    parsed = parse(path, (), arguments, with_macros=True)
    declared, namespaces = _find_declarations(parsed, path)
    expanded = expand_launches(source, _macros_of_headers(parsed, path), cxx)
    in_source = with_bindings(launches_of(expanded), source)
    launches = [Launch(entry) for entry in wanted.instances] or in_source
    asked, undecided = _choose_instances(declared, launches, wanted, path)
    known = {launch.entry: launch for launch in in_source} if wanted.instances else {}
    asked = [replace(known.get(launch.entry, launch), entry=launch.entry) for launch in asked]
    around = dict.fromkeys(launch.host for launch in asked if launch.host)
    hosts = [Launch(name, is_host=True) for name in around]
    resolved, refused = _resolve(path, arguments, [*asked, *hosts], namespaces, declared)
    undecided += [text for number, text in refused.items() if number < len(asked)]
    undecided += expanded.notes
    if all(candidate.launch.is_host and not candidate.launch.bound for candidate in resolved):
        raise SpecError(f"{path.name}: {'; '.join(undecided) or 'no kernel'}")
    instances = list(with_members(path, arguments, resolved))
    called = [instance for instance in instances if is_host(instance) and is_plain(instance)]
    return Found(
        tuple(instance for instance in instances if not is_host(instance)),
        tuple(undecided),
        {instance.name.rpartition("::")[2]: without_stream(instance) for instance in called},
    )


# ---- declarations


def _find_declarations(parsed: Parsed, path: Path) -> tuple[list[Declared], list[str]]:
    """Find the functions of the source and of the headers in its directory, and their namespaces."""
    directory = str(path.parent)
    found: list[Declared] = []
    namespaces: list[str] = []

    def visit(cursor: Any, around: str) -> None:
        kind = cursor.kind.name
        if kind in ("NAMESPACE", "LINKAGE_SPEC", "STRUCT_DECL", "CLASS_DECL"):
            inner = f"{around}{cursor.spelling}::" if cursor.spelling and kind != "LINKAGE_SPEC" else around
            if kind == "NAMESPACE" and inner not in namespaces:
                namespaces.append(inner)
            for child in cursor.get_children():
                visit(child, inner)
        elif kind in ("FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD"):
            found.append(_function(cursor, around))

    for cursor in parsed.declarations():
        file = cursor.location.file
        if file is not None and file.name.startswith(directory) and Path(file.name).parent == path.parent:
            visit(cursor, "")
    return list({(function.name, function.text): function for function in found}.values()), namespaces


def _macros_of_headers(parsed: Parsed, path: Path) -> dict[str, str]:
    """Return the ``#define`` lines of the files that a source includes, by name."""
    by_file: dict[str, list[tuple[str, int]]] = {}
    for name, (file, line) in parsed.macros().items():
        by_file.setdefault(file, []).append((name, line))
    found = {}
    for file, defined in by_file.items():
        if Path(file) == path or not Path(file).is_file():
            continue
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        for name, line in defined:
            end = line
            while end < len(lines) and lines[end - 1].endswith("\\"):
                end += 1
            found[name] = "\n".join(lines[line - 1 : end]).lstrip()
    return found


def _function(cursor: Any, around: str) -> Declared:
    children = list(cursor.get_children())
    kinds = {child.kind.name for child in children}
    template = tuple(child.spelling for child in children if child.kind.name.startswith("TEMPLATE_"))
    parameters = [child for child in children if child.kind.name == "PARM_DECL"]
    prefix = f"template <{', '.join(template)}> " if template else ""
    listed = ", ".join(f"{parameter.type.spelling} {parameter.spelling}".strip() for parameter in parameters)
    return Declared(
        f"{around}{cursor.spelling}",
        f"{prefix}{around}{cursor.spelling}({listed})",
        _KERNEL in kinds,
        template,
        tuple(parameter.spelling for parameter in parameters),
        _place(cursor),
    )


def _place(cursor: Any) -> tuple[str, int, int]:
    extent = cursor.extent
    file = extent.start.file
    return (file.name if file else "", extent.start.line, extent.end.line)


def _bare(entry: str) -> str:
    """Return an entry without its template arguments: ``n::k<g<2>>`` gives ``n::k``."""
    return entry.split("<")[0].strip().removeprefix("::")


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"::{wanted}")


def _choose_instances(
    declared: list[Declared], launches: list[Launch], wanted: Wanted, path: Path
) -> tuple[list[Launch], list[str]]:
    """Return the instances to resolve, each with its launch, and the kernels without a known instance."""
    kernels = [function for function in declared if function.is_kernel]
    if wanted.kernel:
        _check_choice(kernels, launches, wanted.kernel, path)
    chosen = [function for function in kernels if not wanted.kernel or _is_named(function.name, wanted.kernel)]
    asked = [launch for launch in launches if not wanted.kernel or _is_named(_bare(launch.entry), wanted.kernel)]
    if wanted.instances:
        return asked, []
    undecided = []
    for function in chosen:
        if any(_is_named(function.name, _bare(launch.entry)) for launch in asked):
            continue
        if function.template:
            undecided.append(f'{function.text}: no instance is launched here; give --instance "{function.name}<...>"')
        else:
            asked.append(Launch(function.name))
    if not asked and not undecided:
        functions = "; ".join(sorted(function.text for function in declared)) or "none"
        raise SpecError(f"{path.name} has no __global__ function; its functions are: {functions}")
    return asked, undecided


def _check_choice(kernels: list[Declared], launches: list[Launch], name: str, path: Path) -> None:
    """Raise a SpecError if no kernel has this name, or several have it."""
    known = dict.fromkeys([*(kernel.name for kernel in kernels), *(_bare(launch.entry) for launch in launches)])
    fitting = [candidate for candidate in known if _is_named(candidate, name)]
    distinct = [c for c in fitting if not any(c != other and _is_named(other, c) for other in fitting)]
    if not fitting:
        raise SpecError(f"{path.name} has no kernel {name}; it has {', '.join(known) or 'none'}")
    if len(distinct) > 1 and name not in fitting:
        raise SpecError(f"{path.name} has several kernels {name}; give one of {', '.join(distinct)}")


# ---- the types of kernels


def _resolve(
    path: Path, arguments: Sequence[str], asked: list[Launch], namespaces: list[str], declared: list[Declared]
) -> tuple[list[Resolved], dict[int, str]]:
    """Find each instance's global name and parameters; also return the reasons for those that fail."""
    candidates = [(number, scoped) for number, launch in enumerate(asked) for scoped in _scope(launch, namespaces)]
    questions = []
    for index, (_, launch) in enumerate(candidates):
        entry = f"entry_{index}"
        lines = [f"using {entry} = decltype(&{launch.entry}); enum {{ {entry}_size = size_of_parameters<{entry}> }};"]
        if launch.config:
            lines += [f"using config_{index} = {launch.config};", f"using struct_{index} = {launch.struct};"]
        questions.append(f"namespace tkjit_import {{ {' '.join(lines)} }}")
    types = sorted({argument for _, launch in candidates for argument in _type_arguments(launch.entry)})
    first_type = len(questions)
    questions += [f"namespace tkjit_import {{ using type_{i} = {text}; }}" for i, text in enumerate(types)]
    parsed = parse(path, questions, arguments)
    named = aliases(parsed)
    plain = {
        text: strip_qualifiers(named[f"type_{i}"].spelling)
        for i, text in enumerate(types)
        if f"type_{i}" in named and not errors_at(parsed, path, first_type + i)
    }
    plain = {text: spelling for text, spelling in plain.items() if dtype_of_cpp(spelling)}
    unknown = unknown_names(parsed, path)
    found: dict[int, Resolved] = {}
    reasons: dict[int, str] = {}
    for index, (number, launch) in enumerate(candidates):
        if number in found:
            continue
        # An error in a library's header, for example about launch bounds, does not change a type.
        errors = [error for error in errors_at(parsed, path, index) if Path(error.places[0][0]).parent == path.parent]
        pointer = named.get(f"entry_{index}")
        if errors or pointer is None or pointer.get_pointee().kind.name != "FUNCTIONPROTO":
            declaration_places = [f.place for f in declared if _is_named(f.name, _bare(launch.entry))]
            reasons.setdefault(number, _reason(_errors_within(parsed, declaration_places) or errors))
            continue
        if broken := _errors_within(parsed, _places(pointer.get_pointee().argument_types())):
            reasons[number] = _reason(broken)
            continue
        types = list(pointer.get_pointee().argument_types())
        name = _bare(launch.entry)
        fitting = [f for f in declared if _is_named(f.name, name) and len(f.parameters) == len(types)]
        words = words_of_kernel(launch.entry, fitting[0].place if fitting else None, types)
        if missing := next((unknown[word] for word in words if word in unknown), None):
            reasons[number] = _reason([missing])
            continue
        names = fitting[0].parameters if fitting else ("",) * len(types)
        parameters = tuple((given or f"argument_{i}", types[i]) for i, given in enumerate(names))
        launch = replace(launch, entry=_with_plain_types(launch.entry, plain))
        found[number] = Resolved(launch, name, fitting[0].template if fitting else (), parameters)
    refused = {number: f"{asked[number].entry}: {text}" for number, text in reasons.items() if number not in found}
    unique = {(r.launch.config, r.launch.struct, r.launch.entry): r for r in found.values()}
    return list(unique.values()), refused


def _type_arguments(entry: str) -> list[str]:
    """Return an entry's template arguments that are types computed by templates, such as ``CppTypeOf<kHalf>::type``."""
    found = [argument for argument in template_arguments(entry) if "<" in argument and not argument.startswith("(")]
    return [*found, *(inner for argument in found for inner in _type_arguments(argument))]


def _with_plain_types(entry: str, plain: Mapping[str, str]) -> str:
    """Replace computed element types in an entry by their plain names."""
    for argument in sorted(_type_arguments(entry), key=len, reverse=True):
        entry = entry.replace(argument, plain.get(argument, argument))
    return entry


def _scope(launch: Launch, namespaces: list[str]) -> Iterator[Launch]:
    """Return the possible readings of a launch: in the global namespace, and in each of the source's namespaces."""
    yield launch
    for prefix in namespaces:
        within = replace(launch, entry=f"{prefix}{launch.entry}")
        if launch.config:
            within = replace(within, config=f"{prefix}{launch.config}", struct=f"{prefix}{launch.struct}")
        yield within


def _places(types: Iterable[Any]) -> list[tuple[str, int, int]]:
    """Return the places where the records among these types, and their members' records, are declared."""
    found = []
    for type_ in types:
        record = without_reference(type_)
        if record.kind.name == "RECORD":
            found.append(_place(record.get_declaration()))
            found += _places(field.type for field in record.get_fields())
    return found


def _errors_within(parsed: Parsed, places: list[tuple[str, int, int]]) -> list[Error]:
    """Return the errors within these declarations. Errors elsewhere in a file do not affect the kernels."""
    return [
        error
        for error in parsed.errors
        for file, line in error.places[:1]
        if any(file == name and first <= line <= last for name, first, last in places)
    ]


def _reason(errors: list[Error]) -> str:
    if not errors:
        return "it is not a function, or it is overloaded"
    inside = [place for error in errors[:1] for place in error.places[:1] if "tkjit-import" not in place[0]]
    shown_place = f" ({Path(inside[0][0]).name}:{inside[0][1]})" if inside else ""
    return f"{errors[0].text}{shown_place}"
