"""What a node really has: from NVML, or from what an administrator collected of many nodes."""
