"""The facts about a CUDA source's kernels: plain values, independent of a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CONSTANT_PARTS = ("cluster", "pdl")  # of a launch, known when it is compiled
LAUNCH_MEMBERS = ("grid", "block", "dynamic_shared_memory")  # what a struct may say of its own launch


@dataclass(frozen=True)
class Part:
    """A part of a launch, as host code has it.

    Parameters
    ----------
    text : str
        With the names of the function around it replaced by what they stand for, as far as that is known.
    borrowed : bool
        Whether some of it are numbers that only that function knows: the size of its own problem, perhaps.
    compiles : bool
        Whether it means something outside of that function too, beside the kernel's own integers.
    said : str
        As a person reads it there.
    """

    text: str
    borrowed: bool = False
    compiles: bool = False
    said: str = ""


@dataclass(frozen=True)
class Launch:
    """A launch in a source's host code, of one instance.

    Parameters
    ----------
    entry : str
        The kernel with its template arguments, which name nothing of the function around the launch any more.
    parts : tuple of (str, Part)
        ``grid``, ``block``, ``shared_memory``, ``cluster`` and ``pdl``, as far as the launch says them; ``stream`` of a
        host function that takes one last.
    arguments : tuple of str
        What the kernel is given: a name, or an empty text.
    given : tuple of str
        The same, each without casts and the names of the function around the launch; of a tensor's pointer the tensor.
    called : mapping
        How that function calls what the launch speaks of, by its text: ``n`` for ``x.size(0)``.
    allocated : mapping
        The bytes of what it allocates with ``cudaMalloc``, by the pointer.
    config, struct : str
        Of ``launch_kernel<config, globals, kernel>``; empty for ``<<<...>>>``.
    text : str
        The launch as it stands there; empty for an explicit instantiation.
    line : int
    bound : str
        The name under which the source binds it, if it does.
    is_host : bool
        Whether the entry is a host function, which launches by itself.
    host : str
        The function around the launch, if it is no template.
    """

    entry: str
    parts: tuple[tuple[str, Part], ...] = ()
    arguments: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    allocated: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    struct: str = ""
    text: str = ""
    line: int = 0
    bound: str = ""
    is_host: bool = False
    host: str = ""


@dataclass(frozen=True)
class Type:
    """What a parameter or a member is.

    Parameters
    ----------
    kind : str
        ``"layout"``, ``"parallel"``, ``"pointer"``, ``"number"``, ``"struct"`` or ``"other"``.
    cpp : str
        Its canonical name.
    element : str
        The element type of a layout or a pointer, canonical.
    is_const : bool
        Whether a pointer's elements are.
    extents : tuple of int or str
        What a layout's type fixes of batch, depth, rows and cols; -1 where it leaves one open; an expression of a
        variant where instances are described together.
    members : tuple of (str, Type)
        Of a struct, in its order.
    num_devices : int
        Of a parallel layout.
    """

    kind: str
    cpp: str
    element: str = ""
    is_const: bool = False
    extents: tuple[int | str, ...] = ()
    members: tuple[tuple[str, Type], ...] = ()
    num_devices: int = 0


@dataclass(frozen=True)
class Instance:
    """A kernel that can be launched: a function, or one instance of a template.

    Parameters
    ----------
    entry : str
        As C++ names it below the source.
    name : str
        The function's own, with its namespaces.
    template : tuple of str
        The names of its template parameters, where the source declares them.
    struct : str
        The name of the globals struct; empty where the kernel takes plain arguments.
    parameters : tuple of (str, Type)
        The struct's members, or the plain arguments.
    behind : tuple of (str, Type)
        What the kernel takes behind the struct.
    own : frozenset of str
        Of ``grid``, ``block`` and ``dynamic_shared_memory`` those that the struct has.
    launch : Launch or None
        How the source launches it.
    """

    entry: str
    name: str
    template: tuple[str, ...] = ()
    struct: str = ""
    parameters: tuple[tuple[str, Type], ...] = ()
    behind: tuple[tuple[str, Type], ...] = ()
    own: frozenset[str] = frozenset()
    launch: Launch | None = None


@dataclass(frozen=True)
class Declared:
    """A function of the source, as it is declared.

    Parameters
    ----------
    name : str
        With its namespaces.
    text : str
        For a person: ``template <typename T, int D> attend(...)``.
    template : tuple of str
        The names of its template parameters.
    parameters : tuple of str
    place : (str, int, int)
        The file, and the first and the last line.
    """

    name: str
    text: str
    is_kernel: bool
    template: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    place: tuple[str, int, int] = ("", 0, 0)


@dataclass(frozen=True)
class Found:
    """What a source has.

    Parameters
    ----------
    instances : tuple of Instance
    undecided : tuple of str
        Kernels that were found and cannot be described, and why.
    hosts : mapping
        The functions around launches that take pointers and numbers alone, by name.
    """

    instances: tuple[Instance, ...]
    undecided: tuple[str, ...]
    hosts: Mapping[str, Instance] = field(default_factory=dict)
