import pytest

from simulations.bench.secure import compare_with_secaggplus


@pytest.mark.parametrize("dropped", [0, 2])
def test_both_protocols_yield_the_mean_of_those_who_stayed(dropped):
    row = compare_with_secaggplus(clients=5, parameters=1000, dropped=dropped)
    # Either rounds values of up to ±8 to 2^22 levels; the mean cannot be off by more than a level.
    assert 0 < row["secaggplus-error"] < 16 / 2**22
    assert 0 < row["ours-error"] < 16 / 2**22
    assert row["ratio"] == row["secaggplus-seconds"] / row["ours-seconds"]
    # Keys and shares are a fixed cost: 4 kB at most for four neighbours.
    assert 1 < row["bytes-ratio"] < 2 < row["secaggplus-bytes-ratio"]
