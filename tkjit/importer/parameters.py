"""Turns the parameters of a kernel into those of a spec: their names, dtypes, dims and directions."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass

from tkjit.errors import SpecError
from tkjit.importer.dtypes import annotation_of, dtype_of_cpp, is_integer
from tkjit.importer.extents import Extents, extents_of
from tkjit.importer.model import Type
from tkjit.importer.text import WIDTH, join_names
from tkjit.importer.variants import Described
from tkjit.render.text import repr_text
from tkjit.spec.checks import RESERVED
from tkjit.spec.cpp_words import CPP_KEYWORDS
from tkjit.spec.expr import EXTENTS

_OF_DEVICES = ("dev_idx", "num_devices")
_OUTPUTS = frozenset("o out output outputs y c d dst dest result results res z".split())


@dataclass
class Parameter:
    """A parameter of a spec's function."""

    name: str
    annotation: str
    is_written: bool = False
    is_integer: bool = False

    @property
    def lines(self) -> list[str]:
        """The parameter's lines in the spec file."""
        one_line = f"    {self.name}: {self.annotation},"
        if len(one_line) <= WIDTH:
            return [one_line]
        marker, _, items = self.annotation.removesuffix("]").partition("[")
        rows = [items] if len(items) <= WIDTH - 8 else [f"{item}," for item in items.split(", ")]
        return [f"    {self.name}: {marker}[", *(f"        {line}" for line in rows), "    ],"]


