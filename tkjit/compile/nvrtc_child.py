"""A script that compiles with NVRTC, so that a crash, a limit or Ctrl-C ends only this process and not tkjit's.

``python nvrtc_child.py compile LIBRARY SOURCE OUTPUT NAMES EXPRESSION... -- OPTION...`` writes the cubin (the PTX if
OUTPUT ends with ``.ptx``), writes the symbol of each expression to a line of NAMES, and prints the log.
``python nvrtc_child.py version LIBRARY`` prints the version and the architectures: ``13.0.88 sm_75 sm_80 ...``.
``python nvrtc_child.py serve LIBRARY`` runs the command lines that it receives from its standard input, a socket.
"""

# The module signal would import enum, which takes longer than all other imports together.
import _signal  # type: ignore[import-not-found]
import ctypes
import os
import sys

# The PTX of this program contains NVRTC's build number, which nvrtcVersion does not return.
_BUILD = b'extern "C" __device__ constexpr int build = __CUDACC_VER_BUILD__;'


def main(command: str, library: str, *arguments: str) -> int:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Python's own handler would wait for the compiler to return
    nvrtc = open_library(library)
    if command == "serve":
        return serve()
    if command == "version":
        print(describe(nvrtc))
        return 0
    source, output, names, *others = arguments
    split = others.index("--")
    with open(source, "rb") as file:
        text = file.read()
    return compile_program(nvrtc, text, os.path.basename(source), output, names, others[:split], others[split + 1 :])


def open_library(path: str) -> ctypes.CDLL:
    """Open NVRTC's builtins, and then NVRTC.

    NVRTC opens its builtins by name, and the dynamic linker finds that name only if they are already open.
    """
    directory = os.path.dirname(path)
    try:
        for name in sorted(os.listdir(directory)):
            if name.startswith("libnvrtc-builtins.so."):
                ctypes.CDLL(os.path.join(directory, name), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(path)
    except OSError as error:
        print(f"nvrtc: cannot open {path}: {error}")
        sys.exit(1)


def describe(nvrtc: ctypes.CDLL) -> str:
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    check(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    archs = (ctypes.c_int * count.value)()
    check(nvrtc, nvrtc.nvrtcGetSupportedArchs(archs))
    program = ctypes.c_void_p()
    check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), _BUILD, b"build.cu", 0, None, None))
    options = [f"-arch=compute_{archs[0]}".encode(), b"-rdc=true", b"--no-cache"]
    check(nvrtc, nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    ptx = content(nvrtc, program, "PTX").decode()
    build = ptx[ptx.index(" build = ") :].split("=")[1].split(";")[0].strip()
    return " ".join([f"{major.value}.{minor.value}.{build}", *(f"sm_{arch}" for arch in archs)])


def compile_program(
    nvrtc: ctypes.CDLL, text: bytes, name: str, output: str, names: str, expressions: list[str], options: list[str]
) -> int:
    program = ctypes.c_void_p()
    check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None))
    try:
        return compile_created(nvrtc, program, output, names, expressions, options)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def compile_created(
    nvrtc: ctypes.CDLL, program: ctypes.c_void_p, output: str, names: str, expressions: list[str], options: list[str]
) -> int:
    for expression in expressions:
        check(nvrtc, nvrtc.nvrtcAddNameExpression(program, expression.encode()))
    c_options = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), c_options)
    log = content(nvrtc, program, "ProgramLog").replace(b"\0", b"")  # a NUL precedes each error of ptxas
    sys.stdout.buffer.write(log)
    if status != 0:
        if not log.strip():
            print(f"nvrtc: {error_text(nvrtc, status)}")
        return 1
    symbols = []
    for expression in expressions:
        symbol = ctypes.c_char_p()
        check(nvrtc, nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(symbol)))
        symbols.append((symbol.value or b"").decode())
    with open(output, "wb") as file:
        if output.endswith(".ptx"):
            file.write(content(nvrtc, program, "PTX").rstrip(b"\0"))
        else:
            file.write(content(nvrtc, program, "CUBIN"))
    with open(names, "w") as file:
        file.write("\n".join(symbols))
    return 0


def content(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw[: size.value]


def check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        print(f"nvrtc: {error_text(nvrtc, status)}")
        sys.exit(1)


def error_text(nvrtc: ctypes.CDLL, status: int) -> str:
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    text: bytes = nvrtc.nvrtcGetErrorString(status)
    return text.decode()


# ---- the server


def serve() -> int:
    """Answer the requests that nvrtc_server.py sends, one after the other, until the socket is closed."""
    import json
    import socket

    os.setsid()  # Ctrl-C goes to the process that waits for a compilation, which then ends the server
    requests = socket.socket(fileno=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    while True:
        _, descriptors, _, _ = socket.recv_fds(requests, 1, 2)
        if len(descriptors) != 2:
            return 0
        with open(descriptors[0]) as file:
            request = json.load(file)
        os.dup2(descriptors[1], 1)
        os.dup2(descriptors[1], 2)
        os.close(descriptors[1])
        status = run_request(request["arguments"], request["directory"], request["environment"])
        peak_kib = forget_peak()
        for stream in (1, 2):
            os.dup2(nothing, stream)
        os.chdir("/")  # the directory may be removed now
        requests.send(f"{status} {peak_kib}".encode())


def run_request(arguments: list[str], directory: str, environment: dict[str, str]) -> int:
    """Do what ``python nvrtc_child.py ARGUMENT...`` does, and return its exit status."""
    try:
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        return main(*arguments)
    except SystemExit as error:
        return int(error.code or 0)
    except Exception as error:
        print(f"nvrtc: {error}")
        return 1
    finally:
        sys.stdout.flush()


def forget_peak() -> int:
    """Return the peak memory in KiB since the last call."""
    try:
        with open("/proc/self/status") as file:
            peak_kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except (OSError, StopIteration):
        return 0
    return peak_kib


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
