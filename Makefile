VENV := .venv
BIN := $(VENV)/bin

# Shells set HOST and some set PORT: only what stands on make's command line counts.
serve_flags := \
	$(if $(filter command line,$(origin HOST)),--listen $(HOST)) \
	$(if $(filter command line,$(origin PORT)),--port $(PORT)) \
	$(if $(filter command line,$(origin TOKEN)),--token $(TOKEN))

# Modules that were compiled once are loaded faster, by hundreds of programs in tests.
unexport PYTHONDONTWRITEBYTECODE

# An environment that was moved, or whose Python is gone, is made anew.
ifneq ($(shell test -x $(BIN)/python && cat $(VENV)/.place 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.place
endif

# A file's tests stay together; how many files run at once, and in which order they
# begin, is in tests/conftest.py.
side_by_side := --numprocesses auto --dist loadfile --no-loadscope-reorder

# One live test for each way into the server, behind its name.
doors := $(shell awk '{ print "\047" $$2 "\047" }' tests/doors.txt)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

.PHONY: serve
serve: $(VENV)/.server ## Run the server on http://127.0.0.1:5000 (or PORT=…, HOST=…, TOKEN=auto)
	@exec $(BIN)/gym-http-server serve $(serve_flags)

.PHONY: install
install: $(VENV)/.server ## Set up .venv with the server and its environments
	@echo "Ready in $(VENV): make serve starts the server"

.PHONY: check
check: $(VENV)/.dev ## Check a change in minutes: lint, unit tests, contracts, one live test per door
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest $(side_by_side) tests/unit tests/contracts $(doors)

.PHONY: test
test: ## Check and test everything, setting up what that needs
	@$(MAKE) --no-print-directory --jobs 2 system-packages $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 lint-types compiled-tests lint-style
	@$(BIN)/python -m pytest $(side_by_side)

# Installed while pip installs Python packages.
.PHONY: system-packages
system-packages:
	@scripts/toolchain

.PHONY: lint
lint: $(VENV)/.dev ## Check style, types, imports, spelling and the Dockerfile
	@$(MAKE) --no-print-directory --jobs 2 lint-types lint-style

# It takes as long as all others together.
.PHONY: lint-types
lint-types: $(VENV)/.dev
	$(BIN)/mypy

# Tests are compiled for all processes of pytest, which would each compile them. What is
# wrong with one is said when they run.
.PHONY: compiled-tests
compiled-tests: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true

.PHONY: lint-style
lint-style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/hadolint Dockerfile
	@if command -v luacheck >/dev/null; then cd clients/lua && luacheck -q .; fi

.PHONY: format
format: $(VENV)/.dev ## Put the code into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: unit
unit: $(VENV)/.dev ## Run the tests that start no server
	@$(BIN)/python -m pytest tests/unit

.PHONY: live
live: $(VENV)/.dev ## Run the tests that start a real server
	@$(BIN)/python -m pytest tests/live

.PHONY: soak
soak: $(VENV)/.dev ## Load a server for ten minutes and kill its parts (or SOAK="--minutes 1")
	@$(BIN)/python -m tests.soak $(SOAK)

.PHONY: vectors
vectors: $(VENV)/.dev ## Make the clients' test vectors beside those that are committed
	@$(BIN)/python -W ignore -m tests.conformance.generate

.PHONY: openapi
openapi: $(VENV)/.dev ## Print how the OpenAPI document would change (or OPENAPI=--write)
	@$(BIN)/python scripts/make_openapi.py $(OPENAPI)

# A tree that was only unpacked, on a machine whose own Python has the packages, is
# measured as it is: without a network, nothing could be installed.
unpacked := $(shell test ! -e $(VENV) && \
	python3 -c 'import gevent, gunicorn, gymnasium, msgspec, psutil' 2>/dev/null && echo yes)
tree_path := PYTHONPATH=$(CURDIR):$(CURDIR)/clients/python

.PHONY: bench
bench: $(if $(unpacked),,$(VENV)/.dev) ## Measure against the original's arrangement (or BENCH="--only NAME")
	@$(if $(unpacked),$(tree_path) python3,$(BIN)/python) -m benchmarks $(BENCH)
	@$(if $(unpacked),,$(BIN)/python -m benchmarks.plot)

.PHONY: sb3
sb3: build/sb3/.installed ## Test and measure with Stable-Baselines3 (installs PyTorch for the CPU)
	@build/sb3/bin/python -m pytest -q -p no:cacheprovider tests/sb3/sb3_checks.py
	@build/sb3/bin/python -m benchmarks.sb3_vec_env

.PHONY: minari
minari: build/minari/.installed ## Compare exported datasets with those of Minari (installs JAX)
	@build/minari/bin/python -m pytest -q -p no:cacheprovider tests/minari/minari_checks.py

.PHONY: envpool
envpool: build/envpool/.installed ## Compare environments of EnvPool with a local pool (installs EnvPool)
	@build/envpool/bin/python -m pytest -q -p no:cacheprovider tests/envpool/envpool_checks.py

.PHONY: openenv
openenv: build/openenv/.installed build/openenv-core/.installed build/mcp/.installed ## Play with OpenEnv's own clients, 0.10 and 0.3, and over MCP (installs them)
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/openenv/openenv_checks.py

.PHONY: engines
engines: build/ray/.installed ## Run servers of a fleet in Ray (installs it), and in Slurm, if it is there
	@build/ray/bin/python -m pytest -q -p no:cacheprovider tests/engines/*_checks.py

# Environments on top of .venv, so that "make test" needs none of these packages.
on_top := $(foreach name,sb3 minari envpool ray,build/$(name)/.installed)
build/sb3/.installed: packages := torch==2.13.0 stable-baselines3==2.9.2
build/minari/.installed: packages := 'jax[cpu]'
build/envpool/.installed: packages := envpool==1.2.5
build/ray/.installed: packages := ray==2.60.0
$(on_top): $(VENV)/.dev
	@echo "Installing $(packages) …"
	@$(BIN)/python -m venv $(@D)
	@$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
		> "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/below.pth"
	@$(@D)/bin/pip install --quiet $(packages)
	@touch $@

# Environments beside .venv. The second package is for the benchmark of OpenEnv's own server.
beside := $(foreach name,openenv openenv-core mcp,build/$(name)/.installed)
build/openenv/.installed: packages := openenv==0.10.0 gymnasium==1.4.0
build/openenv-core/.installed: packages := openenv-core==0.3.0
build/mcp/.installed: packages := mcp==2.3.0
$(beside): $(VENV)/.dev
	@echo "Installing $(packages) …"
	@$(BIN)/python -m venv $(@D)
	@$(@D)/bin/pip install --quiet $(packages)
	@touch $@

.PHONY: packages
packages: $(VENV)/.dev ## Compare published packages with local ones (or PACKAGES="minigrid …")
	@$(BIN)/python -m tests.packages $(PACKAGES)

.PHONY: release
release: $(VENV)/.dev ## Build all packages into dist, and play CartPole with each of them
	@rm -rf dist
	@$(BIN)/python scripts/make_packages.py dist
	@CI=true $(BIN)/python -m pytest -q -p no:cacheprovider tests/release/release_checks.py

.PHONY: pictures
pictures: $(VENV)/.dev ## Make pictures of all views in build/pictures (or PICTURES=--write)
	@$(BIN)/python -m tests.pictures $(PICTURES)

.PHONY: docs
docs: build/docs/site build/docs/lua build/docs/cpp build/docs/js ## Make the site of all documents, and the references of clients
	@echo "Open build/docs/site/index.html, and look into $(wordlist 2, 4, $^)"

# Warnings are errors in all four.
.PHONY: build/docs/site
build/docs/site: $(VENV)/.dev
	@rm -rf $@
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --conf-dir docs/site \
		--doctree-dir build/docs/doctrees . $@

.PHONY: build/docs/lua
build/docs/lua:
	@mkdir -p $@
	@cd clients/lua && ldoc --fatalwarnings --quiet --dir $(CURDIR)/$@ .

.PHONY: build/docs/cpp
build/docs/cpp:
	@mkdir -p $@
	@cd clients/cpp && { cat Doxyfile && \
		echo 'OUTPUT_DIRECTORY = "$(CURDIR)/$@"' && \
		echo 'WARN_AS_ERROR = FAIL_ON_WARNINGS'; } | doxygen -q -

.PHONY: build/docs/js
build/docs/js: clients/js/node_modules/.installed
	@mkdir -p $@
	@cd clients/js && node_modules/.bin/typedoc --treatWarningsAsErrors \
		--logLevel Warn --out $(CURDIR)/$@

# Tools for development only; the client itself needs none.
clients/js/node_modules/.installed: clients/js/package.json
	@cd clients/js && npm install --silent --no-package-lock --no-audit --no-fund
	@touch $@

.PHONY: clean
clean: ## Remove .venv, caches and everything else that can be made again
	rm -rf $(VENV) build dist *.egg-info clients/python/build clients/python/*.egg-info
	rm -rf clients/js/node_modules tests/npm/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.place:
	@scripts/setup venv

$(VENV)/.server: requirements.txt pyproject.toml clients/python/pyproject.toml $(VENV)/.place
	@scripts/setup server
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.server
	@scripts/setup dev
	@touch $@
