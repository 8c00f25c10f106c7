# Every target does its own set-up: a virtual environment with the locked dependencies, the Node
# packages of the reference server and the official suite, and Debian's packages for the peers.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_LOCAL_IP := 127.0.0.1

.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

tests/node/node_modules/.installed: tests/node/package.json tests/node/package-lock.json
	@command -v npm >/dev/null || { echo "Node.js with npm is needed for the tests: install it first." >&2; exit 1; }
	cd tests/node && npm install --no-save --no-audit --no-fund --silent
	@touch $@

# Delta's jars, fetched before several processes ask for them at once: Ivy's cache has no lock.
$(VENV)/.jars: $(VENV)/.installed
	$(BIN)/python -c "from spark_durable.local import local_spark; local_spark(delta=True).stop()"
	@touch $@

# PostgreSQL for the outbox relay. Installed where the user may; elsewhere the tests say what to do.
postgres:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; } || { \
		echo "PostgreSQL is needed for the relay's tests: apt-get install postgresql" >&2; exit 1; }

# Chromium for the explorer's page.
chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; } || { \
		echo "Chromium is needed for the explorer's tests: apt-get install chromium chromium-driver" >&2; exit 1; }

java:
	@command -v java >/dev/null || { echo "Java 17 is needed by Spark: install it first." >&2; exit 1; }

setup: java $(VENV)/.installed  ## the virtual environment

demo: setup  ## write, stream and read back, end to end
	$(BIN)/spark-durable demo

check: $(VENV)/.installed  ## formatter, linter, strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

audit: $(VENV)/.installed  ## known vulnerabilities of the locked dependencies (asks osv.dev)
	$(BIN)/python -m tests.audit requirements.lock

test: setup check $(VENV)/.jars postgres chromium tests/node/node_modules/.installed  ## the tests (about 33 minutes on 2 cores)
	$(BIN)/python -m tests.audit --unless-offline requirements.lock
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: setup $(VENV)/.jars postgres tests/node/node_modules/.installed  ## the long versions: 20 and 50 kills, 1 and 2 GB
	$(BIN)/python -m pytest -m long $(ARGS)

test-matrix: setup tests/node/node_modules/.installed  ## core tests and wheel on Spark 4.0, 4.1, 4.2
	$(BIN)/python tests/matrix.py $(ARGS)

chaos: setup  ## faults at random: SEED=n MINUTES=m, or SEEDS=20 of them from there on
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),3) \
		--seeds $(or $(SEEDS),1) $(ARGS)

bench: setup tests/node/node_modules/.installed  ## ratios beside Kafka, Node and a plain loop
	$(BIN)/spark-durable bench $(ARGS)

lock: $(VENV)/.installed  ## resolve the dependencies anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --extra dev --no-header \
		--no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock

clean:  ## what was installed and built
	rm -rf $(VENV) .venv-matrix tests/node/node_modules .mypy_cache .ruff_cache .pytest_cache build dist

.PHONY: help java postgres chromium setup demo check audit test test-long test-matrix chaos bench lock clean
