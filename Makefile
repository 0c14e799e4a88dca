# Nothing but Python 3.11-3.13 and make is needed: the first target that runs creates .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TYPES := $(VENV)/types.txt

export FLWR_TELEMETRY_ENABLED := 0
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup lint style browser test test-fast test-newest test-long test-deployment examples demo bench format clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[simulations,dev]'
	touch $(INSTALLED)

lint: style
	$(BIN)/mypy

style: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check

# Files are handed out in their order, the scenarios of real processes first: those mostly wait, so there
# is one worker more than the two cores that CI has. Threads of torch in each would fight for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Types are checked beside the tests, on a core that those leave idle while they wait. Each fails it.
test: style browser
	$(BIN)/mypy >$(TYPES) 2>&1 & types=$$!; \
	$(PYTEST); tests=$$?; \
	wait $$types; types=$$?; \
	cat $(TYPES); rm $(TYPES); \
	$(MAKE) test-newest; newest=$$?; \
	exit $$((tests || types || newest))

# The plugin's tests that start nothing, on the newest Flower that can be had, beside the dependencies of the
# installed one; where there is none, or it is the installed one, there is nothing to do.
NEWEST := $(VENV)/newest-flower
FLOWER := $(BIN)/python -c 'from importlib.metadata import version; print(version("flwr"))'
test-newest: setup
	@rm -rf $(NEWEST); \
	if ! $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(NEWEST) 'flwr<2'; \
	then echo 'The newest Flower cannot be had from here: its tests are left out.'; \
	elif [ "$$($(FLOWER))" = "$$(PYTHONPATH=$(CURDIR)/$(NEWEST) $(FLOWER))" ]; then echo 'The newest Flower is the installed one.'; \
	else echo "The plugin on Flower $$(PYTHONPATH=$(CURDIR)/$(NEWEST) $(FLOWER)):"; PYTHONPATH=$(CURDIR)/$(NEWEST) $(PYTEST) $(NEWEST_TESTS); fi
NEWEST_TESTS := -m 'not deployment and not engine and not long and not hypothesis' \
	$(addprefix tests/fedau_flwr/,availability/test_grid.py client methods server test_flower.py test_legacy.py wire)

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

# Apps of several frameworks: installs Hugging Face's packages and JAX, about a minute, and runs all of them.
examples: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[examples]'
	$(PYTEST) tests/simulations/examples

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
