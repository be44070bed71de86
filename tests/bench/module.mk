# Programs of the benches.
$(B)/tests/programs/submitter: $(B)/tests/bench/submitter.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $< -lslurm

$(B)/tests/bench/%.o: ALL_CFLAGS += $(SLURM_INCLUDE)

ALL += $(B)/tests/programs/submitter

include tests/bench/calls.mk
