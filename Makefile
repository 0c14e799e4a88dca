# Nothing but Python 3.11-3.13 and make is needed: the first target that runs creates .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

export FLWR_TELEMETRY_ENABLED := 0
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup lint test test-deployment demo bench format clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[simulations,dev]'
	touch $(INSTALLED)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

# Those with real SuperLinks and SuperNodes that are killed, cut off and resumed: half of the time of all tests.
test-deployment: setup
	$(BIN)/python -m pytest tests/deployment

# FedAU against Flower's own FedAvg: 250 clients, one participation path, a few minutes on two cores.
demo: setup
	$(BIN)/fedau compare --methods fedau,fedavg --rounds 200 --evaluate-every 10

# What this software costs, as ratios with goals: ten minutes on two cores that do nothing else.
bench: setup
	$(BIN)/fedau bench

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
