"""Renders the files of an export for pkg-config and CMake, and its README."""

from __future__ import annotations

from tkjit.exports import cpp_wrapper, go_package, rust_crate
from tkjit.exports.model import Export, names
from tkjit.render.c_declarations import c_parameters
from tkjit.spec.c_signature import Kind

_CMAKE = """\
# {name} {version}: find_package({name}), then target_link_libraries(... {name}::{name})
get_filename_component(_{name}_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET {name}::{name})
  add_library({name}::{name} SHARED IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{_{name}_prefix}}/lib/{soname}"
    IMPORTED_SONAME "{soname}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_{name}_prefix}}/include")
endif()
unset(_{name}_prefix)
"""

_CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION_MAJOR STREQUAL "{major}" AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""

_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..

Name: {name}
Description: {kernels}: kernels exported by tkjit
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -l{name} -Wl,-rpath,${{prefix}}/lib
"""


def render_packaging(export: Export) -> dict[str, str]:
    """Render the files for pkg-config and CMake, by their paths in the export."""
    name = export.name
    facts = {
        "name": name,
        "version": export.version,
        "major": export.major,
        "soname": export.soname,
        "kernels": names(export.signatures),
    }
    return {
        f"lib/pkgconfig/{name}.pc": _PKG_CONFIG.format(**facts),
        f"lib/cmake/{name}/{name}Config.cmake": _CMAKE.format(**facts),
        f"lib/cmake/{name}/{name}ConfigVersion.cmake": _CMAKE_VERSION.format(**facts),
    }


def render_readme(export: Export, languages: tuple[str, ...]) -> str:
    """Render the README, which shows how to build with the library and call it from each of its languages."""
    name = export.name
    targets = ", ".join(target.name for target in export.targets)
    lines = [
        f"# {name} {export.version}",
        "",
        f"{names(export.signatures)}: kernels exported by tkjit, with code for {targets}.",
        f"`lib/{export.soname}` needs neither Python nor PyTorch. You can move the directory.",
        "",
        *_C.format(name=name, macro=name.upper(), call=_call_in_c(export)).split("\n"),
    ]
    calls = {"cpp": cpp_wrapper.call_text, "go": go_package.call_text, "rust": rust_crate.call_text}
    pages = {"cpp": _CPP, "go": _GO, "rust": _RUST}
    for language in languages:
        if language in pages:
            library = name if language == "cpp" else export.package_name
            facts = {
                "name": name,
                "package": export.package_name,
                "macro": name.upper(),
                "call": calls[language](library, export.signatures[0]),
            }
            lines += pages[language].format(**facts).split("\n")
    return "\n".join(lines).rstrip() + "\n"


def _call_in_c(export: Export) -> str:
    """Return an example call of the first function."""
    signature = export.signatures[0]
    parameters = [part.split()[-1].lstrip("*") for part in c_parameters(signature)]
    tensors = {p.identifier for p in signature.parameters if p.kind in (Kind.TENSOR, Kind.OUTPUT)}
    passed = [f"&{name}" if name in tensors or name == "result" else name for name in parameters]
    return f"{export.name}_{signature.name}({', '.join([*passed, 'NULL'])})"


_C = """\
## C

```sh
cc -std=c99 program.c $(PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs {name}) -o program
```

With CMake, add this directory to `CMAKE_PREFIX_PATH`, then call `find_package({name} REQUIRED)` and
`target_link_libraries(program {name}::{name})`.

```c
#include <{name}.h>

tkjit_error error = {name}_check_interface({macro}_INTERFACE);
if (error) {{
    fprintf(stderr, "%s\\n", error);
    tkjit_free_error(error);
}}
error = {call};
```

Each function returns null, or an error as above. `include/{name}.h` declares and documents all of them.
"""

_CPP = """\
## C++

`include/{name}.hpp` needs only the library and C++17:

```sh
c++ -std=c++17 program.cpp $(PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs {name}) -o program
```

```cpp
#include <{name}.hpp>

tkjit::Tensor x = tkjit::Tensor::of<float>({{1, 2, 3, 4}}, {{2, 2}});
for (float element : x.span<float>()) std::printf("%g\\n", element);
{call};
```
"""

_GO = """\
## Go

The directory is a module that uses cgo. Add it to the `go.mod` of your program:

```
require {package} v0.0.0
replace {package} => ../path/to/this/directory
```

```go
import "{package}"

x, err := {package}.FromSlice([]float32{{1, 2, 3, 4}}, 2, 2)
if err != nil {{
	return err
}}
defer x.Close()
{call}
```

`Close` frees the memory at once; otherwise the garbage collector frees it.
"""

_RUST = """\
## Rust

The directory is a crate without dependencies. Add it to the `Cargo.toml` of your program:

```toml
[dependencies]
{package} = {{ path = "../path/to/this/directory" }}
```

```rust
let x = {package}::Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
println!("{{:?}}", x.as_slice::<f32>()?);
{call};
```

At run time, a program finds the library through `LD_LIBRARY_PATH`, or through this line in its own `build.rs`:
`println!("cargo:rustc-link-arg=-Wl,-rpath,{{}}", std::env::var("DEP_{macro}_LIB").unwrap());`.
"""
