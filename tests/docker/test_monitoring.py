"""The dashboard against the metrics that a federation really exposes."""

import json
import re

import numpy as np
import yaml
from flwr.app import MetricRecord

from fedau_flwr import FedAU, FedAUMod, PrivacyBudget, RoundLoop, SecureSum
from fedau_flwr.privacy import GaussianPrivacy
from fedau_flwr.secure import SecureSumMod
from fedau_flwr.server.callbacks import Evaluate, PrometheusTextfile
from fedau_flwr.server.callbacks.writers import COUNTERS
from tests.docker.compose import DOCKER, load_stack
from tests.fedau_flwr.federation import Federation, record, towards, training_app

STACK = ("server.yml", "server.monitoring.yml")
DASHBOARD = json.loads((DOCKER / "monitoring" / "fedau.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def exposed(path):
    """Return the metrics of a private and secure training whose server has test data."""
    apps = training_app(towards(np.zeros((5, 2))), [SecureSumMod(), FedAUMod()])
    privacy = GaussianPrivacy(0.5, 2.0, budget=PrivacyBudget(50.0, 1e-5))
    strategy = FedAU(5, summation=SecureSum(exchange_timeout=5), privacy=privacy)
    measured = MetricRecord({"test_loss": 1.0, "test_accuracy": 0.5})
    callbacks = [Evaluate(lambda number, arrays: measured), PrometheusTextfile(path, run="r")]
    RoundLoop(strategy, Federation(apps, 5), callbacks).run(record(x=np.float32([1, 2])), 2)
    lines = path.read_text().splitlines()
    return {line.split("{")[0]: line for line in lines if not line.startswith("#")}


def test_every_query_is_of_a_metric_that_is_exposed_and_every_metric_is_shown(tmp_path):
    found = exposed(tmp_path / "metrics.prom")
    assert float(found["fedau_epsilon"].split()[-1]) > 0
    assert found["fedau_dropouts_keys"].split()[-1] == "0"
    exact = {name for query in QUERIES for name in re.findall(r"\bfedau_\w+(?=\{)", query)}
    patterns = [p for query in QUERIES for p in re.findall(r'__name__=~"([^"]+)"', query)]
    assert exact <= found.keys()
    matched = {name for name in found for pattern in patterns if re.fullmatch(pattern, name)}
    assert matched, patterns
    assert found.keys() - exact - matched == set()


def test_queries_are_of_the_run_that_was_chosen_and_counters_are_rates():
    (variable,) = DASHBOARD["templating"]["list"]
    assert variable["name"] == "run"
    assert variable["query"]["query"] == "label_values(fedau_round, run)"
    for query in QUERIES:
        selectors = re.findall(r"\{([^}]*)\}", query)
        assert selectors, query
        assert all('run=~"$run"' in selector for selector in selectors), query
        for name in re.findall(r"fedau_(\w+)\{", query):
            over_time = re.search(rf"(increase|rate)\(fedau_{name}\{{[^}}]*\}}\[", query)
            assert bool(over_time) == (name in COUNTERS), query
        assert query.count("(") == query.count(")")


def test_panels_have_the_provisioned_source_names_and_explanations_and_do_not_overlap():
    source = yaml.safe_load((DOCKER / "monitoring" / "datasource.yml").read_text())
    (uid,) = [entry["uid"] for entry in source["datasources"]]
    cells = set()
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == uid
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        own = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not own & cells
        assert max(x for x, _ in own) < 24
        cells |= own


def test_scraping_and_provisioning_lead_to_each_other():
    services = load_stack(STACK)["services"]
    scraped = yaml.safe_load((DOCKER / "monitoring" / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["exporter:9100"]}]
    source = yaml.safe_load((DOCKER / "monitoring" / "datasource.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((DOCKER / "monitoring" / "dashboards.yml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert f"./monitoring/fedau.json:{folder}/fedau.json:ro" in services["grafana"]["volumes"]
    assert "--collector.textfile.directory=/results/*" in services["exporter"]["command"]
    assert "results:/results:ro" in services["exporter"]["volumes"]


def test_only_grafana_is_published_and_on_loopback_and_nothing_of_it_reaches_the_federation():
    services = load_stack(STACK)["services"]
    own = {name: services[name] for name in ("exporter", "prometheus", "grafana")}
    ports = {name: service.get("ports") for name, service in own.items()}
    assert ports == {"exporter": None, "prometheus": None, "grafana": ["127.0.0.1:3000:3000"]}
    assert all(service["networks"] == ["monitoring"] for service in own.values())
    settings = own["grafana"]["environment"]
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
