# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TARGET := x86_64-unknown-linux-gnu
AGENT := target/$(TARGET)/release/whodisk-agent
VENV := .venv
PYTHON := $(VENV)/bin/python

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Modules are compiled once, not in each of the hundreds of commands that tests run.
unexport PYTHONDONTWRITEBYTECODE
# Tests and benches run the program of this tree, never one found elsewhere.
export WHODISK_AGENT = $(CURDIR)/$(VENV)/bin/whodisk-agent

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: prerequisites
prerequisites:
	@scripts/prerequisites.sh

.PHONY: binary
binary: prerequisites
	@echo "building whodisk-agent; the first time takes some minutes"
	@# All CPUs, however many jobs make itself runs.
	@env -u MAKEFLAGS cargo build --quiet --release -p whodisk-agent

.PHONY: build
build: binary venv ## build the binary and install `whodisk` into .venv
	@scripts/install.sh $(AGENT)
	@echo "built: $(VENV)/bin/whodisk"

# Tests bring dependencies of their own, which changes features of shared ones: build all at once, not twice.
.PHONY: binary-all build-all
binary-all: prerequisites
	@# All CPUs, however many jobs make itself runs.
	env -u MAKEFLAGS cargo build --release --workspace --all-targets

build-all: binary-all venv-test
	@scripts/install.sh $(AGENT)

# The same without the examples that benchmarks run.
TEST_TARGETS := --lib --bins --tests
.PHONY: binary-test build-test
binary-test: prerequisites
	env -u MAKEFLAGS cargo build --release --workspace $(TEST_TARGETS) --example rec

build-test: binary-test venv-test
	@scripts/install.sh $(AGENT)

# What whodisk itself needs; what its tests and linters need comes on top, and on top of that the peers of benchmarks. Modules are compiled when
# something imports them.
.PHONY: venv venv-test venv-bench
venv: $(VENV)/.requirements
venv-test: $(VENV)/.requirements-test
venv-bench: $(VENV)/.requirements-bench

$(VENV)/.requirements: requirements.lock
	@scripts/python.sh -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --no-compile -r requirements.lock
	@touch $@

$(VENV)/.requirements-test: requirements-test.lock $(VENV)/.requirements
	@$(VENV)/bin/pip install --quiet --no-compile -r requirements-test.lock
	@touch $@

$(VENV)/.requirements-bench: requirements-bench.lock $(VENV)/.requirements-test
	@$(VENV)/bin/pip install --quiet --no-compile -r requirements-bench.lock
	@touch $@

.PHONY: demo
demo: packages-demo ## set everything up and watch whodisk find two culprits
	@# Python packages come over the network while the CPUs compile.
	@$(MAKE) --no-print-directory --jobs 2 build
	@$(VENV)/bin/whodisk demo

.PHONY: packages-demo packages-test packages-test-vm packages-bench packages-bpf packages-accuracy
packages-demo packages-test packages-test-vm packages-bench packages-bpf packages-accuracy: packages-%:
	@scripts/packages.sh $*

# YCSB and RocksDB for Java, by name, through Maven.
.PHONY: ycsb
ycsb: packages-accuracy venv-test
	@PYTHONPATH=python $(PYTHON) -m whodisk.programs.ycsb

.PHONY: test
test: ## all tests; prints what was skipped and why
	@# Packages come over the network while the CPUs compile.
	@$(MAKE) --no-print-directory --jobs 2 packages-test build-test
	@# All parts run, whatever the others find. Tests that only compute share the CPUs, with some that record; the others that do go one by one.
	@# A test of a live kernel that failed runs once more, and is named at the end (decision 0193).
	export WHODISK_SKIPS=$(CURDIR)/target/skips.tsv WHODISK_RETRIES=$(CURDIR)/target/retries.tsv; \
	rm -f "$$WHODISK_SKIPS" "$$WHODISK_RETRIES"; failed=0; \
	cargo test --release --workspace $(TEST_TARGETS) --no-fail-fast || failed=1; \
	$(PYTHON) -m pytest --durations 20 -n auto --dist loadgroup -m '(beside or not (root or alone)) and not (vm or slow)' || failed=1; \
	$(PYTHON) -m pytest --durations 20 --reruns 1 -m '(root or alone) and not (beside or vm or slow)' || failed=1; \
	scripts/skipped.sh "$$WHODISK_SKIPS" "$$WHODISK_RETRIES"; \
	echo "left out, because they take minutes: long tests (make test-long), the tests in the emulated machine (make test-vm)"; \
	exit $$failed

.PHONY: test-long
test-long: packages-test build-all ## what `make test` leaves out: long recordings, more programs, more seeds
	$(PYTHON) -m pytest -n auto --dist loadgroup -m 'slow and (beside or not (root or alone)) and not vm'
	$(PYTHON) -m pytest --reruns 1 -m 'slow and (root or alone) and not (beside or vm)'
	WHODISK_SEEDS=5 $(PYTHON) -m pytest -n auto --dist loadgroup tests/unit/test_ground_truth.py
	cargo test --release --package whodisk-lab -- --include-ignored
	cargo test --release --package whodisk-record --test kernel -- --ignored

.PHONY: test-vm
test-vm: packages-test-vm build venv-test ## the recorder on Linux 6.1 and 6.12 with NVMe drives, RAID and real faults, under emulation
	$(PYTHON) -m pytest -m vm tests/vm

# The recorder's programs are attached and detached while they run. Starts while the machine is idle show nothing.
.PHONY: test-starts
test-starts: packages-test packages-test-vm build-all ## 200 recordings begin and end under load: here, and on Linux 6.1 and 6.12 under emulation
	WHODISK_STARTS=200 cargo test --release --workspace --test kernel starts
	WHODISK_STARTS=200 $(PYTHON) -m pytest -m vm tests/vm/test_parallel.py

.PHONY: bench
bench: packages-bench build-all venv-bench ## benchmarks side by side with their peers; ARGS='engine_disk -- --seconds 2' for some
	$(PYTHON) benches/run.py $(ARGS)

.PHONY: lint
lint: prerequisites venv-test ## rustfmt, clippy, ruff, mypy, prose: warnings are errors
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTHON) scripts/prose

.PHONY: accuracy
accuracy: packages-test packages-accuracy build venv-test ycsb ## the long tables (hours); resumes where it was stopped; ARGS='--help' for choices
	$(PYTHON) -m tests.accuracy $(ARGS)

.PHONY: fuzz
fuzz: prerequisites ## fuzz the readers, each until FUZZ_IDLE_SECONDS (300) of CPU time bring no new edge, at most FUZZ_SECONDS (1200), FUZZ_JOBS at once; ARGS='fio-lat ...' for some
	@scripts/fuzz.sh $(ARGS)

.PHONY: agent
agent: prerequisites ## the static binary alone
	cargo build --release -p whodisk-agent
	@echo "built: $(AGENT)"

.PHONY: bpf
bpf: packages-bpf ## rebuild the committed BPF object from its C source
	@scripts/build-bpf

.PHONY: wheel
wheel: prerequisites venv-test ## the wheel, in dist/
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin build --release --target $(TARGET) --out dist

.PHONY: man
man: build ## the man page, in dist/whodisk.1, from the same definitions as --help
	@mkdir -p dist
	scripts/man-page $(VENV)/bin/whodisk >dist/whodisk.1

.PHONY: clean
clean: ## remove everything that was built
	rm -rf target $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
