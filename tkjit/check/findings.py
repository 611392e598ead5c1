"""Findings of the checker: their kinds, places and messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tkjit.check.symbols import Line, Symbols

# Maps each kind of finding to its mode. Kinds with an empty mode are reported in every mode.
MODE_OF = {
    "memory": "memory",
    "race": "race",
    "volatile": "race",
    "proxy": "race",
    "fence": "race",
    "wgmma": "race",
    "tcgen05": "race",
    "mbarrier": "race",
    "uninitialized": "init",
    "copy": "init",
    "unwritten": "init",
    "order": "order",
    "result": "order",
    "divergence": "race",
    "overflow": "overflow",
    "constant": "",
    "fault": "",
}


@dataclass(frozen=True)
class Place:
    """An access: the thread, the line of the source, and the lines of the calls that led there, innermost first."""

    access: str
    file: str
    line: int
    block: tuple[int, ...]
    thread: tuple[int, ...]
    callers: tuple[str, ...] = ()

    def __str__(self) -> str:
        block, thread = ", ".join(map(str, self.block)), ", ".join(map(str, self.thread))
        who = (
            f"by thread ({thread}) of block ({block})" if thread else f"of threads of block ({block})" if block else ""
        )
        calls = f", called at {self.callers[0]}" if self.callers else ""
        if len(self.callers) > 1:
            calls += f", from {self.callers[-1]}"
        return f"{self.access} {f'{who} ' if who else ''}at {self.file}:{self.line}{calls}"


@dataclass(frozen=True)
class Finding:
    """An error that the checker has found in a kernel.

    Parameters
    ----------
    kind : str
        ``memory``, ``race``, ``fence``, ``proxy``, ``wgmma``, ``tcgen05``, ``mbarrier``, ``volatile``, ``divergence``,
        ``uninitialized``, ``copy``, ``unwritten``, ``order``, ``result``, ``overflow``, ``constant`` or ``fault``.
    text : str
        A one-line message.
    here, there : Place or None
        The access, and the other access of a race.
    kernel, case : str
        The variant and the call with which the error was found.
    warning : bool
        Whether the finding fails only a strict check, because the code works on the hardware, although the language
        leaves it undefined.
    """

    kind: str
    text: str
    here: Place | None = None
    there: Place | None = None
    kernel: str = ""
    case: str = ""
    warning: bool = False

    @property
    def key(self) -> object:
        """The key by which duplicates are recognised: the kind, and the lines in either order."""
        places = frozenset((place.file, place.line) for place in (self.here, self.there) if place is not None)
        return self.kind, places or self.text.split("[")[0]

    def __str__(self) -> str:
        mode = MODE_OF[self.kind]
        named = f"{self.kind} (--{mode})" if mode not in ("", self.kind) else self.kind
        lines = [f"{'warning: ' if self.warning else ''}{named}: {self.text}"]
        lines += [f"    {place}" for place in (self.here, self.there) if place is not None]
        return "\n".join([*lines, f"    found with {self.kernel}, {self.case}"])

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None} | {"mode": MODE_OF[self.kind]}


def addresses_in(found: Iterable[Mapping[str, Any]]) -> set[int]:
    """Collect the machine addresses in findings."""
    return {address for one in found for side in _sides(one) for address in _calls(one, side)}


def _sides(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one[name] for name in ("here", "there") if name in one]


def _calls(one: Mapping[str, Any], side: Mapping[str, Any]) -> list[int]:
    """Return the call stack of one access, innermost first. Each address is inside the call instruction."""
    if side["calls"] or "report" not in one:
        return [int(address) for address in side["calls"]]
    stack = one["report"].split("\n\n")[0]  # AddressSanitizer's report begins with the stack of the access
    return [int(address, 16) for address in re.findall(r"^\s*#\d+ 0x([0-9a-f]+)", stack, re.MULTILINE)]


def finding_of(one: Mapping[str, Any], symbols: Symbols, kernel: str, case: str) -> Finding:
    """Convert a line of a checker's output to a finding with a message."""
    here, there = (_place(one, one.get(name), symbols) for name in ("here", "there"))
    kind = one["kind"]
    text = one["text"] if "text" in one else _TEXTS[kind](one, symbols)
    if kind == "fault" and here is None:
        here, there = _places_in_text(text, symbols)
    return Finding(kind, text, here, there, kernel, case, warning=bool(one.get("warning")))


