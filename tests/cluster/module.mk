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

ALL += $(PROGRAMS_DIR)/static $(PROGRAMS:%=$(PROGRAMS_DIR)/%) $(PROGRAMS:%=$(PROGRAMS_DIR)/%-linked)
