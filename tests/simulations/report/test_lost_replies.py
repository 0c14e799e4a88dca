import json

from fedau_flwr import FedAUWeighting, UnitWeighting
from simulations.report.lost_replies import RESULTS, distance_from_the_mean


def test_confirmation_is_what_makes_fedau_survive_lost_replies():
    confirmed = distance_from_the_mean(FedAUWeighting(None), confirmed=True)
    trusting = distance_from_the_mean(FedAUWeighting(None), confirmed=False)
    equal = distance_from_the_mean(UnitWeighting(), confirmed=True)
    assert confirmed < 0.1
    assert trusting > equal
    assert trusting > 0.15
    # What the README shows is what this code gives.
    shown = json.loads((RESULTS / "distances.json").read_text())
    assert [round(d, 3) for d in shown.values()] == [
        round(d, 3) for d in (confirmed, trusting, equal)
    ]