def _place(one: Mapping[str, Any], side: Mapping[str, Any] | None, symbols: Symbols) -> Place | None:
    if side is None:
        return None
    lines = symbols.lines_of(_calls(one, side))
    if "file" in side:
        lines.insert(0, symbols.line(f"{side['file']}:{side['line']}"))
    own = symbols.in_the_source(lines)
    line = own[0] if own else lines[0] if lines else Line("an unknown line", 0)
    callers = tuple(dict.fromkeys(str(caller) for caller in own[1:] if str(caller) != str(line)))
    return Place(side["access"], line.file, line.line, tuple(side["block"]), tuple(side["thread"]), callers)


def _places_in_text(text: str, symbols: Symbols) -> tuple[Place | None, Place | None]:
    """Parse the places in a fault's text; for a deadlock, these are the lines where the groups of threads wait."""
    whose = re.search(r"in block \((\d+), (\d+), (\d+)\)(?:, thread \((\d+), (\d+), (\d+)\))?", text)
    numbers = [int(number) for number in (whose.groups() if whose else ()) if number is not None]
    places = []
    for place in re.findall(r"\(([^()\s]+:\d+)\)", text)[:2]:
        line = symbols.line(place)
        places.append(
            Place("fault" if numbers[3:] else "wait", line.file, line.line, tuple(numbers[:3]), tuple(numbers[3:]))
        )
    here, there, *_ = [*places, None, None]
    return here, there


# Maps AddressSanitizer's words for a position relative to a variable to ours; newer versions use the short words.
_SIDES = {
    "to the right of": "after",
    "after": "after",
    "to the left of": "before",
    "before": "before",
    "inside of": "in",
}
WIDEN = "make it 64 bits wide before it is multiplied, as in int64_t(row) * cols, or exclude such sizes: constraints="
_OF_ARRAY = "compare the index with its length, or make it longer"
_OF_VECTOR = '; access single elements there, or exclude such sizes in the spec: constraints=["N % 4 == 0"]'
_FIRST_PAGES = 1 << 16  # these pages are never mapped, so a lower address is an offset from a null pointer
_GLOBAL = re.compile(rf"is located (\d+) bytes ({'|'.join(_SIDES)}) global variable '(.*?)' .*? of size (\d+)")


_WAIT_FOR_LAUNCH = "call cudaGridDependencySynchronize() (griddepcontrol.wait) first"


def _race(one: Mapping[str, Any], symbols: Symbols) -> str:
    if one.get("note") == "absent block":
        return (
            f"{_memory(one, symbols)} belongs to a block that has exited, or has not begun; let all blocks of the "
            "cluster meet at its barrier (cluster.sync()) before the access, and again before one of them exits"
        )
    if one.get("note") == "previous launch":
        return (
            f"{_memory(one, symbols)} is used before the thread has waited for the launch before this one, which may "
            f"still use it, because this is a dependent launch (pdl=True); {_WAIT_FOR_LAUNCH}"
        )
    if one.get("note") == "relaxed wait":
        return (
            f"nothing orders two accesses to {_memory(one, symbols)}: the wait for the mbarrier is relaxed; use its "
            "acquire form, or execute a fence after it"
        )
    return f"nothing orders two accesses to {_memory(one, symbols)}; {_order(one, symbols)}"


def _order(one: Mapping[str, Any], symbols: Symbols) -> str:
    """Suggest how to order two accesses."""
    sides = _sides(one)
    places = [_place(one, side, symbols) for side in sides]
    is_one_line = len({(place.file, place.line) for place in places if place is not None}) == 1
    is_one_block = len({tuple(side["block"]) for side in sides}) == 1
    scopes = {side["access"].partition("-scope")[0] for side in sides if "-scope" in side["access"]}
    if one.get("across_launches"):
        return f"a dependent launch may begin before the previous launch has ended: {_WAIT_FOR_LAUNCH}"
    if not is_one_block and "block" in scopes:
        return "an operation with the scope of a block, such as atomicAdd_block, is atomic only for the block's threads"
    if not is_one_block and "cluster" in scopes:
        return "an operation with the scope of a cluster is atomic only for the cluster's threads; use .gpu"
    if one.get("space") == "tensor" and any(side["access"] == "asynchronous write" for side in sides):
        return (
            "wait for the copy's writes (bulk_store_wait, as bulk_store_wait_read waits only until the source is read)"
        )
    if any(side["access"].startswith("asynchronous") for side in sides):
        return "wait for the asynchronous operation, at its mbarrier or by its group, before other threads go on"
    if not is_one_block and is_one_line and all(side["access"] == "write" for side in sides):
        return "two blocks write there: is blockIdx in the index? If this is intended, use an atomic operation"
    if not is_one_block:
        return "use an atomic operation, two launches, or a grid barrier in a cooperative kernel"
    if is_one_line:
        return "use an atomic operation, or put __syncthreads() between two iterations of the loop"
    return "put __syncthreads() between them"


