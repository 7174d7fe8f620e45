# Two commands need nothing but python3 (3.11 or newer) and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/ready
JOBS ?= 2
# Tests wait for disks, sockets and other processes more than they compute.
TESTERS ?= 3
# Where nothing may be kept of what Python compiles, each of the many processes that the tests start
# would compile all its modules again, for three to twelve seconds. What is kept is in the checkout.
unexport PYTHONDONTWRITEBYTECODE

# Files as they are ordered by tests/conftest.py, not those with the most tests first.
PYTEST = $(VENV)/bin/pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder
KERNELS := $(addprefix kernels-,nearest others joins)

# Scripts that need almost all kernels which the demonstration does not.
SCRIPTS := $(addprefix tests/scripts/,aggregates moving past triggers ways wgs84)

.PHONY: help demo test test-all prepared lint style types kernels $(KERNELS) scripts classes env lock clean

help:
	@echo "make demo      a city on Spark: moving objects, queries of every kind, a live map"
	@echo "make test      check style, types and behaviour"
	@echo "make test-all  the same with the long searches"
	@echo "make env       only create the environment in $(VENV)"
	@echo "make lock      choose the pinned dependencies again (requirements/*.lock)"
	@echo "make clean     remove the environment and all caches"

demo: $(READY)
	@$(VENV)/bin/place demo

test: prepared
	$(PYTEST) -m "not long"

test-all: prepared
	PLACE_EXAMPLES=1000 $(PYTEST)
	for cells in 1x1 1x2 2x2 3x1; do for batching in each one random:1 random:2 random:3 random:4 random:5; do \
	  $(VENV)/bin/place script tests/scripts --runtime local --cells $$cells --batching $$batching || exit 1; done; done
	for cells in 1x1 2x2; do for batching in each one random:1; do \
	  $(VENV)/bin/place script tests/scripts --runtime spark --cells $$cells --batching $$batching || exit 1; done; done

# Style, types, and kernels that are compiled once for all processes of the tests, side by side; the
# longest first, so that none goes on alone.
prepared: $(READY)
	@$(MAKE) --no-print-directory --jobs=$(JOBS) classes kernels types scripts style

lint: style types

style: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(READY)
	$(VENV)/bin/mypy

kernels: $(KERNELS)

# What cannot be compiled here is compiled by the tests, and they say what is wrong with it.
$(KERNELS): kernels-%: $(READY)
	-@$(VENV)/bin/python -m place.operate.compiling $* >/dev/null

scripts: $(KERNELS)
	-@$(VENV)/bin/place script $(SCRIPTS) --runtime local --batching one >/dev/null

# Spark's classes as Java keeps them: each of the many starts of Spark in the tests is shorter.
classes: $(READY)
	-@$(VENV)/bin/python -m place.runtime.spark.class_archive >/dev/null

env: $(READY)

# Build tools first, pinned too, so that no package is built with tools that the lock does not name.
# One of them is uv, which installs the rest in a third of pip's time. It does not read pip's
# configuration: a mirror that is named there is handed on.
$(READY): requirements/build.lock requirements/all.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "PLACE needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Creating the environment in $(VENV) (once; one to three minutes) ..."
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "$(PYTHON) cannot create environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/build.lock
	@mirror=$$($(VENV)/bin/python -m pip config get global.index-url 2>/dev/null); \
	install="$(VENV)/bin/uv pip install -q --python $(VENV)/bin/python --no-build-isolation"; \
	$$install $${mirror:+--default-index "$$mirror"} --require-hashes -r requirements/all.lock && \
	$$install --no-deps -e .
	@touch $(READY)

lock: $(READY)
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements/build.lock requirements/build.in
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra dev -o requirements/all.lock pyproject.toml

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
