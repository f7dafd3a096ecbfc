"""Training code of the default model: prior, model, optimiser, export. PyTorch is needed here and nowhere else."""
