# vgpud: the node daemon.
UNIT_SRC += spank/vgpud/binding.c
