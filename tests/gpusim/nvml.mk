# The simulated libnvidia-ml.so.1, and gpusim-stat, which shows what the simulator knows.
NVML_GEN  := $(B)/gpusim/nvml_defaults.c
NVML_SRC  := $(filter-out %_defaults.c,$(wildcard tests/gpusim/nvml_*.c))
NVML_PARTS := state account timeline ipc_event machine fault access hide
NVML_OBJ  := $(NVML_SRC:%.c=$(B)/%.o) $(NVML_GEN:.c=.o) $(NVML_PARTS:%=$(B)/tests/gpusim/%.o)
NVML_LIB  := $(B)/gpusim/libnvidia-ml.so.1

$(NVML_GEN): tests/gpusim/nvml_defaults.py $(CUDA_INCLUDE)/nvml.h | $(B)/.setup
	@mkdir -p $(@D)
	$(PY) $< $(CUDA_INCLUDE)/nvml.h > $@.tmp && mv $@.tmp $@
$(NVML_GEN:.c=.o): $(NVML_GEN)
	$(CC) $(ALL_CFLAGS) -Itests/gpusim -c -o $@ $<

# -Bsymbolic: its own calls must not end in a library that is preloaded to stand before it.
$(NVML_LIB): $(NVML_OBJ)
	$(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,--no-undefined -o $@ $^ -ldl -lpthread

$(B)/gpusim/gpusim-stat: $(patsubst %,$(B)/tests/gpusim/%.o,stat_main stat_report stat_watch stat_topo $(NVML_PARTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl -lpthread

ALL += $(NVML_LIB) $(B)/gpusim/gpusim-stat
