"""Compiles the kernel once, with the compiler that is there, into the user's cache."""

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from simulations.tasks.arrays import default_data_dir

SOURCE = Path(__file__).with_name("step.cpp.md")
"""C++; Flower packs files of a few endings only into an app, and this is one of them."""

FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
"""Nothing of `-ffast-math` that assumes finite numbers or changes the order of sums."""

# Tuned for some CPUs, GCC 12 loads every operand again instead of keeping it in a register.
_TARGETS = (("-march=native", "-mtune=generic"), ("-march=native",), ("-mcpu=native",))
_MACROS = ("-dM", "-E", "-x", "c++", "-")


class KernelUnavailable(RuntimeError):
    """The native step cannot be used here; the message says why."""


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: `$CXX`, or the first one that is installed."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    for command in [wanted] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    missing = f"$CXX, {wanted[0]}," if wanted else "c++, g++ or clang++"
    raise KernelUnavailable(f"there is no C++ compiler: {missing} was not found")


def build(directory: Path | None = None) -> Path:
    """Return the compiled kernel, after compiling it if it is not there yet.

    The name has a hash of source, flags, compiler version and CPU. A library appears under it
    complete or not at all, however many processes compile at the same time.
    """
    if not SOURCE.is_file():
        raise KernelUnavailable(f"{SOURCE.name} is not part of this installation")
    code, compiler = SOURCE.read_bytes(), find_compiler()
    directory = default_data_dir().parent / "kernel" if directory is None else directory
    target, macros = _target(compiler)
    flags = (*FLAGS, *target)
    identity = b"\0".join([code, shlex.join([*compiler, *flags]).encode(), macros])
    library = directory / f"step-{hashlib.sha256(identity).hexdigest()[:24]}.so"
    if library.is_file():
        return library
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as scratch:
            made = Path(scratch) / library.name
            _run([*compiler, *flags, "-x", "c++", "-", "-o", str(made)], code)
            made.replace(library)
    except OSError as error:
        raise KernelUnavailable(f"{directory} cannot hold it: {error}") from error
    return library


def _target(compiler: list[str]) -> tuple[tuple[str, ...], bytes]:
    """Return the flags for this CPU that the compiler knows, and the macros that they set.

    The macros name the compiler's version and every instruction set that code may use.
    """
    for target in _TARGETS:
        with contextlib.suppress(KernelUnavailable):
            return target, _run([*compiler, *target, *_MACROS], b"")
    return (), _run([*compiler, *_MACROS], b"")


def _run(command: list[str], text: bytes) -> bytes:
    """Run a compiler on a text and return its output."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, check=True, timeout=300)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing said"]
        raise KernelUnavailable(f"{command[0]} failed: {said[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelUnavailable(f"{command[0]} failed: {error}") from error
    return done.stdout
