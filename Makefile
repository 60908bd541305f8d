# The short commands. Each says what it does; CMake and ctest do the work (CMakePresets.json).
.DEFAULT_GOAL := help
.PHONY: help run test modern build package package-test screenshots accessibility bench soak lab proxy-lab fuzz mutate sanitize lint format clean

JOBS ?= $(shell nproc)
KILLS ?= 1000
ROUNDS ?= 50
RANKS ?= 2048
DURATION ?= 600
SEEDS ?= 3
CAPTURES ?= build/lab
EVIDENCE ?= build/proxy_evidence
FUZZ_SECONDS ?= 60
IF_PYPI_ANSWERS ?=
MUTANTS ?= 300
# Each of their runs has a seed of its own, which it prints.
SOAKED := store_crash_test store_property_test store_operations_test store_damage_test
FILTER ?= .

help: ## show this
	@echo 'Foreshock: early warning for large-model training. make TARGET, where TARGET is'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Options: JOBS=4; run: ONCE=1 CAPTURE=FILE SPEED=20x; test: FILTER=regex; soak: KILLS=1000 ROUNDS=50 RANKS=2048 DURATION=600;'
	@echo 'lab: SEEDS=3 CAPTURES=build/lab; proxy-lab: SEEDS=3 EVIDENCE=build/proxy_evidence; fuzz: FUZZ_SECONDS=60 for each target;'
	@echo 'mutate: MODULES="merge rules" MUTANTS=300 of each (0: all) SEED=7 of the sample'

run: ## build, start a daemon and replay a recorded run that goes wrong (ONCE=1 ends by itself)
	@deploy/install-deps.sh build run
	@deploy/build.sh release-programs foreshockd foreshock
	@ONCE='$(ONCE)' CAPTURE='$(CAPTURE)' SPEED='$(SPEED)' deploy/demo.sh

test: ## install what is missing, build everything, run all tests
	@deploy/install-deps.sh build run test
	@deploy/build.sh release
	@ctest --test-dir build/release --output-on-failure -j $(JOBS) -R '$(FILTER)'

modern: ## the Python client on today's torch and transformers from PyPI (tests/modern/requirements.txt)
	@deploy/install-deps.sh build test modern
	@deploy/build.sh release foreshockd foreshock foreshock-proxy foreshock_python
	@/usr/bin/python3 tests/modern/run.py build/release --jobs $(JOBS) \
	  $(if $(IF_PYPI_ANSWERS),--if-pypi-answers) --filter '$(FILTER)'

build: ## build everything without running it
	@deploy/install-deps.sh build test
	@deploy/build.sh release

package: ## build the programs and the Debian package of them
	@deploy/install-deps.sh build package
	@deploy/package.sh

package-test: package ## install, start, upgrade, remove the package in a fresh Debian; root, minutes
	@/usr/bin/python3 tests/package/package_test.py build/release/package/foreshock_*.deb build/package-test

screenshots: ## pictures of every view of the page, into build/screenshots
	@deploy/install-deps.sh build test
	@deploy/build.sh release-programs foreshockd foreshock
	@/usr/bin/python3 tests/e2e/screenshots.py build/release/bin build/screenshots

accessibility: ## every view of the page under axe-core, which npm fetches
	@deploy/install-deps.sh build test
	@deploy/build.sh release-programs foreshockd foreshock
	@npm install --silent --no-save --no-audit --no-fund --prefix build/axe axe-core@4
	@/usr/bin/python3 tests/e2e/accessibility.py build/release/bin build/axe/node_modules/axe-core/axe.min.js

bench: ## run the benchmarks and print target against reached
	@deploy/install-deps.sh build test bench
	@deploy/build.sh bench
	@tests/bench/run.sh build/bench

soak: ## RANKS simulated ranks for DURATION seconds; KILLS kill -9 points; the store's random tests ROUNDS times
	@deploy/install-deps.sh build test
	@deploy/build.sh release foreshockd foreshock-load $(SOAKED)
	@/usr/bin/python3 tests/load/load_test.py --foreshockd build/release/bin/foreshockd \
	  --load build/release/bin/foreshock-load --ranks $(RANKS) --duration $(DURATION)
	@for test in $(SOAKED); do \
	  echo "soak: $$test, $(ROUNDS) rounds"; \
	  ctest --test-dir build/release --output-on-failure --repeat until-fail:$(ROUNDS) -R "^$$test$$" || exit 1; \
	done
	@/usr/bin/python3 tests/fault/daemon_crash_test.py --foreshockd build/release/bin/foreshockd --kills $(KILLS)

lab: ## train, break and watch: every fault with SEEDS seeds; hours; writes docs/detection.md
	@deploy/install-deps.sh build test
	@deploy/build.sh release foreshockd foreshock foreshock_python
	@/usr/bin/python3 tests/lab/run.py build/release --captures '$(CAPTURES)' --seeds $(SEEDS)
	@/usr/bin/python3 tests/lab/zoo.py build/release --captures '$(CAPTURES)/zoo' --seeds $(SEEDS)
	@build/release/bin/foreshock rules backtest rules/default.yaml rules/signatures.yaml --captures '$(CAPTURES)/zoo' \
	  || test $$? -eq 1 # verdicts that are missed are what one wants to see

proxy-lab: ## proxies of a small MoE, broken like their original; SEEDS seeds; an hour; writes docs/proxy.md, failures.md
	@deploy/install-deps.sh build test
	@deploy/build.sh release foreshock foreshock-proxy foreshock_python
	@/usr/bin/python3 tests/lab/proxy_evidence.py build/release --work '$(EVIDENCE)' --seeds $(SEEDS)

fuzz: ## fuzz every parser for FUZZ_SECONDS seconds each
	@deploy/install-deps.sh build test dev
	@deploy/build.sh fuzz fuzz_targets
	@tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)

mutate: ## change pure modules one place at a time; say which changes no test notices
	@deploy/install-deps.sh build test
	@deploy/build.sh mutation $$(/usr/bin/python3 tests/mutation/mutate.py --targets $(MODULES))
	@/usr/bin/python3 tests/mutation/mutate.py $(MODULES) --mutants $(MUTANTS) --jobs $(JOBS) \
	  $(if $(SEED),--seed $(SEED))

sanitize: ## all tests that run our C++ under AddressSanitizer and UBSan, then ThreadSanitizer
	@deploy/install-deps.sh build run test dev
	@deploy/build.sh asan
	@ctest --test-dir build/asan --output-on-failure -j $(JOBS)
	@deploy/build.sh tsan
	@ctest --test-dir build/tsan --output-on-failure -j $(JOBS)

lint: ## include and import arrows, file lists, lengths of functions, formatting, clang-tidy with thread-safety analysis
	@deploy/install-deps.sh build test dev
	@/usr/bin/python3 tests/lint/lint.py --format
	@deploy/build.sh tidy foreshockd foreshock foreshock-proxy foreshock_client

format: ## format all C++ and TypeScript files in place
	@deploy/install-deps.sh dev
	@git ls-files '*.cc' '*.h' '*.ts' | xargs clang-format -i

clean: ## remove everything that was built
	@rm -rf build
