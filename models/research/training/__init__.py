"""Training code of the default model. PyTorch is needed here and nowhere else."""
