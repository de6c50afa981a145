# Every target except `lowest`, `peers` and `clean` builds .venv first, and again when the pins change.
PYTHON ?= python3
BIN := .venv/bin
# There is one test process for each core, so more BLAS threads would only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup demo test test-all check format bench fuzz mutants lowest peers clean

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

# Every printed cell, published world and random example; `test` runs a sample of them.
test-all: export TUTELAGE_EVERY_CELL := 1
test-all: test

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
	$(BIN)/python -m benchmarks kernels
	$(BIN)/python -m benchmarks learners
	$(BIN)/python -m benchmarks teachers
	$(BIN)/python -m benchmarks scale --quick

# Thousands of random problems of every scale, and random files: does each end in an answer or in one sentence?
fuzz: setup
	$(BIN)/python tools/fuzz.py

# Single wrong changes, one at a time: which do the tests notice? About an hour; not part of `check`.
mutants: setup
	$(BIN)/python tools/mutants.py

# A separate environment with the lowest versions that pyproject.toml declares: do they suffice?
lowest: .venv-lowest/ready
	.venv-lowest/bin/python -c 'import tutelage, tutelage.playground.serving'
	.venv-lowest/bin/tutelage demo --picture out/lowest
	.venv-lowest/bin/tutelage teach --world published:0:10 --learner L3 --teacher bilevel
	.venv-lowest/bin/tutelage reproduce figure1 --out out/lowest
	.venv-lowest/bin/python -m pytest tests/solvers

.venv-lowest/ready: pyproject.toml tools/lowest.py
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tools/lowest.py > .venv-lowest/pins.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/pins.txt \
		--editable '.[cluster,gymnasium,graph,playground]' cvxpy hypothesis pytest pytest-timeout
	touch $@

# A separate environment: the dependencies of `imitation` conflict with those of Tutelage.
peers: .venv-peers/ready

.venv-peers/ready:
	rm -rf .venv-peers
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check 'imitation==1.0.1'
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-peers
