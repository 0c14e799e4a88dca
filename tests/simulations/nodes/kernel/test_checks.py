import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulations.nodes.kernel.build import KernelUnavailable
from tests.simulations.nodes.kernel.networks import random_batches, random_parameters

WIDTHS = (16, 10)
RNG = np.random.default_rng(1)
PARAMETERS = random_parameters(WIDTHS, RNG)
IMAGES, LABELS = random_batches(2, 3, 10, RNG)
MASKS = np.ones((2, 3 * (2048 + 16)), np.float32)

CHANGES = {
    "transposed": lambda a: a.T.copy().T if a.ndim > 1 else np.repeat(a, 2)[::2],
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "double": lambda a: a.astype(np.float64),
    "half": lambda a: a.astype(np.float16),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "longer": lambda a: np.concatenate([a, a[-1:]]),
    "shorter": lambda a: a[:-1],
    "flat": lambda a: a.ravel() if a.ndim > 1 else a[None],
    "empty": lambda a: a[:0],
    "scalar": lambda a: a.ravel()[0],
    "list": lambda a: a.tolist(),
    "none": lambda a: None,
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
}


@settings(max_examples=150, deadline=None)
@given(
    target=st.sampled_from([*PARAMETERS, "images", "labels", "masks"]),
    change=st.sampled_from(sorted(CHANGES)),
    evaluate=st.booleans(),
)
def test_anything_but_the_right_arrays_is_one_error(native, target, change, evaluate):
    given_arrays = {**PARAMETERS, "images": IMAGES, "labels": LABELS, "masks": MASKS}
    if evaluate:
        given_arrays |= {"images": IMAGES[0], "labels": LABELS[0]}
    changed = CHANGES[change](given_arrays[target])
    if (target == "masks" and (evaluate or changed is None)) or (
        isinstance(changed, np.ndarray)
        and (changed.dtype, changed.shape)
        == (given_arrays[target].dtype, given_arrays[target].shape)
        and changed.flags.c_contiguous
        and changed.flags.aligned
    ):
        return  # that is a right one
    given_arrays[target] = changed
    images, labels, masks = (given_arrays.pop(name) for name in ("images", "labels", "masks"))
    step = native(*WIDTHS)
    call = step.evaluate if evaluate else functools.partial(step.train, lr=0.1, masks=masks)
    with pytest.raises(ValueError, match=r"(is|are) .*, but must (be|have) .*\.$"):
        call(given_arrays, images, labels)


@settings(max_examples=60, deadline=None)
@given(
    images=st.lists(st.integers(0, 4), min_size=0, max_size=6),
    labels=st.lists(st.integers(0, 4), min_size=0, max_size=3),
)
def test_shapes_that_do_not_fit_are_one_error(native, images, labels):
    x, y = np.zeros(images, np.float32), np.zeros(labels, np.int64)
    with pytest.raises(ValueError, match="but must"):
        native(*WIDTHS).train(PARAMETERS, x, y, 0.1)
    with pytest.raises(ValueError, match="but must"):
        native(*WIDTHS).evaluate(PARAMETERS, x, y)


@pytest.mark.parametrize("label", [-1, 10, 2**40, -(2**63)])
def test_a_label_that_is_no_class_is_an_error(native, label):
    labels = LABELS.copy()
    labels[1, 2] = label
    with pytest.raises(ValueError, match=r"labels are .*, but must be 0 to 9\.$"):
        native(*WIDTHS).train(PARAMETERS, IMAGES, labels, 0.1)


def test_arrays_that_are_missing_or_unknown_are_named(native):
    for wrong in ({}, {**PARAMETERS, "dense.2.bias": PARAMETERS["conv1.bias"]}):
        with pytest.raises(ValueError, match=r"^parameters are .*, but must be conv1.weight, "):
            native(*WIDTHS).train(wrong, IMAGES, LABELS, 0.1)


def test_read_only_arrays_are_fine(native):
    frozen = {name: value.copy() for name, value in PARAMETERS.items()}
    for value in frozen.values():
        value.setflags(write=False)
    after, _ = native(*WIDTHS).train(frozen, IMAGES, LABELS, 0.1)
    expected, _ = native(*WIDTHS).train(PARAMETERS, IMAGES, LABELS, 0.1)
    for name, value in after.items():
        assert value.flags.writeable
        assert np.array_equal(value, expected[name])


@pytest.mark.parametrize("widths", [(), (17, 10), (0, 10), (16, 0), (-16, 10), (16,) * 8 + (10,)])
def test_networks_that_the_kernel_does_not_know_are_refused(native, widths):
    with pytest.raises(KernelUnavailable, match="must"):
        native(*widths)


def test_load_gives_the_shapes_of_the_network(native):
    assert native(*WIDTHS).shapes == {name: value.shape for name, value in PARAMETERS.items()}
