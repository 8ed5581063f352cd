# Everything a fresh machine needs: Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install demo test test-full chaos operations-page check lock format clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "reminders needs Python 3.11 or newer; this is %s. Set PYTHON=/path/to/python3.11" % sys.version.split()[0])'
	@# One that was broken off while it was made has no pip yet.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: install
	@$(BIN)/reminders demo

# Many tests wait for processes rather than compute: four at a time on two cores, each file in one of them.
test: install
	$(BIN)/python -m pytest -m "not long" --numprocesses 4 --dist loadfile --no-loadscope-reorder

test-full: install
	$(BIN)/python -m pytest --hypothesis-profile fresh --numprocesses 4 --dist loadfile --no-loadscope-reorder

# The recorded run: some 25 minutes. Writes its report, logs and notes below build/chaos.
chaos: install
	$(BIN)/python -m benchmarks.chaos --out build/chaos

# Plants trouble in an installation of its own and writes what the commands say into docs/operations.md.
operations-page: install
	$(BIN)/python tests/acceptance/operations_page.py

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest tests/migrations/test_lint.py

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: install
	$(BIN)/uv pip compile pyproject.toml --extra embedded --extra dev --universal --python-version 3.11 --generate-hashes --quiet --custom-compile-command "make lock" -o requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
