"""Compare the plan with what is installed, what Slurm says and what the hardware says."""
