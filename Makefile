# Every target works from a clean checkout; `make` alone lists them. PYTHON picks the interpreter: make test PYTHON=python3.13
PYTHON ?=
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

# A name that the PATH does not have, or only as a shim of pyenv that refuses to run, is looked for among pyenv's own.
INTERPRETER = $(shell for each in $(PYTHON) $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin/$(notdir $(PYTHON)); do \
	$$each -c '' 2>/dev/null && echo $$each && break; done)

# The first of these names that runs, here or among pyenv's: Django 6 needs it.
NEWER = $(shell for each in python3.13 python3.12 python3.14; do \
	for path in $$each $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin/$$each; do \
		$$path -c '' 2>/dev/null && echo $$each && exit; done; done)

# One environment per chosen interpreter, so that changing PYTHON never rebuilds the usual one.
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin

# Two test processes per core: many tests wait for a process, a timer or a server.
SIDE_BY_SIDE := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))

# npm in ui/ with Node from PyPI, never the system's.
NPM = $(BIN)/python tools/build_ui.py npm
UI := src/rowlock/ui_dist/index.html
UI_SOURCES := $(shell git ls-files ui docs/openapi.json 2>/dev/null)

# uv from the PATH, or a private copy in .uv/ (no system-wide installation, no administrator).
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
UV_NEEDED := $(if $(filter .uv/bin/uv,$(UV)),.uv/bin/uv)

# --no-config and --no-emit-*: the lock is the same on every machine and names no index.
COMPILE := pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml

.PHONY: help install check check-ui test test-slow test-numbers test-all test-carriers brokers test-django test-django-here test-safir test-safir-here newer-python test-browser test-ui ui ui-dev screenshots bench-ui chromium promtool wheel-smoke mutations examples torture torture-machine soak fuzz bench bench-guard demo \
	lock format verify release-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with the locked dependencies and Rowlock itself (editable)

check: $(STAMP) check-ui ## lint, format check, types, import direction; of the dashboard too
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests bench torture examples
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/sync_twins.py --check
	$(BIN)/python tools/openapi.py --check
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/django_migrations.py --check

check-ui: $(STAMP) ## lint, format check and types of the dashboard alone
	$(NPM) run lint
	$(NPM) run format:check
	$(NPM) run typecheck

PYTEST := $(BIN)/pytest -n $(SIDE_BY_SIDE) --dist worksteal

test: $(STAMP) ## run the tests on all cores, without the slow suites (options: make test ARGS="-k claim")
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(STAMP) ## run the slow suites: processes killed, random steps, strange inputs (ARGS="tests/torture": one)
	$(PYTEST) -m slow $(ARGS)

# Every published number against SQL over the whole table, after a mixed run in which a worker is killed.
JOBS ?= 50000
test-numbers: $(STAMP) ## compare every published number with the table after JOBS=50000 jobs (make test-slow: 5,000)
	ROWLOCK_COUNTED_JOBS=$(JOBS) $(BIN)/pytest tests/upkeep/test_counts.py -k counted_exactly $(ARGS)

test-all: $(STAMP) $(UI) chromium brokers ## run every test: make test, test-slow, test-carriers, test-browser, examples and test-ui in one, test-django with Django 6, and test-safir
	$(NPM) test
	$(PYTEST) $(ARGS)
	$(if $(NEWER),$(MAKE) test-django-here PYTHON=$(NEWER) && $(MAKE) test-safir-here PYTHON=$(NEWER))

# The lock has Django 5.2 for Python 3.11 and the newest Django for later ones.
DJANGO_TESTS := tests/contrib/django tests/docs/test_django.py
test-django: ## run the tests with Django 5.2 (Python 3.11) and with Django 6 (Python 3.13)
	$(MAKE) test-django-here PYTHON=python3.11
	$(MAKE) test-django-here PYTHON=python3.13

newer-python:
	@echo $(NEWER)

test-django-here: $(STAMP)
	$(PYTEST) $(DJANGO_TESTS) $(ARGS)

