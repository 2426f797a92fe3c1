# make run    serve the demo cluster on 127.0.0.1
# make test   run all tests
# make check  lint, format, types, layers, generated files
# make fix    format, and mend what the linter can
# make bench  how fast it is beside kube-scheduler and an extender in Go (QUICK=1: a short look; JSON=FILE: lines, too)

UV := scripts/uv

.DEFAULT_GOAL := help
.PHONY: help run test check fix openapi bench

help:
	@sed -n 's/^# //p' Makefile

run:
	@$(UV) sync --quiet --frozen --no-default-groups --inexact
	@exec $(UV) run --quiet --frozen --no-sync extender-service serve --cluster-file examples/demo-cluster.yaml

test:
	$(UV) run --frozen pytest

check:
	$(UV) run --frozen ruff check
	$(UV) run --frozen ruff format --check
	$(UV) run --frozen mypy
	$(UV) run --frozen lint-imports --no-logo
	$(UV) lock --check
	$(UV) run --frozen python -m extender_service.extender.description | diff openapi/extender-v1.yaml -

fix:
	$(UV) run --frozen ruff format
	$(UV) run --frozen ruff check --fix

openapi:
	$(UV) run --frozen python -m extender_service.extender.description > openapi/extender-v1.yaml

bench:
	$(UV) run --frozen python -m bench $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON))
