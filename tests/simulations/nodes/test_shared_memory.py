"""Blocks in memory that workers share, and that come to their file when it is asked for."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from simulations.nodes import shared_memory
from simulations.nodes.blocks import Blocks
from simulations.nodes.shared_memory import forget_memory, opened_memory
from simulations.runs.shared_arrays import DIRECTORY

PLACES = 1_000
SIZE = 4_000

ANOTHER = """
import sys
from pathlib import Path
import numpy as np
from simulations.nodes.blocks import Blocks
blocks = Blocks.of(Path(sys.argv[1]), int(sys.argv[2]))
print(blocks.stamp(7), float(blocks.read(7)["x"].sum()), blocks.stamp(8))
blocks.write(8, (2, 1), {"x": np.full(1000, 3, np.float32)})
blocks.write(7, (3, 1), {"x": np.full(1000, 4, np.float32)})
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "shared"))
    folder = tmp_path / "states"
    folder.mkdir()
    handles = len(os.listdir("/proc/self/fd"))
    yield folder / "memory-last.bin"
    forget_memory(folder)
    assert not list((tmp_path / "shared").iterdir())
    assert len(os.listdir("/proc/self/fd")) == handles


def arrays(value):
    return {"x": np.full(SIZE // 4, value, np.float32)}


def on_disk(path):
    """Return a reader of the file alone."""
    return Blocks.of(path.with_suffix(".json"))


def test_another_process_sees_what_is_in_memory_and_changes_it(path):
    blocks = Blocks.like(path, arrays(0), PLACES)
    blocks.write(7, (1, 1), arrays(2))
    seen = blocks.read(7)["x"]
    command = [sys.executable, "-c", ANOTHER, str(path.with_suffix(".json")), str(PLACES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "(1, 1) 2000.0 (0, 0)"
    assert (blocks.stamp(7), blocks.stamp(8)) == ((3, 1), (2, 1))
    np.testing.assert_array_equal(blocks.read(8)["x"], arrays(3)["x"])
    assert seen[0] == 4, "what was read is not a copy"
    with pytest.raises(ValueError, match="read-only"):
        seen += 1


def test_a_sum_is_made_where_it_is_to_be(path, tmp_path):
    blocks = Blocks.like(path, arrays(0), PLACES)
    for one in (blocks, Blocks.like(tmp_path / "file.bin", arrays(0))):
        for number in (1, 2):  # a new place, and one that has been written
            one.write(7, (number, 1), arrays(number), arrays(0.5))
            assert one.stamp(7) == (number, 1)
            np.testing.assert_array_equal(one.read(7)["x"], arrays(number + 0.5)["x"])


def test_the_file_gets_what_it_has_not(path):
    blocks = Blocks.like(path, arrays(0), PLACES)
    blocks.write(5, (1, 1), arrays(1))
    blocks.write(999, (1, 1), arrays(2))
    assert not path.exists()
    blocks.save()
    assert [on_disk(path).stamp(place) for place in (5, 6, 999)] == [(1, 1), (0, 0), (1, 1)]
    kept = path.stat().st_mtime_ns
    blocks.save()
    assert path.stat().st_mtime_ns == kept
    blocks.write(5, (4, 1), arrays(3))
    assert on_disk(path).read(5)["x"][0] == 1
    blocks.save()
    assert [on_disk(path).read(place)["x"][-1] for place in (5, 999)] == [3, 2]
    assert path.stat().st_blocks * 512 < 10 * SIZE


def test_without_the_memory_of_before_the_file_counts(path):
    blocks = Blocks.like(path, arrays(0), PLACES)
    blocks.write(5, (1, 1), arrays(1))
    blocks.save()
    blocks.write(5, (2, 1), arrays(2))
    forget_memory(path.parent)
    again = Blocks.of(path.with_suffix(".json"), PLACES)
    assert (again.stamp(5), again.read(5)["x"][0]) == ((1, 1), 1)
    again.write(5, (2, 2), arrays(7))
    assert (again.stamp(5), on_disk(path).stamp(5)) == ((2, 2), (1, 1))


def test_too_much_is_left_to_the_file(path, monkeypatch):
    little = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=PLACES * SIZE))
    monkeypatch.setattr(shared_memory, "psutil", little)
    Blocks.like(path, arrays(0), PLACES).write(5, (1, 1), arrays(1))
    assert on_disk(path).stamp(5) == (1, 1)
    little.virtual_memory = lambda: SimpleNamespace(available=8 * PLACES * SIZE)
    later = Blocks.of(path.with_suffix(".json"), PLACES)
    later.write(6, (1, 1), arrays(1))
    assert on_disk(path).stamp(6) == (1, 1), "what the first has decided holds for all"
    later.save()


def test_all_files_together_have_a_share(path, monkeypatch):
    """Room for two and a half of them."""
    room = int(2.5 * shared_memory.SHARE * PLACES * SIZE)
    fixed = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=room))
    monkeypatch.setattr(shared_memory, "psutil", fixed)
    paths = [path.with_name(f"memory-{number}.bin") for number in range(3)]
    found = [shared_memory.shared_memory(one, PLACES * SIZE) for one in paths]
    assert [memory is not None for memory in found] == [True, True, False]


def test_the_limit_of_a_container_counts(path, tmp_path, monkeypatch):
    files = tmp_path / "limit", tmp_path / "usage"
    for file, text in zip(files, (f"{shared_memory.SHARE * SIZE}\n", f"{SIZE}\n"), strict=True):
        file.write_text(text)
    monkeypatch.setattr(shared_memory, "_LIMITS", [files])
    assert shared_memory.shared_memory(path.with_name("a"), SIZE) is None
    files[0].write_text("max\n")
    assert shared_memory.shared_memory(path.with_name("b"), SIZE) is not None


def test_where_the_system_cannot_say_what_was_written_there_is_none(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "lseek", refuse)
    assert shared_memory.shared_memory(path, SIZE) is None


@pytest.mark.parametrize("reused", [False, True], ids=["ended", "another process has its number"])
def test_a_worker_that_has_ended_is_named_instead_of_saving_nothing(path, tmp_path, reused):
    blocks = Blocks.like(path, arrays(0), PLACES)
    blocks.write(5, (1, 1), arrays(1))
    (place,) = (tmp_path / "shared").glob("*/*")
    place.unlink()
    other = tmp_path / "other"
    if reused:
        other.write_bytes(bytes(PLACES))
    place.symlink_to(other)
    with pytest.raises(
        OSError, match="a worker has ended, and with it what clients remember since"
    ):
        blocks.save()


def test_workers_that_come_at_the_same_time_share_one_memory(path):
    with ThreadPoolExecutor(8) as pool:
        several = list(pool.map(lambda _: shared_memory.shared_memory(path, SIZE), range(8)))
    several[0][:5] = b"hello"
    assert [bytes(memory[:5]) for memory in several] == [b"hello"] * 8


def test_without_a_directory_of_the_simulator_there_is_no_memory(tmp_path, monkeypatch):
    monkeypatch.delenv(DIRECTORY, raising=False)
    path = tmp_path / "memory-last.bin"
    Blocks.like(path, arrays(0), PLACES).write(0, (1, 1), arrays(1))
    assert path.stat().st_size > SIZE
    forget_memory(tmp_path)
    with opened_memory(path) as memory:
        assert memory is None
