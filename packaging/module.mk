# Installation of what is not built by a C folder: the Python packages and their commands, the placeholders of slots.

PYTHON      ?= /usr/bin/python3
PYTHONLIB    = $(PREFIX)/lib/slurm-vgpu/python
PYTHON_PACKAGES := pysched gres
PYTHON_DATA     := *.py *.j2 *.json *.csv *.conf
# Commands: NAME=MODULE with a function main.
PYTHON_COMMANDS := vgpu=pysched.cli.main vgpu-agent=pysched.agent.main vgpu-select=pysched.select.main

# Modules that distributions lack travel with ours.
PYTHON_BUNDLED := hostlist pynvml
$(B)/bundled/.made: pyproject.toml | $(B)/.setup
	@$(PY) packaging/bundle.py $(@D) $(PYTHON_BUNDLED)
	@touch $@
ALL += $(B)/bundled/.made

# Man pages and shell completion come from the commands themselves.
PYTHON_SOURCES := $(shell find pysched/cli -name '*.py') packaging/man.py packaging/completion.py docs/plan.md docs/vgpu.conf.md
$(B)/man/.made: $(PYTHON_SOURCES) $(B)/vgpud $(B)/bundled/.made | $(B)/.setup
	@rm -rf $(@D) && PYTHONPATH=$(CURDIR):$(B)/bundled $(PY) packaging/man.py $(@D) $(B)/vgpud
	@touch $@
$(B)/completion/.made: $(PYTHON_SOURCES) $(B)/bundled/.made | $(B)/.setup
	@rm -rf $(@D) && PYTHONPATH=$(CURDIR):$(B)/bundled $(PY) packaging/completion.py $(@D)
	@touch $@
ALL += $(B)/man/.made $(B)/completion/.made

MANDIR     = $(PREFIX)/share/man
COMPLETION = share/bash-completion/completions/vgpu share/zsh/site-functions/_vgpu \
	share/fish/vendor_completions.d/vgpu.fish

# Options of the services: Debian's place; elsewhere it is called sysconfig.
DEFAULTDIR ?= $(SYSCONFDIR)/default
TMPFILES    = $(PREFIX)/lib/tmpfiles.d/slurm-vgpu.conf
UNITDIR    = $(PREFIX)/lib/systemd/system
UNITS     := $(patsubst packaging/systemd/%.in,%,$(wildcard packaging/systemd/*.in))
UNIT_PATHS = -e 's|@BINDIR@|$(PREFIX)/bin|; s|@SBINDIR@|$(PREFIX)/sbin|; s|@SYSCONFDIR@|$(SYSCONFDIR)|; \
	s|@DEFAULTDIR@|$(DEFAULTDIR)|'

INSTALL_FOLDERS += $(PREFIX)/bin $(PYTHONLIB) $(UNITDIR) $(addprefix $(MANDIR)/,man1 man5 man8) \
	$(SYSCONFDIR) $(DEFAULTDIR) $(dir $(TMPFILES)) \
	$(addprefix $(PREFIX)/,$(dir $(COMPLETION)))

install::
	@for unit in $(UNITS); do \
		sed $(UNIT_PATHS) packaging/systemd/$$unit.in >"$(DESTDIR)$(UNITDIR)/$$unit" || exit; \
	done
	@for file in packaging/default/*; do \
		target="$(DESTDIR)$(DEFAULTDIR)/$${file##*/}"; test -e "$$target" || install -m 644 $$file "$$target" || exit; \
	done
	@install -m 644 packaging/tmpfiles.conf "$(DESTDIR)$(TMPFILES)"
	@for page in $(B)/man/*.[158]; do \
		install -D -m 644 $$page "$(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}" || exit; \
	done
	@for file in $(COMPLETION); do \
		install -D -m 644 $(B)/completion/$${file##*/} "$(DESTDIR)$(PREFIX)/$$file" || exit; \
	done
	@install -D -m 644 gres/plan.schema.json "$(DESTDIR)$(DATADIR)/plan.schema.json"
	@for file in $$(cd $(CURDIR) && find $(PYTHON_PACKAGES) -type f \( -false $(PYTHON_DATA:%=-o -name '%') \)); do \
		install -D -m 644 $$file "$(DESTDIR)$(PYTHONLIB)/$$file" || exit; \
	done
	@for file in $$(cd $(B)/bundled && find . -type f ! -name .made); do \
		install -D -m 644 $(B)/bundled/$$file "$(DESTDIR)$(PYTHONLIB)/$$file" || exit; \
	done
	@printf '{"pkglibdir": "%s", "datadir": "%s", "sysconfdir": "%s", "slurm_prefix": "%s", "slurm_plugindir": "%s"}\n' \
		"$(PKGLIBDIR)" "$(DATADIR)" "$(SYSCONFDIR)" "$(SLURM_PREFIX)" "$(SLURM_PLUGINDIR)" \
		>"$(DESTDIR)$(PYTHONLIB)/pysched/install.json"
	@for command in $(PYTHON_COMMANDS); do \
		target="$(DESTDIR)$(PREFIX)/bin/$${command%%=*}"; \
		sed -e 's|@PYTHON@|$(PYTHON)|; s|@PYTHONLIB@|$(PYTHONLIB)|; s|@SLURM_PREFIX@|$(SLURM_PREFIX)|' -e "s|@MODULE@|$${command#*=}|" \
			packaging/python-command.in >"$$target" && chmod 755 "$$target" || exit; \
	done
	@install -d "$(DESTDIR)$(DATADIR)/slots"
	@cd "$(DESTDIR)$(DATADIR)/slots" && touch $$(seq 0 1023) && chmod 644 $$(seq 0 1023)
	@install -m 000 /dev/null "$(DESTDIR)$(DATADIR)/covered"
	@test -e "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload" || install -m 644 /dev/null "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload"

# Options that were changed stay. An empty ld.so.preload may be ours; one with a line is the site's.
uninstall::
	rm -f $(foreach unit,$(UNITS),"$(DESTDIR)$(UNITDIR)/$(unit)")
	rm -f "$(DESTDIR)$(TMPFILES)"
	@for file in packaging/default/*; do \
		target="$(DESTDIR)$(DEFAULTDIR)/$${file##*/}"; ! cmp -s $$file "$$target" || rm -f "$$target"; \
	done
	rm -f "$(DESTDIR)$(MANDIR)"/man[158]/vgpu*.[158]
	rm -f $(COMPLETION:%="$(DESTDIR)$(PREFIX)/%")
	rm -rf "$(DESTDIR)$(PYTHONLIB)"
	rm -f $(foreach command,$(PYTHON_COMMANDS),"$(DESTDIR)$(PREFIX)/bin/$(firstword $(subst =, ,$(command)))")
	@test -s "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload" || rm -f "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload"

# The Python part alone, for hosts that only plan or look: wheel and sdist.
DIST ?= $(B)/dist
.PHONY: wheel
wheel: setup
	@rm -rf $(DIST) && $(PY) -m build --outdir $(DIST) . >$(B)/wheel.log 2>&1 || { cat $(B)/wheel.log >&2; exit 1; }
	@ls $(DIST)/*

# Packages, in build/deb/SUITE; of another suite than this machine's: make deb SUITE=trixie.
.PHONY: deb
deb: all
	@packaging/deb.sh $(SUITE)

# Packages for the family of EL9, in build/rpm.
.PHONY: rpm
rpm: all
	@packaging/rpm.sh
