import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz
from scipy.stats import chi2, kstest, poisson

from fedau_flwr.privacy.blt import BufferedToeplitz
from fedau_flwr.privacy.generator import SecureGenerator, discrete_gaussian
from fedau_flwr.privacy.noise_memory import BandMemory, BufferMemory
from fedau_flwr.privacy.noise_stream import NoiseStream, guarded_std, step_of
from fedau_flwr.privacy.toeplitz import square_root

KEY = bytes(range(32))
BLT = BufferedToeplitz((0.25, 0.3), (0.985, 0.57))
# Statistical tests are seeded; with another key each would fail with this probability.
ERROR = 1e-4


def first_column(matrix, rounds):
    if isinstance(matrix, BufferedToeplitz):
        return matrix.coefficients(rounds)
    return np.pad(matrix[:rounds], (0, max(0, rounds - len(matrix))))


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_streaming_noise_is_the_dense_one(bands, rounds, seed, buffered):
    z = np.random.default_rng(seed).normal(size=(rounds, 7))
    matrix = BLT if buffered else square_root(bands)
    memory = BufferMemory(BLT, 7) if buffered else BandMemory(matrix, 7, np.float64)
    streamed = []
    for row in z:
        noise = np.empty(7)
        for part in (slice(0, 3), slice(3, 7)):
            noise[part] = row[part] - memory.recall(part)
            memory.remember(part, noise[part])
        memory.advance()
        streamed.append(noise)
    dense = toeplitz(first_column(matrix, rounds), np.zeros(rounds))
    assert np.abs(np.array(streamed) - np.linalg.solve(dense, z)).max() < 1e-10


@pytest.mark.parametrize("matrix", [[1.0], square_root(5), BLT], ids=["none", "bands", "blt"])
def test_released_noise_has_the_claimed_covariance(matrix):
    rounds, size, std = 12, 40_000, 3.0
    stream = NoiseStream(matrix, std, generator=SecureGenerator(KEY))
    noise = np.array([stream.release({"w": np.zeros(size)})["w"] for _ in range(rounds)])
    white = toeplitz(first_column(matrix, rounds), np.zeros(rounds)) @ noise / std
    # C n is independent standard noise: each of its sums of squares is a chi square, and its
    # normalised products are standard normal.
    squares = (white**2).sum(axis=1)
    level = ERROR / rounds**2
    assert np.all(squares > chi2.ppf(level / 2, size))
    assert np.all(squares < chi2.isf(level / 2, size))
    products = (white @ white.T)[np.triu_indices(rounds, 1)] / np.sqrt(size)
    assert np.abs(products).max() < np.sqrt(chi2.isf(level, 1))
    assert kstest(white.ravel(), "norm").pvalue > ERROR


def test_sum_and_noise_are_on_the_grid_and_the_sum_is_kept():
    sums = {"a": np.full((3, 50), 1000.123), "b": np.array(-7.7), "c": np.zeros((0, 2))}
    stream = NoiseStream([1.0], 0.7, generator=SecureGenerator(KEY))
    released = stream.release(sums)
    assert 0.7 * 2**-25 < stream.step <= 0.7 * 2**-24
    for name, array in sums.items():
        assert released[name].shape == array.shape
        steps = released[name] / stream.step
        assert np.array_equal(steps, np.rint(steps))
        assert np.all(np.abs(released[name] - array) < 5 * 0.7)


def test_layers_and_memory_meet_in_one_rounding():
    """All parts count with their fractions: rounding each by itself would add noise of its own."""

    class Faint(SecureGenerator):
        def normal(self, size):
            drawn.append(np.random.default_rng(len(drawn)).normal(size=size) * 2**-12)
            return drawn[-1]

    drawn = []
    stream = NoiseStream([1.0, 0.3, 0.2], 1.0, generator=Faint())
    past = np.random.default_rng(9).integers(-1000, 1000, (2, 5000), np.int32)
    # Row 1 holds the round before, row 0 the one before that.
    stream.load_state_dict({"round": 2, "memory": past})
    steps = stream.release({"w": np.zeros(5000)})["w"] / stream.step
    coarse, fine = drawn[0] * 2**24 * np.sqrt(1 - 2**-24), drawn[1] * 2**12
    assert np.array_equal(steps, np.rint(coarse + fine - 0.3 * past[1] - 0.2 * past[0]))


