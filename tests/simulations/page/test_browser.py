"""The page in a real browser: what it shows, and what it does when it is used."""

import json
import re
from pathlib import Path
from shutil import copytree
from threading import Event, Thread

import numpy as np
import pytest

from fedau_flwr.files import save_text
from fedau_flwr.server.callbacks import Callback
from simulations.page.document import write_report
from simulations.runs.raster import RasterFile
from tests.simulations.experiments import run as run_experiment
from tests.simulations.experiments import tiny
from tests.simulations.page.conftest import serving
from tests.simulations.report.made_runs import made_run, participation_of

RESULTS = Path(__file__).parents[3] / "simulations" / "results" / "svhn-authors" / "svhn-bernoulli"
RUNS = sorted(
    f"{name}-seed1"
    for name in (
        "average-all",
        "average-participating",
        "fedau-50",
        "fedau-infinity",
        "fedavg",
        "fedvarp",
        "known-statistics",
        "mifa",
    )
)
LOSS = '[data-measure="test_loss"]'


class Gate(Callback):
    """Holds a run up after a round until it is told to go on."""

    def __init__(self, number):
        self.number, self.reached, self.go_on = number, Event(), Event()

    def round_done(self, loop, report):
        if loop.round == self.number:
            self.reached.set()
            assert self.go_on.wait(60)


def numbers(window, run_id):
    """Read the table of numbers back: round, then a column per measure."""
    window.run("document.getElementById('numbers').parentNode.open = true")
    script = """const rows = [...document.querySelectorAll('#numbers tbody tr')];
        return rows.filter((row) => row.dataset.run === arguments[0])
                   .map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))"""
    window.wait("document.querySelectorAll('#numbers tbody tr').length")
    return [[float(cell) for cell in row] for row in window.run(script, run_id)]


def written(directory):
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    order = ("round", "train_loss", "test_loss", "train_accuracy", "test_accuracy")
    return [[json.loads(line)[key] for key in order] for line in lines]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    for name in RUNS:
        copytree(RESULTS / name, directory / name)
    return write_report(directory, directory / "report.html")


@pytest.fixture
def opened(window, report):
    window.size(1280, 900)
    window.open(report.as_uri())
    window.complaints()  # those of the page before, whose server has ended
    window.wait(
        "document.querySelector('#curves .line') && !document.getElementById('weights').hidden"
    )
    yield window
    assert window.complaints() == []


def test_a_run_grows_on_the_page_without_a_reload(window, tmp_path):
    gate = Gate(10)
    config = tiny(tmp_path / "runs", "mine")
    thread = Thread(target=run_experiment, args=(config,), kwargs={"callbacks": [gate]})
    (tmp_path / "runs").mkdir()
    with serving(tmp_path / "runs", allow_stop=True) as server:
        window.open(server.url)
        assert "There are no runs here yet" in window.wait(
            "document.querySelector('#notice:not([hidden])')?.innerText"
        )
        window.run("window.mark = 'not reloaded'")
        thread.start()
        try:
            assert gate.reached.wait(60)
            window.wait("document.querySelector('#runs .status')?.innerText === 'running'")
            window.wait("document.querySelector('#runs .name')?.innerText === 'mine'")
            assert not window.run("return document.querySelector('#runs .stop').hidden")
            window.wait("document.getElementById('raster-note').innerText.includes('(10 rounds)')")
        finally:
            gate.go_on.set()
            thread.join()
        window.wait("document.querySelector('#runs .status').innerText === 'finished'")
        assert window.text("#runs .said") == "The run finished its 20 rounds."
        assert window.text("#runs .pace") == "20 of 20"
        window.wait("document.getElementById('raster-note').innerText.includes('20 rounds')")
        window.wait("document.querySelectorAll('#curves .line').length === 4")
        found = numbers(window, "mine")
        np.testing.assert_allclose(found, written(tmp_path / "runs" / "mine"), rtol=1e-7)
        assert window.run("return window.mark") == "not reloaded"
    assert window.complaints() == []


def test_a_report_opens_from_disk_with_the_numbers_of_the_runs(opened, report):
    assert report.stat().st_size < 3_000_000
    shown = opened.run(
        "return [...document.querySelectorAll('#runs .name')].map((name) => name.innerText)"
    )
    assert shown == RUNS
    for name in ("fedau-50-seed1", "fedavg-seed1"):
        np.testing.assert_allclose(numbers(opened, name), written(RESULTS / name), rtol=5.1e-5)
    text = report.read_text()
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", text), "nothing is loaded from elsewhere"


