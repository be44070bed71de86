# What the plugin, the shim and vgpud have in common. Link $(PROTO_OBJ).
PROTO_SRC := $(addprefix spank/proto/,error.c wire.c size.c hostlist.c conf.c conf_time.c)
PROTO_OBJ := $(PROTO_SRC:%.c=$(B)/%.o)
