import pytest
import typer

from fedau_flwr.server.loop import RunFailure
from simulations.cli.invocation import (
    end,
    method_list,
    method_settings,
    run_name,
    seed_list,
    sentences,
    step_list,
)
from simulations.config import ConfigError, RunConfig


@pytest.mark.parametrize(("text", "seeds"), [("1", [1]), ("1-3", [1, 2, 3]), ("1, 4-5", [1, 4, 5])])
def test_seeds(text, seeds):
    assert seed_list(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "1;2", "-1"])
def test_what_is_no_list_of_seeds_is_named(text):
    with pytest.raises(ConfigError, match=f"^seeds is {text!r}, but must"):
        seed_list(text)


def test_methods():
    assert method_list("fedau:50, mifa") == ["fedau:50", "mifa"]
    assert method_settings("fedau:0") == {"method": "fedau:0"}
    assert method_settings("mifa+secure") == {"method": "mifa", "secure_sum": True}
    assert method_settings("fedau:9+secure") == {"method": "fedau:9", "secure_sum": True}


def test_names_of_runs():
    assert run_name(RunConfig(seed=3)) == "fedau-50-seed3"
    assert run_name(RunConfig(method="fedau:0")) == "fedau-infinity-seed1"
    assert run_name(RunConfig(method="mifa")) == "mifa-seed1"
    assert run_name(RunConfig(secure_sum=True)) == "fedau-50+secure-seed1"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("Wrong."), 2, "Wrong."),
        (RunFailure("Failed."), 1, "Failed."),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
)
def test_errors_are_sentences_with_an_exit_code(error, code, text, capsys):
    with pytest.raises(typer.Exit) as exit_, sentences():
        raise error
    assert exit_.value.exit_code == code
    assert capsys.readouterr().err == text + "\n"


def test_a_stopped_run_is_an_interruption():
    end([])
    end([{"status": "finished"}])
    with pytest.raises(typer.Exit) as exit_:
        end([{"status": "finished"}, {"status": "stopped"}])
    assert exit_.value.exit_code == 130


def test_step_sizes_are_read_in_ascending_order_and_must_be_positive():
    assert step_list("local-grid", "0.1, 0.01,0.1") == [0.01, 0.1]
    for text in ("", "0.1,x", "0", "-1", "inf", "nan"):
        with pytest.raises(ConfigError, match=f"^local-grid is {text!r}, but must be positive"):
            step_list("local-grid", text)
