"""A headless Chromium, driven by the WebDriver protocol: what tests of the page need."""

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from simulations.launch.process import free_port

PROGRAMS = ("chromium", "chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
SECONDS = 20.0
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--hide-scrollbars", "--force-device-scale-factor=1",
]  # fmt: skip


def missing() -> str:
    """Return why there is no browser, empty if there is one."""
    gone = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"did not run: there is no {' and no '.join(gone)} on this machine" if gone else ""


class Browser:
    """One window; scripts are JavaScript functions' bodies."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = f"/session/{session}"

    def call(self, method: str, path: str, **body: Any) -> Any:
        answer = self._client.request(method, self._session + path, json=body or {})
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value

    def open(self, url: str) -> None:
        self.call("POST", "/url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def wait(self, script: str, *arguments: Any) -> Any:
        """Return the value of an expression once it is true."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.run(f"return {script}", *arguments)):
            assert time.monotonic() < deadline, f"never true: {script}\n{self.text('body')[:2000]}"
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        return str(
            self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        )

    def click(self, selector: str) -> None:
        self.call("POST", f"/element/{self._element(selector)}/click")

    def keys(self, selector: str, text: str) -> None:
        self.call("POST", f"/element/{self._element(selector)}/value", text=text)

    def pointer(self, selector: str, *places: tuple[int, int], press: bool = False) -> None:
        """Move over an element, by way of places from its centre; with the button down if so."""
        origin = {ELEMENT: self._element(selector)}
        moves = [
            {"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y}
            for x, y in places
        ]
        if press:
            down, up = ({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up"))
            moves = [moves[0], down, *moves[1:], up]
        pointer = {"type": "pointer", "id": "mouse", "actions": moves}
        self.call("POST", "/actions", actions=[pointer])

    def size(self, width: int, height: int) -> None:
        """Make the page this large; a window would not be as narrow as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def picture(self, path: Path, first: str, last: str) -> None:
        """Save what is between two elements, both included, as a PNG file."""
        script = """const box = (query) => document.querySelector(query).getBoundingClientRect();
            const top = scrollY + box(arguments[0]).top - 8;
            return [top, scrollY + box(arguments[1]).bottom + 8 - top, innerWidth]"""
        top, height, width = self.run(script, first, last)
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot", options)["data"]))

    def complaints(self) -> list[str]:
        """Return what the page's console has said since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", type="browser")]

    def _element(self, selector: str) -> str:
        found = self.call("POST", "/element", using="css selector", value=selector)
        return str(found[ELEMENT])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser whose files are in `profile`, and end it."""
    port = free_port(0)
    with (profile / "driver.txt").open("w") as log:
        # What a browser keeps of its user goes the same way.
        home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(profile))
        driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=log, stderr=log, env=os.environ | home
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            session = _session(http, profile / "profile")
            try:
                yield Browser(http, session)
            finally:
                http.delete(f"/session/{session}")
    finally:
        driver.terminate()
        driver.wait()


def _session(client: httpx.Client, profile: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if client.get("/status").json()["value"]["ready"]:
                break
        except httpx.TransportError:
            assert time.monotonic() < deadline, "chromedriver does not answer"
        time.sleep(0.05)
    chrome = {
        "binary": shutil.which("chromium"),
        "args": [*OPTIONS, f"--user-data-dir={profile}"],
    }
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": chrome,
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
    return str(answer.json()["value"]["sessionId"])