class Parameters:
    """A struct's members, or a kernel's arguments, as parameters of a spec.

    ``all`` has the parameters, and ``chosen`` has one more for each variant that an argument chooses. ``order`` has the
    names in ``all`` and ``computed``, in the kernel's order. ``computed``, ``trailing`` and ``num_devices`` are the
    spec's options of the same names. ``used`` has the names that the spec file imports, and ``notes`` has the open
    questions for the user.

    Parameters
    ----------
    one : Described
        The kernel.

    Raises
    ------
    SpecError
        If a spec cannot describe one of the members or arguments.
    """

    def __init__(self, one: Described) -> None:
        self.all: list[Parameter] = []
        self.order: list[str] = []
        self.computed: dict[str, str] = {}
        self.trailing: list[str] = []
        self.num_devices = 0
        self.chosen: list[Parameter] = []
        self.used: set[str] = set()
        self.notes: list[str] = []
        self._instance = one.instance
        self._variants = dict(one.variants)
        self._chosen_names = one.chosen
        names = [name for name, _ in (*self._instance.parameters, *self._instance.trailing)]
        self._taken = {*names, *self._variants, *RESERVED}
        self.extents = Extents() if one.instance.struct else self._extents_of(one)
        self._inputs: list[str] = []
        self._by_name: list[str] = []
        self._pointers: list[str] = []
        self._allocated: list[str] = []
        self._open_dims = False
        self._add_all()

    def _extents_of(self, one: Described) -> Extents:
        integers = {name for name, options in one.variants if isinstance(options[0], int)}
        return extents_of(one.instance.launch, one.instance.parameters, integers, self._taken)

    def _add_all(self) -> None:
        instance = self._instance
        parallel = [type_ for _, type_ in instance.parameters if type_.kind == "parallel"]
        self.num_devices = parallel[0].num_devices if parallel else 0
        for name, type_ in instance.parameters:
            self._add(name, type_, is_parallel=bool(parallel))
        for name, type_ in instance.trailing:
            self._add_trailing(name, type_)
        if parallel and "dev_idx" not in self.computed:
            taker = instance.struct or instance.entry
            raise SpecError(f"{taker} has a parallel layout but no dev_idx, from which it knows its device")
        self._check_device()
        for name in self._chosen_names:
            default = self._variants[name][0]
            self.chosen.append(Parameter(name, f"{type(default).__name__} = {default!r}"))
        self._note()

    def _add(self, name: str, type_: Type, *, is_parallel: bool) -> None:
        if type_.kind == "number":
            if is_parallel and name in _OF_DEVICES:
                self.computed[name] = name
                self.order.append(name)
            else:
                self._add_number(name, type_)
        elif type_.kind in ("layout", "pointer", "parallel"):
            self._add_tensor(name, name, type_)
        elif type_.kind == "struct" and self._instance.struct and type_.members:
            for inner, member in type_.members:
                if member.kind not in ("layout", "pointer"):
                    raise SpecError(
                        f"{name}.{inner} is {member.cpp}; in a nested struct a spec can only describe layouts"
                    )
                self._add_tensor(f"{name}_{inner}", f"{name}.{inner}", member)
        else:
            raise SpecError(f"{name} is {type_.cpp}, which no parameter of a spec describes")

    def _add_number(self, name: str, type_: Type) -> None:
        if name in self.extents.computed:
            self.computed[name] = self.extents.computed[name]
            self.order.append(name)
            return
        annotation = annotation_of(type_.cpp)
        if name in RESERVED or keyword.iskeyword(name):
            if self._instance.struct:
                raise SpecError(f"a number named {name} cannot be a parameter, because the name is reserved")
            name = self._fresh(f"{name}_")
        if annotation.startswith("Scalar"):
            self.used.add("Scalar")
        self.all.append(Parameter(name, annotation, is_integer=is_integer(type_.cpp)))
        self.order.append(name)

    def _add_trailing(self, name: str, type_: Type) -> None:
        annotation = annotation_of(type_.cpp) if type_.kind == "number" else ""
        if not annotation:
            raise SpecError(f"{name} is {type_.cpp}; only numbers can follow the struct")
        if name in self.order or name in RESERVED or keyword.iskeyword(name):
            name = self._fresh(f"{name}_trailing")
        if annotation.startswith("Scalar"):
            self.used.add("Scalar")
        self.all.append(Parameter(name, annotation, is_integer=is_integer(type_.cpp)))
        self.order.append(name)
        self.trailing.append(name)

    def _add_tensor(self, wanted: str, member: str, type_: Type) -> None:
        dtype = type_.element if type_.element in self._variants else dtype_of_cpp(type_.element)
        if type_.element == "void":
            dtype = "uint8"
            self.notes.append(f"{wanted} is void*, which takes any dtype; replace uint8, which is a placeholder")
        if not dtype:
            raise SpecError(f"the elements of {member} are {type_.element}, for which tkjit has no dtype")
        name = wanted
        if wanted != member:
            name = wanted if wanted not in self._taken else self._fresh(wanted)
        elif wanted in RESERVED or keyword.iskeyword(wanted):
            name = self._fresh(f"{wanted}_")
        if member in CPP_KEYWORDS:
            raise SpecError(f"{member} is a C++ keyword")
        self._taken.add(name)
        items = ["ParallelTensor" if type_.kind == "parallel" else "Tensor", repr_text(dtype), *self._dims(name, type_)]
        if self._instance.struct and name != member:
            items.append(f"Member({repr_text(member)})")
            self.used.add("Member")
        direction = self._direction(name, member, type_)
        if direction == "Out" and self.extents.outputs.get(member):
            items.append("Zero")
            self.used.add("Zero")
        self.used |= {direction, items[0]}
        self.all.append(Parameter(name, f"{direction}[{', '.join(items)}]", direction != "In"))
        self.order.append(name)

    def _dims(self, name: str, type_: Type) -> list[str]:
        if type_.kind == "pointer":
            if self.extents.dims.get(name):
                return [repr_text(dim) for dim in self.extents.dims[name]]
            self._pointers.append(name)
            return [repr_text(self._fresh(f"{name}_size"))]
        extents = list(zip(EXTENTS, type_.extents, strict=False))
        while len(extents) > 1 and extents[0][1] == 1:
            extents.pop(0)
        self._open_dims = self._open_dims or any(extent == -1 for _, extent in extents)
        return [
            repr_text(self._fresh(f"{name}_{axis}"))
            if extent == -1
            else repr_text(extent)
            if isinstance(extent, str)
            else str(extent)
            for axis, extent in extents
        ]

    def _direction(self, name: str, member: str, type_: Type) -> str:
        if type_.kind == "pointer" and name in self.extents.outputs and not type_.is_const:
            self._allocated.append(name)
            return "Out"
        if type_.kind == "pointer" and (type_.is_const or not self._instance.struct):
            return "In" if type_.is_const else "InOut"
        if not _is_output(member.split(".")[0]):
            self._inputs.append(name)
            return "In"
        self._by_name.append(name)
        fixed = type_.kind == "layout" and all(isinstance(extent, int) and extent >= 0 for extent in type_.extents)
        return "Out" if fixed and type_.element not in self._variants else "InOut"

    def _fresh(self, wanted: str) -> str:
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted

    def _check_device(self) -> None:
        """Require a tensor argument, because a call runs on the device of its tensors.

        If all tensors are outputs, make them ``InOut``, so that the caller passes them.
        """
        parameters = self.all
        tensors = [p for p in parameters if p.annotation.startswith(("In[", "InOut[", "Out["))]
        if not tensors:
            raise SpecError("no parameter is a tensor, so a call would have no device to run on")
        if all(p.annotation.startswith("Out[") for p in tensors):
            for p in tensors:
                p.annotation = f"InOut[{p.annotation.removeprefix('Out[')}"
            self.used.add("InOut")

    def _note(self) -> None:
        notes = self.notes
        written = [p.name for p in self.all if p.annotation.startswith("InOut[")]
        if self._by_name:
            notes.append(f"{join_names(self._by_name)} {_be(self._by_name)} assumed to be written, judging by the name")
        if self._inputs:
            notes.append(
                f"{join_names(self._inputs)} {_be(self._inputs)} assumed to be read-only; "
                "declare a tensor that the kernel writes as InOut or Out"
            )
        if written:
            notes.append(
                f"{join_names(written)} may be Out if the kernel never reads the values and other tensors have the dims"
            )
        if self._pointers:
            sizes = [f"{name}_size" for name in self._pointers]
            notes.append(f"a pointer has no extents; {join_names(sizes)} {_be(sizes)} made up")
        if self._open_dims:
            notes.append("give equal dims the same name; a call then checks that they are equal")
        numbers = [p.name for p in self.all if p.is_integer]
        if numbers:
            notes.append(
                f"{join_names(numbers)} may follow from dims: computed={{{numbers[0]!r}: ...}} instead of a parameter"
            )


def _is_output(name: str) -> bool:
    lower = name.lower()
    return (
        lower in _OUTPUTS or lower.startswith(("out", "o_", "dst")) or lower.endswith(("_out", "_o", "_dst", "_output"))
    )


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