def test_values_are_read_by_pointer_and_by_keyboard(opened):
    last = written(RESULTS / "mifa-seed1")[-1]
    script = f"return document.querySelector('{LOSS} .tip [data-label=mifa] b')?.innerText"
    opened.keys(f"{LOSS} svg", "\ue010")  # End
    assert float(opened.run(script)) == pytest.approx(last[2], rel=1e-4)
    assert "round 2,000" in opened.text(f"{LOSS} .tip")
    opened.keys(f"{LOSS} svg", "\ue011")  # Home
    first = written(RESULTS / "mifa-seed1")[0]
    assert float(opened.run(script)) == pytest.approx(first[2], rel=1e-4)
    opened.pointer(f"{LOSS} svg", (0, 0))
    assert int(re.search(r"round ([\d,]+)", opened.text(f"{LOSS} .tip"))[1].replace(",", "")) >= 800


def test_the_legend_switches_methods_and_the_axis_can_be_logarithmic(opened):
    lines = f"[...document.querySelectorAll('{LOSS} .line')].map((line) => line.dataset.label)"
    before = opened.run(f"return {lines}")
    assert len(before) == 8
    looks = opened.run(
        f"return [...document.querySelectorAll('{LOSS} .line')]"
        ".map((line) => line.getAttribute('stroke') + line.getAttribute('stroke-dasharray'))"
    )
    assert len(set(looks)) == 8
    assert looks[before.index("fedau K=50")].startswith("#0072B2")
    opened.click('#curves .legend [data-label="fedavg"]')
    assert opened.run(f"return {lines}") == [label for label in before if label != "fedavg"]
    pressed = "return document.querySelector('[data-label=fedavg]').getAttribute('aria-pressed')"
    assert opened.run(pressed) == "false"
    opened.keys('#curves .legend [data-label="fedavg"]', "\ue007")  # Enter
    assert opened.run(f"return {lines}") == before
    ticks = f"return [...document.querySelectorAll('{LOSS} text')].map((text) => text.textContent)"
    linear = opened.run(ticks)
    opened.click("#log")
    assert opened.run(ticks) != linear
    path = f"return document.querySelector('{LOSS} .line').getAttribute('d')"
    raw = opened.run(path)
    opened.click("#smooth")
    assert opened.run(path) != raw


def test_the_raster_zooms_by_buttons_keys_and_dragging(opened):
    label = "document.getElementById('bars').getAttribute('aria-label')"

    def shown():
        return [int(n) for n in re.findall(r"\d+", opened.run(f"return {label}"))[:2]]

    def wait(first, last):
        opened.wait(f"{label}.includes('rounds {first} to {last}:')")

    assert shown() == [1, 2000]
    opened.click("#zoom-in")
    wait(501, 1500)
    opened.keys("#raster", "+")
    wait(751, 1250)
    opened.keys("#raster", "\ue014")  # right
    wait(851, 1350)
    opened.keys("#raster", "0")
    wait(1, 2000)
    opened.pointer("#raster", (-200, -50), (0, 50), (150, 100), press=True)
    opened.wait(f"!{label}.includes('rounds 1 to 2000:')")
    first, last = shown()
    assert 1 < first < last < 2000
    opened.click("#zoom-all")
    wait(1, 2000)
    opened.pointer("#raster", (0, -100))
    pattern = r"client \d+, rank \d+ of 250, round [\d,]+: (counted|not there)"
    assert re.fullmatch(pattern, opened.text("#raster-read"))


def test_a_client_is_chosen_by_number_and_by_click_and_has_the_weight_that_the_run_has(opened):
    arrays = np.load(RESULTS / "fedau-50-seed1" / "participation.npz")
    for client in (17, int(np.argmin(arrays["probability"]))):
        opened.run("document.getElementById('client-number').value = ''")
        opened.keys("#client-number", str(client))
        said = opened.text("#client-read")
        weight, counted = arrays["weight"][client], arrays["counted"][client]
        assert f"client {client} · p = " in said
        assert f"ω = {float(f'{weight:.4g}'):g} · counted in {counted:,} of 2,000 rounds" in said
        # The path is worked out on the page, by Algorithm 2.
        opened.keys("#client-path svg", "\ue010")  # End
        last = opened.run(
            "return document.querySelector('#client-path [data-label=ω] b').innerText"
        )
        assert float(last) == pytest.approx(weight, rel=1e-4)
    opened.pointer("#raster", (0, -100), press=True)
    assert not opened.text("#client-read").startswith(f"client {client} ")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1920])
