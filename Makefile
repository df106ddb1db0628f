# What a person or CI runs here. Plain `make` lists it. The work is done by
# the Go program in build/; this file only names it and gets the tools.

.DEFAULT_GOAL := help
.PHONY: help demo test soak lint fmt bench bundle bridge hub release tools setup clean

# The linters are built once for each state of their pinned modules.
LINT_KEY := $(shell cksum build/tools/go.sum | cut -d' ' -f1)
LINT := .cache/bin/golangci-lint-$(LINT_KEY)
ACTIONLINT := .cache/bin/actionlint-1.7.12

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## watch two agents meet in a room, with a bridge killed half-way
	@go run ./build demo

test: setup ## install what the tests need, then run all of them under the race detector
	go test -race -shuffle=on -timeout 20m ./...
	CGO_ENABLED=0 go test -shuffle=on -timeout 10m ./internal/queue ./internal/hub/sqlite

soak: setup ## the long forms of the tests that kill, stop and flood; about half an hour
	BELLMAN_SOAK=5m go test -timeout 40m ./internal/queue ./internal/room ./build/conformance ./server

lint: $(LINT) $(ACTIONLINT) ## check style, formatting and the arrows between packages
	$(LINT) run ./...
	$(LINT) fmt --diff
	go run ./build arrows $(LINT)
	$(ACTIONLINT)

fmt: $(LINT) ## format every Go file
	$(LINT) fmt

bench: ## measure against the budgets, one line each
	@go run ./build bench

bundle: ## pack the extension for this machine into build/out/bellman.mcpb
	@go run ./build bundle

release: ## make everything that is published; keys by FLAGS="--minisign-key FILE ..."
	@go run ./build release $(FLAGS)

bridge: ## build build/out/bellman-bridge
	@go run ./build compile bridge

hub: ## build build/out/bellman-hub
	@go run ./build compile hub

tools: $(LINT) $(ACTIONLINT) setup ## build the pinned linter and install what the tests need

setup:
	@sh build/setup.sh

clean: ## remove what was built and installed here
	rm -rf build/out .cache

$(LINT): build/tools/go.mod build/tools/go.sum
	@mkdir -p $(@D)
	@echo 'building the pinned linter (about eight minutes the first time)'
	go build -modfile=build/tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(ACTIONLINT): build/tools/actionlint/go.mod
	@mkdir -p $(@D)
	go build -modfile=$< -o $@ github.com/rhysd/actionlint/cmd/actionlint
