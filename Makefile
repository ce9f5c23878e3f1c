# make makes the environment; the work is the clusterbook command's and pytest's.
#
#   make book        execute every chapter and build the book: _build/html/index.html
#   make test        ruff, unit tests, the notebooks' outputs, the built book
#   make faults      break the code on purpose; a check of a notebook or a unit test must notice
#   make seeds       the chapters' checks at ten other seeds, and with 2 and 4 threads
#   make benchmark   speed, printed as ratios measured in one run; the memory of every notebook
#   make test-environments
#                    every chapter on machines like Colab's, oldest and newest versions (gigabytes)

# The first Python that fits, tested ones before newer ones; PYTHON=/path/to/python names another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python python3.14; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
INSTALLED := .venv/installed

# Two test workers with one thread each: more threads than cores cost more than they give.
WORKERS ?= 2
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: book test faults seeds benchmark test-environments clean
.DELETE_ON_ERROR:

book: $(INSTALLED)
	@$(BIN)/clusterbook book

test: $(INSTALLED)
	@$(TEST) -n $(WORKERS)

faults: $(INSTALLED)
	@$(TEST) -n 0 -p no:nbval -o addopts="--import-mode=importlib" -v tests/faults

seeds: $(INSTALLED)
	@$(TEST) -n $(WORKERS) -p no:nbval -o addopts="--import-mode=importlib" tests/seeds

benchmark: $(INSTALLED)
	@$(BIN)/python tests/benchmarks

test-environments: $(INSTALLED)
	@$(BIN)/python tests/environments

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "clusterbook needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; found = "$(PYTHON) is %d.%d" % sys.version_info[:2]; ok = sys.version_info >= (3, 11); ok or sys.stderr.write("clusterbook needs Python 3.11 or newer; %s. Name another: make PYTHON=/path/to/python\n" % found); sys.version_info >= (3, 14) and sys.stderr.write("%s, which clusterbook was not tested with\n" % found); sys.exit(0 if ok else 2)'
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[book,test]"
	@touch $(INSTALLED)

clean:
	rm -rf _build .venv
