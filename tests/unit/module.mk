# C units: each tests/unit/c/test_*.c becomes a program that checks its claims, with address and undefined-behaviour
# sanitizers. It is linked with whatever it needs of UNIT_SRC: folders with pure parts append to that variable.
# Tests named in UNIT_THREADS are built with the thread sanitizer too; those in UNIT_PLAIN also without any, for long
# calculations of which the sanitized program does a part.
UNIT_SRC     += $(PROTO_SRC)
UNIT_THREADS +=
UNIT_PLAIN   += test_arbiter
UNIT_TESTS   := $(patsubst tests/unit/c/%.c,%,$(wildcard tests/unit/c/test_*.c))
UNIT_BIN     := $(UNIT_TESTS:%=$(B)/tests/unit/%) $(UNIT_THREADS:%=$(B)/tests/unit/%-threads) \
	$(UNIT_PLAIN:%=$(B)/tests/unit/%-plain)

ASAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -O1 -g
TSAN_FLAGS := -fsanitize=thread -O1 -g

$(B)/asan/%.o: %.c | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PATHS) $(ASAN_FLAGS) -c -o $@ $<
$(B)/tsan/%.o: %.c | $(B)/.setup
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PATHS) $(TSAN_FLAGS) -c -o $@ $<

$(B)/asan/parts.a: $(UNIT_SRC:%.c=$(B)/asan/%.o)
	@rm -f $@
	$(AR) qcs $@ $^
$(B)/tsan/parts.a: $(UNIT_SRC:%.c=$(B)/tsan/%.o)
	@rm -f $@
	$(AR) qcs $@ $^

$(B)/tests/unit/%-threads: $(B)/tsan/tests/unit/c/%.o $(B)/tsan/parts.a
	@mkdir -p $(@D)
	$(CC) $(TSAN_FLAGS) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread
$(B)/parts.a: $(UNIT_SRC:%.c=$(B)/%.o)
	@rm -f $@
	$(AR) qcs $@ $^
$(B)/tests/unit/%-plain: $(B)/tests/unit/c/%.o $(B)/parts.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread
$(B)/tests/unit/%: $(B)/asan/tests/unit/c/%.o $(B)/asan/parts.a
	@mkdir -p $(@D)
	$(CC) $(ASAN_FLAGS) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread

# What tests of the whole vgpud need: it, with sanitizers, and an NVML that says what the test wants.
FAKE_NVML := $(B)/tests/unit/nvml/libnvidia-ml.so.1
$(FAKE_NVML): $(B)/tests/unit/c/fake_nvml.o
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^

.PHONY: build-unit-tests
build-unit-tests: $(UNIT_BIN) $(FAKE_NVML) $(B)/asan/vgpud $(B)/tsan/vgpud
.SECONDARY: $(UNIT_TESTS:%=$(B)/asan/tests/unit/c/%.o) $(UNIT_THREADS:%=$(B)/tsan/tests/unit/c/%.o)
