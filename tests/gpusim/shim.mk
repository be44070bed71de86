# Programs and libraries that look for the driver's functions in every way there is, for tests of the shim.
SHIM_TESTS := $(addprefix $(B)/shim/programs/,linked ways names libwrap.so libnext.so libearly.so)

$(B)/shim/programs/%.so: tests/gpusim/shim/%.c | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -fvisibility=default -o $@ $< -ldl
$(B)/shim/programs/linked: tests/gpusim/shim/linked.c $(B)/gpusim/libcuda.so.1 | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< -L$(B)/gpusim -l:libcuda.so.1 -ldl
$(B)/shim/programs/names: tests/gpusim/shim/names.c $(B)/shim/programs/libnext.so | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Wl,--no-as-needed -o $@ $< -L$(B)/shim/programs -l:libnext.so \
		-Wl,-rpath,'$$ORIGIN' -ldl -lpthread
$(B)/shim/programs/%: tests/gpusim/shim/%.c | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< -ldl -lpthread

ALL += $(SHIM_TESTS)
