"""The training relay from Python: samples to the trainer, weights to the workers."""

from gym_http_client.relay.batches import BadBatch, Batch
from gym_http_client.relay.calls import Blob, RelayCalls
from gym_http_client.relay.episodes import play_episode
from gym_http_client.relay.play import Played, play, play_weights
from gym_http_client.relay.replay import PrioritizedReplay, Replay
from gym_http_client.relay.spool import Spool, SpoolError
from gym_http_client.relay.trainer import NoBatch, Trainer, TrainerReplaced
from gym_http_client.relay.weights import BadWeights, load_weights, save_weights
from gym_http_client.relay.worker import RolloutWorker

__all__ = [
    "BadBatch",
    "BadWeights",
    "Batch",
    "Blob",
    "NoBatch",
    "Played",
    "PrioritizedReplay",
    "RelayCalls",
    "Replay",
    "RolloutWorker",
    "Spool",
    "SpoolError",
    "Trainer",
    "TrainerReplaced",
    "load_weights",
    "play",
    "play_episode",
    "play_weights",
    "save_weights",
]
