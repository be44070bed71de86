# The micro-benchmark of driver calls.
$(B)/tests/programs/calls: tests/bench/calls.c $(B)/gpusim/libcuda.so.1 | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< -L$(B)/gpusim -l:libcuda.so.1 -ldl

ALL += $(B)/tests/programs/calls
