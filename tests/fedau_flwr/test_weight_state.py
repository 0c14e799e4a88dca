import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr import WeightState
from fedau_flwr.weight_state import StateError

states = st.builds(
    lambda intervals, elapsed, more, weight: WeightState(
        intervals + elapsed + more, intervals, elapsed, weight
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(1, 1e9),
)


@given(states)
def test_survives_json(state):
    assert WeightState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_is_immutable():
    with pytest.raises(AttributeError):
        WeightState().round = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round": -1}, "round is -1, but must be an integer >= 0."),
        ({"intervals": -2}, "intervals is -2, but must be an integer >= 0."),
        ({"elapsed": 1.5}, "elapsed is 1.5, but must be an integer >= 0."),
        ({"elapsed": True}, "elapsed is True, but must be an integer >= 0."),
        ({"intervals": 9}, "round is 5, but must be at least intervals + elapsed = 10."),
        ({"weight": 0.5}, "weight is 0.5, but must be a finite number >= 1."),
        ({"weight": float("nan")}, "weight is nan, but must be a finite number >= 1."),
        ({"weight": "2"}, "weight is '2', but must be a finite number >= 1."),
        ({"version": 2}, "version is 2, but must be 1."),
    ],
)
def test_impossible_states_name_the_field(change, message):
    fields = {**WeightState(5, 2, 1, 2.0).to_dict(), **change}
    with pytest.raises(StateError) as error:
        WeightState.from_dict(fields)
    assert str(error.value) == f"FedAU state: {message}"


@pytest.mark.parametrize("field", ["round", "intervals", "elapsed", "weight"])
def test_missing_fields_are_named(field):
    fields = WeightState().to_dict()
    del fields[field]
    with pytest.raises(StateError, match=f"{field} is None, but must be present"):
        WeightState.from_dict(fields)


@pytest.mark.parametrize("content", [None, [], "state", 3])
def test_what_is_no_object_is_no_state(content):
    with pytest.raises(StateError, match="FedAU state: state is"):
        WeightState.from_dict(content)
