"""Exit with 0 if a Flower program is well: ``healthcheck.py [http(s)://…/health [CA]] [WORD …]``.

An address has to answer with success. Where there is none, or where the program's version has no
such page, a process has to run whose command line has all words. Nothing is asked by gRPC, whose
health service Flower 1.43 has no more.
"""

import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

NOT_FOUND = 404


def answers(url: str, ca: str | None) -> bool:
    """Return whether there is such a page; raise an exception unless it answers with success."""
    context = ssl.create_default_context(cafile=ca) if ca else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return False
        raise


def check_process(words: list[str]) -> None:
    """Raise an exception unless a process runs with all words in its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:  # it has ended in between
            continue
        ours = any(part.endswith("healthcheck.py") for part in command)
        if not ours and state not in "ZX" and all(any(w in c for c in command) for w in words):
            return
    raise RuntimeError(f"no process has {' '.join(words)!r} in its command line")


def main(*arguments: str) -> int:
    """Check an address, a process, or the one if it is there and else the other."""
    left = list(arguments)
    url = left.pop(0) if left and left[0].startswith("http") else None
    ca = left.pop(0) if url and left and left[0].startswith("/") else None
    try:
        if url is None or not answers(url, ca):
            if not left:
                raise RuntimeError("there is no such page")
            check_process(left)
    except Exception as error:  # whatever it is, it is not healthy
        print(f"{' '.join(arguments)}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