def _volatile(one: Mapping[str, Any], symbols: Symbols) -> str:
    place = _memory(one, symbols)
    return f"only volatile, which orders nothing, separates two accesses to {place}; use an atomic operation"


def _constant(one: Mapping[str, Any], symbols: Symbols) -> str:
    return f"{_memory(one, symbols)} is constant memory, which a kernel may only read"


def _uninitialized(one: Mapping[str, Any], symbols: Symbols) -> str:
    begins = ""
    if one.get("name", "").startswith("memory allocated at "):
        begins = "; call cudaMemset first, or let a kernel write all of it"
    elif one.get("space") == "tensor":
        begins = "; for an output that starts as zeros, use the marker Zero: Out[..., Zero]"
    elif "shared" in one.get("space", ""):
        begins = "; shared memory does not start as zeros: write all of it first, then call __syncthreads()"
    return f"{_memory(one, symbols)} is read before any thread of the block has written it{begins}"


def _copy(one: Mapping[str, Any], symbols: Symbols) -> str:
    return f"{_memory(one, symbols)} is used while an asynchronous copy to it is in progress; wait for the copy first"


def _fence(one: Mapping[str, Any], symbols: Symbols) -> str:
    return (
        f"only atomicCAS, which orders nothing, separates two accesses to {_memory(one, symbols)}; when it has taken "
        "the lock, call __threadfence(), or __threadfence_block() if only threads of one block use the lock"
    )


def _mbarrier(one: Mapping[str, Any], symbols: Symbols) -> str:
    return f"{_memory(one, symbols)} is an mbarrier; execute mbarrier.inval before its memory is used for data"


def _proxy(one: Mapping[str, Any], symbols: Symbols) -> str:
    if one["here"]["access"] == "read of a tensor map":
        return (
            f"a copy reads its tensor map at {_memory(one, symbols)}, but may not see a thread's change of it; execute "
            "fence.proxy.tensormap::generic.release after the change, and .acquire before the copy"
        )
    is_global = one.get("space") == "tensor"
    fence = "fence.proxy.async.global" if is_global else "fence.proxy.async (tkjit::fence_async_proxy())"
    if one.get("note") == "another's fence":
        return (
            f"an asynchronous operation reads {_memory(one, symbols)}, and only another thread's fence follows the "
            f"write; let each thread that writes execute {fence} itself, before the barrier"
        )
    return (
        f"an asynchronous operation reads {_memory(one, symbols)}, but cannot see a thread's write there; "
        f"execute {fence} after the write, before the barrier"
    )


