"""One driver per measured system. A driver is imported in the environment of its system and nowhere else."""
