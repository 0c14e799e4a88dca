import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr import FedAUWeighting
from fedau_flwr.server.groups import GroupHistory, Groups


@given(st.lists(st.booleans(), max_size=60), st.one_of(st.none(), st.integers(1, 9)))
def test_a_group_of_one_is_algorithm_2(history, cutoff):
    weighting = FedAUWeighting(cutoff)
    state, group = weighting.initial(), GroupHistory(1, cutoff)
    for participated in history:
        state = weighting.advance(state, participated)
        group.advance(int(participated))
        assert group.weight == state.weight


def test_counted_members_share_the_running_length():
    group = GroupHistory(size=10, cutoff=50)
    assert group.weight == 1.0
    for counted in (0, 0, 5):  # 3 rounds of 10 members: length 30 in 5 intervals
        group.advance(counted)
    assert group.weight == 6.0
    group.advance(1)  # 10 more in one more interval
    assert group.weight == 40 / 6


def test_cutoff_closes_one_interval_per_member():
    group = GroupHistory(size=4, cutoff=3)
    for _ in range(3):
        group.advance(0)
    assert (group.intervals, group.length, group.weight) == (4, 12, 3.0)


def test_the_weight_never_exceeds_the_cutoff():
    group = GroupHistory(size=100, cutoff=5)
    group.advance(1)  # 100 rounds of members for one interval
    assert group.weight == 5


def test_more_members_than_configured_are_reported_and_weigh_at_least_one(caplog):
    groups = Groups({"a": 2})
    groups.advance(["a", "a", "a"])
    assert groups.weights() == {"a": 1.0}
    assert "has 2 members by configuration, but 3 were counted" in caplog.text


def test_checkpoint_goes_on_exactly():
    groups = Groups({"a": 3, "b": 2})
    for counted in (["a"], [], ["a", "b"]):
        groups.advance(counted)
    copy = Groups({"a": 3, "b": 2})
    copy.load_state_dict(groups.state_dict())
    for each in (groups, copy):
        each.advance(["b"])
    assert copy.weights() == groups.weights()
    with pytest.raises(ValueError, match=r"checkpoint has the groups \['a', 'b'\]"):
        Groups({"a": 3}).load_state_dict(groups.state_dict())


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match=r"size is .* must be an integer >= 1"):
        Groups({"a": size})


@pytest.mark.parametrize("cutoff", [0, 2.5, "long"])
def test_bad_cutoffs(cutoff):
    with pytest.raises(ValueError, match=r"group_cutoff is .* must be an integer >= 1 or None"):
        Groups({"a": 3}, cutoff)
