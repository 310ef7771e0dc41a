# Build, test and benchmark targets. Each target installs what it needs (scripts/setup.sh).
.DEFAULT_GOAL := help
.PHONY: help setup build test soak fuzz miri sanitize lint bench bench-fib bench-lpm bench-io bench-restart bench-api bench-tester bench-compare bench-aa demo loom deb test-deb test-govpp test-vppcfg test-vpp docs-check

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-13s %s\n' "$$target" "$$what"; done

setup: ## Install missing programs for building and testing
	@scripts/setup.sh

build: setup ## Build the release binaries, target/release/volley (the router) and volley-bench (the tester)
	@. scripts/env.sh && cargo build --release --package volley --package bench

test: ## Run every check and test, with a summary
	@scripts/test.sh

soak: setup ## Tear down and rebuild tables under traffic for a minute (VOLLEY_CHURN_SECONDS=N: for N seconds)
	@. scripts/env.sh && cargo build --release --package volley && \
		VOLLEY_CHURN_SECONDS="$${VOLLEY_CHURN_SECONDS:-60}" VOLLEY_BIN="$$target_dir/release/volley" \
		cargo test --package scenarios --test churn -- --nocapture

fuzz: setup ## Run random scripts against the graph, and random frames and requests against the APIs, each for a minute (VOLLEY_FUZZ_SECONDS=N)
	@. scripts/env.sh && VOLLEY_FUZZ_SECONDS="$${VOLLEY_FUZZ_SECONDS:-60}" \
		cargo test --package volley --test fuzz_graph --test fuzz_api -- --nocapture

miri: setup ## Run the tests of infra, buf and memif's rings under miri, which finds undefined behavior (nightly; 4 minutes)
	@scripts/miri

sanitize: setup ## Run the tests of infra, buf and memif's rings under AddressSanitizer
	@scripts/sanitize

lint: setup ## Check format, lints, documentation and layers, without running tests
	@scripts/test.sh lint

docs-check: setup ## Check the documentation: links, samples as they stand, generated references (samples: root, or user namespaces)
	@scripts/check-docs && . scripts/env.sh && cargo test --quiet --package volley --test reference --test vpp && \
		cargo test --quiet --package scenarios --test patient -- samples:: examples::

bench: setup ## Measure clocks per packet, start, memory and latency; prints tables, writes target/bench/*.json
	@. scripts/env.sh && cargo build --release --package volley && cargo bench --package volley --bench graph && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench process

bench-fib: setup ## Measure the rate of route changes; writes target/bench/fib.json (VOLLEY_RIB=FILE: a real table)
	@. scripts/env.sh && cargo bench --package volley --bench fib

bench-lpm: setup ## Measure lookup tables; writes target/bench/lpm.json (VOLLEY_RIB=FILE, VOLLEY_RIB6=FILE: real tables)
	@. scripts/env.sh && cargo bench --package infra --bench lpm

bench-io: setup ## Measure drivers: memif, latency at low load, veth against the kernel, idle; writes target/bench/io.json
	@. scripts/env.sh && cargo build --release --package volley && cargo bench --package volley --bench io && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench veth

bench-restart: setup ## Measure the outage of a restart under traffic; writes target/bench/restart.json
	@. scripts/env.sh && cargo build --release --package volley && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench restart

bench-api: setup ## Measure the APIs: routes added, dumped and loaded, clients that come and go; writes target/bench/api.json
	@. scripts/env.sh && cargo build --release --package volley && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench api

bench-tester: setup ## Measure the tester's own time per frame; writes target/bench/tester.json
	@. scripts/env.sh && cargo bench --package bench --bench tester

bench-compare: setup ## Compare the kernel and Volley, and VPP if VOLLEY_VPP is the path of its program, in namespaces (10 minutes at most; root, or user namespaces)
	@. scripts/env.sh && cargo build --release --package volley --package bench && \
		vpp="$${VOLLEY_VPP:+, { kind = 'vpp', program = '$$VOLLEY_VPP' \}}" && mkdir -p target/bench && \
		"$$target_dir/release/volley" bench init | sed "s|^duts = \[\(.*\)\]|duts = [\1$$vpp]|" > target/bench/compare.toml && \
		"$$target_dir/release/volley" bench run target/bench/compare.toml \
			--store target/bench/compare.db --json target/bench/compare.json --html target/bench/compare.html

bench-aa: setup ## Compare a router with itself, 20 times: at most one pair may differ (half an hour; root, or user namespaces)
	@. scripts/env.sh && cargo build --release --package volley --package bench && \
		VOLLEY_BIN="$$target_dir/release/volley" scripts/bench-aa

demo: ## Route between two hosts in namespaces, with ping, traceroute and iperf3
	@scripts/demo.sh

deb: setup ## Build the Debian packages target/debian/volley_*.deb and volley-bench_*.deb
	@scripts/build-deb.sh

test-deb: setup ## Build the packages, install them into a clean Debian root, run and remove them (root; minutes)
	@scripts/test-deb.sh

test-govpp: setup ## Run the examples of GoVPP against the router (needs go, and its module proxy)
	@. scripts/env.sh && cargo build --package volley && VOLLEY_BIN="$$target_dir/debug/volley" scripts/test-govpp "$$target_dir/govpp"

test-vppcfg: setup ## Configure the router by vppcfg (needs Python's package registry, and network namespaces)
	@. scripts/env.sh && cargo build --package volley && VOLLEY_BIN="$$target_dir/debug/volley" scripts/test-vppcfg "$$target_dir/vppcfg"

test-vpp: setup ## Run VPP's own test suite against the router (VOLLEY_VPP_SOURCE: VPP v26.06; FILES="test_mtu ...": only these)
	@. scripts/env.sh && cargo build --package volley && CARGO_TARGET_DIR="$$target_dir" scripts/vpp-tests $(FILES)

loom: setup ## Test every interleaving of the lock-free code
	@. scripts/env.sh && cargo test --package infra --package graph --features loom --lib loom_
