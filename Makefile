# make run      place the pending pods of the demo cluster, then serve it on 127.0.0.1:8888
# make test     run all tests
# make check    check style, types, contracts between rooms, generated files and the Dockerfile
# make test-lowest  run the fast tests with the lowest versions that pyproject.toml allows: some minutes
# make fix      format, and fix what the linter can
# make openapi  write the description of the API to openapi/
# make bench    measure the speed beside kube-scheduler and an extender in Go: three hours (QUICK=1: half an hour; JSON=FILE)
# make conformance  compare 25,000 new cases with kube-scheduler's own plugins: ten minutes (FRESH=N, DERIVED=N, SEED=N)
# make compat   compare examples of all rules with the plugins of Kubernetes 1.31 to 1.37: building them takes long (MINORS="34 35")
# make faults   let watches fail in every way against a real API server, 20 times each: half an hour (TIMES=N)
# make restarts kill the API server and start it again, 50 times under load: ten minutes (TIMES=N)
# make lag      let watches be late in every setting while room is made for pods, 20 times each: hours (TIMES=N)
# make lag-churn  let a cluster churn while watches are late and the API server is restarted: 20 minutes (MINUTES=N)
# make fuzz     send 100,000 generated requests and check each answer: ten minutes (REQUESTS=N)
# make hostile  attack the service while an ordinary caller waits: five minutes
# make hints    compare the queueing hints with kube-scheduler's on 20,000 pairs of objects: a minute (PAIRS=N, VERSION=1.34)
# make queue    run 10,000 new scripts on the scheduling queue and on kube-scheduler's: some minutes (SCRIPTS=N, VERSION=1.37)
# make api-fields  list the fields of Kubernetes' objects and what kube-scheduler reads of them, for tests/api_fields
# make sampling  schedule 40,000 new pods beside kube-scheduler, with percentageOfNodesToScore: three minutes (SCRIPTS=N)
# make beside   run all scenarios with kube-scheduler and with `schedule`, and compare what users see: some minutes (VERSION=1.37)
# make scheduler-faults  let replicas of `schedule` and the API server fail while they place 5,600 pods on 1,000 nodes: a quarter of an hour (ROUNDS=N)
# make scheduler-soak  let a cluster churn with kube-scheduler and with `schedule`, and compare what they count: 50 minutes (MINUTES=N, HINTS=1)
# make model-check  compare the model of the API server with the real one on 5,000 random scripts: some minutes (SCRIPTS=N, SEED=N, VERSION=1.37)
# make worlds   run `schedule` in simulated worlds with others in the cluster and faults, on all cores: 100 new ones of ten minutes
#               (SEEDS=N or SECONDS=N, MINUTES=N, SEED=N the first, MODE=beside, replace or preempting with `serve`, SWARM=1, MINOR=34, NODES=500)
# make judge-worlds  let kube-scheduler's plugins judge 1,000 preemptions and 1,000 pods left pending of simulated worlds of all releases: some minutes
#               (DECISIONS=N, SEED=N, MODE=preempting: those of `serve`; MODE=beside or replace: its answers about preemption)
# make worlds-coverage  print which lines, branches and state changes 200 small worlds reach: half an hour (SEEDS=N or SECONDS=N, MISSING=1)
# make worlds-repeats  run 100 seeds of each of six kinds of worlds twice, in other layouts of memory, and compare their histories: an hour (SEEDS=N, MINUTES=N)
# make worlds-draw  draw ten more defects to plant, by mutation: half an hour (SEED=N)
# make worlds-defects  plant known defects in copies of the product, and see after how many worlds each is found: hours (ONLY=NAME)
# make soak     let a cluster churn: ten minutes (MINUTES=N)
# make mutants  change the code bit by bit and list the changes that no test notices: an hour or more (CHILDREN=N cores)
# make audit    ask OSV for known vulnerabilities of the locked packages
# make sbom     write what the image holds to build/, as CycloneDX

UV := scripts/uv

.DEFAULT_GOAL := help
.PHONY: help run test test-lowest check audit sbom mutants conformance compat faults restarts lag lag-churn fuzz hints hostile queue \
	api-fields sampling beside scheduler-faults scheduler-soak model-check worlds judge-worlds \
	worlds-repeats worlds-draw worlds-defects worlds-coverage soak fix openapi bench

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

run:
	@$(UV) sync --quiet --frozen --no-default-groups --inexact
	@$(UV) run --quiet --frozen --no-sync extender-service schedule --cluster-file examples/demo-cluster.yaml
	@exec $(UV) run --quiet --frozen --no-sync extender-service serve --cluster-file examples/demo-cluster.yaml

# In two processes, as tests/support/distribution.py deals out the tests.
AT_ONCE := -n 2 --dist loadfile
test:
	$(UV) run --frozen pytest $(AT_ONCE) -m 'not alone'
	$(UV) run --frozen pytest -m alone

