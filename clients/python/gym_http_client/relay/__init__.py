"""The training relay from Python: samples to the trainer, weights to the workers."""

from gym_http_client.relay.batches import BadBatch, Batch
from gym_http_client.relay.calls import Blob, RelayCalls

__all__ = ["BadBatch", "Batch", "Blob", "RelayCalls"]
