"""The pictures of the page in the documentation: ``python -m tests.simulations.page.pictures``."""

import tempfile
from pathlib import Path

from simulations.page.document import write_report
from tests.browser import browser

ROOT = Path(__file__).parents[3] / "simulations"
OUT = ROOT / "page" / "pictures"


def main() -> None:
    """Draw a comparison, one run's participation, and the page on a phone."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, browser(Path(name)) as window:
        runs = ROOT / "results" / "svhn-authors" / "svhn-bernoulli"
        report = write_report(runs, Path(name) / "report.html")
        window.size(1080, 900)
        window.open(report.as_uri())
        window.wait("!document.getElementById('weights').hidden")
        window.click("#smooth")
        window.keys('[data-measure="test_score"] svg', "\ue010\ue012\ue012")  # End, twice left
        window.picture(OUT / "comparison.png", "#curves", "#served")
        window.keys("#client-number", "17")
        window.picture(OUT / "participation.png", "#participation", "#weights")
        window.size(360, 740)
        window.run(
            "const theme = document.getElementById('theme'); theme.value = 'dark';"
            "theme.dispatchEvent(new Event('change'))"
        )
        window.picture(OUT / "phone.png", "header", '[data-measure="train_loss"]')


if __name__ == "__main__":
    main()
