"""vgpu-agent: one per node. Reports the node's topology and advises where a step's vGPUs go."""
