"""Generates the text of a spec file from the parsed source. Unknown parts become TODOs."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tkjit.errors import SpecError
from tkjit.importer.dtypes import is_integer
from tkjit.importer.model import CONSTANT_PARTS, Found, Instance, Part
from tkjit.importer.parameters import Parameters
from tkjit.importer.shapes import Shape, shape_of
from tkjit.importer.text import comments, dict_text, list_text, tuple_text
from tkjit.importer.variants import Described, merge_instances
from tkjit.render.text import repr_text
from tkjit.source.lexer import Token, tokens_of
from tkjit.source.tokens import replace_names, spell

# The placeholder for an unknown part of the launch. A spec that contains it loads, but does not compile.
_OPEN = Shape("TODO", is_cpp=True)


@dataclass(frozen=True)
class Place:
    """The source and the options of a spec.

    Parameters
    ----------
    source : str
        The source as written in the spec: ``gemm.cu``, ``<thunderkittens>/kernels/...``.
    stem : str
        The name of its file, without the suffix.
    headers : tuple of str
        Names of header libraries.
    include_dirs : tuple of str
    defines : tuple of (str, str)
    """

    source: str
    stem: str
    headers: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Written:
    """A spec file.

    Parameters
    ----------
    text : str
    undecided : tuple of str
        The open questions, one line each.
    sizes : mapping
        The values of extents and integers that the source contains, by kernel.
    incomplete : frozenset of str
        The kernels with an unknown part of the launch.
    """

    text: str
    undecided: tuple[str, ...]
    sizes: Mapping[str, Mapping[str, int]]
    incomplete: frozenset[str]


def spec_file(found: Found, place: Place) -> Written:
    """Write a spec file.

    Raises
    ------
    SpecError
        If none of the kernels can be described.
    """
    undecided = list(found.undecided)
    taken: set[str] = set()
    specs: list[_Spec] = []
    for described in merge_instances(found.instances):
        name = _function_name(described.instance, place.stem, taken)
        try:
            specs.append(_spec(name, described))
        except SpecError as error:
            undecided.append(f"{described.instance.entry}: {error}")
            continue
        taken.add(name)
    if not specs:
        raise SpecError(f"{place.stem}: no kernel can be described: {'; '.join(undecided)}")
    specs = _with_hosts(specs, found.hosts, place, taken)
    used = {"Tensor", *(name for spec in specs for name in (*spec.used, *spec.given.used))}
    texts = [spec.text(place) for spec in specs]
    opening = [
        f'"""The kernels of {place.source.rsplit("/", 1)[-1]}, written by ``python -m tkjit import``. '
        'Each TODO is an open question."""',
        "",
        "import tkjit",
        f"from tkjit import {', '.join(sorted(used, key=str.lower))}",
    ]
    texts += ["\n".join(comments(undecided, 0))] if undecided else []
    undecided = [f"{spec.name}: {note}" for spec in specs for note in spec.notes] + undecided
    sizes = {spec.name: spec.given.extents.sizes for spec in specs}
    incomplete = frozenset(spec.name for spec in specs if spec.is_open)
    text = "\n".join([*opening, *(f"\n\n{text}" for text in texts)]) + "\n"
    return Written(text, tuple(undecided), sizes, incomplete)


def _with_hosts(specs: list[_Spec], hosts: Mapping[str, Instance], place: Place, taken: set[str]) -> list[_Spec]:
    """Replace specs with an unknown launch by specs of the host functions that launch these kernels."""
    described: dict[str, _Spec | None] = {}
    for spec in specs:
        host = hosts.get(spec.host)
        if host is None or spec.host in described:
            continue
        described[spec.host] = None
        with suppress(SpecError):
            name = _function_name(host, place.stem, taken)
            described[spec.host] = _spec(name, Described(host))
            taken.add(name)
    kept = [spec for spec in specs if described.get(spec.host) is None]
    return kept + [spec for spec in described.values() if spec is not None]


def _function_name(instance: Instance, stem: str, taken: set[str]) -> str:
    """Name a spec after its binding or its kernel or, if that is called ``kernel``, after the namespace or the file."""
    *around, own_name = instance.name.split("::")
    if instance.launch and instance.launch.bound:
        own_name = instance.launch.bound
    wanted = [own_name] if own_name != "kernel" else [around[-1]] if around and "<" not in instance.entry else []
    plain = "".join(c if c.isalnum() else "_" for c in stem)
    for name in (
        *wanted,
        plain if not plain[:1].isdigit() else f"_{plain}",
        *(f"{own_name}_{i}" for i in range(2, 99)),
    ):
        if name.isidentifier() and not keyword.iskeyword(name) and name not in (*taken, "tkjit"):
            return name
    raise SpecError(f"no name is left for {instance.entry}")


# ---- one kernel


