# From a fresh checkout to a measurement (`make trial`) or a test run (`make test`).
# Every target sets up what it needs; nothing is built again when nothing changed.

PYTHON ?= python3
DIR ?= trial

CORE_SOURCES := Cargo.toml $(wildcard Cargo.lock) pyproject.toml \
	$(shell find crates -name '*.rs' -o -name Cargo.toml)

# One interpreter for every cargo command: another would build the binding again.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

# The tests start the program a thousand times: it is not to be compiled anew each time.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help trial setup test test-fast lint generate test-rust test-python tools-for-tests bench format lock clean \
	always docs man wheel tools-for-release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

trial: setup ## the quick trial of DIR (default: the folder trial/), with a report at its end
	@[ "$(DIR)" != trial ] || mkdir -p trial
	@.venv/bin/seatrial run "$(DIR)"

setup: .venv/core ## the Python environment and the compiled engine

test: tools-for-tests lint test-rust test-python ## every check and every test

generate: setup ## write the files that say again what the code declares
	@for each in tools/generate/*.py; do .venv/bin/python $$each || exit 1; done

lint: setup ## formatting, lints, types, and whether generated files are up to date
	@echo "== ruff"
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@echo "== mypy"
	@.venv/bin/mypy
	@echo "== rustfmt"
	@cargo fmt --all --check
	@echo "== clippy"
	@cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	@echo "== cargo doc"
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
	@echo "== generated files"
	@for each in tools/generate/*.py; do .venv/bin/python $$each --check || exit 1; done

# Every test lies within a library (tests/tidy/test_rust.py): nothing else need be built.
test-rust: ## the tests of the Rust crates
	@echo "== cargo test"
	@cargo test --quiet --workspace --exclude seatrial-pyext --locked --lib

# These time nothing and touch no device of the machine (the lab's disks are files of its own): they
# run beside the others. Both halves take about as long.
BESIDE := $(addprefix tests/,lab stats findings report results examples) \
	$(addprefix tests/trials/,io replay audit/analysis database/analysis layouts/analysis) \
	tests/trials/loadline/analysis \
	$(patsubst %,tests/cli/test_%.py,audit_command commands db_command db_options declared import \
	remeasure sources sql_command sql_replay_command sql_replay_text sql_text)

test-python: setup ## the tests of the Python rooms, the source tree, the report and the lab
	@echo "== pytest"
	@.venv/bin/python tools/test/halves.py $(BESIDE)

# What needs no server, guest, browser, device nor root; each test for itself, so on all processors.
PURE := $(addprefix tests/,tidy stats findings study report importers) \
	$(addprefix tests/trials/,io audit/analysis database/analysis database/study layouts/analysis \
	loadline/analysis replay/analysis replay/compare replay/study)

test-fast: lint test-rust ## lint, Rust and the tests of pure Python: no servers, guests or browsers
	@echo "== pytest, pure"
	@.venv/bin/python -m pytest --quiet --numprocesses auto --dist loadfile \
		-m "not browser and not root" $(PURE)

bench: setup ## engine, comparison, observing, drives of 2010, the lab, logs, replays: bench/RESULTS.md
	@.venv/bin/python bench/engine_speed.py
	@.venv/bin/python bench/compare.py
	@.venv/bin/python bench/observe.py
	@.venv/bin/python bench/drives.py
	@.venv/bin/python bench/lab_speed.py
	@.venv/bin/python bench/read.py --large
	@.venv/bin/python bench/replay_speed.py
	@.venv/bin/python bench/order.py
	@.venv/bin/python bench/capture.py
	@.venv/bin/python bench/before_after.py

docs: tools-for-release ## the site of the documents: dist/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

man: setup ## the manual pages: dist/man/man1
	@.venv/bin/python tools/release/man_pages.py dist/man/man1

wheel: tools-for-release ## wheels for x86-64 and arm64, glibc and musl: dist
	@tools/release/wheels.sh

tools-for-release: setup
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		-r requirements-release.lock

format: setup ## lay out all code as the lints want it
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format --quiet .
	@cargo fmt --all

lock: setup ## renew requirements.lock and Cargo.lock to the newest versions allowed
	@.venv/bin/python tools/setup/renew_lock.py
	@cargo update

clean: ## remove what was built; measurements and reports stay
	@rm -rf dist .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f python/seatrial/_core*.so
	@cargo clean --quiet

tools-for-tests:
	@PYTHON="$(PYTHON)" tools/setup/check-tools test

# An environment belongs to its folder and its interpreter: when either moved, it is made anew.
MADE_IN := $(shell test -x .venv/bin/python && cat .venv/made-in 2>/dev/null)
ifneq ($(MADE_IN),$(CURDIR))
.venv/made-in: always
endif

.venv/made-in: requirements.lock
	@PYTHON="$(PYTHON)" tools/setup/check-tools
	@echo "Setting up the Python environment in .venv"
	@[ "$(MADE_IN)" = "$(CURDIR)" ] || "$(PYTHON)" -m venv --clear .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@echo "$(CURDIR)" > $@

ifeq ($(wildcard python/seatrial/_core*.so),)
.venv/core: always
endif

.venv/core: .venv/made-in $(CORE_SOURCES)
	@PYTHON="$(PYTHON)" tools/setup/check-tools
	@echo "Building the engine (a minute or two the first time)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" .venv/bin/maturin develop --release --locked \
		> .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@touch $@
