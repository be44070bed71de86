# gres_vgpu.so: one build per exact release of Slurm (plugin_version).
SLURM_COMMON_OBJ := $(B)/slurm_plugins/node.o
GRES_OBJ := $(B)/slurm_plugins/gres_vgpu.o $(SLURM_COMMON_OBJ)

# What was built for other headers is built again.
$(B)/slurm-headers: FORCE | $(B)/.setup
	found=$$(packaging/slurm-headers.sh $(CC) $(SLURM_CFLAGS)) && found="$$found $(SLURM_CFLAGS)" && \
		{ [ "$$(cat $@ 2>/dev/null)" = "$$found" ] || { echo "$$found" >$@; echo "  for Slurm $$found"; }; }
.PHONY: FORCE
FORCE:

$(GRES_OBJ): $(B)/slurm-headers
$(B)/slurm_plugins/%.o: ALL_CFLAGS += $(SLURM_INCLUDE)
# Hooks whose arguments are of no interest.
$(B)/slurm_plugins/gres_vgpu.o: ALL_CFLAGS += -Wno-unused-parameter

.SECONDEXPANSION:
$(B)/gres_vgpu.so: slurm_plugins/gres_vgpu.map $(GRES_OBJ) $$(PROTO_OBJ)
	$(CC) -shared $(ALL_LDFLAGS) -Wl,--version-script=$< -o $@ $(filter %.o,$^)

ALL += $(B)/gres_vgpu.so

install::
	install -D -m 0755 $(B)/gres_vgpu.so $(DESTDIR)$(PKGLIBDIR)/gres_vgpu.so
	install -D -m 0644 slurm_plugins/job_submit_vgpu.lua $(DESTDIR)$(DATADIR)/job_submit_vgpu.lua

uninstall::
	rm -f $(DESTDIR)$(PKGLIBDIR)/gres_vgpu.so
