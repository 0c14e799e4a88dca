import pytest
from flwr.app import ConfigRecord
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr.wire.requests import Refusal, Request, hosted_requests

requests = st.builds(
    lambda attempts, later, counted, safe, transform, groups: Request(
        round=attempts[-1][1] + later,
        training="t1",
        attempts=tuple(attempts),
        counted=counted if counted is None or counted < attempts[-1][1] + later else 0,
        safe=safe,
        transform=transform,
        groups=groups,
    ),
    st.lists(
        st.tuples(st.integers(1, 2**50), st.integers(1, 50)),
        min_size=1,
        max_size=4,
        unique_by=lambda attempt: attempt[0],
    ).map(sorted),
    st.integers(0, 50),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(0, 60)),
    st.text(max_size=9),
    st.dictionaries(st.text(max_size=5), st.floats(1, 50), max_size=3),
)


@given(requests)
def test_survives_a_config_record(request):
    assert Request.from_config(dict(ConfigRecord(request.to_config()))) == request


@given(
    st.dictionaries(
        st.sampled_from([*Request(1, "t1", counted=0, safe=0).to_config()]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    )
)
def test_any_content_is_a_request_or_a_refusal(fields):
    sentence = None
    try:
        request = Request.from_config(fields)
    except Refusal as refusal:
        sentence = str(refusal)
    if sentence is None:
        assert request.round >= request.attempts[-1][1] >= 1
    else:
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"server-round": 0}, "server-round is 0, but must be an integer >= 1."),
        ({"fedau-run": "../x"}, "fedau-run is '../x', but must be a name of letters and digits."),
        ({"fedau-attempts": "1@1,x"}, "fedau-attempts is '1@1,x', but must list rising attempts"),
        ({"fedau-attempts": "2@1,1@3"}, "fedau-attempts is '2@1,1@3', but must list rising"),
        ({"fedau-attempts": 7}, "fedau-attempts is 7, but must list rising attempts"),
        ({"fedau-counted": 7}, "fedau-counted is 7, but must be before round 7."),
        ({"fedau-groups": '{"a": 0.5}'}, "must be a JSON object of weights >= 1."),
        ({"fedau-attempts": "1@9"}, "server-round is 7, but attempt 1 started at round 9."),
    ],
)
def test_bad_fields_are_refused_in_one_sentence(change, message):
    with pytest.raises(Refusal) as refusal:
        Request.from_config({**Request(7, "t1").to_config(), **change})
    assert message in str(refusal.value)


def test_a_message_of_another_strategy_is_refused():
    with pytest.raises(Refusal, match=r"use fedau_flwr\.FedAU"):
        Request.from_config({"server-round": 1})


def test_one_request_per_hosted_client():
    config = {**Request(7, "t1").to_config(), "fedau-clients": [4, 9], "fedau-counted": [-1, 3]}
    assert hosted_requests(config) == {4: Request(7, "t1", 4), 9: Request(7, "t1", 9, counted=3)}
    with pytest.raises(Refusal, match="must have one per client"):
        hosted_requests({**config, "fedau-counted": [1]})
    with pytest.raises(Refusal, match="must be a list"):
        hosted_requests({**config, "fedau-clients": 4})
