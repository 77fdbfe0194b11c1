# SPDX-License-Identifier: Apache-2.0
# The newcomer's commands. Meson does the work: `meson setup build && ninja -C build` is the same build.

BUILD  ?= build
PREFIX ?= /usr/local
OUT    ?= run
B      ?=
T      ?=

.PHONY: help run all test bench asan tsan check install uninstall clean
.DEFAULT_GOAL := help

help:
	@echo 'make run              build, and train on handwritten digits over a local cluster (OUT=run)'
	@echo 'make test             build and run every test (LONG=1: those that take longer, too; T=name: one)'
	@echo 'make all              build into $(BUILD)/'
	@echo 'make bench B=train    run one benchmark beside its peers'
	@echo 'make asan, make tsan  run the tests under the address and undefined, or the thread sanitizer'
	@echo 'make check            check layers, sizes, symbols and style'
	@echo 'make install          install below PREFIX=/usr/local (DESTDIR is honoured); make uninstall'
	@echo 'make clean            remove what was built'

all:
	@tools/install-deps build
	@tools/build $(BUILD) --buildtype=release -Dprefix=$(PREFIX)

run: all
	$(BUILD)/sheaf run --worker 2 --ps 2 --evaluator 1 $(BUILD)/examples/digits --data examples/data --out '$(OUT)'

test:
	@tools/install-deps build test
	@tools/build $(BUILD) --buildtype=release -Dprefix=$(PREFIX)
	@tools/run-tests $(BUILD) $(if $(LONG),--long) $(T)

asan:
	@tools/install-deps build test
	@tools/build $(BUILD)-asan --buildtype=debugoptimized -Db_sanitize=address,undefined
	@tools/run-tests $(BUILD)-asan --slow $(T)

tsan:
	@tools/install-deps build test
	@tools/build $(BUILD)-tsan --buildtype=debugoptimized -Db_sanitize=thread
	@tools/run-tests $(BUILD)-tsan --slow $(T)

check:
	@tools/install-deps build test check
	@tools/build $(BUILD) --buildtype=release -Dprefix=$(PREFIX)
	@tools/check-all $(BUILD)

bench:
	@test -n '$(B)' || { echo 'usage: make bench B=NAME, one of start, train, ps, allreduce, input, checkpoint;'; \
	    echo 'the peers are installed below $(BUILD)/ if TF= and PT= name none (PyTorch: 5 GB)'; exit 2; }
	@$(MAKE) all
	bench/run $(B)

install: all
	@meson install -C $(BUILD) --no-rebuild --quiet

uninstall:
	@ninja -C $(BUILD) uninstall

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan
