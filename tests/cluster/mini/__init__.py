"""A Slurm cluster of one's own: real munged, slurmctld and slurmds around simulated GPUs, in one sandbox."""
