# Every target builds .venv first, and again whenever the pins change.
PYTHON ?= python3
BIN := .venv/bin
# One test process per core: more BLAS threads than that only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup demo test check format bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/tutelage demo --picture out/demo

test: setup
	$(BIN)/pytest --numprocesses auto --dist worksteal

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses auto --dist worksteal

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python benchmarks/solvers.py
	$(BIN)/python benchmarks/learners.py
	$(BIN)/python benchmarks/teachers.py

clean:
	rm -rf .venv
