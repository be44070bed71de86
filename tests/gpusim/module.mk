# The simulated GPU: one makefile for each library beside it.
include $(filter-out %/module.mk,$(wildcard tests/gpusim/*.mk))
