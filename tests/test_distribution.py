"""What is handed out works where nothing of this repository is: the wheel, the app, the example."""

import json
import re
import shutil
import site
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from simulations.launch.process import flower_environment
from simulations.launch.superlink import SuperLink

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SAID = "The model is around 4.4: all clients' mean is 4.5, the frequent ones' 2.0"


@pytest.fixture(scope="module")
def superlink():
    """A SuperLink of a simulation; its folder has a short name, since Ray puts sockets there."""
    with tempfile.TemporaryDirectory(prefix="ray-") as directory:
        link = SuperLink(Path(directory), simulation=True)
        link.start()
        yield link
        link.stop()


@pytest.mark.engine
def test_the_example_of_the_readme_runs_as_it_is_printed(superlink, tmp_path):
    assert "    flwr run simulations/examples/quickstart --stream\n" in README
    assert SAID in README
    app = ROOT / "simulations" / "examples" / "quickstart"
    run = superlink.run_app(app, {}, log=tmp_path / "log", engine={"num-supernodes": 10})
    assert run.wait_finished(timeout=300) == "finished:completed"
    assert f"{SAID}\n" in run.output()


@pytest.mark.engine
def test_the_bundle_of_the_app_installs_and_runs_from_a_clean_directory(superlink, tmp_path):
    home = tmp_path / "home"
    home.mkdir()

    def flwr(*arguments):
        environment = flower_environment(home)
        command = ["flwr", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    flwr("build", "--app", str(ROOT))
    (bundle,) = tmp_path.glob("*.fab")
    names = zipfile.ZipFile(bundle).namelist()
    assert {"fedau_flwr/__init__.py", "simulations/server_app.py", "pyproject.toml"} <= {*names}
    assert not [name for name in names if name.startswith(("tests/", "simulations/examples/"))]
    flwr("install", str(bundle))
    (installed,) = home.glob("apps/*/pyproject.toml")
    config = {"clients": 4, "num-server-rounds": 1, "run-dir": str(tmp_path / "run")}
    log = tmp_path / "log"
    run = superlink.run_app(installed.parent, config, log=log, engine={"num-supernodes": 1})
    assert run.wait_finished(timeout=300) == "finished:completed", run.output()
    outcome = json.loads((tmp_path / "run" / "outcome.json").read_text())
    assert (outcome["status"], outcome["round"]) == ("finished", 1)


def two_lines():
    """Return the README's line for the client and the one for the server."""
    return [line.strip() for line in re.findall(r"^\+(.*)$", README, re.M)]


SCRIPT = """
import sys
import numpy as np
import fedau_flwr
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from fedau_flwr import FedAU, FedAUMod
from fedau_flwr.testing.in_process_grid import InProcessGrid

fraction_evaluate = 0.0
{client}
{server}

@app.train()
def train(message, context):
    (x,) = message.content["arrays"].to_numpy_ndarrays()
    return Message(RecordDict({{"arrays": ArrayRecord([x + 1])}}), reply_to=message)

result = strategy.start(InProcessGrid(app, 10), ArrayRecord([np.zeros(1)]), num_rounds=2)
assert result.arrays.to_numpy_ndarrays()[0] == 2.0
assert "simulations" not in sys.modules and "torch" not in sys.modules
print(fedau_flwr.__file__)
"""


def test_the_wheel_in_a_clean_environment_runs_the_two_lines(tmp_path):
    """The environment sees what is installed here but for this repository, and has the wheel."""
    made = pip("wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    if made.returncode and "hatchling" in made.stderr:
        pytest.skip(f"hatchling, which makes the wheel, cannot be had: {made.stderr[-200:]}")
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("fedau_flwr-*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top.partition("-")[0] for top in tops} == {"fedau_flwr"}
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clean], check=True)
    python = clean / "bin" / "python"
    (packages,) = clean.glob("lib/python*/site-packages")
    # Of a folder that is added like this, no .pth file is read: not that of this repository either.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    unpacked = pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    assert unpacked.returncode == 0, unpacked.stderr
    client, server = two_lines()
    (tmp_path / "script.py").write_text(SCRIPT.format(client=client, server=server))
    done = subprocess.run(
        [python, "-P", "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(clean)
    shutil.rmtree(clean)


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
