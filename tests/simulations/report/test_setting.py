from dataclasses import replace

from simulations.config import RunConfig
from simulations.report.setting import Setting, display_value, varying


def test_values_are_those_that_took_effect():
    setting = Setting.of(RunConfig(dataset="cifar100", num_server_rounds=0, method="fedau:0"))
    assert (setting.rounds, setting.lr, setting.server_lr) == (20_000, 0.0562, 1.78)
    assert setting.method.label == "fedau K=∞"


def test_a_step_size_that_is_the_default_is_no_other_setting():
    assert Setting.of(RunConfig(lr=0.178)) == Setting.of(RunConfig())


def test_own_values_of_methods_and_data_sets_do_not_count_as_varying():
    settings = [
        Setting.of(RunConfig(method=method, dataset=name, num_server_rounds=0))
        for method in ("fedau", "average-all")
        for name in ("svhn", "cifar10")
    ]
    assert varying(settings) == []
    more = [*settings, replace(settings[0], lr=0.5), replace(settings[0], rounds=7, clients=9)]
    assert varying(more) == ["clients", "rounds", "lr"]


def test_values_are_written_short():
    setting = Setting.of(RunConfig(dataset="cifar10", alpha_data=0.5))
    assert display_value(setting, "task") == "CIFAR-10"
    assert display_value(setting, "alpha_data") == "0.5"
    assert display_value(setting, "clients") == "250"


def test_settings_sort_as_in_the_papers_tables():
    methods = ("mifa", "fedau:50", "fedau:0", "average-all")
    settings = [Setting.of(RunConfig(method=method)) for method in methods]
    ordered = [setting.method.label for setting in sorted(settings, key=Setting.order)]
    assert ordered == ["fedau K=∞", "fedau K=50", "average-all", "mifa"]
