"""Apps of several frameworks with the two lines in them, on real ClientApps and ServerApps."""

import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from fedau_flwr.testing.in_process_grid import InProcessGrid

FOLDER = Path(__file__).parents[3] / "simulations" / "examples"
NEEDS = {
    "pytorch_batch_norm": "torch",
    "scikit_learn": "sklearn",
    "jax_regression": "jax",
    "huggingface_lora": "peft",
}
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def run(name, rounds):
    """Run an example's ServerApp against its ClientApp; return what it kept."""
    try:
        example = importlib.import_module(f"simulations.examples.{name}")
    except ImportError as error:
        pytest.skip(f"{NEEDS[name]} cannot be imported; `make examples` installs it ({error})")
    config = {"clients": 4, "num-server-rounds": rounds}
    context = Context(1, 1, {}, RecordDict(), config)
    grid = InProcessGrid(example.client, 4, config)
    example.server(grid, context)
    return context.state


@pytest.fixture(autouse=True)
def only_what_can_be_loaded(monkeypatch):
    """Transformers loads a torchvision that is there, also one that does not fit the torch."""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        found = importlib.util.find_spec
        hidden = "torchvision"
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, *more: None if name.startswith(hidden) else found(name, *more),
        )


@pytest.mark.parametrize(
    ("name", "rounds", "metric", "least", "most"),
    [
        ("pytorch_batch_norm", 6, "accuracy", 0.75, 1.0),
        ("scikit_learn", 10, "accuracy", 0.85, 1.0),
        ("jax_regression", 10, "loss", 0.0, 0.05),
        ("huggingface_lora", 10, "loss", 0.0, 0.6),
    ],
)
def test_an_example_learns(name, rounds, metric, least, most):
    state = run(name, rounds)
    assert least <= state["metrics"][metric] <= most
    arrays = {key: array.numpy() for key, array in state["arrays"].items()}
    assert all(np.isfinite(value).all() for value in arrays.values())
    if name == "pytorch_batch_norm":
        assert (arrays["1.running_var"] > 0).all()
    if name == "huggingface_lora":
        assert all("lora" in key or "classifier" in key for key in arrays)


@pytest.mark.parametrize("name", NEEDS)
def test_the_page_shows_the_lines_of_each_example(name):
    (diff,) = re.findall(rf"^`{name}\.py`.*?^```diff\n(.*?)^```$", PAGE, re.M | re.S)
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    lines = [(line[:1], line[1:].strip()) for line in diff.splitlines() if line.strip()]
    assert {sign for sign, _ in lines} == {"+", "-"}
    for sign, line in lines:
        assert (line in text) == (sign == "+"), line
