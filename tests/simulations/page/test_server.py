"""Who gets what from the server: nobody a file, no site that borrows its name, no stop unasked."""

import http.client
import json

import pytest

from simulations.page.server import PageServer
from tests.simulations.page.conftest import serving
from tests.simulations.report.made_runs import made_run


def ask(server, path, *, method="GET", host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    given = {"Host": host} if host is not None else {}
    connection.request(method, path, headers=given | headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content, answer.headers


@pytest.fixture
def run(tmp_path):
    return made_run(tmp_path / "a run", num_server_rounds=4, status="running", until=2)


def test_it_listens_where_it_was_told_and_by_default_nowhere_else(tmp_path):
    with serving(tmp_path) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80", "192.168.7.7:8421"])
def test_an_address_and_localhost_are_names_of_this_server(run, host):
    with serving(run.path) as server:
        assert ask(server, "/", host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "::"]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/run?id=."])
def test_any_other_name_is_refused(run, host, path):
    with serving(run.path) as server:
        status, said, _ = ask(server, path, host=host)
        assert (status, said) == (403, "This server has another name.")


@pytest.mark.parametrize(
    "path",
    ["/config.toml", "/../config.toml", "/a%20run/metrics.jsonl", "/assets/page.js", "//etc/passwd",
     "/api/run?id=..", "/api/run?id=/etc", "/api/run?id=a%20run/../a%20run", "/api/raster?id="],
)  # fmt: skip
def test_no_request_names_a_file(run, path):
    with serving(run.path.parent) as server:
        assert ask(server, path)[0] == 404


def test_what_is_asked_for_is_there_and_nothing_else_may_be_loaded(run):
    with serving(run.path.parent) as server:
        for path in ("/", "/page.js", "/page.css"):
            status, _, headers = ask(server, path)
            assert status == 200
            assert "default-src 'none'" in headers["Content-Security-Policy"]
        first = json.loads(ask(server, "/api/runs")[1])
        assert first["ids"] == ["a run"]
        assert first["runs"][0]["curves"]["test_score"] == [0.5, 0.5]
        again = json.loads(ask(server, f"/api/runs?since={first['version']}")[1])
        assert (again["runs"], again["panels"]) == ([], None)
        assert ask(server, "/api/runs?since=x")[:2] == (400, "since must be a number.")
        assert json.loads(ask(server, "/api/run?id=a%20run")[1])["cutoff"] == 50


def test_a_link_to_another_place_is_not_followed(run, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"status": "hidden", "sentence": "a secret"}')
    run.outcome_file.unlink()
    run.outcome_file.symlink_to(secret)
    with serving(run.path) as server:
        (shown,) = json.loads(ask(server, "/api/runs")[1])["runs"]
    assert shown["status"] == "starting"
    assert shown["problems"] == ["outcome.json is a link to another place, which is not followed."]


@pytest.mark.parametrize("token", ["", "wrong", None])
def test_nobody_stops_a_run_without_the_token(run, token):
    headers = {} if token is None else {"X-Token": token}
    for allowed in (False, True):
        with serving(run.path.parent, allow_stop=allowed) as server:
            status, said, _ = ask(server, "/api/stop?id=a%20run", method="POST", **headers)
            assert (status, said) == (403, "Runs cannot be stopped from here.")
    assert not run.stop_file.exists()


def test_with_the_token_a_running_run_is_asked_to_stop(run):
    ended = made_run(run.path.parent / "ended", num_server_rounds=1, seed=2)
    with serving(run.path.parent, allow_stop=True) as server:
        assert server.url.endswith(f"#token={server.token}")
        token = {"X-Token": server.token}
        assert ask(server, "/api/stop?id=a%20run", **token)[0] == 404, "a link cannot do it"
        assert ask(server, "/api/stop?id=a%20run", method="POST", **token)[0] == 200
        assert ask(server, "/api/stop?id=ended", method="POST", **token)[0] == 409
    assert run.stop_file.exists()
    assert not ended.stop_file.exists()


def test_a_name_given_as_the_host_is_one_of_the_server(tmp_path):
    with PageServer(tmp_path, host="localhost", port=0, allow_stop=False) as server:
        assert server.known("LOCALHOST:8421")
        assert not server.known("localhost.example")
        assert not server.known(None)
