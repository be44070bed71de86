# spank_vgpu.so. What has no Slurm in it is tested alone (tests/unit/c).
SPANK_PURE_SRC := $(addprefix spank/plugin/,advice.c comm.c comm_user.c eligible.c environment.c json.c \
	lead.c namespace.c preload.c segment.c sentence.c settings.c slots.c verdict.c vgpud_client.c wishes.c)
SPANK_SRC := $(SPANK_PURE_SRC) $(addprefix spank/plugin/,controller.c dispatch.c epilog.c options.c \
	placement.c requeue.c step.c submit.c task.c)
UNIT_SRC += $(SPANK_PURE_SRC)
SPANK_OBJ := $(SPANK_SRC:%.c=$(B)/%.o)

$(SPANK_OBJ): $(B)/slurm-headers
$(B)/spank/plugin/%.o: ALL_CFLAGS += $(SLURM_INCLUDE) -Islurm_plugins
# Slurm hands every hook the same arguments.
$(B)/spank/plugin/dispatch.o $(B)/spank/plugin/step.o: ALL_CFLAGS += -Wno-unused-parameter

$(B)/spank_vgpu.so: spank/plugin/spank_vgpu.map $(SPANK_OBJ) $(SLURM_COMMON_OBJ) $$(PROTO_OBJ)
	$(CC) -shared $(ALL_LDFLAGS) -Wl,--version-script=$< -o $@ $(filter %.o,$^)

ALL += $(B)/spank_vgpu.so

install::
	install -D -m 0755 $(B)/spank_vgpu.so $(DESTDIR)$(PKGLIBDIR)/spank_vgpu.so

uninstall::
	rm -f $(DESTDIR)$(PKGLIBDIR)/spank_vgpu.so

# For sites with enroot (and pyxis): see docs/containers.md.
install::
	@install -d $(DESTDIR)$(DATADIR)/enroot
	@sed -e 's|@PKGLIBDIR@|$(PKGLIBDIR)|; s|@STEP_DIR@|/run/vgpu-step|' spank/plugin/enroot/50-vgpu.sh.in \
		>$(DESTDIR)$(DATADIR)/enroot/50-vgpu.sh
	@chmod 755 $(DESTDIR)$(DATADIR)/enroot/50-vgpu.sh
