"""The prior: random tables, made in batches on the device, that the model learns to continue."""
