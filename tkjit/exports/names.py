"""Spells the names of an export in each language, and checks that they are allowed and do not clash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tkjit.errors import SpecError
from tkjit.exports.model import Export
from tkjit.spec.c_signature import CSignature, identifier

# Names of C and C++ headers and libraries. An export cannot use them: <NAME.h> or -lNAME would find another file.
_HEADERS = frozenset(
    "assert complex ctype dlfcn errno fcntl fenv float inttypes iso646 limits locale malloc math memory poll "
    "pthread sched semaphore setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib "
    "stdnoreturn string strings termios tgmath threads time uchar unistd wchar wctype c m rt dl util z std "
    "cuda cudart cublas main".split()
)
GO_KEYWORDS = frozenset(
    "break case chan const continue default defer else fallthrough for func go goto if import interface map "
    "package range return select struct switch type var".split()
)
_GO_PACKAGES = frozenset(
    "bufio builtin bytes context crypto embed encoding errors expvar flag fmt hash html image internal io log "
    "main math mime net os path plugin reflect regexp runtime sort strconv strings sync syscall testing text "
    "time unicode unsafe vendor".split()
)
RUST_KEYWORDS = frozenset(
    "abstract as async await become box break const continue crate do dyn else enum extern false final fn for "
    "if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait "
    "true try type typeof union unsafe unsized use virtual where while yield".split()
)
_RUST_CRATES = frozenset(["alloc", "core", "proc_macro", "std", "test", "tests"])
# names that every export declares in addition to its kernels' names
_IN_GO = frozenset(
    "ArgumentError BFloat16 Bool CPU CUDA Complex128 Complex64 DType Device DeviceCount Element Empty Error "
    "ErrorKind Float16 Float32 Float4E2M1FNx2 Float64 Float8E4M3FN Float8E5M2 Float8E8M0FNU FromBytes "
    "FromSlice FromTorch Int16 Int32 Int64 Int8 LaunchError MemoryError MemoryInUse NewStream Seed "
    "SetMemoryBudget ShapeError Slice Stream Tensor Uint16 Uint32 Uint64 Uint8 View".split()
)
_IN_CPP = frozenset(["check_interface", "Tensor"])
_IN_RUST = frozenset(["check_interface", "device_count", "error", "ffi", "kernels", "stream", "tensor", "types"])


def check_names(export: Export, languages: Sequence[str]) -> None:
    """Check that each name is allowed in each language, and that no two functions have the same name.

    Raises
    ------
    SpecError
        If a name is not allowed, or is already used by another kernel or by every export.
    """
    _check_library(export, languages)
    emitted: dict[str, tuple[Callable[[CSignature], Iterable[str]], frozenset[str]]] = {
        "c": (_names_in_c, frozenset(["check_interface"])),
        "cpp": (_names_in_cpp, _IN_CPP),
        "go": (_names_in_go, _IN_GO),
        "rust": (_names_in_rust, _IN_RUST),
    }
    for language in languages:
        names_of, taken = emitted[language]
        owners = dict.fromkeys(taken, "every export")
        for signature in export.signatures:
            for name in names_of(signature):
                if name in owners:
                    raise SpecError(
                        f"{signature.spec.name} cannot be exported: {owners[name]} already uses the name {name} "
                        f"in {language}; rename the kernel"
                    )
            owners |= dict.fromkeys(names_of(signature), signature.spec.name)


def _check_library(export: Export, languages: Sequence[str]) -> None:
    packages = (GO_KEYWORDS | _GO_PACKAGES if "go" in languages else frozenset()) | (
        RUST_KEYWORDS | _RUST_CRATES if "rust" in languages else frozenset()
    )
    for what, name, taken in (("name", export.name, _HEADERS), ("package", export.package_name, packages)):
        if name in taken or identifier(name) != name:
            raise SpecError(f"{name!r} cannot be the {what} of an export: it already has a meaning; choose another")


def unique(name: str, taken: Iterable[str]) -> str:
    """Append ``_`` to a name until it is not taken."""
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


def go_name(signature: CSignature) -> str:
    """Spell a function's name as Go does: ``GemmAll`` for ``gemm_all``."""
    return "".join(word[:1].upper() + word[1:] for word in signature.name.split("_")) or "_"


def cpp_name(signature: CSignature) -> str:
    return identifier(signature.name)


def rust_name(signature: CSignature) -> str:
    return unique(signature.name, RUST_KEYWORDS)


def _names_in_c(signature: CSignature) -> Iterator[str]:
    yield signature.name
    if signature.outputs:
        yield f"{signature.name}_shape"
    if signature.takes_pointers:
        yield f"{signature.name}_pointers"


def _names_in_cpp(signature: CSignature) -> Iterator[str]:
    name = cpp_name(signature)
    yield from (name, f"try_{name}")
    if signature.outputs:
        yield f"{name}_into"


def _names_in_go(signature: CSignature) -> Iterator[str]:
    name = go_name(signature)
    yield from (name, f"Must{name}", f"{name}On", f"{name}Context")
    if signature.outputs:
        yield f"{name}Into"


def _names_in_rust(signature: CSignature) -> Iterator[str]:
    name = rust_name(signature)
    yield name
    if signature.outputs:
        yield f"{name}_into"
