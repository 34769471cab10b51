"""The training relay: samples to the trainer, weights to the workers, nothing lost."""
