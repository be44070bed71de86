# slurm-vgpu: fractional GPUs for Slurm.
#
#   make            build the C parts and the Python environment into build/
#   make demo       a simulated two-node cluster runs vGPU jobs before your eyes
#   make test       every test that needs no GPU
#   make lint       clang-format, ruff, mypy, luacheck
#   make bench      measured promises, each beside its baseline
#   make soak fuzz  the long tests
#   make wheel      the Python part as wheel and sdist into build/dist/
#   make deb        Debian packages into build/deb/ (SUITE= for another release of Debian)
#   make rpm        RPM packages for the family of EL9 into build/rpm/
#   make SLURM_PREFIX=/opt/slurm   for a Slurm that you have built; without, pkg-config's slurm.pc or the system's
#   make install    DESTDIR= PREFIX= LIBDIR= SYSCONFDIR= PYTHON= are honoured; `make uninstall` undoes it
#
# Each folder with C code has a module.mk that adds its targets to $(ALL); nothing is built outside build/.

PREFIX     ?= /usr
SYSCONFDIR ?= /etc
LIBDIR     ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch)
PKGLIBDIR   = $(LIBDIR)/slurm-vgpu
DATADIR     = $(PREFIX)/share/slurm-vgpu
# A Slurm that the site has built itself: by prefix, else as pkg-config knows it, else where the compiler looks.
SLURM_PREFIX ?=
PKG_CONFIG ?= pkg-config
SLURM_CFLAGS ?= $(if $(SLURM_PREFIX),-I$(SLURM_PREFIX)/include,$(shell $(PKG_CONFIG) --cflags slurm 2>/dev/null))
# Its headers are not ours to warn about.
SLURM_INCLUDE = $(patsubst -I%,-isystem %,$(SLURM_CFLAGS))
SLURM_PLUGINDIR ?= $(if $(SLURM_PREFIX),$(SLURM_PREFIX)/lib/slurm)

B      := build
VENV   := $(B)/venv
PY     := $(VENV)/bin/python
CC     ?= gcc
CUDA_INCLUDE := $(VENV)/include-cuda

WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -fstack-protector-strong \
	-MMD -MP $(WARN) $(CFLAGS) -Ispank -isystem $(CUDA_INCLUDE)
ALL_LDFLAGS := -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
PATHS   := -DVGPU_PKGLIBDIR='"$(PKGLIBDIR)"' -DVGPU_DATADIR='"$(DATADIR)"' -DVGPU_SYSCONFDIR='"$(SYSCONFDIR)"'

ALL :=
.DEFAULT_GOAL := all

# Installation: each folder's module.mk adds what it owns, and the folders for it to INSTALL_FOLDERS; removal undoes both.
FOLDERS_MADE = $(PREFIX)/lib/slurm-vgpu/folders
INSTALL_FOLDERS = $(PREFIX)/lib/slurm-vgpu $(PREFIX)/sbin $(PKGLIBDIR) $(DATADIR)
install:: build-all
	@packaging/folders.sh make "$(DESTDIR)" $(FOLDERS_MADE) $(INSTALL_FOLDERS)

# proto first: others name its variables.
include spank/proto/module.mk
include $(filter-out spank/proto/module.mk,$(sort $(wildcard slurm_plugins/module.mk spank/*/module.mk tests/*/module.mk packaging/module.mk)))

.PHONY: all setup demo test lint bench soak fuzz install uninstall clean
# V=1 shows the commands.
ifndef V
.SILENT:
endif
PARALLEL = $(MAKE) --no-print-directory --jobs=$(shell nproc)
all: setup
	$(PARALLEL) build-all
build-all: $(ALL)
.PHONY: build-all

# --- what the build and the tests need: Debian packages and a virtual environment -----------------------
setup: $(B)/.setup
$(B)/.setup: packaging/setup.sh pyproject.toml
	@packaging/setup.sh $(VENV)
	@mkdir -p $(B) && touch $@

$(B)/%.o: %.c | $(B)/.setup
	mkdir -p $(@D)
	echo "  CC $<"
	$(CC) $(ALL_CFLAGS) $(PATHS) -c -o $@ $<

# --- the ways to see it work ---------------------------------------------------------------------------------
PYTEST := $(PY) -m pytest

.PHONY: all-tests
all-tests: setup
	$(PARALLEL) build-all build-unit-tests

demo: all
	@tests/demo/run

# Most tests wait for daemons, so four run at a time, file by file; one that fails is tried once more, and listed as such.
# They start their own clusters in namespaces of their own; none needs a GPU or leaves anything behind.
test: all-tests
	$(PYTEST) -n 4 --dist loadfile --reruns 1 -rR -m "not soak" tests

soak: all-tests
	$(PYTEST) -m soak --timeout 3600 tests

bench: all
	$(PY) -m tests.bench

C_FILES := $(shell git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null)
lint: setup
	clang-format --dry-run -Werror $(C_FILES)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	luacheck --quiet slurm_plugins/*.lua

# After all that the modules have removed.
uninstall::
	rm -rf "$(DESTDIR)$(DATADIR)"
	@packaging/folders.sh remove "$(DESTDIR)" $(FOLDERS_MADE)

clean:
	rm -rf $(B)/obj $(filter-out $(B)/venv $(B)/.setup,$(wildcard $(B)/*))

# Not what lies below for other ends: a whole Debian has files called *.d, too.
-include $(shell find $(B) $(foreach other,venv roots deb rpm,-path $(B)/$(other) -prune -o) \
	-type f -name '*.d' -print 2>/dev/null)
