"""A training that trains nothing says so, and why."""

import logging

import numpy as np
import pytest
from flwr.app import MetricRecord

from fedau_flwr import FedAU, FedAUMod, RoundLoop
from fedau_flwr.server.reasons import sentence
from tests.fedau_flwr.federation import Federation, record, towards, training_app

RAY = """<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'\x1b[36mray::Actor.run()\
\x1b[39m (pid=1, ip=192.0.2.2, actor_id=3, repr=<flwr.simulation.ray_actor.ClientAppActor object>)
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/flwr/clientapp/client_app.py", line 144, in __call__
    return self._call(message, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/client.py", line 10, in fit
    raise {raised}
{said}

The above exception was the direct cause of the following exception:

\x1b[36mray::ClientAppActor.run()\x1b[39m (pid=1, ip=192.0.2.2)
  File "/flwr/simulation/ray_transport/ray_actor.py", line 65, in run
    raise ClientAppException(str(ex)) from ex
flwr.clientapp.client_app.ClientAppException:
Exception ClientAppException occurred. Message: {raised}'>"""


def in_ray(said, raised="it"):
    return RAY.replace("{said}", said).replace("{raised}", raised)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (in_ray("ValueError: my own error"), "ValueError: my own error"),
        (in_ray("torch.OutOfMemoryError: no\n\tmore room."), "OutOfMemoryError: no more room"),
        (
            in_ray("fedau_flwr.wire.requests.Refusal: C does not know its context: return it."),
            "C does not know its context: return it",
        ),
        (
            in_ray("KeyError: 'fitins.parameters'"),
            "it is a NumPyClient, and the strategy needs numpy_clients=True; its error is "
            "KeyError: 'fitins.parameters'",
        ),
        ("<class 'ZeroDivisionError'>:<'division by zero'>", "ZeroDivisionError: division by zero"),
        ("<class 'fedau_flwr.wire.requests.Refusal'>:<'No.'>", "No"),
        ("The train message has no 'fedau-run'.", "The train message has no 'fedau-run'"),
        (
            "<class 'KeyError'>:<''arrays''>",
            "the message has not the record that the app reads: under SecureSum it needs "
            "SecureSumMod, and an app of the Message API a strategy without numpy_clients=True; "
            "its error is KeyError: 'arrays'",
        ),
        (
            "<class 'TypeError'>:<'FedAUMod.__init__() takes from 1 to 2 positional arguments'>",
            "the app's mods hold the class FedAUMod, but must hold an object: FedAUMod(); its "
            "error is TypeError: FedAUMod.__init__() takes from 1 to 2 positional arguments",
        ),
        ("x" * 600, "x" * 500),
    ],
)
def test_a_reason_is_the_innermost_exception_in_one_line(reason, said):
    assert sentence(reason) == said


def failing(client, arrays, server_round):
    raise ValueError("no data here" if client else "no disk")


def test_a_round_whose_replies_were_all_rejected_is_told_once_with_reasons(caplog):
    grid = Federation(training_app(failing), 3)
    FedAU(3).start(grid, record(x=np.zeros(1)), num_rounds=4)
    told = [r for r in caplog.records if "counted nobody" in r.message]
    assert [(r.levelno, r.message) for r in told] == [
        (
            logging.WARNING,
            "Round 1 counted nobody, although nodes were asked: 2 × ValueError: no data here; "
            "1 × ValueError: no disk.",
        )
    ]
    last = [r for r in caplog.records if r.message.startswith("Nothing was trained")]
    assert [(r.levelno, r.message) for r in last] == [
        (
            logging.ERROR,
            "Nothing was trained: none of 4 rounds counted anybody (8 × ValueError: no data here; "
            "4 × ValueError: no disk).",
        )
    ]


def test_several_rounds_without_a_reply_are_told_together_and_a_later_streak_again(caplog):
    grid = Federation(training_app(towards([1.0])), 1)
    strategy, model = FedAU(1), record(x=np.zeros(1))
    for r in range(1, 10):
        grid.lost = set() if r == 5 else {0}
        model = grid.play(strategy, r, model)
    strategy.outcome.finish()
    told = [m for m in caplog.messages if "counted nobody" in m]
    assert told == [
        "Rounds 1 to 3 counted nobody, although nodes were asked: 3 × no reply.",
        "Rounds 6 to 8 counted nobody, although nodes were asked: 3 × no reply.",
    ]
    assert "Nothing was trained" not in caplog.text


def test_the_round_loop_says_so_too(caplog):
    RoundLoop(FedAU(1), Federation(training_app(failing), 1)).run(record(x=np.zeros(1)), 2)
    assert "Nothing was trained: none of 2 rounds counted anybody (2 × ValueError" in caplog.text


def test_the_class_instead_of_an_object_among_the_mods_is_told(caplog):
    grid = Federation(training_app(towards([1.0]), [FedAUMod]), 1)
    grid.play(FedAU(1), 1, record(x=np.zeros(1)))
    assert "the app's mods hold the class FedAUMod, but must hold an object" in caplog.text


def start(caplog, **options):
    caplog.set_level(logging.INFO, "flwr")
    report = options.pop("report", ())
    app = training_app(towards([1.0, 2.0]), [FedAUMod(report=report)])

    @app.evaluate()
    def evaluate(message, context):
        from flwr.app import Message, RecordDict

        metrics = MetricRecord({"num-examples": 3, "acc": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    grid = Federation(app, 2)
    return FedAU(2, **options).start(grid, record(x=np.zeros(1)), num_rounds=3)


def test_the_first_round_says_what_stays_with_the_clients_and_how_to_get_it(caplog):
    start(caplog)
    lines = [r.message for r in caplog.records if r.name == "flwr.fedau" and "etric" in r.message]
    assert lines == [
        "Metrics that stay on the client: ('train_loss',). To send them: "
        "FedAUMod(report=('train_loss',)).",
        "No client sent a metric: those that may leave it are named at the client, as in "
        'FedAUMod(report=("train_loss",)), and its log says which there are.',
        "Federated evaluation is off: fraction_evaluate=1.0 turns it on, and clients then send the "
        "metrics and the example count of their evaluate function in clear.",
    ]


def test_nothing_is_said_to_those_who_have_both(caplog):
    result = start(caplog, report=("train_loss",), fraction_evaluate=1.0)
    assert "stay on the client" not in caplog.text
    assert "No client sent" not in caplog.text
    assert "evaluation is off" not in caplog.text
    assert dict(result.train_metrics_clientapp[3]) == {"train_loss": 0.25}
    assert dict(result.evaluate_metrics_clientapp[3]) == {"acc": 0.5}
