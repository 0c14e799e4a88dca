import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr.client.separation import Separation
from fedau_flwr.privacy.blt import BufferedToeplitz, best_buffers
from fedau_flwr.privacy.minimise import minimise
from fedau_flwr.privacy.plan import NoisePlan
from fedau_flwr.privacy.toeplitz import best_bands, inverse, relative_error, square_root


@st.composite
def matrices(draw):
    count = draw(st.integers(1, 4))
    scales = np.array(draw(st.lists(st.floats(1e-6, 1), min_size=count, max_size=count)))
    decays = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    return BufferedToeplitz(tuple(scales / max(1.0, 1.0001 * scales.sum())), tuple(decays))


def error(matrix, rounds, separation=1, limit=None):
    return NoisePlan(matrix, rounds, Separation(separation, limit)).relative_error()


def test_coefficients_are_sums_of_geometric_sequences():
    found = BufferedToeplitz((0.3, 0.2), (0.5, 0.9)).coefficients(6)
    assert np.allclose(found, [1, *(0.3 * 0.5**j + 0.2 * 0.9**j for j in range(5))], rtol=1e-15)


@given(matrices(), st.integers(1, 60))
def test_inverse_is_a_matrix_of_the_same_form(matrix, rounds):
    assert np.allclose(
        matrix.inverse(rounds), inverse(matrix.coefficients(rounds), rounds), atol=1e-12
    )
    scales, decays = matrix.inverse_parameters()
    assert np.all(scales <= 0)
    # The decays of both interlace, so the inverse never grows.
    assert np.all(decays <= np.sort(matrix.decays) + 1e-12)
    assert np.all(decays >= -1 - 1e-12)


def test_published_optimum_of_two_buffers():
    matrix = best_buffers(100_000, limit=1, buffers=2, error="max")
    assert matrix.scales == pytest.approx([0.0122853238, 0.1878393665], rel=2e-6)
    assert matrix.decays == pytest.approx([0.9999528892, 0.9857068667], rel=1e-7)


@pytest.mark.parametrize("separation", [10, 20, 50])
def test_few_buffers_are_better_than_bands(separation):
    matrix = best_buffers(2000, separation)
    assert len(matrix.scales) == 1
    bands = best_bands(2000, separation)
    assert error(matrix, 2000, separation) < relative_error(square_root(bands), 2000, separation)


def test_more_buffers_are_never_worse():
    errors = [error(best_buffers(400, limit=1, buffers=n), 400, limit=1) for n in (1, 2, 3)]
    assert errors[0] > 1.01 * errors[1] > 1.001 * errors[2]


def test_without_separation_noise_stays_independent():
    matrix = best_buffers(200, buffers=1)
    assert error(matrix, 200) == pytest.approx(1.0, abs=1e-6)


def test_minimise_finds_the_bottom_of_a_bent_valley():
    found = minimise(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, np.array([-1.2, 1]))
    assert found == pytest.approx([1, 1], abs=1e-4)


@pytest.mark.parametrize(
    ("scales", "decays", "sentence"),
    [
        ((0.5,), (0.5, 0.4), "decays are 2, but must be as many as scales, 1."),
        (
            (0.5, 0.6),
            (0.5, 0.4),
            r"scales is \(0.5, 0.6\), but must be positive, at most 1 together",
        ),
        ((0.0,), (0.5,), "but must be positive"),
        ((0.5,), (1.1,), "but must be between 0 and 1"),
    ],
)
def test_bad_buffers(scales, decays, sentence):
    with pytest.raises(ValueError, match=sentence):
        BufferedToeplitz(scales, decays)


def test_bad_number_of_buffers():
    with pytest.raises(ValueError, match="buffers is 0, but must be at least 1"):
        best_buffers(10, buffers=0)
