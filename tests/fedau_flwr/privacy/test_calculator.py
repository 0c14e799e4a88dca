import pytest

from fedau_flwr.privacy.calculator import options
from fedau_flwr.privacy.gdp import composed, epsilon_of


def test_table_for_a_target():
    plain, separated, bands, buffers = options(epsilon=8, delta=1e-5, rounds=2000, separation=50)
    assert plain.name == "plain"
    assert (plain.participations, separated.participations) == (2000, 40)
    assert plain.noise_multiplier == pytest.approx(26.84, abs=5e-3)
    assert separated.noise_multiplier == pytest.approx(3.80, abs=5e-3)
    assert plain.error == 1
    assert separated.error == pytest.approx(3.796 / 26.843, rel=1e-3)
    # 38 times less than plain noise, and a buffer does what 149 vectors do.
    assert bands.error == pytest.approx(separated.error * 0.187, rel=3e-3)
    assert bands.vectors == 149
    assert buffers.error < bands.error
    assert buffers.vectors == 1
    assert {option.epsilon for option in (plain, separated, bands, buffers)} == {8}


def test_bands_can_be_limited():
    bands = options(epsilon=8, delta=1e-5, rounds=2000, separation=50, most_bands=50)[2]
    assert bands.vectors == 49
    assert bands.error == pytest.approx(0.2005 * 3.796 / 26.843, rel=1e-3)


def test_table_for_a_noise_multiplier():
    plain, separated, bands, buffers = options(
        noise_multiplier=4.0, delta=1e-5, rounds=300, separation=10, limit=7
    )
    assert plain.epsilon == epsilon_of(1e-5, composed(4.0, 300))
    assert separated.epsilon == epsilon_of(1e-5, composed(4.0, 7))
    assert plain.error == separated.error == 1
    assert {o.noise_multiplier for o in (plain, separated, bands, buffers)} == {4.0}
    # The same z, but more of it is needed: what correlation gains is in the error.
    assert bands.epsilon > separated.epsilon
    assert bands.error < 1


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "noise_multiplier": 1.0}])
def test_either_a_target_or_noise(given):
    with pytest.raises(ValueError, match="either epsilon or noise_multiplier must be given"):
        options(delta=1e-5, rounds=10, **given)


def test_bad_noise():
    with pytest.raises(ValueError, match=r"noise_multiplier is -1.0, but must be positive"):
        options(delta=1e-5, rounds=10, noise_multiplier=-1.0)
