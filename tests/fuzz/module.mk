# Fuzzing of what outsiders can send: vgpu.conf and vgpud's messages. `make fuzz` runs each for FUZZ_SECONDS.
FUZZ_SECONDS ?= 600
FUZZ_CC      ?= clang-14
FUZZ_FLAGS   := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -O1 -g
FUZZ_TARGETS := conf messages
FUZZ_VGPUD   := $(filter-out spank/vgpud/main.c,$(VGPUD_SRC))

$(B)/fuzz/%.o: %.c | $(B)/.setup
	@mkdir -p $(@D)
	$(FUZZ_CC) $(filter-out -Wvla,$(ALL_CFLAGS)) $(PATHS) $(FUZZ_FLAGS) -c -o $@ $<

$(B)/fuzz/fuzz_conf: $(B)/fuzz/tests/fuzz/fuzz_conf.o $(PROTO_SRC:%.c=$(B)/fuzz/%.o)
$(B)/fuzz/fuzz_messages: $(B)/fuzz/tests/fuzz/fuzz_messages.o $(PROTO_SRC:%.c=$(B)/fuzz/%.o) $(FUZZ_VGPUD:%.c=$(B)/fuzz/%.o)
$(FUZZ_TARGETS:%=$(B)/fuzz/fuzz_%):
	$(FUZZ_CC) $(FUZZ_FLAGS) -o $@ $^ $(VGPUD_LIBS)

.PHONY: build-fuzz fuzz
build-fuzz: $(FUZZ_TARGETS:%=$(B)/fuzz/fuzz_%)

fuzz: build-fuzz
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p $(B)/fuzz/found/$$target; \
		$(B)/fuzz/fuzz_$$target -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -close_fd_mask=0 \
			-artifact_prefix=$(B)/fuzz/$$target- -print_final_stats=1 $(B)/fuzz/found/$$target \
			tests/fuzz/seeds/$$target || exit 1; \
	done