def _unwritten(one: Mapping[str, Any], symbols: Symbols) -> str:
    size = one.get("itemsize", 1)
    count, first = -(-one["bytes"] // size), one["offset"] // size
    some = "1 element" if count == 1 else f"{count} elements"
    head = f"{some} of the output {one['name']} {'is' if count == 1 else 'are'} not written, the first at index {first}"
    if one.get("rounding"):
        return f"{head}: {one['rounding']} rounds down; use cdiv, which rounds up"
    swapped = ", or the grid's x and y are swapped" if one.get("axes", 1) > 1 else ""
    zero = "for an output that starts as zeros, use the marker Zero: Out[..., Zero]"
    return f"{head}: the grid or the index leaves {'it' if count == 1 else 'them'} out{swapped}; {zero}"


def _overflow(one: Mapping[str, Any], symbols: Symbols) -> str:
    return f"{one['expression']} overflows {one['type'].strip(chr(39))}; {WIDEN}"


def _memory_error(one: Mapping[str, Any], symbols: Symbols) -> str:
    if one["what"] == "misaligned":
        is_vector = one.get("space") == "tensor" and one.get("itemsize", 16) < one["bytes"] <= 16
        vector = _OF_VECTOR if is_vector else ""
        return f"{_memory(one, symbols)} is not aligned to {one['bytes']} bytes, which this access requires{vector}"
    size = f"access of {one['bytes']} bytes" if one["bytes"] else "access"
    if one["what"] in ("stack-use-after-scope", "stack-use-after-return"):
        return f"{size} to a local variable or temporary whose lifetime has ended"
    address = _address(one)
    if address is not None and address < _FIRST_PAGES:
        return f"{size} at a null pointer{f' + {address} bytes' if address else ''}"
    where = _outside(one, symbols)
    comma = "," if where[:1].isdigit() else ""
    return f"{size}{comma} {where}" if where else f"{size} to memory that the kernel may not use ({one['what']})"


_TEXTS = {
    "race": _race,
    "volatile": _volatile,
    "fence": _fence,
    "constant": _constant,
    "uninitialized": _uninitialized,
    "copy": _copy,
    "proxy": _proxy,
    "mbarrier": _mbarrier,
    "unwritten": _unwritten,
    "overflow": _overflow,
    "memory": _memory_error,
}


def _memory(one: Mapping[str, Any], symbols: Symbols) -> str:
    """Name a place in memory, such as ``tile + 64 bytes in shared memory``."""
    if "space" not in one:
        return "the memory"
    space, offset = one["space"], one["offset"]
    if space == "tensor":
        return f"{one['name']} + {offset} bytes"
    if space == "dynamic shared memory":
        return f"dynamic shared memory + {offset} bytes"
    shared = space == "shared memory"
    if shared and one["name"]:  # set if the source was adapted with its headers
        return f"{one['name']} + {offset} bytes in shared memory"
    at = offset if shared else one.get("address", 0)
    variable = symbols.variable_at(at, shared=shared)
    if variable is None:
        return f"{space} + {offset} bytes" if shared else f"a {space} of the source"
    return f"{_short(variable.name)} + {at - variable.address} bytes{' in shared memory' if shared else ''}"


def _address(one: Mapping[str, Any]) -> int | None:
    match = re.search(r"on (?:unknown )?address 0x([0-9a-f]+)", one.get("report", ""))
    return int(match[1], 16) if match else one.get("address")


def _outside(one: Mapping[str, Any], symbols: Symbols) -> str:
    """Describe where an invalid access is, relative to memory that the kernel may use."""
    report = one.get("report", "")
    if "offset" in one:
        offset, size = one["offset"], one["size"]
        what = one["name"] or one["space"]
        if offset < 0:
            return f"{-offset} bytes before {what}"
        if offset < size:
            return f"in {what}"
        remedy = ""
        if one["space"] == "dynamic shared memory":
            remedy = '; shared_memory= in the spec sets the size, for example "4 * N" for N floats'
        elif one["space"] == "tensor":
            remedy = (
                "; compare the index with its extents first: in x(row, col) the row with rows(), the column with cols()"
            )
        return f"{_after(offset - size)} {what}, which has {size} bytes{remedy}"
    globals_near = _GLOBAL.findall(report)
    if globals_near:
        distance, side, name, size = min(globals_near, key=lambda near: int(near[0]))
        place = _after(int(distance)) if _SIDES[side] == "after" else f"{distance} bytes {_SIDES[side]}"
        return f"{place} {_short(name)}, which has {size} bytes; {_OF_ARRAY}"
    on_stack = re.search(r"'(\w+)'.*<== Memory access", report)
    if on_stack:
        return f"outside the local array {on_stack[1]}; {_OF_ARRAY}"
    address = _address(one)
    if address is None:
        return ""
    variable = symbols.variable_at(address, shared=False) or symbols.variable_before(address)
    if variable is None or address - variable.address > variable.size + 4096:
        return ""
    place = _after(address - variable.address - variable.size)
    return f"{place} {_short(variable.name)}, which has {variable.size} bytes; {_OF_ARRAY}"


def _after(distance: int) -> str:
    return f"{distance} bytes after" if distance else "right after"


def _short(name: str) -> str:
    """Return ``tile`` for ``void softmax<float>(Globals)::tile``."""
    return name.rpartition("::")[2] or name
