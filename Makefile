# `demo` installs what the program needs, `docs` the site's tools, every other target the developers' tools: one .venv,
# extended step by step, and built anew when the pins change. `lowest`, `peers` and `dist` have environments of their own.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# There is one test process for each core, so more BLAS threads would only wait for each other.
export OPENBLAS_NUM_THREADS := 1
# The tests start hundreds of processes; without bytecode on disk each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-all coverage check format docs dist bench fuzz mutants lowest peers clean

setup: .venv/ready

.venv/installed: pyproject.toml constraints.txt
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

# Of icu-sepsis the tests read the data only, without its dependencies (gym, scikit-learn).
.venv/ready: .venv/installed
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps icu-sepsis
	touch $@

.venv/docs-ready: .venv/installed
	$(PIP) --editable '.[docs]'
	touch $@

demo: .venv/installed
	$(BIN)/tutelage demo --picture out/demo

test: setup
	$(BIN)/pytest --numprocesses auto --dist worksteal

# Every printed cell, published world and random example; `test` runs a sample of them.
test-all: export TUTELAGE_EVERY_CELL := 1
test-all: test

# Which lines the tests run, in out/coverage. Compiled loops count as not run.
coverage: setup
	$(BIN)/pytest --numprocesses auto --dist worksteal --cov=tutelage --cov-report=term:skip-covered \
		--cov-report=html:out/coverage

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/typed_docs.py
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses auto --dist worksteal

# The site, in site/: the code of every page runs, and a warning or a dead link ends the build.
docs: .venv/docs-ready
	$(BIN)/python tools/site/build.py

# The sdist and the wheel, in dist/, and each tried in an empty environment: import, demo, teach, figure1, serve.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python tools/try_dist.py dist

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m benchmarks kernels
	$(BIN)/python -m benchmarks learners
	$(BIN)/python -m benchmarks teachers
	$(BIN)/python -m benchmarks unknown
	$(BIN)/python -m benchmarks scale --quick
	$(BIN)/python -m benchmarks families

# Thousands of random problems of every scale, damaged files and worlds, and random requests to the server: does each
# end in an answer or in one sentence?
fuzz: setup
	$(BIN)/python tools/fuzz.py
	TUTELAGE_EVERY_CELL=1 $(BIN)/pytest tests/playground/test_schema.py

# Single wrong changes, one at a time: which do the tests notice? A few of every module (hours), or those of one module
# or function: make mutants MODULE=convex.newton, MODULE=bellman.equations:solve_soft. Not part of `check`.
mutants: setup
	$(BIN)/python tools/mutants.py $(MODULE)

# A separate environment with the lowest versions that pyproject.toml declares: do they suffice?
lowest: .venv-lowest/ready
	.venv-lowest/bin/python -c 'import tutelage, tutelage.playground.server'
	.venv-lowest/bin/tutelage demo --picture out/lowest
	.venv-lowest/bin/tutelage teach --world published:0:10 --learner L3 --teacher bilevel
	.venv-lowest/bin/tutelage reproduce figure1 --out out/lowest
	.venv-lowest/bin/python -m pytest tests/model tests/chains tests/bellman tests/convex tests/constrained

.venv-lowest/ready: pyproject.toml tools/lowest.py
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tools/lowest.py > .venv-lowest/pins.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/pins.txt \
		--editable '.[cluster,gymnasium,graph,playground]' cvxpy hypothesis pandas pytest pytest-timeout
	touch $@

# A separate environment: the dependencies of `imitation` conflict with those of Tutelage. Also linear programming and
# QuantEcon, for `python -m benchmarks families`.
peers: .venv-peers/ready

.venv-peers/ready:
	rm -rf .venv-peers
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check 'imitation==1.0.1' \
		'highspy[extras]' ortools quantecon
	touch $@

clean:
	rm -rf .venv .venv-lowest .venv-peers dist site
