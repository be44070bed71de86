# Programs that tests run as a job's: each looks the driver up itself, and NAME-linked is linked to it.
PROGRAMS     := cuprobe
PROGRAMS_DIR := $(B)/tests/programs
PROGRAMS_OBJ := $(B)/tests/cluster/programs

$(B)/dlopen/%.o: %.c | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -DDRIVER_DLOPEN -c -o $@ $<

$(PROGRAMS:%=$(PROGRAMS_DIR)/%): $(PROGRAMS_DIR)/%: $(B)/dlopen/tests/cluster/programs/%.o \
		$(B)/dlopen/tests/cluster/programs/driver.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl

$(PROGRAMS:%=$(PROGRAMS_DIR)/%-linked): $(PROGRAMS_DIR)/%-linked: $(PROGRAMS_OBJ)/%.o $(PROGRAMS_OBJ)/driver.o \
		$(B)/gpusim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -L$(B)/gpusim -l:libcuda.so.1

$(PROGRAMS_DIR)/static: $(PROGRAMS_OBJ)/static.o
	@mkdir -p $(@D)
	$(CC) -static $(LDFLAGS) -o $@ $<

# Past the shim: one without a dynamic loader, which has the simulator's device interface in it; one that finds the
# driver's functions by itself.
BARE_PARTS := state account timeline ipc_event machine
$(PROGRAMS_OBJ)/bare.o: ALL_CFLAGS += -Itests
$(PROGRAMS_DIR)/bare: $(PROGRAMS_OBJ)/bare.o $(BARE_PARTS:%=$(B)/tests/gpusim/%.o)
	@mkdir -p $(@D)
	$(CC) -static $(LDFLAGS) -o $@ $^ -lpthread

$(PROGRAMS_DIR)/walk: $(PROGRAMS_OBJ)/walk.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl

ALL += $(PROGRAMS_DIR)/static $(PROGRAMS_DIR)/bare $(PROGRAMS_DIR)/walk $(PROGRAMS:%=$(PROGRAMS_DIR)/%) $(PROGRAMS:%=$(PROGRAMS_DIR)/%-linked)
