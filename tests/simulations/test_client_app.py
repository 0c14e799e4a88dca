"""The ClientApp as Flower's engine handles it."""

import pickle

from ray import cloudpickle

from simulations.client_app import app


def test_the_app_travels_by_its_name():
    sent = cloudpickle.dumps(app)
    assert pickle.loads(sent) is app
    assert len(sent) < 100  # and not with all of its functions
