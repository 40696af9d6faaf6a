# From a fresh checkout to a measurement (`make trial`) or a test run (`make test`).
# Every target sets up what it needs; nothing is rebuilt unless it changed.

PYTHON ?= python3
DIR ?= trial

CORE_SOURCES := Cargo.toml $(wildcard Cargo.lock) pyproject.toml \
	$(shell find crates -name '*.rs' -o -name Cargo.toml)

# What users get is optimised across crates, in minutes. With `dev`, as in .ci/run, the engine has every
# assertion on, and shares its compiled crates with the tests of them.
ENGINE_PROFILE ?= release
export ENGINE_PROFILE

# One interpreter for all cargo commands: another one would rebuild the binding.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

# The tests start the program a thousand times: keep its compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help trial setup test test-fast test-long lint generate test-rust test-leisurely test-python tools-for-tests bench format lock clean \
	compiled-tests always docs man wheel tools-for-release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

trial: setup ## run the quick trial in DIR (default: the folder trial/) and write a report
	@[ "$(DIR)" != trial ] || mkdir -p trial
	@.venv/bin/seatrial run "$(DIR)"

setup: .venv/core ## create the Python environment and compile the engine

# These only compute, and wait for nothing: however late they are, they pass. So they get the processor
# time that the other tests leave, as lint does.
LEISURELY := $(addprefix tests/,catalogue findings stats) \
	$(wildcard tests/trials/*/analysis) tests/trials/replay/compare \
	$(filter-out %/test_fio_jobs.py %/test_pgbench_log.py,$(wildcard tests/importers/test_*.py)) \
	$(filter-out %/test_queue_of_tests.py,$(wildcard tests/tidy/test_*.py))

# Not inside the recipe: `make --dry-run test` would run it.
IN_BACKGROUND := $(MAKE) --no-print-directory --keep-going compiled-tests lint test-rust test-leisurely

test: tools-for-tests setup ## run every check and every test
	@.venv/bin/python tools/test/queue_of_tests.py --background "$(IN_BACKGROUND)" \
		$(addprefix --without=,$(LEISURELY)) $(CONCURRENT)

generate: setup ## write the files that are generated from the code
	@for each in tools/generate/*.py; do .venv/bin/python $$each || exit 1; done

lint: setup ## check formatting, lints, types and generated files
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

# Every test is in a library (tests/tidy/test_rust.py): nothing else needs to be built. The binding has
# none, but without it its dependencies would have other features, and be built again.
test-rust: ## run the tests of the Rust crates
	@echo "== cargo test"
	@cargo test --quiet --workspace --locked --tests --no-fail-fast

# Each worker of the queue would compile all tests at its start: 7 s of processor time of 12.
compiled-tests:
	@.venv/bin/python -m pytest --collect-only -qq -o cache_dir=.cache/pytest-leisurely >/dev/null

test-leisurely: ## run the Python tests that only compute, one after the other
	@echo "== pytest, what only computes"
	@.venv/bin/python -m pytest --quiet -o cache_dir=.cache/pytest-leisurely $(LEISURELY)

# These measure no time, and no other test touches their devices: any of their files may run at once.
# All others run one after the other, in two lanes.
CONCURRENT := $(addprefix tests/,catalogue examples findings importers lab postgres release report \
	results stats study tidy) \
	$(wildcard tests/trials/*/analysis tests/trials/*/report tests/trials/*/study) \
	$(wildcard tests/trials/io/test_*.py) tests/trials/replay tests/trials/audit/commands tests/trials/plan \
	tests/trials/database/commands tests/trials/layouts/commands/test_lab_command.py \
	$(filter-out %/test_pool.py,$(wildcard tests/trials/cache/test_*.py)) \
	tests/machine/fingerprint tests/bench/test_compare_bench.py \
	tests/bench/test_read_cluster_bench.py tests/trials/audit/test_adaptive.py \
	tests/trials/database/measure/test_study.py tests/trials/fleet $(wildcard tests/trials/watch/test_*.py) \
	$(addprefix tests/trials/filebench/,test_findings.py test_wml.py) \
	$(patsubst %,tests/measure/test_%.py,descriptors errors exchanged_targets recovery same_targets verify) \
	$(filter-out %/test_interrupts.py %/test_lifetimes.py %/test_live.py %/test_two_runs.py, \
	$(wildcard tests/cli/test_*.py))

