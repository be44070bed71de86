/* image.h - how much device memory an image of code is going to take, as far as the image says. */
#ifndef VGPU_SHIM_IMAGE_H
#define VGPU_SHIM_IMAGE_H

#include <stdint.h>

/* A cubin: its allocated sections. Text (PTX): its length. A fat binary holds code for many cards,
 * of which one is loaded, piece by piece: 0, not known. */
uint64_t image_size(const void *image);

/* The same for a file; 0 if it cannot be read. */
uint64_t image_file_size(const char *path);

#endif
