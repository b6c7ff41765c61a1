# make build | xrootd | install PREFIX=/usr/local | wheel | deb | rpm | dist | sbom | site | check | test | nightly | bench | evaluate | clean
#
# Every target prepares the machine first (setup/machine): it says which packages are missing and installs them, or
# names the line that does where it may not. SETUP=no prevents all installing.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
# Where rustup installs, for shells that have not read their profile since.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO

RELEASE   := $(or $(CARGO_TARGET_DIR),target)/release
LIBRARIES := $(RELEASE)/lib
TOOLS     := $(shell sed '/^\#/d' packaging/products/tools)

.PHONY: build testable xrootd install wheel deb rpm dist sbom site check test bench evaluate nightly clean

build:
	@setup/machine build
	packaging/products/build

# The file service behind XRootD's programs, where XRootD's headers are (Debian: libxrootd-client-dev), and behind its
# server (libxrootd-server-dev).
xrootd: build
	xrootd/build $(RELEASE)

# The programs are small; their symbols lie beside them, where debuggers look. The client tools are one file.
install: build
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(PREFIX)/lib/verbena
	set -e; for program in verbena rfiod rfio-tools; do \
		to=$(DESTDIR)$(PREFIX)/bin; \
		objcopy --only-keep-debug $(RELEASE)/$$program $$to/.debug/$$program.debug; \
		chmod 644 $$to/.debug/$$program.debug; \
		install -m 755 -s $(RELEASE)/$$program $$to/; \
		objcopy --add-gnu-debuglink=$$to/.debug/$$program.debug $$to/$$program; \
	done
	set -e; cd $(DESTDIR)$(PREFIX)/bin; for tool in $(TOOLS); do ln -f rfio-tools $$tool; done; rm rfio-tools
	install -d $(DESTDIR)$(PREFIX)/share/doc/verbena
	$(RELEASE)/verbena __manual $(DESTDIR)$(PREFIX)/share
	install -m 755 $(LIBRARIES)/libibverbs.so.1 $(LIBRARIES)/libverbena_shim.so $(LIBRARIES)/libverbena_tracer.so \
		$(DESTDIR)$(PREFIX)/lib/verbena/
	install -d $(DESTDIR)$(PREFIX)/include
	install -m 755 $(LIBRARIES)/librfio.so.2 $(LIBRARIES)/libshift.so.2 $(DESTDIR)$(PREFIX)/lib/
	ln -sfn librfio.so.2 $(DESTDIR)$(PREFIX)/lib/librfio.so
	ln -sfn libshift.so.2 $(DESTDIR)$(PREFIX)/lib/libshift.so
	for plugin in libXrdClRfio-5.so libXrdOfsRfio-5.so; do \
		if [ -f $(LIBRARIES)/$$plugin ]; then install -m 755 $(LIBRARIES)/$$plugin $(DESTDIR)$(PREFIX)/lib/; fi; \
	done
	install -m 644 crates/librfio/include/rfio_api.h $(DESTDIR)$(PREFIX)/include/
	$(RELEASE)/rfio-manual $(DESTDIR)$(PREFIX)/share
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local|$(PREFIX)|' crates/rfio-tools/packaging/rfiod.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/rfiod.service
	install -d $(DESTDIR)$(PREFIX)/share/rfio
	install -m 644 $(addprefix crates/rfio-tools/packaging/rfiod,.logrotate -alerts.yml -dashboard.json) \
		$(DESTDIR)$(PREFIX)/share/rfio/
	install -d $(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec
	install -m 644 $(wildcard python/rfio_fsspec/*.py) python/rfio_fsspec/_native.pyi python/rfio_fsspec/py.typed \
		$(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec/
	install -m 755 $(LIBRARIES)/_native.abi3.so $(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec/
	install -d $(DESTDIR)$(PREFIX)/lib/verbena/python/verbena
	install -m 644 $(wildcard python/verbena/*.py) python/verbena/py.typed $(DESTDIR)$(PREFIX)/lib/verbena/python/verbena/
	install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT \
		$(DESTDIR)$(PREFIX)/share/doc/verbena/

# For every machine with glibc 2.17 or younger; what is built for this one alone: packaging/wheel/build.
wheel:
	@setup/machine build wheel
	packaging/wheel/portable

deb: build
	packaging/debian/build

rpm: build
	@setup/machine build release
	packaging/rpm/build

# All that a release consists of, as far as this machine can make it: packaging/release, in target/dist.
dist:
	@setup/machine build wheel release
	packaging/release

# What is installed is made of, as CycloneDX: target/verbena.cdx.json.
sbom:
	@setup/machine build
	packaging/sbom/build

bench: build
	@setup/machine bench test
	benches/run
	benches/rfio/measure
	benches/agreement

# QUICK=1 for an evaluation of 90 seconds, ON='hardware:mlx5_0' for another adapter.
evaluate: build
	$(RELEASE)/verbena evaluate $(if $(QUICK),--quick) $(foreach target,$(ON),--on $(target)) \
		$(if $(OUT),--out $(OUT))

# The documents as a site, below target/site/html, by mdBook: packaging/site/versions.
site: build
	packaging/site/build

# The tiers of tests: CONTRIBUTING.md says what belongs to which, and how long each takes.
check: testable
	@setup/machine check
	tests/everything check

test: testable
	@setup/machine test
	tests/everything test

# The products and the programs that only tests run.
testable:
	@setup/machine build
	packaging/products/build -p verbena-oracle

clean:
	$(CARGO) clean

# Everything else, for hours: PARTS='loom fuzz' for some parts, CONTINUE=1 for those that have not passed on these files
# (tests/nightly --list).
nightly: testable
	@setup/machine nightly strangers test
	tests/nightly $(if $(CONTINUE),--continue) $(PARTS)