@dataclass
class _Spec:
    """A spec under construction."""

    name: str
    one: Described
    given: Parameters
    launch: list[tuple[str, Shape]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    launch_notes: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The function that contains the kernel's launch, if a part of the launch is unknown; otherwise empty."""
        launch = self.one.instance.launch
        return launch.host if launch is not None and self.is_open else ""

    @property
    def is_open(self) -> bool:
        """Whether a part of its launch is unknown."""
        return any(shape is _OPEN for _, shape in self.launch)

    @property
    def notes(self) -> list[str]:
        return [*self.launch_notes, *self.given.notes]

    def text(self, place: Place) -> str:
        note_lines = comments(self.launch_notes, 4)
        lines = ["@tkjit.kernel(", f"    {repr_text(place.source)},", *note_lines]
        lines += [f"    {key}={value}," for key, value in self._options(place)]
        lines += [")", f"def {self.name}(", *comments(self.given.notes, 4)]
        lines += [line for parameter in (*self.given.all, *self.given.chosen) for line in parameter.lines]
        return "\n".join([*lines, f"){self._returns()}: ..."])

    def _options(self, place: Place) -> Iterable[tuple[str, str]]:
        instance = self.one.instance
        yield "entry", repr_text(instance.entry)
        if instance.launch and instance.launch.is_host:
            yield "host", "True"
        if instance.struct:
            yield "struct", repr_text(instance.struct)
            if instance.launch and instance.launch.config:
                yield "config", repr_text(instance.launch.config)
        else:
            yield "args", "True"
        given = [*(parameter.name for parameter in self.given.all), *self.given.computed]
        if self.given.order != given or self.given.chosen:
            yield "fields", repr_text(" ".join(self.given.order))
        if self.given.computed:
            yield "computed", dict_text((name, repr_text(value)) for name, value in self.given.computed.items())
        if self.given.trailing:
            yield "trailing", repr_text(" ".join(self.given.trailing))
        if self.given.num_devices:
            yield "num_devices", str(self.given.num_devices)
        for what, shape in self.launch:
            yield what, shape.text if what in CONSTANT_PARTS else str(shape)
        if self.one.variants:
            yield "variants", dict_text((name, tuple_text(options)) for name, options in self.one.variants)
        if place.headers and not place.source.startswith(tuple(f"<{name}>/" for name in place.headers)):
            yield "headers", list_text(place.headers)
        if place.include_dirs:
            yield "include_dirs", list_text(place.include_dirs)
        if place.defines:
            yield "defines", dict_text((name, repr_text(value)) for name, value in place.defines)

    def _returns(self) -> str:
        written = sum(parameter.is_written for parameter in self.given.all)
        if not written or self.given.num_devices:
            return ""
        return f" -> {'Tensor' if written == 1 else f'tuple[{_times(written)}]'}"


def _times(count: int) -> str:
    return ", ".join(["Tensor"] * count)


def _spec(name: str, one: Described) -> _Spec:
    spec = _Spec(name, one, Parameters(one))
    _add_launch(spec)
    if one.left_out:
        others = ", ".join(one.left_out)
        spec.launch_notes.append(f"this is {one.instance.entry}; there are also {others}: select one with --instance")
    return spec


def _add_launch(spec: _Spec) -> None:
    instance = spec.one.instance
    launch = instance.launch
    parts = dict(launch.parts) if launch else {}
    # a configuration struct or a host function sets the launch itself
    if launch is not None and (launch.config or launch.is_host):
        if launch.is_host and not launch.bound and "stream" not in parts:
            spec.launch_notes.append("it launches on the default stream, unless its last parameter is a cudaStream_t")
        return
    names = _integers_passed(spec)
    known = {*names.values(), *(dim for dims in spec.given.extents.dims.values() for dim in dims)}
    known |= {name for name, options in spec.one.variants if isinstance(options[0], int)}
    for what, member in (("grid", "grid"), ("block", "block"), ("shared_memory", "dynamic_shared_memory")):
        if member in instance.own:
            continue
        part = parts.get(what)
        if part is None and what == "shared_memory":
            continue
        shape = shape_of(what, spec.given.extents.translate(_rename(part, names)), known) if part else None
        if shape is None:
            absent = "the launch's configuration sets it" if launch and launch.text else "the source does not launch it"
            in_source = f"the source has {part.as_written or part.text}" if part else absent
            spec.launch_notes.append(f"{what}: {in_source}")
        elif what == "grid" and part and shape.text.isdigit():
            spec.launch_notes.append(f"grid: always {shape.text} in the source, for all extents")
        spec.launch.append((what, shape or _OPEN))
    _add_constants(spec, parts)
    if any(shape.is_cpp for _, shape in spec.launch):
        spec.used.add("CExpr")
    if spec.is_open and launch and launch.text:
        spec.launch_notes.append(f"line {launch.line}: {launch.text}")
    if launch is None or not launch.text:
        missing = "dynamic_shared_memory" not in instance.own
        if missing and spec.is_open:
            spec.launch_notes.append("shared_memory: set it if the kernel uses dynamic shared memory")


def _add_constants(spec: _Spec, parts: Mapping[str, Part]) -> None:
    """Add the cluster's size, and whether launches may overlap, if the launch sets them."""
    for what in CONSTANT_PARTS:
        part = parts.get(what)
        if part is not None and not part.text.isdigit():
            spec.launch_notes.append(f"{what}: the source has {part.as_written}")
        elif part is not None and what == "cluster" and part.text != "1":
            spec.launch.append((what, Shape(part.text)))
        elif part is not None and what == "pdl" and part.text == "1":
            spec.launch.append((what, Shape("True")))


def _integers_passed(spec: _Spec) -> dict[str, str]:
    """For the integers that the launch passes, map C++ names to names in the spec."""
    instance = spec.one.instance
    # A struct is a single argument, so only the parameters after it are passed one by one.
    passed = instance.trailing if instance.struct else instance.parameters
    called = spec.given.trailing if instance.struct else spec.given.order
    arguments = instance.launch.arguments[1 if instance.struct else 0 :] if instance.launch else ()
    return {
        name: called[i]
        for i, (name, type_) in enumerate(passed)
        if i < len(arguments) and arguments[i] and is_integer(type_.cpp)
    }


def _rename(part: Part, names: Mapping[str, str]) -> Part:
    tokens = {name: [Token("word", called, 0, 0)] for name, called in names.items() if name != called}
    return replace(part, text=spell(replace_names(tokens_of(part.text), tokens))) if tokens else part
