# make makes the environment; the work is the clusterbook command's and pytest's.
#
#   make book        execute every chapter and build the book: _build/html/index.html
#   make test        ruff, unit tests, the four chapters' outputs, the built book; SLOW=1 adds what
#                    continuous integration runs too: the other pages' outputs, killed and resumed
#                    runs, every page in the browser, every position of every slider
#   make faults      break the code on purpose; a check of a notebook or a unit test must notice
#   make verify      run three recorded runs again and compare; RECORDS="NAME …" names others
#   make seeds       the chapters' checks at ten other seeds (the comparison's at three)
#   make processors  notebooks and golden fits as on processors with AVX-512, AVX2 and SSE4
#                    instructions, and with 2 and 4 threads: what is compared is the same
#   make benchmark   speed, printed as ratios measured in one run; the memory of every notebook
#   make test-environments
#                    every chapter on machines like Colab's, oldest and newest versions (gigabytes)
#   make lock        the exact versions anew, from pyproject.toml: requirements.txt (needs uv)
#
# The first of them installs those versions in .venv, with uv where it is found and otherwise with
# pip (UV= forces pip). TORCH=cpu takes torch's CPU builds; .venv/installed keeps that choice.

# The first Python that fits, tested ones before newer ones; PYTHON=/path/to/python names another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python python3.14; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
INSTALLED := .venv/installed

UV ?= $(shell command -v uv 2>/dev/null)
PIP := $(if $(UV),"$(UV)" pip install --python $(BIN)/python,$(BIN)/python -m pip install) --quiet

TORCH := $(or $(TORCH),$(shell cat $(INSTALLED) 2>/dev/null))
CPU_BUILDS := https://download.pytorch.org/whl/cpu
ifneq ($(filter-out cpu,$(TORCH)),)
$(error TORCH=$(TORCH) is unknown: TORCH=cpu takes torch's CPU builds, without it the ordinary ones are taken)
endif

# Test workers have one thread each; of two cores three workers use what one of them leaves when it
# waits for a kernel, a browser or a build.
WORKERS ?= 3
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: book test faults verify seeds processors benchmark test-environments lock clean
.DELETE_ON_ERROR:

book: $(INSTALLED)
	@$(BIN)/clusterbook book

test: $(INSTALLED)
	@$(TEST) -n $(WORKERS) $(if $(SLOW),,-m "not slow")

faults: $(INSTALLED)
	@$(TEST) -n $(WORKERS) -p no:nbval -o addopts="--import-mode=importlib" -v tests/faults

verify: $(INSTALLED)
	@$(BIN)/clusterbook verify $(RECORDS)

seeds: $(INSTALLED)
	@$(TEST) -n $(WORKERS) -p no:nbval -o addopts="--import-mode=importlib" tests/seeds

processors: $(INSTALLED)
	@WORKERS=$(WORKERS) $(BIN)/python -m pytest -n 0 -p no:nbval -o addopts="--import-mode=importlib" -v tests/processors

benchmark: $(INSTALLED)
	@$(BIN)/python tests/benchmarks

test-environments: $(INSTALLED)
	@$(BIN)/python tests/environments

$(INSTALLED): pyproject.toml requirements.txt
	@test -n "$(PYTHON)" || { echo "clusterbook needs Python 3.11 or newer; none was found. Install one, or name it: make PYTHON=/path/to/python" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; found = "$(PYTHON) is %d.%d" % sys.version_info[:2]; ok = sys.version_info >= (3, 11); ok or sys.stderr.write("clusterbook needs Python 3.11 or newer; %s. Name another: make PYTHON=/path/to/python\n" % found); sys.version_info >= (3, 14) and sys.stderr.write("%s, which clusterbook was not tested with\n" % found); sys.exit(0 if ok else 2)'
ifeq ($(UV),)
	@echo "Installing with pip takes minutes; uv is faster: https://docs.astral.sh/uv"
	"$(PYTHON)" -m venv .venv
	$(PIP) --upgrade pip
else
	"$(UV)" venv --quiet --clear --seed --python "$(PYTHON)" .venv
endif
ifeq ($(TORCH),cpu)
	$(PIP) --no-deps --index-url $(CPU_BUILDS) $$(grep -oE '^(torch|torchvision)==[^ ]+' requirements.txt)
	awk '/^[a-z]/ { kept = !/^(torch|torchvision|triton|cuda-|nvidia-)/ } kept' requirements.txt > .venv/requirements.txt
	$(PIP) --require-hashes --requirement .venv/requirements.txt
else
	$(PIP) --require-hashes --requirement requirements.txt
endif
	$(PIP) --no-deps --editable .
	@echo $(TORCH) > $(INSTALLED)

lock:
	uv pip compile --quiet --universal --python-version 3.11.0 --all-extras --generate-hashes --no-annotate \
		--no-emit-index-url --custom-compile-command "make lock" $(UPGRADE) --output-file requirements.txt pyproject.toml

clean:
	rm -rf _build .venv
