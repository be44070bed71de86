# The simulated libcuda.so.1; what follows from NVIDIA's headers is made from them.
CUDA_GEN   := $(B)/gpusim/cuda_api.h $(B)/gpusim/cuda_exports.c $(B)/gpusim/cuda_procs.c $(B)/gpusim/cuda_errors.c
CUDA_PARTS := access account array capture context copy device event fault function graph graph_exec graph_memory \
	graph_node green heap hide init ipc ipc_event launch library machine memory module other pointer pool procaddress \
	range state stream timeline vmm work
CUDA_OBJ   := $(CUDA_PARTS:%=$(B)/tests/gpusim/%.o) $(patsubst %.c,%.o,$(filter %.c,$(CUDA_GEN)))
CUDA_LIB   := $(B)/gpusim/libcuda.so.1

# Old names of functions are functions too: without the macros that stand for the newest.
CUDA_CFLAGS := -D__CUDA_API_VERSION_INTERNAL -Itests/gpusim -I$(B)/gpusim

$(CUDA_GEN) &: tests/gpusim/cuda_api.py $(CUDA_INCLUDE)/cuda.h $(CUDA_INCLUDE)/cudaTypedefs.h | $(B)/.setup
	$(PY) $< $(CUDA_INCLUDE) $(B)/gpusim
$(B)/gpusim/cuda_%.o: $(B)/gpusim/cuda_%.c
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(CUDA_OBJ): $(CUDA_GEN)
$(CUDA_OBJ): ALL_CFLAGS += $(CUDA_CFLAGS)

# -Bsymbolic: its own tables and calls must not end in a library that is preloaded to stand before it.
$(CUDA_LIB): $(CUDA_OBJ)
	$(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,--no-undefined -o $@.tmp $^ -lpthread && mv $@.tmp $@

ALL += $(CUDA_LIB)

# Parts that are tested without a driver around them.
UNIT_SRC += $(patsubst %,tests/gpusim/%.c,account ipc_event machine state timeline)

# The same with sanitizers, for a machine that the environment names: what unit tests load.
CUDA_ASAN_OBJ := $(CUDA_PARTS:%=$(B)/asan/gpusim/%.o) $(patsubst $(B)/gpusim/%.c,$(B)/asan/gpusim/%.o,$(filter %.c,$(CUDA_GEN)))
CUDA_ASAN_LIB := $(B)/asan/gpusim/libcuda.so.1

$(CUDA_ASAN_OBJ): $(CUDA_GEN)
$(CUDA_ASAN_OBJ): ALL_CFLAGS += $(CUDA_CFLAGS) -DGPUSIM_DIRECTORY_FROM_ENVIRONMENT
$(B)/asan/gpusim/%.o: tests/gpusim/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ASAN_FLAGS) -c -o $@ $<
$(B)/asan/gpusim/%.o: $(B)/gpusim/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ASAN_FLAGS) -c -o $@ $<
$(CUDA_ASAN_LIB): $(CUDA_ASAN_OBJ)
	$(CC) -shared $(ASAN_FLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,nodelete -o $@.tmp $^ -lpthread && mv $@.tmp $@

build-unit-tests: $(CUDA_ASAN_LIB)
