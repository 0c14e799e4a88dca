import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from simulations.nodes.kernel import build as module
from simulations.nodes.kernel.build import KernelUnavailable, build
from simulations.nodes.kernel.step import NativeStep


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Return the log of a stand-in for the compiler, which copies a line instead of compiling."""
    log = tmp_path / "calls"
    fake = program(
        tmp_path / "cxx",
        f'echo "$@" >> {log}\n'
        "for last; do :; done\n"
        'case "$*" in *-dM*) echo version 1;; *) sleep 0.2; cat > "$last";; esac',
    )
    monkeypatch.setenv("CXX", str(fake))
    return log


def compilations(log):
    return sum("-dM" not in line for line in log.read_text().splitlines())


def test_it_is_compiled_once(compiler, tmp_path):
    cache = tmp_path / "cache"
    assert build(cache) == build(cache)
    assert compilations(compiler) == 1
    assert [path.name[:5] for path in cache.iterdir()] == ["step-"]


def test_many_at_once_leave_one_complete_library(compiler, tmp_path):
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: build(cache), range(8)))
    assert list(cache.iterdir()) == list(paths)
    assert paths.pop().read_bytes() == module.SOURCE.read_bytes()


def test_source_flags_and_compiler_are_in_the_name(compiler, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    names = {build(cache)}
    other = tmp_path / "other.cpp"
    other.write_bytes(module.SOURCE.read_bytes() + b"\n")
    with monkeypatch.context() as patch:
        patch.setattr(module, "SOURCE", other)
        names.add(build(cache))
    with monkeypatch.context() as patch:
        patch.setattr(module, "FLAGS", (*module.FLAGS, "-O2"))
        names.add(build(cache))
    fake = tmp_path / "cxx"
    program(fake, fake.read_text().replace("version 1", "version 2"))
    names.add(build(cache))
    assert len(names) == 4


def test_the_first_flags_that_the_compiler_knows_are_used(tmp_path, monkeypatch):
    fake = program(
        tmp_path / "cxx",
        'for last; do :; done\ncase "$*" in *-march*) echo unknown >&2; exit 1;;'
        ' *-dM*) echo version;; *) echo "$@" > "$last";; esac',
    )
    monkeypatch.setenv("CXX", str(fake))
    assert "-mcpu=native" in build(tmp_path / "cache").read_text()


@pytest.mark.parametrize(
    ("cxx", "reason"),
    [
        ("/nowhere/cxx", "there is no C\\+\\+ compiler: \\$CXX, /nowhere/cxx, was not found"),
        ("false", "false failed: nothing said"),
        ("sh -c 'echo broken >&2; exit 3'", "sh failed: broken"),
    ],
)
def test_a_compiler_that_fails_is_a_reason(tmp_path, monkeypatch, cxx, reason):
    monkeypatch.setenv("CXX", cxx)
    with pytest.raises(KernelUnavailable, match=f"^{reason}"):
        build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_compiler_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(KernelUnavailable, match=r"c\+\+, g\+\+ or clang\+\+ was not found"):
        build(tmp_path)


def test_a_cache_that_cannot_be_written_is_a_reason(compiler, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KernelUnavailable, match="cannot hold it"):
        build(tmp_path / "file" / "cache")


def test_a_library_that_cannot_be_loaded_is_a_reason(compiler, tmp_path):
    with pytest.raises(KernelUnavailable, match="cannot be loaded"):
        NativeStep((16, 10), directory=tmp_path / "cache")


def test_a_missing_source_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SOURCE", tmp_path / "step.cpp.md")
    with pytest.raises(KernelUnavailable, match="not part of this installation"):
        build(tmp_path)