def test_it_fits_a_phone_and_a_wide_screen_in_both_themes(opened, width, theme):
    opened.size(width, 800)
    opened.run(
        "const theme = document.getElementById('theme'); theme.value = arguments[0];"
        "theme.dispatchEvent(new Event('change'))",
        theme,
    )
    assert opened.run("return document.documentElement.scrollWidth") == width
    # Whatever is drawn stays within its section.
    wide = """return [...document.querySelectorAll('section:not([hidden]) :is(canvas, .chart)')]
        .filter((part) => part.getBoundingClientRect().right > innerWidth)
        .map((part) => part.id || part.className)"""
    assert opened.run(wide) == []
    ratio = opened.run("""
        const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map((part) => {
            const one = part / 255;
            return one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const style = (query) => getComputedStyle(document.querySelector(query));
        const ground = light(style('section').backgroundColor);
        return ['h2', '.hint', '.status.finished', '#runs .name'].map((query) => {
            const [low, high] = [light(style(query).color), ground].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05); })""")
    assert min(ratio) >= 4.5, "as WCAG asks of texts"


def test_dark_is_the_system_s_choice_unless_the_reader_has_one(opened):
    theme = "return document.documentElement.dataset.theme"
    # Whatever a test before this one has chosen: the page is as the system is.
    opened.run(
        "const theme = document.getElementById('theme');"
        "theme.value = ''; theme.dispatchEvent(new Event('change'))"
    )
    for scheme in ("dark", "light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        opened.devtools("Emulation.setEmulatedMedia", {"features": [feature]})
        assert opened.wait(f"document.documentElement.dataset.theme === '{scheme}'")
    assert opened.run(theme) == "light"


def test_all_that_can_be_used_is_reached_by_tab_and_has_a_name(opened):
    script = """const used = 'button, select, input, summary, canvas[tabindex], svg[tabindex]';
        return [...document.querySelectorAll(used)].filter((part) => part.checkVisibility())
            .filter((part) => part.tabIndex < 0 || !(part.textContent
                || part.getAttribute('aria-label') || part.labels?.length))
            .map((part) => part.outerHTML.slice(0, 80))"""
    assert opened.run(script) == []


def test_what_is_broken_is_a_sentence_and_names_stay_text(window, tmp_path):
    name = "<script>window.hacked = 1<" + "\\script>"
    runs = tmp_path / "<img src=x onerror=window.hacked=2>"
    bad = made_run(runs / name, num_server_rounds=2)
    with bad.metrics_file.open("a") as file:
        file.write("not json}\n")
    bad.finish("failed", 2, "Failed: <b onmouseover=window.hacked=3>because</b>.")
    other = made_run(runs / "other-version", num_server_rounds=2, seed=2)
    save_text(other.config_file, 'method = "fedau"\nwarp-factor = 9\n')
    missing = made_run(runs / "missing", num_server_rounds=2, seed=3)
    missing.metrics_file.unlink()
    write_report(runs, tmp_path / "report.html")
    with serving(runs) as server:
        for url in (server.url, (tmp_path / "report.html").as_uri()):
            window.open(url)
            window.wait("document.querySelectorAll('#runs tbody tr').length === 3")
            text = window.text("#runs")
            assert name in text
            assert "Failed: <b onmouseover=window.hacked=3>because</b>." in text
            assert "metrics.jsonl: line 3 is left out, it is no report." in text
            assert "warp-factor is not a key of the run config" in text
            assert window.text("h1") == runs.name
            assert window.run("return window.hacked") is None
            assert window.run("return document.querySelectorAll('main img, main b').length") == 0
    assert window.complaints() == []


def test_a_deployment_has_nodes_dropouts_and_a_budget(window, tmp_path):
    run = made_run(tmp_path / "run", num_server_rounds=3, pattern="deployment", clients=3)
    nodes = [
        {"id": "7777777777777777777", "first": 1, "counted": 3, "last": 3, "rejected": 0,
         "weight": 1.0},
        {"id": "8", "first": 1, "counted": 0, "last": 0, "rejected": 1, "rejected_in": 2,
         "reason": "array 'x' <i>with</i> values that are not finite", "weight": 1.0},
    ]  # fmt: skip
    save_text(run.nodes_file, json.dumps({"round": 3, "nodes": nodes}))
    lines = [
        {
            "round": n,
            "dropouts_keys": 1,
            "dropouts_masked": n % 2,
            "epsilon": n,
            "epsilon_left": 8 - n,
        }
        for n in (1, 2, 3)
    ]
    save_text(run.rounds_file, "".join(json.dumps(line) + "\n" for line in lines))
    with serving(tmp_path) as server:
        window.open(server.url)
        window.wait("!document.getElementById('federation').hidden")
        text = window.text("#federation")
    assert "7777777777777777777\tround 3\t3\tround 1\t1\t0" in text
    assert "8\tnever\t0\tround 1\t1\t1\tround 2: array 'x' <i>with</i> values" in text
    assert "keys\t3\t3\t1" in text
    assert "masked\t2\t2\t1" in text
    assert "ε spent: 3 of 8; 5 left" in text


def test_a_hundred_thousand_clients_are_drawn_and_read(window, tmp_path):
    clients, rounds, rng = 100_000, 40, np.random.default_rng(1)
    p = rng.uniform(0.02, 0.3, clients)
    run = made_run(
        tmp_path / "run", num_server_rounds=rounds, clients=clients,
        dataset=f"synthetic:train={clients}", participation=participation_of(p),
    )  # fmt: skip
    raster = RasterFile(run.raster_file, clients)
    raster.begin(0)
    for _ in range(rounds):
        raster.append(3 * (rng.random(clients) < p).astype(np.uint8))
    window.size(1280, 900)
    with serving(tmp_path) as server:
        window.open(server.url)
        window.wait("document.getElementById('raster-note').innerText.includes('40 rounds')")
        label = window.run("return document.getElementById('bars').getAttribute('aria-label')")
        mean = p.sum()
        assert float(re.search(r"average (\d+)", label)[1]) == pytest.approx(mean, rel=0.02)
        # The frequent half is darker than the rare one.
        dark = """const canvas = document.getElementById('raster'), part = (top) => {
            const [width, height] = [canvas.width - 120, canvas.height / 2 - 2];
            const data = canvas.getContext('2d').getImageData(80, top, width, height).data;
            let sum = 0; for (let at = 0; at < data.length; at += 4) sum += data[at]; return sum; };
            return [part(0), part(canvas.height / 2)]"""
        frequent, rare = window.run(dark)
        assert frequent < 0.9 * rare
        for _ in range(4):
            window.click("#zoom-in")
        window.pointer("#raster", (0, 0))
        assert "of 100,000, round " in window.wait(
            "document.getElementById('raster-read').innerText"
        )


def test_seeds_are_a_band_and_what_one_is_ahead_is_thin(window, tmp_path):
    for seed, until in ((1, 4), (2, 4), (3, 6)):
        made_run(
            tmp_path / f"s{seed}", num_server_rounds=6, seed=seed, until=until,
            status="running", accuracy=lambda t, seed=seed: 0.1 * seed + 0.01 * t,
        )  # fmt: skip
    with serving(tmp_path) as server:
        window.open(server.url)
        window.wait("document.querySelector('[data-measure=test_score] .line')")
        where = '[data-measure="test_score"]'
        window.keys(f"{where} svg", "\ue011")
        assert "21 ± 10" in window.text(f"{where} .tip")
        labels = (
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.dataset.label)"
        )
        assert window.run(labels, f"{where} .line") == ["fedau K=50", "fedau K=50, seed 3"]
        assert "(3 seeds)" in window.text("#curves .legend")


def test_a_server_that_is_gone_is_said_and_the_page_stays(window, tmp_path):
    made_run(tmp_path / "run", num_server_rounds=2, status="running", until=1)
    with serving(tmp_path) as server:
        window.open(server.url)
        window.wait("document.querySelector('#curves .line')")
    window.wait(
        "document.getElementById('live').innerText.startsWith('The server does not answer')"
    )
    assert window.text("#runs .name") == "run"
    window.complaints()
