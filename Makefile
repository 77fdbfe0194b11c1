# SPDX-License-Identifier: Apache-2.0
# The newcomer's commands. Meson does the work: `meson setup build && ninja -C build` is the same build.

BUILD  ?= build
PREFIX ?= /usr/local
OUT    ?= run
B      ?=
T      ?=

# A word of the shell, whatever is in it.
quote = '$(subst ','\'',$(1))'
build  := $(call quote,$(BUILD))
prefix := $(call quote,$(PREFIX))
tests  := $(foreach t,$(T),$(call quote,$(t)))

.PHONY: help run all test bench asan tsan check install uninstall clean
.DEFAULT_GOAL := help

help:
	@echo 'make run              build, and train on handwritten digits over a local cluster (OUT=run)'
	@echo 'make test             build and run every test (LONG=1: those that take longer, too; T=name: one)'
	@echo 'make all              build into '$(build)/
	@echo 'make bench B=train    run one benchmark beside its peers'
	@echo 'make asan, make tsan  run the tests under the address and undefined, or the thread sanitizer'
	@echo 'make check            check layers, sizes, symbols and style'
	@echo 'make install          install below PREFIX=/usr/local (DESTDIR is honoured); make uninstall'
	@echo 'make clean            remove what was built'

all:
	@tools/install-deps build
	@tools/build $(build) --buildtype=release -Dprefix=$(prefix)

run: all
	$(build)/sheaf run --worker 2 --ps 2 --evaluator 1 $(build)/examples/digits --data examples/data \
	    --out $(call quote,$(OUT))

test:
	@tools/install-deps build test
	@tools/build $(build) --buildtype=release -Dprefix=$(prefix)
	@tools/run-tests $(build) $(if $(LONG),--long) $(tests)

asan:
	@tools/install-deps build test
	@tools/build $(build)-asan --buildtype=debugoptimized -Db_sanitize=address,undefined
	@tools/run-tests $(build)-asan --slow $(tests)

# The command's own tests have one thread; the jobs that it runs are among the others.
tsan:
	@tools/install-deps build test
	@tools/build $(build)-tsan --buildtype=debugoptimized -Db_sanitize=thread
	@tools/run-tests $(build)-tsan --slow $(or $(tests),--no-suite cli --no-suite start)

check:
	@tools/install-deps build test check
	@tools/build $(build) --buildtype=release -Dprefix=$(prefix)
	@tools/check-all $(build)

bench:
	@test -n $(call quote,$(B)) || { echo 'usage: make bench B=NAME, one of start, train, ps, allreduce, input, checkpoint;'; \
	    echo 'the peers are installed below '$(build)'/ if TF= and PT= name none (PyTorch: 5 GB)'; exit 2; }
	@$(MAKE) all
	bench/run $(call quote,$(B))

install: all
	@DESTDIR=$(call quote,$(DESTDIR)) tools/install $(build) $(prefix)

uninstall:
	@DESTDIR=$(call quote,$(DESTDIR)) tools/install --remove $(prefix)

clean:
	rm -rf $(build) $(build)-asan $(build)-tsan
