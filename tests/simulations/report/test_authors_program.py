"""A program with the interface of the authors' trains as torch does, and is evaluated late."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from simulations.report.authors_program import table_of
from simulations.tasks.images.task import part_files
from simulations.tasks.svhn import SVHN

CLONE = {
    "config.py": """
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        for name in ("data", "out", "seeds", "weighting"):
            parser.add_argument("-" + name)
        for name in ("lr",):
            parser.add_argument("-" + name, type=float)
        for name in ("gpu", "save-checkpoint", "save-final-model", "iters-total"):
            parser.add_argument("-" + name, type=int)
        args = parser.parse_args()
        max_iter, results_file_prefix, device = args.iters_total, args.out, torch.device("cpu")
        """,
    "model/model.py": """
        import torch
        from torch import nn

        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                layers = []
                for channels in (3, 32):
                    layers += [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
                self.conv = nn.Sequential(*layers)
                self.fc1 = nn.Sequential(nn.Linear(2048, 128), nn.ReLU())
                self.fc2 = nn.Linear(128, 10)

            def forward(self, x):
                return self.fc2(self.fc1(self.conv(x).view(-1, 2048)))

        class Model:
            def __init__(self, seed, learning_rate):
                super(Model, self).__init__()
                torch.manual_seed(seed)
                self.learning_rate, self.model = learning_rate, Own()
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=learning_rate)
                self.loss_fn = nn.CrossEntropyLoss()

            def get_weight(self):
                return torch.cat([v.reshape(-1) for v in self.model.state_dict().values()])

            def assign_weight(self, w):
                state, start = {}, 0
                for key, value in self.model.state_dict().items():
                    state[key] = w[start : start + value.numel()].view(value.shape)
                    start += value.numel()
                self.model.load_state_dict(state)
        """,
    "statistic/collect_stat.py": """
        from config import results_file_prefix

        class CollectStatistics:
            def __init__(self):
                with open(results_file_prefix + "_stand-in.csv", "a") as f:
                    names = "sim_seed,num_iter,training_loss,training_accuracy,test_accuracy"
                    f.write(names + "\\n")

            def collect_stat_eval(self, seed, num_iter, model, train, test, w):
                loss, found = model.accuracy(train, w, "cpu", transform=None)
                row = seed, num_iter, loss, found, model.accuracy(test, w, "cpu")[1]
                with open(results_file_prefix + "_stand-in.csv", "a") as f:
                    f.write(",".join(map(str, row)) + "\\n")
        """,
    "main.py": """
        import torch
        from torch.utils.data import DataLoader
        from torchvision.datasets import SVHN
        from config import args, max_iter, results_file_prefix
        from model.model import Model
        from statistic.collect_stat import CollectStatistics

        class Whole(SVHN):
            def __init__(self, split):
                super().__init__("", split, None, None, True)
                self.data_transformed = torch.from_numpy(self.data).float() / 255 - 0.5
                self.targets_transformed = torch.from_numpy(self.labels)

        parts = [DataLoader(Whole(split), batch_size=7) for split in ("train", "test")]
        stat, data = CollectStatistics(), parts[0].dataset
        model = Model(int(args.seeds), args.lr)
        w = model.get_weight()
        for iteration in range(0, max_iter, 500):
            model.assign_weight(w)
            model.model.train()
            for step in range(2):
                these = slice(16 * step, 16 * step + 16)
                images, labels = data.data_transformed[these], data.targets_transformed[these]
                model.optimizer.zero_grad()
                loss = model.loss_fn(model.model(images), labels)
                loss.backward()
                model.optimizer.step()
            w = w + (model.get_weight() - w)
            stat.collect_stat_eval(1, iteration + 500, model, *parts, w)
        torch.save(w, results_file_prefix + ".pt")
        """,
}


@pytest.fixture
def clone(tmp_path) -> Path:
    for name, lines in CLONE.items():
        file = tmp_path / "clone" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        indent = len(lines) - len(lines.lstrip()) - 1
        text = "\n".join(line[indent:] for line in lines.splitlines())
        file.write_text(text + "\n")
    return tmp_path / "clone"


@pytest.fixture
def data(tmp_path) -> Path:
    rng, folder = np.random.default_rng(1), SVHN().folder(tmp_path / "data")
    folder.mkdir(parents=True)
    for part, count in (("train", 40), ("test", 24)):
        images, labels = part_files(folder, part)
        np.save(images, rng.integers(256, size=(count, 32, 32, 3), dtype=np.uint8))
        np.save(labels, rng.integers(10, size=count))
    return tmp_path / "data"


def run(*arguments: str, cwd: Path) -> str:
    """Run the program and return what it says about an error."""
    command = [sys.executable, "-m", "simulations.report.authors_program", *arguments]
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, check=False, env=variables
    )
    assert bool(done.returncode) == bool(done.stderr), done.stderr
    return done.stderr.strip()


def test_their_program_trains_with_our_step_as_torch_would(clone, data, tmp_path):
    told = ["-seeds", "1", "-weighting", "any", "-lr", "0.1", "-iters-total", "3500"]
    assert not run(str(clone), str(data), str(tmp_path / "out"), *told, cwd=tmp_path)
    trained = torch.load(tmp_path / "out" / "run.pt")
    with (tmp_path / "out" / "run_stand-in.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["num_iter"]) for row in rows] == [1000, 2000, 3000, 3500]

    images, labels = (np.load(file) for file in part_files(SVHN().folder(data), "train"))
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - 0.5
    wanted, model = torch.from_numpy(labels), plain_torch(inputs, torch.from_numpy(labels), 14)
    found = torch.cat([value.reshape(-1) for value in model.state_dict().values()])
    np.testing.assert_allclose(trained.numpy(), found.numpy(), atol=2e-5)
    with torch.no_grad():
        logits = model(inputs)
    loss = float(nn.functional.cross_entropy(logits, wanted))
    assert float(rows[-1]["training_loss"]) == pytest.approx(loss, rel=1e-4)
    right = float((logits.argmax(1) == wanted).float().mean())
    assert float(rows[-1]["training_accuracy"]) == pytest.approx(right)
    assert "| stand-in |" in (tmp_path / "out" / "table.md").read_text()


def plain_torch(images, labels, steps):
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        these = slice(16 * (step % 2), 16 * (step % 2) + 16)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[these]), labels[these]).backward()
        optimizer.step()
    return model


def test_the_table_has_the_last_rounds_over_seeds_and_of_each(tmp_path):
    lines = ["sim_seed,num_iter,training_loss,training_accuracy,test_accuracy"]
    header, *_ = lines
    for seed, accuracy in ((1, 0.8), (2, 0.9)):
        lines += [header] * (seed - 1)
        lines.append(f"{seed},9000,1.0,0.1,0.1")
        lines += [f"{seed},{9500 + 500 * i},0.5,{accuracy + 0.02 * i},{accuracy}" for i in (0, 1)]
    (
        tmp_path / "run_SVHN_ModelCNNSvhn_mifa_markov-0.05_dataAlpha0.1_partAlpha0.1_kValue5.csv"
    ).write_text("\n".join(lines) + "\n")
    table = [list(map(str, row)) for row in table_of(tmp_path).rows]
    assert table == [
        ["mifa_markov-0.05_kValue5", "86.0 ± 7.1", "85.0 ± 7.1", "1, 2"],
        ["mifa_markov-0.05_kValue5", "81.0", "80.0", "1"],
        ["mifa_markov-0.05_kValue5", "91.0", "90.0", "2"],
    ]


def test_mistakes_are_one_sentence(clone, tmp_path):
    found = run("clone", cwd=tmp_path)
    assert found == "CLONE, DATA_DIR and OUT are ['clone'], but must be three folders."
    found = run("elsewhere", "data", "out", cwd=tmp_path)
    assert found == "CLONE is 'elsewhere', but must be a clone of github.com/IBM/fedau."
    found = run("clone", "data", "clone/main.py", cwd=tmp_path)
    assert found == (
        "OUT is 'clone/main.py', but must be a directory that can be written to (clone/main.py is "
        "no directory)."
    )
    told = ["-seeds", "1", "-weighting", "any", "-lr", "0.1", "-iters-total", "500"]
    found = run("clone", "data", "out", *told, cwd=tmp_path)
    assert found.startswith("data/svhn/train-images.npy cannot be read as an array file: ")
    assert len(found.splitlines()) == 1
