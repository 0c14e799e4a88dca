# Nothing but Python 3.11-3.13 and make is needed: the first target that runs creates .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

export FLWR_TELEMETRY_ENABLED := 0
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup lint browser test test-fast test-long test-deployment demo bench format clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[simulations,dev]'
	touch $(INSTALLED)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

# Files are handed out in their order, the scenarios of real processes first: those mostly wait, so there
# is one worker more than the two cores that CI has. Threads of torch in each would fight for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

test: lint browser
	$(PYTEST)

# The page is tested in Chromium. Where it can be installed, it is; tests say so where there is none.
browser:
	@if ! { command -v chromium && command -v chromedriver; } >/dev/null && test "$$(id -u)" = 0 \
	&& command -v apt-get >/dev/null; then \
	echo "Installing chromium and chromium-driver for the tests of the page."; \
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
	chromium chromium-driver; } >/dev/null 2>&1 || echo "That failed: tests of the page are skipped."; fi

# While working: all that starts neither SuperNodes nor Flower's simulation engine.
test-fast: setup
	$(PYTEST) -m 'not deployment and not engine and not long'

# Those with real SuperLinks and SuperNodes that are killed, cut off and resumed.
test-deployment: setup
	$(PYTEST) -m 'deployment and not long' tests/deployment

# Before an issue is resolved: ten minutes of nodes that come and go, and fuzzing with many more examples.
test-long: setup
	FEDAU_SOAK_SECONDS=$${FEDAU_SOAK_SECONDS:-600} $(BIN)/python -m pytest -m long
	FEDAU_FUZZ_FACTOR=$${FEDAU_FUZZ_FACTOR:-20} $(PYTEST) -m hypothesis

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
