# make help lists the targets.

GO ?= go
FUZZTIME ?= 20000x
FUZZ_SEEDS ?= 20
GOLDEN_PORT ?= 26399
LINT_VERSION ?= v2.15.0
NFPM ?= github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
CYCLONEDX ?= github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: help build test race faults lint format vet lint-only golden fuzz bench bench-run bench-peers bench-scale bench-compare gen check verify flaky jepsen marathon planted clients tcl dist

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

build: ## build the binary into ./lockd
	$(GO) build -o lockd ./cmd/lockd

test: ## all tests
	$(GO) test ./...
	$(GO) -C bench test ./...

# One processor each: on several, two goroutines of a test in virtual time that find a timer due
# share one state of the race detector without a lock, and Go's runtime dies (1.26.8). What the
# detector finds rests on what is ordered before what, not on what runs at the same time.
race: ## all tests under the race detector
	$(GO) test -race -cpu 1 ./...
	$(GO) -C bench test -race -cpu 1 ./...

faults: ## tests of the test build, whose fault points jepsen-lite strikes
	$(GO) test -count=1 -tags faults -run TestFault ./resp/fault ./cluster/... ./jepsen-lite/nemesis

lint: format vet lint-only ## gofmt, go vet and golangci-lint

format:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

vet:
	$(GO) vet -tags golden ./...
	$(GO) vet -tags faults ./...
	$(GO) -C bench vet ./...

lint-only:
	.ci/lint $(LINT_VERSION)

golden: ## replay the transcripts against a real redis-server 7.0.15, byte for byte
	@GO="$(GO)" .ci/golden $(GOLDEN_PORT)

fuzz: ## run every fuzz target for FUZZTIME (a number of inputs, or a time), and clusters with FUZZ_SEEDS seeds
	LOCKD_FUZZ_SEEDS=$(FUZZ_SEEDS) $(GO) test -count=1 -timeout 50m -run '^(TestFuzzDisks|TestFuzzWall|TestListIsFoundedInAnyOrder)' ./cluster
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "fuzz $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
	  done; \
	done

planted: ## plant bugs in lockd, and fail if jepsen-lite misses one
	$(GO) run ./jepsen-lite planted --target any

jepsen: ## break real clusters for an hour and judge what clients saw
	$(GO) run ./jepsen-lite --time 30m --nemesis all --mixed --rate 500
	$(GO) run ./jepsen-lite --time 30m --nemesis all --mixed --rate 500 --nodes 5

marathon: ## the same with one seed after the other until interrupted, keeping what failed (ARGS='--nemesis kill --time 8h')
	$(GO) run ./jepsen-lite marathon $(or $(ARGS),--nemesis all --mixed --rate 500)

bench: ## Go benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-run: ## servers that run already, side by side (ARGS='--target redis://127.0.0.1:6379 --workload lock')
	$(GO) -C bench build && bench/bench run $(ARGS)

bench-peers: ## lockd beside etcd and Redis on this machine: ratios, met or missed
	$(GO) -C bench build && bench/bench peers $(ARGS)

bench-scale: ## lockd's own limits on this machine, met or missed: memory, keys, restart, failover, soak (half an hour)
	$(GO) -C bench build && bench/bench scale $(ARGS)

bench-compare: ## Go benchmarks of this tree beside those of a commit, in turn (REF=COMMIT; COUNT, BENCH, PKG, TIME)
	@GO="$(GO)" COUNT="$(COUNT)" BENCH="$(BENCH)" PKG="$(PKG)" TIME="$(TIME)" bench/compare.sh "$(REF)"

gen: ## write the table of commands in docs/redis.md from the rows
	$(GO) test ./cmd/lockd -run TestCommandTable -rewrite

check: lint test race faults golden ## before a commit; what every change must pass is .ci/run (ten minutes)

verify: ## all that takes longer, or strict times: hours (STEPS="race fuzz" for some, RESUME=1 without what has passed, SUITE=FOLDER for tcl)
	@STEPS="$(STEPS)" RESUME="$(RESUME)" SUITE="$(SUITE)" .ci/verify

flaky: ## all tests three times beside busy loops, to find those that a slow machine makes fail (ARGS='./cmd/lockd -run X')
	@.ci/flaky $(ARGS)

clients: ## the clients of five languages against lockd and against redis-server
	$(GO) run ./clients --write

tcl: ## the Tcl suite of a source tree of Redis (make tcl SUITE=FOLDER) against one node and three
	clients/tcl/run.sh "$(SUITE)"

dist: ## a release into dist/: binaries, .deb, .rpm, SBOMs, checksums; its version is the git tag's
	@GO="$(GO)" NFPM="$(NFPM)" CYCLONEDX="$(CYCLONEDX)" ops/dist.sh