# The lowest versions have wheels for these Pythons. tests/counted is left out, since its budgets depend on the versions, and
# so does the order within the API's description.
LOWEST := build/lowest
test-lowest:
	$(UV) venv --quiet --clear --python '>=3.11,<3.13' $(LOWEST)
	$(UV) pip install --quiet --python $(LOWEST) --resolution lowest-direct --group dev --editable .
	$(LOWEST)/bin/python -m pytest $(AT_ONCE) tests/unit tests/conformance/test_golden.py tests/conformance/pinned examples \
		--deselect tests/unit/extender/wire/test_description.py::test_the_file_is_what_the_code_says

check:
	$(UV) run --frozen ruff check
	$(UV) run --frozen ruff format --check
	$(UV) run --frozen mypy
	$(UV) run --frozen lint-imports --no-logo
	$(UV) lock --check
	$(UV) run --frozen python -m extender_service.extender.wire.description | diff openapi/extender-v1.yaml -
	$(UV) run --frozen hadolint Dockerfile

audit:
	scripts/audit

sbom:
	@mkdir -p build
	$(UV) export --quiet --frozen --no-default-groups --preview-features sbom-export --format cyclonedx1.5 \
		--output-file build/extender-service.cdx.json

mutants:
	$(UV) run --frozen --group mutation mutmut run --max-children $(or $(CHILDREN),1)
	$(UV) run --frozen --group mutation python -m tests.mutants

conformance:
	$(UV) run --frozen python -m tests.conformance.edge_cases $(if $(SEED),--seed $(SEED)) \
		--fresh $(or $(FRESH),20000) --derived $(or $(DERIVED),5000) | $(UV) run --frozen python -m tests.conformance -

compat:
	$(UV) run --frozen python -m tests.conformance.compat $(MINORS)

faults:
	$(UV) run --frozen python -m tests.faults --times $(or $(TIMES),20)

restarts:
	$(UV) run --frozen python -m tests.faults.restarts --times $(or $(TIMES),50)

lag:
	$(UV) run --frozen python -m tests.lag --times $(or $(TIMES),20)

lag-churn:
	$(UV) run --frozen python -m tests.lag.churn --minutes $(or $(MINUTES),10)

fuzz:
	$(UV) run --frozen --group fuzz python -m tests.fuzz --requests $(or $(REQUESTS),100000) --covering-seconds 60

hints:
	$(UV) run --frozen python -m tests.lockstep.hints --emulated-version $(or $(VERSION),1.31) --pairs $(or $(PAIRS),20000)

hostile:
	$(UV) run --frozen python -m tests.hostile

queue:
	$(UV) run --frozen python -m tests.lockstep.queue --emulated-version $(or $(VERSION),1.31) --scripts $(or $(SCRIPTS),10000)

api-fields:
	$(UV) run --frozen python -m tests.api_fields

sampling:
	$(UV) run --frozen python -m tests.lockstep.sampling --scripts $(or $(SCRIPTS),200)

beside:
	$(UV) run --frozen python -m tests.e2e.scheduler.side_by_side --emulated-version $(or $(VERSION),1.31)

scheduler-faults:
	$(UV) run --frozen python -m tests.scheduler_faults --rounds $(or $(ROUNDS),1)

scheduler-soak:
	$(UV) run --frozen python -m tests.scheduler_soak --minutes $(or $(MINUTES),45) $(if $(HINTS),--hints)

model-check:
	$(UV) run --frozen python -m tests.worlds.model_check --version $(or $(VERSION),1.31) --scripts $(or $(SCRIPTS),5000) \
		$(if $(SEED),--seed $(SEED))

worlds:
	@$(UV) run --frozen python -m tests.worlds --minutes $(or $(MINUTES),10) --replicas 2 --others --faults \
		$(if $(SECONDS),--seconds $(SECONDS),--seeds $(or $(SEEDS),100)) $(if $(SEED),--seed $(SEED)) $(if $(MODE),--mode $(MODE)) \
		$(if $(SWARM),--swarm) $(if $(MINOR),--minor $(MINOR)) \
		$(if $(NODES),--nodes $(NODES) --limit-seconds 7200 --limit-mib 12000)

judge-worlds:
	PYTHONHASHSEED=0 $(UV) run --frozen python -m tests.worlds.judging --seed $(or $(SEED),1) --decisions $(or $(DECISIONS),1000) \
		$(if $(MODE),--mode $(MODE))

worlds-coverage:
	@$(UV) run --frozen --group coverage python -m tests.worlds.covered $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(MISSING),--missing)

worlds-repeats:
	@$(UV) run --frozen python -m tests.worlds.rerun.repeats $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES))

worlds-draw:
	@$(UV) run --frozen --group mutation python -m tests.worlds.defects.draw $(if $(SEED),--seed $(SEED))

worlds-defects:
	@$(UV) run --frozen python -m tests.worlds.defects $(if $(ONLY),--only $(ONLY)) $(if $(SEEDS),--seeds $(SEEDS))

soak:
	$(UV) run --frozen python -m tests.soak --minutes $(or $(MINUTES),10)

fix:
	$(UV) run --frozen ruff format
	$(UV) run --frozen ruff check --fix

openapi:
	$(UV) run --frozen python -m extender_service.extender.wire.description > openapi/extender-v1.yaml

bench:
	$(UV) run --frozen python -m bench $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON))
