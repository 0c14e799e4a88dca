"""The commands `fedau watch` and `fedau report`."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from simulations.config import ConfigError
from simulations.page.document import write_report
from simulations.page.server import PageServer

_PORT = 8421


def watch(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="A run, or holds runs at any depth.")
    ] = Path("runs"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; 0: a free one.")
    ] = _PORT,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's see all of DIR.")
    ] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
    allow_stop: Annotated[
        bool, typer.Option("--allow-stop", help="Let the page stop runs after their round.")
    ] = False,
) -> None:
    """Show the runs in DIR in a browser while they go on; Ctrl-C ends it.

    The page is served to this machine alone unless --host says otherwise.
    """
    place = directory.expanduser().resolve()
    if not place.is_dir():
        raise ConfigError(f"DIR is {str(directory)!r}, but must be an existing directory.")
    try:
        server = PageServer(place, host=host, port=port, allow_stop=allow_stop)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"port is {port} on host {host!r}, but must be free there ({reason}); --port 0 takes "
            "any that is."
        ) from None
    with server, suppress(KeyboardInterrupt):
        typer.echo(f"{server.url} shows {place}; Ctrl-C ends it.")
        if open_browser:
            webbrowser.open(server.url)
        server.serve_forever()


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run, or holds runs at any depth.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file; DIR/report.html by default.")
    ] = None,
) -> None:
    """Write the runs in DIR as one page to send around, which opens from disk."""
    place = directory.expanduser().resolve()
    target = out.expanduser().resolve() if out else place / "report.html"
    if target.is_dir():
        raise ConfigError(f"out is {str(out)!r}, but must be the name of a file.")
    typer.echo(write_report(place, target))