def test_noise_does_not_depend_on_the_sum():
    """With sums on the grid the same key gives the same noise, whatever the sums: no bit leaks."""
    zero, other = (NoiseStream(square_root(4), 1.0, generator=SecureGenerator(KEY)) for _ in "ab")
    values = np.random.default_rng(1).integers(-(2**30), 2**30, 1000) * zero.step
    for _ in range(6):
        noise = zero.release({"w": np.zeros(1000)})["w"]
        assert np.array_equal(other.release({"w": values})["w"] - values, noise)


def test_float32_sums_stay_float32():
    released = NoiseStream([1.0], 1.0).release({"w": np.ones(3, np.float32)})
    assert released["w"].dtype == np.float32


@pytest.mark.parametrize("matrix", [[1.0], square_root(4), BLT], ids=["none", "bands", "blt"])
def test_a_stream_goes_on_from_its_state(matrix):
    first = NoiseStream(matrix, 2.0, generator=SecureGenerator(KEY))
    for _ in range(5):
        first.release({"w": np.zeros(100)})
    second = NoiseStream(matrix, 2.0, generator=SecureGenerator(bytes(32)))
    third = NoiseStream(matrix, 2.0, generator=SecureGenerator(bytes(32)))
    second.load_state_dict(first.state_dict())
    third.load_state_dict(first.state_dict())
    assert second.round == 5
    for _ in range(6):
        left, right = (stream.release({"w": np.zeros(100)})["w"] for stream in (second, third))
        assert np.array_equal(left, right)
    # What one releases does not change another's memory.
    assert first.round == 5
    assert third.round == 11


def test_state_of_a_new_stream_and_of_another_matrix():
    stream = NoiseStream(square_root(3), 1.0)
    stream.release({"w": np.zeros(4)})
    with pytest.raises(ValueError, match=r"memory is int32\(2, 4\), but must be int32\(5, 4\)"):
        NoiseStream(square_root(6), 1.0).load_state_dict(stream.state_dict())
    stream.load_state_dict(NoiseStream(square_root(3), 1.0).state_dict())
    assert stream.round == 0


def test_two_streams_draw_other_noise():
    one, two = (NoiseStream([1.0], 1.0).release({"w": np.zeros(50)})["w"] for _ in "ab")
    assert not np.any(one == two)


def test_rounding_is_covered_by_more_noise():
    size, multiplier, norm = 10**6, 10.0, 2.0
    std = guarded_std(multiplier, norm, size)
    assert std >= multiplier * (norm + step_of(std) * np.sqrt(size))
    assert std == pytest.approx(multiplier * norm, rel=1e-3)
    with pytest.raises(ValueError, match=r"noise_multiplier is 10.0, but must be at most 0.08389"):
        guarded_std(10.0, 1.0, 10**16)


def test_bad_sums():
    stream = NoiseStream(square_root(2), 1.0)
    for value in (np.nan, np.inf, 1e9):
        with pytest.raises(ValueError, match="a sum must be finite and below"):
            stream.release({"w": np.array([0.0, value])})
    stream.release({"w": np.zeros(3)})
    with pytest.raises(ValueError, match="sums have 4 values, but must have as many as before"):
        stream.release({"w": np.zeros(4)})
    with pytest.raises(ValueError, match=r"std is 0.0, but must be positive and finite"):
        NoiseStream([1.0], 0.0)


def test_noise_that_its_memory_cannot_hold_is_refused():
    stream = NoiseStream([1.0, 1e6], 1.0, generator=SecureGenerator(KEY))
    stream.release({"w": np.zeros(100)})
    with pytest.raises(OverflowError, match="this matrix amplifies"):
        stream.release({"w": np.zeros(100)})


