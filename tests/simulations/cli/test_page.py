import re
import signal
import socket
import subprocess
import sys
import urllib.request
import webbrowser

import pytest
import typer
from typer.testing import CliRunner

from simulations.cli.invocation import add_commands
from simulations.cli.page import report, watch
from simulations.page.server import PageServer
from tests.simulations.report.made_runs import made_run

app = typer.Typer()
add_commands(app, watch, report)


@pytest.fixture
def fedau(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_report_is_written_where_it_was_asked_for_and_its_path_is_printed(fedau, tmp_path):
    made_run(tmp_path / "runs" / "a", num_server_rounds=2)
    for options, place in (([], "runs/report.html"), (["-o", "new/mine.html"], "new/mine.html")):
        result = fedau("report", "runs", *options)
        assert result.output == f"{tmp_path / place}\n"
        assert (tmp_path / place).read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "none"], "DIR is '{}/none', but must be an existing directory.\n"),
        (["report", "."], "DIR is '{}', but must hold at least one run.\n"),
        (["report", ".", "-o", "."], "out is '.', but must be the name of a file.\n"),
        (["watch", "none"], "DIR is 'none', but must be an existing directory.\n"),
        (["watch"], "DIR is 'runs', but must be an existing directory.\n"),
    ],
)
def test_a_mistake_is_one_sentence(fedau, tmp_path, arguments, sentence):
    result = fedau(*arguments)
    assert (result.exit_code, result.output) == (2, sentence.format(tmp_path))


def test_a_port_that_is_taken_is_one_sentence(fedau):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = fedau("watch", ".", "--port", port)
    assert result.exit_code == 2
    assert result.output.startswith(f"port is {port} on host '127.0.0.1', but must be free there (")


def test_the_page_is_opened_if_that_is_wanted(fedau, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(PageServer, "serve_forever", lambda self: None)
    for options, token in (([], False), (["--allow-stop"], True)):
        result = fedau("watch", ".", "--port", "0", "--open", *options)
        assert result.exit_code == 0
        assert result.output.startswith(f"{opened[-1]} shows ")
        assert ("#token=" in opened[-1]) == token


def test_watch_serves_until_it_is_interrupted(tmp_path):
    made_run(tmp_path / "a", num_server_rounds=2)
    script = "from tests.simulations.cli.test_page import app; app()"
    command = [sys.executable, "-c", script, "watch", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            url = re.match(r"http://127\.0\.0\.1:\d+/", program.stdout.readline())[0]
            with urllib.request.urlopen(f"{url}api/runs") as answer:
                assert b'"ids": ["a"]' in answer.read()
        finally:
            program.send_signal(signal.SIGINT)
        assert program.wait(20) == 0