test-carriers: $(STAMP) brokers ## run tests/delivery/test_conformance.py: every carrier on real Redis and RabbitMQ servers, which it installs as root where they are missing
	$(BIN)/pytest -n 2 --dist worksteal tests/delivery/test_conformance.py tests/delivery/test_faults.py $(ARGS)

# Safir needs Python 3.12, so the lock, which is for 3.11, does not have it.
test-safir: ## run delivery by Safir's own queues on a real Redis (Python 3.13)
	$(MAKE) test-safir-here PYTHON=python3.13

test-safir-here: $(STAMP) brokers | $(UV_NEEDED)
	$(UV) pip install --quiet --python $(BIN)/python --constraint requirements.lock 'safir[arq]>=15'
	$(BIN)/pytest -n 2 --dist worksteal tests/delivery/test_safir.py tests/delivery/test_conformance.py -k safir $(ARGS)

test-browser: $(STAMP) chromium ## run tests/browser, in a real Chromium, which it installs as root where it is missing
	$(BIN)/pytest -n 2 --dist worksteal tests/browser $(ARGS)

examples: $(STAMP) $(UI) chromium ## run the applications of examples/ end to end, and print what each proved
	$(BIN)/pytest tests/examples tests/docs/test_examples.py -n 2 $(ARGS)

test-ui: $(STAMP) $(UI) chromium ## run the dashboard's unit tests, and its pages in a real Chromium on a real server
	$(NPM) test
	$(PYTEST) tests/dashboard $(ARGS)

ui: $(STAMP) ## build the dashboard into src/rowlock/ui_dist, with Node from PyPI
	$(BIN)/python tools/build_ui.py

$(UI): $(UI_SOURCES) tools/build_ui.py | $(STAMP)
	$(BIN)/python tools/build_ui.py

ui-dev: $(STAMP) ## the dashboard with hot reload, on a demo server (ROWLOCK_API=http://127.0.0.1:8000: on a server of yours)
	$(BIN)/python tools/ui_dev.py $(ARGS)

screenshots: $(STAMP) $(UI) chromium ## pictures of every page into docs/screenshots, from a demo (ARGS="--only jobs --look FOLDER")
	PYTHONPATH=. $(BIN)/python tools/screenshots.py $(ARGS)

bench-ui: $(STAMP) $(UI) chromium ## how fast pages open over a million jobs, in Chromium (ARGS="--jobs 100000": fewer)
	$(BIN)/python -m bench.dashboard $(ARGS)

chromium: # without a browser the tests fail and say what to install
	@command -v chromium chromium-browser google-chrome >/dev/null || test -n "$$ROWLOCK_TEST_CHROMIUM" || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
			apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium >/dev/null; } || \
		echo "Chromium is missing: sudo apt-get install chromium, or set ROWLOCK_TEST_CHROMIUM to its path." >&2

# Debian's packages would start a server each; a policy-rc.d forbids that while they are installed. One that is there
# already stays as it is: images of containers have one that forbids it, too.
brokers: # without the servers the tests fail and say what to install
	@{ command -v redis-server && test -x /usr/lib/rabbitmq/bin/rabbitmq-server; } >/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
			{ test -e /usr/sbin/policy-rc.d || { trap 'rm -f /usr/sbin/policy-rc.d' EXIT && \
				printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d; }; } && \
			apt-get -qq update && \
			DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends redis-server rabbitmq-server >/dev/null; } || \
		echo "Redis or RabbitMQ is missing: sudo apt-get install redis-server rabbitmq-server" >&2

# Only the program is unpacked: the installed package would also start a server.
promtool: ## get promtool, with which tests/docs tries the alerting rules, into .tools/ (Debian; no root needed)
	@command -v promtool >/dev/null || test -x .tools/usr/bin/promtool || \
		{ mkdir -p .tools && cd .tools && { test "$$(id -u)" != 0 || apt-get -qq update; } && \
			apt-get -qq download prometheus && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb; } || \
		echo "promtool is missing: get it from the package prometheus, or https://prometheus.io/download/." >&2