def test_uniform_and_normal_numbers_are_what_they_claim():
    generator = SecureGenerator(KEY)
    uniform = generator.uniform(200_001)
    assert uniform.min() > 0
    assert uniform.max() <= 1
    assert kstest(uniform, "uniform").pvalue > ERROR
    normal = generator.normal(200_001)
    assert normal.shape == (200_001,)
    assert kstest(normal, "norm").pvalue > ERROR
    # Both numbers of a pair come from the same radius; they are independent all the same.
    half = 1 << 13
    radius = normal[:half] ** 2 + normal[half : 2 * half] ** 2
    assert kstest(radius, chi2(2).cdf).pvalue > ERROR
    counts = np.bincount(generator.below(5, 80_000), minlength=5)
    assert len(counts) == 5
    expected = counts.sum() / 5
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 4) > ERROR


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7, 60.0])
def test_discrete_gaussian_has_its_probabilities(sigma):
    size = 200_000
    numbers = discrete_gaussian(SecureGenerator(KEY), sigma, size)
    most = int(3.5 * sigma) + 1
    support = np.arange(-40 * most, 40 * most + 1)
    probability = np.exp(-(support**2) / (2 * sigma**2))
    probability /= probability.sum()
    # All from the ends outward are one class, so that each class expects enough.
    classes = np.bincount(np.clip(support, -most, most) + most, probability) * size
    counts = np.bincount(np.clip(numbers, -most, most) + most, minlength=len(classes))
    kept = classes > 5
    statistic = ((counts[kept] - classes[kept]) ** 2 / classes[kept]).sum()
    assert chi2.sf(statistic, kept.sum() - 1) > ERROR
    assert counts[~kept].sum() <= poisson.isf(ERROR, classes[~kept].sum())


def test_bad_sigma():
    with pytest.raises(ValueError, match="sigma is 0, but must be positive and below"):
        discrete_gaussian(SecureGenerator(), 0, 1)


def test_a_forked_process_draws_other_numbers(monkeypatch):
    theirs, ours = SecureGenerator(KEY), SecureGenerator(KEY)
    expected = ours.bits(4).tolist()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert theirs.bits(4).tolist() != expected


@pytest.mark.parametrize("matrix", [[1.0], square_root(4), BLT], ids=["none", "bands", "blt"])
def test_noise_that_is_repeated_is_remembered_as_if_it_had_been_drawn(matrix):
    first, second = (NoiseStream(matrix, 2.0, generator=SecureGenerator(KEY)) for _ in "ab")
    for gap in (False, False, True, False, True, False, False):
        if gap:
            first.repeat(None)
            second.repeat(None)
        else:
            first.release({"w": np.zeros(50)})
            second.repeat(first.noise)
    assert second.round == first.round
    np.testing.assert_array_equal(second.state_dict()["memory"], first.state_dict()["memory"])


@pytest.mark.parametrize("matrix", [square_root(4), BLT], ids=["bands", "blt"])
def test_rounds_without_a_release_leave_the_noise_of_a_part_of_the_matrix(matrix):
    """C_SS, the rows and columns of the rounds S that were released, makes the noise white."""
    released = [1, 2, 5, 6, 9]
    stream = NoiseStream(matrix, 1.0, generator=SecureGenerator(KEY))
    plain = NoiseStream([1.0], 1.0, generator=SecureGenerator(KEY))
    noise, z = [], []
    for number in range(1, 10):
        if number in released:
            noise.append(stream.release({"w": np.zeros(40)})["w"])
            z.append(plain.release({"w": np.zeros(40)})["w"])
        else:
            stream.repeat(None)
    rows = np.array(released) - 1
    part = toeplitz(first_column(matrix, 9), np.zeros(9))[np.ix_(rows, rows)]
    # Both are rounded to the grid, each in its own place.
    np.testing.assert_allclose(part @ noise, z, atol=8 * stream.step)
