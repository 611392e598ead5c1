"""``load``, ``load_inline`` and ``BuildExtension`` of ``torch.utils.cpp_extension``, without torch's headers.

A program only changes its import: ``from tkjit import cpp_extension``. If ``tkjit/include/tkjit/torch`` provides
everything that a source uses of torch, tkjit compiles the source without torch's own headers, which take nvcc a minute
and a half.

A ``setup.py`` changes its import as well: ``from tkjit.cpp_extension import BuildExtension, CUDAExtension``. Its wheel
then works with Python 3.10 and torch 2.11, and with every later version of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import ArgumentError

if TYPE_CHECKING:
    from tkjit.extensions.build_ext import BuildExtension, CppExtension, CUDAExtension

    CUDA_HOME: str | None

__all__ = ["CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "load", "load_inline"]
_HOST_HEADERS = "#include <torch/extension.h>\n"
_CUDA_HEADERS = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"


def load(
    name: str,
    sources: str | Path | Sequence[str | Path],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: str | Path | Sequence[str | Path] | None = None,
    build_directory: str | Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Import a module of C++ and CUDA sources, and compile it first if it is not in the cache.

    The arguments are those of ``torch.utils.cpp_extension.load``.

    Parameters
    ----------
    build_directory : str or Path, optional
        Directory for a copy of the shared object. The original stays in tkjit's cache.
    verbose : bool
        Print each compiler's command and output, including those of cached objects.
    keep_intermediates : bool
        Ignored: it concerns the sources that torch generates for ROCm, and tkjit generates none.
    with_cuda : bool, optional
        True lets C++ sources include CUDA's headers even if there is no CUDA source.
    is_python_module : bool
        False loads the shared object for the operators that it registers, and returns its path.

    Raises
    ------
    ArgumentError
        If a source does not exist, or an option asks for something that tkjit does not support, such as SYCL or a
        standalone program.
    CompileError
        If the sources do not compile.
    ToolchainError
        If a compiler is missing, if ``TORCH_CUDA_ARCH_LIST`` names an unknown architecture, or if the kernels would run
        in the simulator, but need something that it does not support.
    """
    from tkjit.extensions.load import load_extension
    from tkjit.extensions.sources import extension_of, files_of

    _refuse(
        extra_sycl_cflags=extra_sycl_cflags,
        with_sycl=with_sycl,
        is_standalone=is_standalone,
    )
    extension = extension_of(
        name,
        files_of(sources),
        extra_cflags,
        extra_cuda_cflags,
        extra_ldflags,
        extra_include_paths,
        with_cuda=with_cuda,
    )
    return load_extension(extension, build_directory, is_python_module=is_python_module, verbose=verbose)


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: Sequence[str] | Mapping[str, str] | str | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: str | Path | Sequence[str | Path] | None = None,
    build_directory: str | Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Import a module of C++ and CUDA texts; see ``load``.

    The arguments are those of ``torch.utils.cpp_extension.load_inline``.

    Parameters
    ----------
    functions : str, sequence or mapping, optional
        The functions that the module exposes; a mapping also gives their docstrings. If omitted, tkjit imports the
        module that the sources define. If the sources define no module, tkjit writes one that exposes all of their
        functions that take or return tensors.
    use_pch : bool
        True is rejected, because there is no large header to precompile.
    with_pytorch_error_handling : bool
        False is rejected, because C++ exceptions always become Python exceptions.
    no_implicit_headers : bool
        True leaves out the implicit includes: ``torch/extension.h`` and, in the CUDA source, ``torch/types.h`` and
        CUDA's headers.

    Raises
    ------
    ArgumentError
        If ``cpp_sources`` is empty, or an option is rejected. The other errors are those of ``load``.
    """
    from tkjit.extensions.load import load_extension
    from tkjit.extensions.sources import Source, extension_of

    _refuse(
        sycl_sources=sycl_sources,
        extra_sycl_cflags=extra_sycl_cflags,
        with_sycl=with_sycl,
        use_pch=use_pch,
        with_pytorch_error_handling=not with_pytorch_error_handling,
    )
    cpp, cuda = _texts(cpp_sources), _texts(cuda_sources)
    if not cpp:
        raise ArgumentError("cpp_extension: no cpp_sources")
    host = [] if no_implicit_headers else [_HOST_HEADERS]
    definition = [] if functions is None else [_module_of(functions)]
    sources = [Source("main.cpp", None, "\n".join([*host, *cpp, *definition]))]
    if cuda:
        headers = [] if no_implicit_headers else [_CUDA_HEADERS]
        sources.append(Source("cuda.cu", None, "\n".join([*headers, *cuda])))
    extension = extension_of(
        name, sources, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths, with_cuda=with_cuda
    )
    return load_extension(
        extension,
        build_directory,
        is_python_module=is_python_module,
        defines_functions=functions is not None,
        verbose=verbose,
    )


def include_paths(device_type: str = "cpu", *_: Any, **__: Any) -> list[str]:
    """Return an empty list, so that a ``setup.py`` may still ask. ``BuildExtension`` adds torch's headers itself."""
    return []


def __getattr__(name: str) -> Any:
    """Import on demand the names that only a ``setup.py`` uses, because setuptools takes long to import."""
    if name in ("BuildExtension", "CUDAExtension", "CppExtension"):
        from tkjit.extensions import build_ext

        return getattr(build_ext, name)
    if name == "CUDA_HOME":
        return _cuda_home()
    if name in ("ROCM_HOME", "SYCL_HOME"):
        return None
    if name == "IS_HIP_EXTENSION":
        return False
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _cuda_home() -> str | None:
    """Return the CUDA toolkit's directory or None, like ``torch.utils.cpp_extension.CUDA_HOME``."""
    from tkjit.config import Settings
    from tkjit.loader import loader_for

    root = loader_for(Settings.from_environment()).env.toolchain.cuda_root_or_none
    return str(root) if root else None


def _texts(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _module_of(functions: Sequence[str] | Mapping[str, str] | str) -> str:
    """Return the C++ definition of a module with these functions."""
    if not isinstance(functions, (str, Mapping, Sequence)):
        raise ArgumentError(f"cpp_extension: functions is {functions!r}; expected a str, a list or a dict")
    names: Iterable[str] = [functions] if isinstance(functions, str) else functions
    documented = dict(functions) if isinstance(functions, Mapping) else {each: each for each in names}
    lines = [f'    m.def("{each}", &{each}, {_quoted(doc)});' for each, doc in documented.items()]
    return "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_REASONS = {
    "use_pch": "use_pch=True is not supported, because there is no large header to precompile",
    "with_pytorch_error_handling": "with_pytorch_error_handling=False is not supported, because C++ exceptions always"
    " become Python exceptions",
}


def _refuse(**options: Any) -> None:
    """Raise an error for the first option that is set."""
    for option, is_given in options.items():
        if is_given:
            reason = _REASONS.get(option, f"{option}= is not supported")
            raise ArgumentError(f"cpp_extension: {reason}; leave it out")