wheel-smoke: $(STAMP) | $(UV_NEEDED) ## build the wheel and try it in a fresh environment of every Python here, and with each extra alone
	$(BIN)/python tools/wheel_smoke.py --uv $(UV) $(ARGS)

# A failure is found again with the same SEED and STEPS.
STEPS ?= 20000
SEED ?= $(shell echo $$RANDOM)
torture-machine: $(STAMP) ## random steps against the oracle, STEPS=20000 for each machine, SEED= to repeat (options: ARGS="-k keyed")
	ROWLOCK_MACHINE_STEPS=$(STEPS) $(BIN)/pytest tests/machine/test_machine.py -n 2 --hypothesis-seed=$(SEED) $(ARGS)

EXAMPLES ?= 1000
fuzz: $(STAMP) ## strange inputs for every door, EXAMPLES=1000 for each test, SEED= to repeat (options: ARGS="-k cron")
	ROWLOCK_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/fuzz -n 2 --hypothesis-seed=$(SEED) $(ARGS)

mutations: $(STAMP) ## break the engine on purpose and see the tests turn red (an hour for all; ARGS="--at-once 2 --log FILE", or a part of their names)
	$(BIN)/python tools/mutations.py $(ARGS)

torture: $(STAMP) ## do harm under load and check every promise (10 minutes; SCENARIO=kill,restart: only these)
	$(BIN)/python -m torture --scenario "$(or $(SCENARIO),all)" $(ARGS)

soak: $(STAMP) ## workers under steady load, and what grows meanwhile (MINUTES=10)
	$(BIN)/python -m torture.soak --minutes $(or $(MINUTES),10) $(ARGS)

bench: $(STAMP) ## measure Rowlock beside its peers (some hours; ARGS="--quick --peers own": a minute or two)
	$(BIN)/python -m bench $(ARGS)

bench-guard: $(STAMP) ## fail when Rowlock became a quarter slower, against a hand-written loop in the same run
	$(BIN)/python -m bench.guard $(ARGS)

# Without ARGS it ends with a link: the dashboard stays for ten minutes. Not in CI, where nobody would look at it.
LINGER := $(if $(CI),,--linger 10m)
demo: $(STAMP) ## see Rowlock work, on a database of its own; leaves a link to the dashboard (ARGS=--serve: until Ctrl-C)
	$(if $(CI),,@$(MAKE) $(UI) || echo "The dashboard could not be built; make ui says why. The demo works without it.")
	$(BIN)/rowlock demo $(or $(ARGS),$(LINGER))

format: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: | $(UV_NEEDED) ## recompile requirements.lock with the newest releases
	$(UV) $(COMPILE) --upgrade --output-file requirements.lock

verify: | $(UV_NEEDED) ## fail when requirements.lock does not fit pyproject.toml
	@fresh=$$(mktemp) && trap 'rm -f "$$fresh"' EXIT && cp requirements.lock "$$fresh" && \
		$(UV) $(COMPILE) --output-file "$$fresh" >/dev/null && diff -u requirements.lock "$$fresh" && \
		echo "requirements.lock fits pyproject.toml"

release-check: $(STAMP) | $(UV_NEEDED) ## check that this commit can be released as VERSION=… (options: ARGS="--only build,smoke")
	$(BIN)/python tools/release.py "$(VERSION)" --uv $(UV) $(ARGS)

clean: ## remove environments, caches and build results
	rm -rf .venv .venv-* .uv .tools .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build ui/node_modules src/rowlock/ui_dist

$(STAMP): requirements.lock pyproject.toml | $(UV_NEEDED)
	@test -x $(BIN)/python || $(UV) venv --quiet --no-project --python '$(if $(PYTHON),$(or $(INTERPRETER),$(PYTHON)),>=3.11)' $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# A virtual environment first; where Debian left out ensurepip, pip's --target works without touching the system.
.uv/bin/uv:
	@python3 -m venv .uv 2>/dev/null && .uv/bin/python -m pip install --quiet uv || \
		{ rm -rf .uv && python3 -m pip install --quiet --target .uv uv; }
