/* vmm.h - VMM memory that is mapped into sparse arrays. */
#ifndef VGPU_SHIM_VMM_H
#define VGPU_SHIM_VMM_H

/* An array is gone, and with it the references of its tiles. */
void vmm_array_gone(void *array);

#endif
