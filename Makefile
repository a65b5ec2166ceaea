# `make help` lists what there is. Every target sets up what it needs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLES := .venv-examples
DEMO := .venv-demo
SEEDS ?= 2000
# What was imported once is quicker to import again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# Environments: what every test needs; the examples' programs, which take gigabytes; and of these, TensorFlow alone, so
# that the demo begins sooner. A stamp is younger than pyproject.toml once all that it asks for is installed.
$(VENV)/installed: EXTRAS := dev
$(EXAMPLES)/installed: EXTRAS := dev,examples
$(DEMO)/installed: EXTRAS := tensorflow
$(VENV)/installed $(EXAMPLES)/installed $(DEMO)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Windlass needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "Installing Windlass with $(EXTRAS) into $(@D), which takes a minute or two; once."
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

.PHONY: test
test: check unit ## Format, lint, types, import contracts and the tests that need Python only

.PHONY: check
check: $(VENV)/installed ## Format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: unit
unit: $(VENV)/installed
	$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not kubernetes and not pods' \
	    --ignore tests/kubelet --ignore tests/local --ignore tests/kubernetes --ignore tests/examples \
	    --ignore tests/clients/kubectl

# More workers than processors: these tests wait for pods most of the time.
.PHONY: test-pods
test-pods: $(VENV)/installed ## Tests that need Linux: pods that run, at every level that this machine has, and kills
	$(BIN)/python -m pytest -n 5 --dist worksteal -m pods tests/kubelet tests/local tests/localcluster/sandbox tests/operator

.PHONY: test-examples
test-examples: $(EXAMPLES)/installed ## Every example, really training: TensorFlow, PyTorch, JAX and MPI; and what people watch them with
	$(EXAMPLES)/bin/python -m pytest -n 2 --dist worksteal tests/examples

.PHONY: test-all
test-all: ## Every lane: test, test-pods, test-kubernetes and test-examples
	$(MAKE) --keep-going test test-pods test-kubernetes test-examples

.PHONY: test-kubernetes
test-kubernetes: ## The lanes on a real Kubernetes: test-api and test-cluster; KUBERNETES=1.20 for the oldest release
	$(MAKE) test-api
	code=0; $(MAKE) test-cluster || code=$$?; $(MAKE) kubernetes-down && exit $$code

.PHONY: test-api
test-api: $(VENV)/installed ## The conformance and operator tests on a real API server, and kubectl on both
	$(BIN)/python tools/kubernetes_api.py --check
	WINDLASS_TEST_CLUSTER=real $(BIN)/python -m pytest -n 6 -p no:schemathesis -p tests.support.group_by_server \
	    tests/operator tests/clients/kubectl tests/cluster tests/install/test_on_kubernetes.py \
	    tests/controller/leader/test_lease_on_server.py tests/bench/test_load_on_a_server.py

.PHONY: test-cluster
test-cluster: $(VENV)/installed ## Pods and Windlass in a complete Kubernetes: that of KUBECONFIG, or `make kubernetes`
	@$(BIN)/python tools/kubernetes_cluster.py up
	code=0; export WINDLASS_TEST_CLUSTER=real; \
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not serial and not renewal' \
	    tests/kubernetes tests/kubelet || code=$$?; \
	$(BIN)/python -m pytest -m serial tests/kubernetes || code=$$?; \
	$(BIN)/python -m pytest -m renewal tests/kubernetes || code=$$?; \
	exit $$code

.PHONY: test-smoke
test-smoke: $(VENV)/installed ## The few tests of test-cluster that CI runs; ends the cluster afterwards
	@$(BIN)/python tools/kubernetes_cluster.py up
	code=0; WINDLASS_TEST_CLUSTER=real $(BIN)/python -m pytest -n 4 --dist worksteal -m smoke tests/kubernetes \
	    || code=$$?; $(MAKE) kubernetes-down && exit $$code

.PHONY: fuzz
fuzz: $(VENV)/installed ## Send the embedded API server what nobody should, for SECONDS=n (default 60), SEED=n
	$(BIN)/python tools/fuzz_api.py --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

.PHONY: kubernetes-api
kubernetes-api: $(VENV)/installed ## Build (once) and run a real API server; or KUBECONFIG, KUBEBUILDER_ASSETS
	$(BIN)/python tools/kubernetes_api.py

.PHONY: kubernetes
kubernetes: $(VENV)/installed ## A complete Kubernetes on this machine (Debian, root), in namespaces of its own
	@$(BIN)/python tools/kubernetes_cluster.py up

.PHONY: kubernetes-down
kubernetes-down: $(VENV)/installed ## End it; nothing of it stays
	@$(BIN)/python tools/kubernetes_cluster.py down

.PHONY: images
images: $(VENV)/installed ## Make the container images, without a registry; NAME="…" for some of them
	@$(BIN)/python tools/build_images.py $(NAME)

.PHONY: format
format: $(VENV)/installed ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: demo
demo: $(DEMO)/installed ## Train on this machine: TensorFlow, two parameter servers and two workers
	$(DEMO)/bin/windlass run examples/digits-ps/job.yaml
	@cat examples/next.txt

.PHONY: simulate
simulate: $(VENV)/installed ## Play SEEDS=n worlds full of faults (default 2000), FIRST=n names the first
	$(BIN)/python -m windlass.simulate.play --seeds $(SEEDS) --first $(or $(FIRST),0)

.PHONY: mutate
mutate: $(VENV)/installed ## Plant known mistakes, one at a time, and list which check catches each; ONLY=text selects
	$(BIN)/python tools/mutate.py --only '$(ONLY)'

.PHONY: bench
bench: $(VENV)/installed $(EXAMPLES)/installed ## Measure, beside the aims and the last results; bench/results keeps them
	PYTHONPATH=tests/support $(BIN)/python bench/core.py
	$(BIN)/python bench/api.py
	$(BIN)/python bench/pods.py
	PYTHONPATH=tests/support $(BIN)/python bench/controller.py
	$(BIN)/python bench/barrier.py
	$(BIN)/python bench/commands.py
	$(BIN)/python bench/live_view.py
	$(EXAMPLES)/bin/python bench/launch.py
	@$(BIN)/python bench/figures.py

.PHONY: bench-kubernetes
bench-kubernetes: $(VENV)/bench-installed ## Load on a real API server, beside the floor and the Job controller: ARGS='--help'
	PYTHONPATH=tools:tests/support $(BIN)/python bench/kubernetes_load.py $(ARGS)

.PHONY: bench-cluster
bench-cluster: $(VENV)/installed ## Measure jobs beside bare pods, on that of KUBECONFIG or `make kubernetes`
	eval "$$($(BIN)/python tools/kubernetes_cluster.py up)" && $(BIN)/windlass install --apply \
	    && $(BIN)/python bench/kubernetes_jobs.py

$(VENV)/bench-installed: $(VENV)/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

.PHONY: docs
docs: $(VENV)/installed ## Write the generated parts of the documentation anew
	$(BIN)/python tools/update_kubernetes_types.py
	$(BIN)/python tools/update_crds.py
	$(BIN)/python tools/update_docs.py
