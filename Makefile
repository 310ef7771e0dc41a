# What there is to do with Volley. Each target installs what it needs (scripts/setup.sh).
.DEFAULT_GOAL := help
.PHONY: help setup build test soak fuzz miri sanitize lint bench bench-fib bench-lpm bench-io bench-restart bench-tester bench-compare demo loom deb test-deb docs-check

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-13s %s\n' "$$target" "$$what"; done

setup: ## Install what building and testing need, if it is missing
	@scripts/setup.sh

build: setup ## Build the release binaries, target/release/volley (the router) and volley-bench (the tester)
	@. scripts/env.sh && cargo build --release --package volley --package bench

test: ## Run every check and test, with a summary
	@scripts/test.sh

soak: setup ## Tear tables down and build them again for a minute, under traffic (VOLLEY_CHURN_SECONDS=N: for so long)
	@. scripts/env.sh && cargo build --release --package volley && \
		VOLLEY_CHURN_SECONDS="$${VOLLEY_CHURN_SECONDS:-60}" VOLLEY_BIN="$$target_dir/release/volley" \
		cargo test --package scenarios --test churn -- --nocapture

fuzz: setup ## Run scripts that nobody has seen against the whole graph (VOLLEY_FUZZ_SECONDS=N: for so long, else a minute)
	@. scripts/env.sh && VOLLEY_FUZZ_SECONDS="$${VOLLEY_FUZZ_SECONDS:-60}" \
		cargo test --package volley --test fuzz_graph -- --nocapture

miri: setup ## Run the tests of infra, buf and memif's rings under miri, which finds undefined behaviour (nightly; 4 minutes)
	@scripts/miri

sanitize: setup ## Run the tests of infra, buf and memif's rings under AddressSanitizer
	@scripts/sanitize

lint: setup ## Check the format, the lints, the documentation and the layers, without running tests
	@scripts/test.sh lint

docs-check: ## Check that every link of the documentation leads to a page and a heading
	@scripts/check-docs

bench: setup ## Measure clocks per packet, start, memory, latency; tables, and target/bench/*.json
	@. scripts/env.sh && cargo build --release --package volley && cargo bench --package volley --bench graph && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench process

bench-fib: setup ## Measure how fast routes come and go; a table, and target/bench/fib.json (VOLLEY_RIB=FILE: a real table)
	@. scripts/env.sh && cargo bench --package volley --bench fib

bench-lpm: setup ## Measure lookup tables; a table, and target/bench/lpm.json (VOLLEY_RIB=FILE, VOLLEY_RIB6=FILE: real tables)
	@. scripts/env.sh && cargo bench --package infra --bench lpm

bench-io: setup ## Measure drivers: memif, latency at low load, veth against the kernel, idle; a table, and target/bench/io.json
	@. scripts/env.sh && cargo build --release --package volley && cargo bench --package volley --bench io && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench veth

bench-restart: setup ## Measure how long a restart under traffic stops forwarding; a table, and target/bench/restart.json
	@. scripts/env.sh && cargo build --release --package volley && \
		VOLLEY_BIN="$$target_dir/release/volley" cargo bench --package scenarios --bench restart

bench-tester: setup ## Measure what the tester itself costs a frame; a table, and target/bench/tester.json
	@. scripts/env.sh && cargo bench --package bench --bench tester

bench-compare: setup ## Measure the kernel and Volley side by side, in namespaces: minutes, and a report as Markdown (root, or user namespaces)
	@. scripts/env.sh && cargo build --release --package volley --package bench && \
		mkdir -p target/bench && "$$target_dir/release/volley" bench init > target/bench/compare.toml && \
		"$$target_dir/release/volley" bench run target/bench/compare.toml \
			--store target/bench/compare.db --json target/bench/compare.json --html target/bench/compare.html

demo: ## Route between two hosts in namespaces, and show what happens
	@scripts/demo.sh

deb: setup ## Make the Debian packages, target/debian/volley_*.deb and volley-bench_*.deb
	@scripts/build-deb.sh

test-deb: setup ## Make the package, install it into a clean root from Debian's mirror, run it, remove it (root; minutes)
	@scripts/test-deb.sh

loom: setup ## Try every interleaving of the lock-free parts
	@. scripts/env.sh && cargo test --package infra --package graph --features loom --lib loom_
