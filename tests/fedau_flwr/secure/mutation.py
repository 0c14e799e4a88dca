"""Messages changed at random, the same for the same seed."""

import random
import struct
from typing import Any

LIMITS = [0, 1, -1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1, 10**30]
TEXTS = ["", "x", "keys", "unmask", "\n", "\x00\x1b[2K", "é" * 200, "../../x", "1", "\ud800"]
FLOATS = [0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308]


def odd_value(rng: random.Random, *, nested: bool) -> Any:
    """Return something of any type; what a Flower record cannot hold only if `nested`."""
    kinds: list[Any] = [
        lambda: rng.choice(LIMITS[:-2]),
        lambda: rng.choice(TEXTS[:-1]),
        lambda: rng.choice(FLOATS),
        lambda: rng.random() < 0.5,
        lambda: rng.randbytes(rng.choice([0, 1, 4, 31, 32, 33, 64, 92, 200, 5000])),
        lambda: [rng.choice(LIMITS[:-2]) for _ in range(rng.randrange(4))],
        lambda: [rng.choice(TEXTS[:-1]) for _ in range(rng.randrange(4))],
        lambda: [rng.randbytes(3)] * rng.randrange(3),
        lambda: [rng.choice(FLOATS)] * rng.randrange(3),
    ]
    if nested:
        kinds += [
            lambda: None,
            lambda: rng.choice(LIMITS),
            lambda: rng.choice(TEXTS),
            lambda: [[[]]],
            lambda: {"a": {"b": [None]}},
            lambda: [None, 1, "x", b"y"],
            lambda: bytearray(32),
            object,
        ]
    return rng.choice(kinds)()


def changed_bytes(rng: random.Random, value: bytes) -> bytes:
    """Return bytes with something flipped, cut, doubled, moved or set to a limit."""
    data = bytearray(value)
    kind = rng.randrange(7)
    if kind == 0 and data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data) + 1) :]
    elif kind == 2:
        data += rng.randbytes(rng.choice([1, 4, 32, 72, 92]))
    elif kind == 3:
        start = rng.choice([0, 4, 8, 32, 64, 72, 92])
        data = data[start:] + data[:start]
    elif kind == 4 and len(data) >= 4:
        at = rng.randrange(len(data) // 4) * 4
        data[at : at + 4] = struct.pack(">I", rng.choice([0, 1, 2**31, 2**32 - 1]))
    elif kind == 5:
        data = bytearray(len(data))
    else:
        data = bytearray(b"\xff" * len(data))
    return bytes(data)


def mutated(rng: random.Random, message: dict[str, Any], *, nested: bool = True) -> dict[str, Any]:
    """Return a message with one to three changes of its fields, names or values."""
    message = dict(message)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        key = rng.choice([*message, "unknown"])
        value = message.get(key)
        kind = rng.randrange(6)
        if kind == 0:
            message.pop(key, None)
        elif kind == 1 and message:
            message[key] = message[rng.choice(list(message))]
        elif kind <= 3 and isinstance(value, bytes):
            message[key] = changed_bytes(rng, value)
        elif kind <= 3 and type(value) is int:
            message[key] = rng.choice([value + 1, value - 1, *LIMITS[: None if nested else -2]])
        else:
            message[key] = odd_value(rng, nested=nested)
    return message