test-python: setup ## run the Python tests, including source tree, report and lab
	@echo "== pytest"
	@.venv/bin/python tools/test/queue_of_tests.py $(CONCURRENT)

# These need no server, guest, browser, device or root and are independent: they run on all processors.
# The slowest are left to `make test`: many fits and simulations, and those that start pytest.
PURE := $(addprefix tests/,tidy stats findings study report importers) \
	$(wildcard tests/trials/*/analysis tests/trials/*/report tests/trials/*/study) \
	$(wildcard tests/trials/io/test_*.py) tests/trials/replay/compare
SLOW := tests/tidy/test_queue_of_tests.py tests/stats/compare/test_gates.py \
	$(addprefix tests/trials/audit/analysis/test_,gaps.py readings.py predict.py fallback.py) \
	tests/trials/loadline/analysis/test_coverage.py

# The checks use one processor most of the time, so the tests run meanwhile.
test-fast: setup ## run lint, Rust tests and pure Python tests: no servers, guests or browsers
	@$(MAKE) --no-print-directory --keep-going lint test-rust & checks=$$!; \
	.venv/bin/python -m pytest --quiet --numprocesses auto --dist loadfile \
		-m "not browser and not root" $(addprefix --ignore=,$(SLOW)) $(PURE); tests=$$?; \
	wait $$checks && exit $$tests

# Simulations that count wrong answers: a thousand trials instead of 150.
LONG := tests/stats/compare/test_gates.py tests/trials/loadline/analysis/test_coverage.py \
	tests/trials/loadline/analysis/test_pooled.py \
	tests/importers/test_hostile.py

test-long: setup ## run statistical simulations and planted bounds with more trials
	@echo "== pytest, long"
	@SEATRIAL_TEST_LONG=1 .venv/bin/python -m pytest --quiet --numprocesses auto $(LONG)
	@SEATRIAL_TEST_LONG=1 .venv/bin/python -m pytest --quiet tests/bench/test_planted_bounds.py
	@echo "== cargo test, long"
	@SEATRIAL_ID_SCENES=1000 cargo test --quiet --package seatrial-playback --locked --lib ids::

bench: setup ## run the benches (engine, comparison, lab, logs, replays): bench/RESULTS.md
	@.venv/bin/python bench/engine_speed.py
	@.venv/bin/python bench/compare.py
	@.venv/bin/python bench/observe.py
	@.venv/bin/python bench/watch.py
	@.venv/bin/python bench/watch.py --live
	@.venv/bin/python bench/drives.py
	@.venv/bin/python bench/lab_speed.py
	@.venv/bin/python bench/read.py --large
	@.venv/bin/python bench/replay_speed.py
	@.venv/bin/python bench/order.py
	@.venv/bin/python bench/capture.py
	@.venv/bin/python bench/before_after.py

docs: tools-for-release ## build the documentation site: dist/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

man: setup ## write the manual pages: dist/man/man1
	@.venv/bin/python tools/release/man_pages.py dist/man/man1

wheel: tools-for-release ## build wheels for x86-64 and arm64, glibc and musl: dist
	@tools/release/wheels.sh

tools-for-release: setup
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		-r requirements-release.lock

format: setup ## format all code as the lints require
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format --quiet .
	@cargo fmt --all

lock: setup ## update requirements.lock and Cargo.lock to the newest allowed versions
	@.venv/bin/python tools/setup/renew_lock.py
	@cargo update

clean: ## remove build results; keep measurements and reports
	@rm -rf dist .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f python/seatrial/_core*.so
	@cargo clean --quiet

tools-for-tests:
	@PYTHON="$(PYTHON)" tools/setup/check-tools test

# An environment belongs to its folder and its interpreter: if either changed, it is created again.
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
else ifneq ($(shell cat .venv/core 2>/dev/null),$(ENGINE_PROFILE))
.venv/core: always
endif

.venv/core: .venv/made-in $(CORE_SOURCES)
	@PYTHON="$(PYTHON)" tools/setup/check-tools
	@echo "Building the engine (a few minutes the first time)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" .venv/bin/maturin develop --profile $(ENGINE_PROFILE) --locked \
		> .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@echo "$(ENGINE_PROFILE)" > $@
