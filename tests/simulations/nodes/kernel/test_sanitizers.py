"""The kernel under the address and undefined-behaviour sanitizers, and with every vector width."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from simulations.nodes.kernel.build import FLAGS, SOURCE, KernelUnavailable, find_compiler

DRIVER = Path(__file__).with_name("driver.cpp")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DFEDAU_RED_ZONES")
FLAGS_OF_A_PROGRAM = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]


def compile_or_skip(source, target, *flags):
    try:
        compiler = find_compiler()
    except KernelUnavailable as error:
        pytest.skip(str(error))
    command = [*compiler, *FLAGS_OF_A_PROGRAM, *flags, f'-DSOURCE="{SOURCE}"', str(source)]
    command += ["-o", str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run(program):
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": ""}
    return subprocess.run(
        [str(program)], capture_output=True, text=True, env=environment, check=False
    )


def numbers(done):
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=float)


def test_no_access_out_of_bounds_and_nothing_undefined(tmp_path):
    probe = tmp_path / "probe.cpp"
    probe.write_text("#include <sanitizer/asan_interface.h>\nint main() { return 0; }\n")
    tried = compile_or_skip(probe, tmp_path / "probe", *SANITIZERS)
    if tried.returncode or run(tmp_path / "probe").returncode:
        pytest.skip(f"the compiler has no sanitizers: {tried.stderr.strip()[:200]}")
    built = compile_or_skip(DRIVER, tmp_path / "driver", "-g", "-march=native", *SANITIZERS)
    assert built.returncode == 0, built.stderr
    done = run(tmp_path / "driver")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert np.isfinite(numbers(done)).all()
    assert len(numbers(done)) == 3


def test_narrow_vectors_give_the_same_numbers(tmp_path):
    found = {}
    for name, flags in (("native", ("-march=native",)), ("plain", ())):
        built = compile_or_skip(DRIVER, tmp_path / name, *flags)
        assert built.returncode == 0, built.stderr
        found[name] = numbers(run(tmp_path / name))
    np.testing.assert_allclose(found["native"], found["plain"], rtol=1e-4)
