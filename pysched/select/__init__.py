"""vgpu-select: says at submit whether a request makes sense, and where it fits best."""
