# make build | xrootd | install PREFIX=/usr/local | wheel | deb | sbom | site | test | bench | evaluate | nightly | clean
#
# Every target prepares the machine first (setup/machine): it installs the packages that are
# missing if it may, and says which if it may not.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
# Where rustup installs, for shells that have not read their profile since.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO

RELEASE   := target/release
LIBRARIES := $(RELEASE)/lib
RFIO      := rfiod rfcp rfdir rfcat rfrm rfmkdir rfrename rfchmod rfstat

.PHONY: adapter build xrootd install wheel deb sbom site test bench evaluate nightly clean libraries

build: libraries

# A library that is the same stays in its place (-C), for programs that start meanwhile.
libraries:
	@setup/machine build
	$(CARGO) build --release
	@mkdir -p $(LIBRARIES)
	crates/ibverbs/link.sh
	crates/librfio/link.sh
	crates/shim/link.sh
	install -C -m 755 $(RELEASE)/libverbena_tracer.so $(LIBRARIES)/
	install -C -m 755 $(RELEASE)/libverbena_rfio_python.so $(LIBRARIES)/_native.abi3.so

# The file service behind XRootD's programs, where XRootD's headers are (Debian: libxrootd-client-dev), and behind its
# server (libxrootd-server-dev).
xrootd: build
	xrootd/build $(RELEASE)

# The programs are small; their symbols lie beside them, where debuggers look.
install: build
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(PREFIX)/lib/verbena
	set -e; for program in verbena $(RFIO); do \
		to=$(DESTDIR)$(PREFIX)/bin; \
		objcopy --only-keep-debug $(RELEASE)/$$program $$to/.debug/$$program.debug; \
		chmod 644 $$to/.debug/$$program.debug; \
		install -m 755 -s $(RELEASE)/$$program $$to/; \
		objcopy --add-gnu-debuglink=$$to/.debug/$$program.debug $$to/$$program; \
	done
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
	install -d $(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec
	install -m 644 $(wildcard python/rfio_fsspec/*.py) python/rfio_fsspec/_native.pyi python/rfio_fsspec/py.typed \
		$(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec/
	install -m 755 $(LIBRARIES)/_native.abi3.so $(DESTDIR)$(PREFIX)/lib/rfio/python/rfio_fsspec/
	install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT \
		$(DESTDIR)$(PREFIX)/share/doc/verbena/

# For every machine with glibc 2.17 or younger; what is built for this one alone: packaging/wheel/build.
wheel:
	@setup/machine build
	packaging/wheel/portable

deb: build
	packaging/debian/build

# What is installed is made of, as CycloneDX: target/verbena.cdx.json.
sbom:
	@setup/machine build
	packaging/sbom/build

bench: build
	@setup/machine bench
	@setup/machine test
	benches/run
	benches/rfio/measure

# QUICK=1 for an evaluation of 90 seconds, ON='hardware:mlx5_0' for another adapter.
evaluate: adapter
	$(RELEASE)/verbena evaluate $(if $(QUICK),--quick) $(foreach target,$(ON),--on $(target)) \
		$(if $(OUT),--out $(OUT))

# What an evaluation needs, and no more: it is what somebody new waits for.
adapter:
	@setup/machine build
	$(CARGO) build --release -p verbena -p verbena-ibverbs -p verbena-shim
	@mkdir -p $(LIBRARIES)
	crates/ibverbs/link.sh
	crates/shim/link.sh

# The documents as a site, below target/site/html, by mdBook (cargo install mdbook).
site: build
	packaging/site/build

test: build
	@setup/machine test
	tests/everything

clean:
	$(CARGO) clean

# Sanitizers over the C interface, fuzzing, properties and models at length.
nightly: build
	@setup/machine nightly
	@setup/machine test
	tests/nightly
