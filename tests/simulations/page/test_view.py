"""What the page is told about runs, also about those that are not as they should be."""

import base64
import re
import zlib

import numpy as np
import pytest

from simulations.config import ConfigError
from simulations.page.document import write_report
from simulations.page.raster import raster_of
from simulations.page.tree import Tree
from simulations.page.view import RunView
from simulations.runs.raster import unpack
from tests.simulations.experiments import run, tiny
from tests.simulations.report.made_runs import made_run, participation_of


def view_of(found):
    view = RunView(found.path, found.path.parent)
    view.refresh(1)
    return view


def test_an_unreadable_part_is_a_sentence_and_the_rest_is_shown(tmp_path):
    found = made_run(tmp_path / "run", num_server_rounds=3)
    lines = found.metrics_file.read_text().splitlines()
    text = [lines[0], '{"round": "two"}', "garbage}", *lines[1:], '{"round": 9, "tr']
    found.metrics_file.write_text("\n".join(text))
    found.outcome_file.write_text("[]")
    found.participation_file.write_bytes(b"PK nothing")
    view = view_of(found)
    assert view.summary["curves"]["round"] == [1, 2, 3]
    assert sorted(view.summary["problems"]) == [
        "metrics.jsonl: line 2 and 1 more is left out, it is no report.",
        "outcome.json is not a JSON object.",
        "participation.npz cannot be read.",
    ]
    view.details()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'method = "fedau"\nwarp = 9',
            "warp is not a key of the run config: see `fedau run --help`.",
        ),
        ('method = "later-than-us"', "method is 'later-than-us', but must be"),
        ("method = ", "{}/run/config.toml cannot be read:"),
    ],
)
def test_a_run_of_another_version_has_a_sentence(tmp_path, text, said):
    found = made_run(tmp_path / "run", num_server_rounds=1)
    found.config_file.write_text(text)
    view = view_of(found)
    assert view.summary["problems"][0].startswith(said.format(tmp_path))
    assert view.details()["settings"] == {}
    assert raster_of(view) is None


def test_a_report_does_not_say_where_it_was_made(tmp_path):
    found = made_run(tmp_path / "a" / "run", num_server_rounds=2, data_dir=str(tmp_path / "data"))
    found.finish("stopped", 1, f"Go on with `fedau resume {found.path}`.")
    found.config_file.write_text(found.config_file.read_text() + "broken = ")
    page = write_report(tmp_path / "a", tmp_path / "report.html").read_text()
    block = re.search(r'id="block-data">([^<]+)<', page)[1]
    text = zlib.decompress(base64.b64decode(block)).decode()
    assert str(tmp_path) not in text
    assert "Go on with `fedau resume run`." in text
    assert "run/config.toml cannot be read" in text


def test_a_run_that_has_not_begun_and_a_directory_without_any(tmp_path):
    found = made_run(tmp_path / "runs" / "new", num_server_rounds=1)
    found.outcome_file.unlink()
    found.metrics_file.unlink()
    summary = view_of(found).summary
    assert (summary["status"], summary["round"], summary["problems"]) == ("starting", 0, [])
    # Flower keeps a file of the same name in the directory of a local federation.
    (tmp_path / "runs" / "flower").mkdir()
    (tmp_path / "runs" / "flower" / "config.toml").write_text("[superlink]\ndefault = 'local'\n")
    assert Tree(tmp_path / "runs").changes()["ids"] == ["new"]
    (tmp_path / "empty").mkdir()
    assert Tree(tmp_path / "empty").changes()["runs"] == []
    with pytest.raises(ConfigError, match="must hold at least one run"):
        write_report(tmp_path / "empty", tmp_path / "out.html")


def test_versions_tell_what_has_changed(tmp_path):
    first, second = (made_run(tmp_path / f"s{n}", num_server_rounds=2, seed=n) for n in (1, 2))
    tree = Tree(tmp_path)
    before = tree.changes()
    assert [line["runs"] for line in before["panels"][0]["lines"]] == [["s1", "s2"]]
    assert before["panels"][0]["lines"][0]["colour"] == "#0072B2"
    second.report({**second.metrics()[-1], "round": 3})
    after = tree.changes(before["version"])
    assert [shown["id"] for shown in after["runs"]] == ["s2"]
    assert after["runs"][0]["curves"]["round"] == [1, 2, 3]
    assert first.path.name in after["ids"]


def test_classes_are_in_the_order_of_their_presence_and_clients_follow_from_them(tmp_path):
    shares = np.eye(10)[[3, 3, 7]]
    probability = [0.2, 0.4, 0.9]
    accuracy = np.linspace(0.1, 1.0, 10)
    found = made_run(
        tmp_path / "run",
        num_server_rounds=1,
        participation=participation_of(probability, shares=shares),
        class_accuracy=accuracy,
    )
    view = view_of(found)
    classes = view.summary["classes"]
    assert classes["names"][:2] == ["class-7", "class-3"]
    assert classes["presence"][:2] == pytest.approx([0.9, 0.3])
    assert classes["accuracy"][:2] == pytest.approx([accuracy[7], accuracy[3]])
    spread = view.summary["spread"]
    assert (spread[0], spread[-1]) == pytest.approx((accuracy[3], accuracy[7]))


@pytest.mark.parametrize("loss", [0.0, 0.4])
def test_the_raster_of_a_run_is_what_happened_and_can_be_worked_out_again(tmp_path, loss):
    found = run(tiny(tmp_path, "run", reply_loss=loss, clients_per_node=1))
    view = view_of(found)
    written = raster_of(view)
    states = unpack(written.packed, written.clients)
    arrays = np.load(found.participation_file)
    np.testing.assert_array_equal((states > 0).sum(axis=0), arrays["participated"])
    np.testing.assert_array_equal((states == 3).sum(axis=0), arrays["counted"])
    assert (states == 1).any() == bool(loss)
    after = raster_of(view, after=15)
    np.testing.assert_array_equal(unpack(after.packed, after.clients), states[15:])
    assert (after.first, after.rounds) == (16, 20)
    found.raster_file.unlink()
    again = raster_of(view)
    assert again.replayed
    came = unpack(again.packed, again.clients) > 0
    np.testing.assert_array_equal(came, states[: len(came)] > 0)
    assert not (states[len(came) :] > 0).any()


def test_a_path_that_is_not_the_run_s_is_not_shown(tmp_path):
    found = made_run(
        tmp_path / "run", num_server_rounds=5, participation=participation_of([0.5] * 4)
    )
    assert raster_of(view_of(found)) is None


def test_of_many_clients_the_last_rounds_are_sent(tmp_path):
    found = run(tiny(tmp_path, "run"))
    part = raster_of(view_of(found), most=14 * 6)
    assert (part.first, part.rounds) == (15, 20)
    assert unpack(part.packed, part.clients).shape == (6, 14)
