"""What our compose files may hold: a part of the Compose specification, and no other key.

Stricter than Docker, which takes any key that it has in some place: what is not used here is not
allowed here, so that a key that is misspelt, or one level too deep, is an error.
"""

from typing import Any

from jsonschema import Draft202012Validator

TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}
NAME = "^[a-zA-Z0-9._-]+$"
DURATION = {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"}


def mapping(**properties: Any) -> dict[str, Any]:
    """Return the schema of a mapping with these keys, all of them optional."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def named(value: Any) -> dict[str, Any]:
    """Return the schema of a mapping from names to something."""
    return {
        "type": "object",
        "patternProperties": {NAME: value},
        "additionalProperties": False,
        "minProperties": 1,
    }


HEALTHCHECK = mapping(
    test={
        "type": "array",
        "prefixItems": [{"const": "CMD"}],
        "items": TEXT,
        "minItems": 2,
    },
    interval=DURATION,
    timeout=DURATION,
    start_period=DURATION,
    retries={"type": "integer", "minimum": 1},
)
CONDITION = {"enum": ["service_started", "service_healthy", "service_completed_successfully"]}
DEVICE = mapping(driver=TEXT, count={"type": "integer", "minimum": 1}, capabilities=TEXTS)
SERVICE = mapping(
    image=TEXT,
    build=mapping(context=TEXT, dockerfile=TEXT, target=TEXT, args=named({"type": "string"})),
    # Repeated words are fine in a command line.
    command={"type": "array", "items": TEXT, "minItems": 1},
    restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
    user={"type": "string", "pattern": r"^\d+:\d+$"},
    read_only={"type": "boolean"},
    mem_limit={"type": "string", "pattern": r"^\d+[kmg]$"},
    pids_limit={"type": "integer", "minimum": 1},
    cap_drop=TEXTS,
    security_opt=TEXTS,
    environment=named({"type": "string"}),
    ports={**TEXTS, "items": {"type": "string", "pattern": r"^([\d.]+:)?\d+:\d+$"}},
    networks=TEXTS,
    tmpfs={
        **TEXTS,
        "items": {"type": "string", "pattern": r"^/[^:]+(:[a-z]+=\w+(,[a-z]+=\w+)*)?$"},
    },
    volumes={**TEXTS, "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"}},
    secrets=TEXTS,
    depends_on={
        "oneOf": [TEXTS, named({**mapping(condition=CONDITION), "required": ["condition"]})]
    },
    healthcheck=HEALTHCHECK,
    deploy=mapping(
        resources=mapping(
            reservations=mapping(devices={"type": "array", "items": DEVICE, "minItems": 1})
        )
    ),
)
NETWORK = {
    "oneOf": [
        {"type": "null"},
        mapping(name=TEXT, internal={"type": "boolean"}, external={"type": "boolean"}),
    ]
}
FILE = {
    **mapping(
        services=named(SERVICE),
        networks=named(NETWORK),
        volumes=named({"type": "null"}),
        secrets=named({**mapping(file=TEXT), "required": ["file"]}),
    ),
    "patternProperties": {"^x-": SERVICE},
    "required": ["services"],
}
Draft202012Validator.check_schema(FILE)
VALIDATOR = Draft202012Validator(FILE)


def mistakes(project: Any) -> list[str]:
    """Return what is wrong with a compose file, or with several laid over each other."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(project)]
