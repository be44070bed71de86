# Programs that put a load on the simulated GPU, for its own tests. Linked to libcuda, as an application may be.
GPUSIM_PROGRAMS := churn hold paths pulse spin
GPUSIM_BIN      := $(GPUSIM_PROGRAMS:%=$(B)/gpusim/programs/%)

$(GPUSIM_BIN): $(B)/gpusim/programs/%: $(B)/tests/gpusim/programs/%.o $(B)/tests/gpusim/programs/kinds.o \
		$(B)/gpusim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -L$(B)/gpusim -l:libcuda.so.1 -lpthread

ALL += $(GPUSIM_BIN)
