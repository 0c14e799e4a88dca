"""What a client's error says: its innermost exception in one sentence.

Flower hands on an error as text. From a simulation that is Ray's whole traceback, whose first
lines say nothing; from a deployment the exception and its class.
"""

import re
from itertools import dropwhile

LONGEST = 500
_CHAIN = re.compile(r"\n\s*(?:The above exception was the direct|During handling of the above)")
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)(?:\(\w+\))?'>:<'(.*)'>", re.DOTALL)


def sentence(reason: str) -> str:
    """Return why a reply was an error, on one line, and how to mend it first if that is known."""
    found = _CLASS.fullmatch(reason.strip())
    kind, text = (found[1], found[2]) if found else ("", reason)
    inner = _innermost(text)
    if inner is None:
        plain = kind in {"", "Refusal", "ClientAppException"}
        inner = text if plain else f"{kind}: {text}"
    said = " ".join(inner.split()).rstrip(".")
    return f"{hint}; its error is {said}"[:LONGEST] if (hint := _hint(said)) else said[:LONGEST]


def is_numpy_client(reason: str) -> bool:
    """Return whether an error is a `NumPyClient`'s that was asked in records of the Message API."""
    return "fitins.parameters" in reason and "KeyError" in reason


def _innermost(text: str) -> str | None:
    """Return the exception at the end of the first traceback in `text`, if there is any."""
    lines = _CHAIN.split(text)[0].splitlines()
    frames = [number for number, line in enumerate(lines) if line.lstrip().startswith('File "')]
    if not frames:
        return None
    rest = dropwhile(lambda line: not line.strip() or line[0].isspace(), lines[frames[-1] + 1 :])
    said = " ".join(rest)
    head, colon, words = said.partition(": ")
    kind = head.rpartition(".")[2]
    return f"{kind}{colon}{words}".removeprefix("Refusal: ") or None


def _hint(said: str) -> str | None:
    """Return what to do about an error that clients of another kind than asked for have."""
    if is_numpy_client(said):
        return "it is a NumPyClient, and the strategy needs numpy_clients=True"
    if found := re.match(r"TypeError: (\w+Mod)\.__init__\(\) takes", said):
        return f"the app's mods hold the class {found[1]}, but must hold an object: {found[1]}()"
    if said in {"KeyError: 'arrays'", "KeyError: 'config'", "KeyError: arrays", "KeyError: config"}:
        return (
            "the message has not the record that the app reads: under SecureSum it needs "
            "SecureSumMod, and an app of the Message API a strategy without numpy_clients=True"
        )
    return None
