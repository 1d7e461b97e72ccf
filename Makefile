# `make demo` narrates a short book to out/, `make test` runs every test; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# The official package is compared with, never shipped; its own dependencies are not needed for that.
ORACLE := qwen-tts==0.1.1
# Processes that share the tests, a file at a time, each on one thread. WORKERS=0: one, as for plain pytest.
WORKERS ?= 2

.PHONY: demo test check clean

demo: .venv/product
	$(BIN)/rhapsode narrate examples/the-lamp-at-low-water.md -o out/the-lamp-at-low-water.m4b \
	    --dialogue-voice corinna --overwrite

test: .venv/tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

clean:
	rm -rf .venv out

.venv/product: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rhapsode needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/tests: .venv/product
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps $(ORACLE)
	touch $@
