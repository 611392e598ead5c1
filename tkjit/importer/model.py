"""The facts about a CUDA source's kernels: plain values, independent of a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CONSTANT_PARTS = ("cluster", "pdl")  # parts of a launch that are known at compile time
LAUNCH_MEMBERS = ("grid", "block", "dynamic_shared_memory")  # members by which a struct sets its own launch


@dataclass(frozen=True)
class Part:
    """A part of a launch, as host code writes it.

    Parameters
    ----------
    text : str
        The expression. Local names of the enclosing function are replaced by their values if these are known.
    borrowed : bool
        Whether it contains numbers that only the enclosing function knows, such as a hard-coded problem size.
    compiles : bool
        Whether it also compiles outside of the enclosing function, with the kernel's own integers in scope.
    as_written : str
        The expression as it is written in the source.
    """

    text: str
    borrowed: bool = False
    compiles: bool = False
    as_written: str = ""


@dataclass(frozen=True)
class Launch:
    """A launch of one instance in a source's host code.

    Parameters
    ----------
    entry : str
        The kernel with its template arguments, without local names of the enclosing function.
    parts : tuple of (str, Part)
        ``grid``, ``block``, ``shared_memory``, ``cluster`` and ``pdl``, if the launch sets them; also ``stream`` for a
        host function whose last parameter is a stream.
    arguments : tuple of str
        The kernel's arguments: the name, or an empty string for an argument that is not a name.
    given : tuple of str
        The same arguments as expressions, without casts and local names. A tensor's pointer is given as the tensor.
    called : mapping
        Maps an expression to the enclosing function's local name for it, for example ``x.size(0)`` to ``n``.
    allocated : mapping
        The size in bytes of each ``cudaMalloc`` in the enclosing function, by the pointer's name.
    config, struct : str
        From ``launch_kernel<config, globals, kernel>``; empty for ``<<<...>>>``.
    text : str
        The launch as written in the source; empty for an explicit instantiation.
    line : int
    bound : str
        The name under which the source binds the kernel for Python; empty if it does not.
    is_host : bool
        Whether the entry is a host function that launches kernels itself.
    host : str
        The enclosing function; empty for a template and for ``main``.
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
    """The type of a parameter or a member.

    Parameters
    ----------
    kind : str
        ``"layout"``, ``"parallel"``, ``"pointer"``, ``"number"``, ``"struct"`` or ``"other"``.
    cpp : str
        Its canonical name.
    element : str
        The element type of a layout or a pointer, canonical.
    is_const : bool
        Whether a pointer's elements are const.
    extents : tuple of int or str
        A layout's batch, depth, rows and cols; -1 for an extent that the type leaves open. When instances are merged,
        an extent that differs is an expression of a variant.
    members : tuple of (str, Type)
        A struct's members, in order.
    num_devices : int
        The number of devices of a parallel layout.
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
        The name by which C++ code after the source refers to it.
    name : str
        The function's name, with its namespaces.
    template : tuple of str
        The names of its template parameters, if the source declares them.
    struct : str
        The name of the globals struct; empty if the kernel takes plain arguments.
    parameters : tuple of (str, Type)
        The struct's members, or the plain arguments.
    trailing : tuple of (str, Type)
        The kernel's parameters after the struct.
    own : frozenset of str
        Those of ``grid``, ``block`` and ``dynamic_shared_memory`` that are members of the struct.
    launch : Launch or None
        How the source launches it.
    """

    entry: str
    name: str
    template: tuple[str, ...] = ()
    struct: str = ""
    parameters: tuple[tuple[str, Type], ...] = ()
    trailing: tuple[tuple[str, Type], ...] = ()
    own: frozenset[str] = frozenset()
    launch: Launch | None = None


@dataclass(frozen=True)
class Declared:
    """A function that the source declares.

    Parameters
    ----------
    name : str
        Its name, with its namespaces.
    text : str
        Its declaration for messages: ``template <typename T, int D> attend(...)``.
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
    """The kernels of a source.

    Parameters
    ----------
    instances : tuple of Instance
    undecided : tuple of str
        A line for each kernel that cannot be described, with the reason.
    hosts : mapping
        The host functions that contain launches and take only pointers and numbers, by name.
    """

    instances: tuple[Instance, ...]
    undecided: tuple[str, ...]
    hosts: Mapping[str, Instance] = field(default_factory=dict)
