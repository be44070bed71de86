# Installation of what is not built by a C folder: the Python packages and their commands, the placeholders of slots.

PYTHON      ?= /usr/bin/python3
PYTHONLIB    = $(PREFIX)/lib/slurm-vgpu/python
PYTHON_PACKAGES := pysched gres
PYTHON_DATA     := *.py *.j2 *.json *.csv *.conf
# Commands: NAME=MODULE with a function main.
PYTHON_COMMANDS := vgpu=pysched.cli.main vgpu-agent=pysched.agent.main vgpu-select=pysched.select.main

install::
	@for file in $$(cd $(CURDIR) && find $(PYTHON_PACKAGES) -type f \( -false $(PYTHON_DATA:%=-o -name '%') \)); do \
		install -D -m 644 $$file "$(DESTDIR)$(PYTHONLIB)/$$file" || exit; \
	done
	@printf '{"pkglibdir": "%s", "datadir": "%s", "sysconfdir": "%s"}\n' "$(PKGLIBDIR)" "$(DATADIR)" "$(SYSCONFDIR)" \
		>"$(DESTDIR)$(PYTHONLIB)/pysched/install.json"
	@install -d "$(DESTDIR)$(PREFIX)/bin"
	@for command in $(PYTHON_COMMANDS); do \
		target="$(DESTDIR)$(PREFIX)/bin/$${command%%=*}"; \
		sed -e 's|@PYTHON@|$(PYTHON)|; s|@PYTHONLIB@|$(PYTHONLIB)|' -e "s|@MODULE@|$${command#*=}|" \
			packaging/python-command.in >"$$target" && chmod 755 "$$target" || exit; \
	done
	@install -d "$(DESTDIR)$(DATADIR)/slots"
	@cd "$(DESTDIR)$(DATADIR)/slots" && touch $$(seq 0 1023) && chmod 644 $$(seq 0 1023)
	@install -m 000 /dev/null "$(DESTDIR)$(DATADIR)/covered"
	@install -d "$(DESTDIR)$(SYSCONFDIR)"
	@test -e "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload" || install -m 644 /dev/null "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload"

# An empty ld.so.preload may be ours; one with a line is the site's.
uninstall::
	rm -rf "$(DESTDIR)$(PREFIX)/lib/slurm-vgpu" "$(DESTDIR)$(DATADIR)"
	rm -f $(foreach command,$(PYTHON_COMMANDS),"$(DESTDIR)$(PREFIX)/bin/$(firstword $(subst =, ,$(command)))")
	@test -s "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload" || rm -f "$(DESTDIR)$(SYSCONFDIR)/ld.so.preload"
