.DEFAULT_GOAL := help
.PHONY: help setup test fast lint format demo services build clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## Install missing programs and the package into .venv
	./scripts/setup

test: ## Style, types and the whole suite
	./scripts/test

fast: ## The suite without slow tests, on SQLite only
	./scripts/test --fast

lint: ## Style and types only
	./scripts/lint

format: ## Repair what ruff can repair
	./scripts/lint --fix

demo: ## Durable AI jobs on this machine, without key or server
	./scripts/demo

services: ## Private MariaDB, PostgreSQL and Redis until Ctrl-C
	./scripts/services

build: ## Source archive and wheel into dist/
	./scripts/setup
	.venv/bin/python -m build

clean: ## Delete what can be made again (not .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
