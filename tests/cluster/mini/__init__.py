"""A Slurm cluster in a sandbox: real munged, slurmctld and slurmds around simulated GPUs."""
