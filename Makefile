# Two commands are enough: `make book`, then `make serve`. Every target sets up what it
# needs. The work is done by the Python files in book/tools.

PYTHON ?= python3
PORT ?= 8000
WORKERS ?= 2

ifeq ($(OS),Windows_NT)
RUN := .venv/Scripts/python.exe
else
RUN := .venv/bin/python
endif
# Tools are run as `$(RUN) -m tool`: a console script names its interpreter in its first
# line, which breaks where the path holds a space.

# The working folder is not searched for modules, so that the folder kernels/ is not
# taken for a distribution of that name.
export PYTHONSAFEPATH := 1
# Kernels take no start-up files of the reader's; book/tools/build.py makes the folder.
export IPYTHONDIR := $(CURDIR)/book/_build/ipython

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup book serve test bench gpu outputs lint

help: ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1	/p' Makefile

setup: ## make .venv and fetch what the book needs; nothing to do the second time
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no $(PYTHON) here; the book needs Python 3.11 or newer." >&2; \
	  exit 1; }
	@"$(PYTHON)" book/tools/check_python.py
	@"$(PYTHON)" book/tools/setup.py

book: setup ## execute every notebook and build the site
	@$(RUN) book/tools/build.py

serve: setup ## serve the site on this machine; PORT=8001 to change the port
	@$(RUN) book/tools/build.py --if-stale
	@$(RUN) book/tools/serve.py --port $(PORT)

test: setup ## run every test: units, identities, peers, notebooks, the built site
	@"$(PYTHON)" book/tools/setup.py --peers --other-triton
	@$(RUN) book/tools/build.py --if-stale
	@# workers share the cores, so each computes on one thread
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist loadscope \
	  --nbval-lax --nbval-current-env --nbval-cell-timeout=120 tests notebooks

bench: setup ## time the torch forms beside other libraries', on one CPU thread
	@"$(PYTHON)" book/tools/setup.py --peers
	@$(RUN) benchmarks/cpu.py

gpu: setup ## hold the kernels to float64 on a GPU, then time them; TABLE=... for a file
	@"$(PYTHON)" book/tools/setup.py --peers
	@$(RUN) benchmarks/gpu.py $(if $(TABLE),--out "$(TABLE)")

outputs: setup ## execute the notebooks and store their outputs; NOTEBOOK=... for one
	@$(RUN) book/tools/store_outputs.py $(NOTEBOOK)

lint: setup ## check style and types
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
