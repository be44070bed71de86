# vgpud: the node daemon. The pure parts are checked by tests/unit.
VGPUD_PURE := $(addprefix spank/vgpud/,binding.c pages.c state.c loop.c proc.c fate.c arbiter.c leases.c)
VGPUD_SRC  := $(VGPUD_PURE) $(addprefix spank/vgpud/,main.c daemon.c journal.c log.c notify.c nvml.c sampler.c gpus.c \
	takeup.c listener.c conn.c waiters.c root_requests.c step_requests.c bind.c vgpu.c step.c process.c \
	owner.c backstop.c gputime.c)
VGPUD_LIBS := -lm -ldl -lpthread
UNIT_SRC   += $(VGPUD_PURE)

ALL += $(B)/vgpud

$(B)/vgpud: $(VGPUD_SRC:%.c=$(B)/%.o) $(PROTO_OBJ)
	$(CC) $(CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(VGPUD_LIBS)

# The same with sanitizers, for tests: address and undefined behaviour, and threads.
$(B)/asan/vgpud: $(VGPUD_SRC:%.c=$(B)/asan/%.o) $(PROTO_SRC:%.c=$(B)/asan/%.o)
	$(CC) $(ASAN_FLAGS) $(LDFLAGS) -o $@ $^ $(VGPUD_LIBS)
$(B)/tsan/vgpud: $(VGPUD_SRC:%.c=$(B)/tsan/%.o) $(PROTO_SRC:%.c=$(B)/tsan/%.o)
	$(CC) $(TSAN_FLAGS) $(LDFLAGS) -o $@ $^ $(VGPUD_LIBS)

install::
	install -D -m 755 $(B)/vgpud $(DESTDIR)$(PREFIX)/sbin/vgpud
uninstall::
	rm -f $(DESTDIR)$(PREFIX)/sbin/vgpud
