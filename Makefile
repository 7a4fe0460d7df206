SHELL := bash
.DEFAULT_GOAL := help

MODULE  := github.com/carillon-jobs/carillon
VERSION  = $(shell git describe --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 20s
SEEDS   ?= 20000
FIRST   ?= 1
SEED    ?= 1
KILLS   ?= 20
MINUTES ?= 10
SHARE   ?= 0.7
REPORT  ?= dist/report
FROM    ?=
ARGS    ?=

# The versions of the tools are part of what a run of them means, so they are fixed.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  ARGS="..." passes more arguments to run, test, test-all, test-browser, test-short, bench, bench-…, sim and faults-all.'

.PHONY: run
run: build ## Build Carillon and run it with a demo (carillon dev --demo)
	@bin/carillon dev --demo $(ARGS)

.PHONY: build
build: need-go ## Build bin/carillon, with the dashboard if Node.js is here
	@scripts/dashboard --if-possible
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X $(MODULE)/internal/app.Version=$(VERSION)' -o bin/carillon ./cmd/carillon

.PHONY: dashboard
dashboard: ## Build the pages of the dashboard, which bin/carillon takes along (needs Node.js)
	@scripts/dashboard

.PHONY: test-browser
test-browser: need-go ## Test the dashboard in a real browser (installs Chromium if it is missing)
	@scripts/browser $(ARGS)

.PHONY: pictures
pictures: need-go ## Take the pictures of the dashboard in docs/pictures anew
	@scripts/browser --pictures $(ARGS)

.PHONY: test
test: ## Run what CI runs: checks, tests on SQLite and PostgreSQL, slices of the race detector and of the dashboard's pages
	@scripts/test $(ARGS)

.PHONY: test-all
test-all: ## Run the long tests too, all of them with the race detector, every failpoint and every page of the dashboard; hours
	@CARILLON_TEST=all scripts/test $(ARGS)

.PHONY: test-short
test-short: need-go ## Run the short tests, without the race detector; uses PostgreSQL if it is running
	@url=$${CARILLON_TEST_POSTGRES:-$$(scripts/postgres url 2>/dev/null)}; \
	if [ -n "$$url" ]; then export CARILLON_TEST_POSTGRES="$$url"; fi; \
	go test -short ./... $(ARGS)

.PHONY: check
check: test ## Run exactly what CI runs: the same as test

.PHONY: bench
bench: need-go ## Run the benchmark against bare SQL, on SQLite and PostgreSQL
	@scripts/with-postgres CARILLON_BENCH_POSTGRES go run ./test/bench $(ARGS)

.PHONY: bench-peers
bench-peers: build ## Measure River, asynq and Graphile Worker beside Carillon
	@bench/setup
	@scripts/with-postgres CARILLON_BENCH_POSTGRES go -C bench run . $(ARGS)

.PHONY: bench-flows
bench-flows: build ## Compare a workflow with 10 000 children with a flow of BullMQ on Redis
	@bench/setup
	@scripts/with-postgres CARILLON_BENCH_POSTGRES go -C bench run . flows $(ARGS)

.PHONY: bench-failover
bench-failover: need-go ## Kill the scheduler that owns the most KILLS (20) times; measure how long it is missed
	@CARILLON_FAILOVER_KILLS=$(KILLS) scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 30m ./test/faults -run 'TestFailover$$' -v $(ARGS)

.PHONY: bench-schedules
bench-schedules: build ## Fire out of 10 million schedules on PostgreSQL and 1 million on SQLite; half an hour, 15 GB of disk
	@scripts/with-postgres CARILLON_BENCH_POSTGRES sh -c 'bin/carillon bench schedules --schedules 10000000 --due 1000 --strict --database "$$CARILLON_BENCH_POSTGRES" $(ARGS)'
	@bin/carillon bench schedules --schedules 1000000 --due 1000 --strict $(ARGS)

.PHONY: bench-herd
bench-herd: build ## Let 500 000 jobs be due in one second, on PostgreSQL and SQLite
	@scripts/with-postgres CARILLON_BENCH_POSTGRES sh -c 'bin/carillon bench herd --strict --database "$$CARILLON_BENCH_POSTGRES" $(ARGS)'
	@bin/carillon bench herd --strict $(ARGS)

.PHONY: bench-pages
bench-pages: build ## Ask for every page over 10 million executions and 1 million jobs on PostgreSQL; half an hour, 15 GB of disk
	@scripts/with-postgres CARILLON_BENCH_POSTGRES sh -c 'bin/carillon bench pages --jobs 1000000 --executions 10000000 --samples 100 --strict --database "$$CARILLON_BENCH_POSTGRES" $(ARGS)'

.PHONY: bench-cron
bench-cron: need-go ## Compare the cron engine with robfig/cron, in one run
	@cd test/cronbench && go run . $(ARGS)

.PHONY: sizes
sizes: need-go ## Load ten times the documented limits into both stores and time every call that grows with them; ten minutes, 10 GB of disk
	@scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 60m -v ./test/sizes -sizes.share=1 $(ARGS)

.PHONY: house
house: need-go ## Measure the structure: lines by package, methods by type (BEFORE=folder compares with another checkout)
	go run ./test/house $(if $(BEFORE),-before $(BEFORE))

.PHONY: sim
sim: need-go ## Play SEEDS (20000) seeds of the simulation, from FIRST (1); interrupted, it goes on where it was
	@mkdir -p bin
	@go test -c -o bin/sim.test ./internal/sim
	@cd internal/sim && ../../bin/sim.test -test.run 'TestSeeds$$' -test.timeout 0 -test.v -sim.seeds=$(SEEDS) -sim.first=$(FIRST) -sim.progress=../../bin/sim-progress.json -sim.version='$(VERSION)' $(ARGS)

.PHONY: mutants
mutants: need-go ## Break each guarantee on purpose and see that its test notices; some minutes
	@set -o pipefail; scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 0 -v ./test/mutants -run TestMutantsDie -mutants.all $(ARGS) | grep -v '^=== '

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (20s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: corpus
corpus: need-go ## Send the API 100 000 requests that are made up from SEED (1) (make test sends 5 000)
	go test -count=1 ./internal/api -run TestCorpus -v -corpus.n=100000 -corpus.seed=$(SEED) $(ARGS)

.PHONY: faults-all
faults-all: need-go ## Run every failpoint and action, and many schedulers for longer (make test runs a slice)
	@CARILLON_FAULTS=all scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 30m ./test/faults $(ARGS)

# SEED is 1 for the corpus; here 0, unless it is given, is another one each time.
chosen = $(if $(filter command line environment,$(origin SEED)),$(SEED),0)

.PHONY: nemesis
nemesis: need-go ## Break three servers and five workers over PostgreSQL for MINUTES (10), as SEED says; the report goes to REPORT (dist/report)
	@scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 0 -v ./test/faults -run 'TestNemesis$$' -nemesis.minutes=$(MINUTES) -nemesis.seed=$(chosen) -report="$(abspath $(REPORT))" $(ARGS)

.PHONY: soak
soak: need-go ## The same at SHARE (0.7) of what it can do, with a fault every 30 s for MINUTES (10); fails if memory grows
	@scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 0 -v ./test/faults -run 'TestSoak$$' -soak.minutes=$(MINUTES) -soak.share=$(SHARE) -nemesis.seed=$(chosen) -report="$(abspath $(REPORT))" $(ARGS)

.PHONY: test-upgrade
test-upgrade: need-go ## Run the version before (FROM, the newest tag) and this one over one database under load; measure what each step locks
	@CARILLON_UPGRADE=1 CARILLON_UPGRADE_FROM=$(FROM) scripts/with-postgres CARILLON_TEST_POSTGRES go test -count=1 -timeout 30m -v ./test/faults -run 'TestUpgrade|TestLocksAreSeen' $(ARGS)

.PHONY: attack
attack: need-go ## Attack a running server on loopback, one line for each attack; 0 may be unexpected
	@set -o pipefail; go test -count=1 -v ./test/attack $(ARGS) | grep -v '^=== '

.PHONY: fmt
fmt: need-go ## Format the Go code (gofumpt)
	go run $(GOFUMPT) -l -w .

.PHONY: lint
lint: need-go ## Run go vet and staticcheck
	go vet ./...
	go run $(STATICCHECK) ./...

.PHONY: docs-config
docs-config: need-go ## Write docs/reference/config.md from the table of settings
	go test ./internal/config -run TestReferenceIsFresh -update

.PHONY: generate
generate: need-go ## Run go generate
	go generate ./...

.PHONY: docs
docs: need-go docs-config ## Write docs/reference/cli.md, and man pages into dist/man, from the commands
	@mkdir -p docs/reference
	go run ./cmd/carillon docs --markdown docs/reference/cli.md --man dist/man

.PHONY: site
site: ## Build the static site of docs/, with search, into dist/site (needs Node.js)
	@scripts/site

.PHONY: chart
chart: need-go ## Write the settings into the chart's schema, and alerts and dashboard into the chart
	go test ./deploy -run TestTheChart -update

.PHONY: test-deploy
test-deploy: need-go ## Check the chart, the compose files and the Dockerfile with the libraries that read them; minutes the first time
	go test -count=1 ./deploy $(ARGS)
	cd test/deploy && go test -count=1 ./... $(ARGS)

.PHONY: release
release: ## Build archives for all systems, checksums and an SBOM into dist/release
	@scripts/release

.PHONY: test-release
test-release: ## Build one target twice, in two folders with two caches, and compare; minutes
	@scripts/release --check linux/amd64

.PHONY: postgres
postgres: ## Start this clone's private PostgreSQL server and print its URL
	@scripts/postgres start

.PHONY: postgres-stop
postgres-stop: ## Stop the private PostgreSQL server and delete its data
	@scripts/postgres stop

.PHONY: clean
clean: postgres-stop ## Delete what was built, and the private PostgreSQL server; carillon-data stays
	rm -rf bin dist web/node_modules web/shots coverage coverage.out coverage.html
	find internal/dashboard/dist -mindepth 1 ! -name .gitkeep -delete

.PHONY: need-go
need-go:
	@scripts/need-go
