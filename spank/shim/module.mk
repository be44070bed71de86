# libvgpu.so, the shim: preloaded into every process of a step.
SHIM_SRC := $(addprefix spank/shim/,array.c charge.c claim.c connect.c context.c elf.c entry.c graph.c image.c \
	launch.c lease.c library.c link.c measure.c memory.c module.c nvml.c pool.c process.c resolve.c say.c \
	stream_memory.c table.c vmm.c)
SHIM_OBJ := $(SHIM_SRC:%.c=$(B)/%.o) $(B)/spank/shim/dlsym.o $(addprefix $(B)/spank/proto/,error.o wire.o)
SHIM     := $(B)/libvgpu.so

ALL += $(SHIM)
UNIT_SRC += $(addprefix spank/shim/,charge.c table.c image.c)
UNIT_THREADS += test_charge test_table

$(B)/spank/shim/dlsym.o: spank/shim/dlsym.S | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) -fPIC -c -o $@ $<

$(SHIM): $(SHIM_OBJ) spank/shim/libvgpu.lds
	$(CC) -shared -Wl,-soname,libvgpu.so -Wl,-Bsymbolic -Wl,--version-script=spank/shim/libvgpu.lds \
		$(ALL_LDFLAGS) -o $@ $(SHIM_OBJ) -lpthread -ldl

install::
	install -D -m 0644 $(SHIM) $(DESTDIR)$(PKGLIBDIR)/libvgpu.so

uninstall::
	rm -f $(DESTDIR)$(PKGLIBDIR)/libvgpu.so
