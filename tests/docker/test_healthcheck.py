"""Health checks without gRPC: by HTTP where there is a page for it, by the process otherwise."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docker" / "healthcheck.py"


def check(*arguments):
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def server():
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response({"/health": 200, "/broken": 503}.get(self.path, 404))
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def program():
    """A program that runs with these words in its command line."""
    started = subprocess.Popen(
        [sys.executable, "-c", "input()", "flower-imaginary", "--address=here:1"],
        stdin=subprocess.PIPE,
    )
    yield started
    started.communicate(b"\n", timeout=60)


def test_a_page_that_answers_is_enough(server):
    assert check(f"{server}/health").returncode == 0
    assert check(f"{server}/health", "flower-imaginary").returncode == 0


def test_a_page_that_fails_or_is_not_reached_is_down_whatever_runs(server, program):
    assert check(f"{server}/broken", "flower-imaginary").returncode == 1
    refused = check("http://127.0.0.1:1/health", "flower-imaginary")
    assert refused.returncode == 1
    assert refused.stderr.startswith("http://127.0.0.1:1/health flower-imaginary: ")


def test_without_a_page_the_process_decides(server, program):
    assert check(f"{server}/other", "flower-imaginary", "--address=here:1").returncode == 0
    assert check("flower-imaginary", "--address=here:1").returncode == 0
    assert check("flower-imaginary", "--address=here:2").returncode == 1
    assert check(f"{server}/other").returncode == 1


def test_its_own_command_line_does_not_count():
    missing = check("flower-imaginary-too")
    assert missing.returncode == 1
    assert "no process has 'flower-imaginary-too' in its command line" in missing.stderr
