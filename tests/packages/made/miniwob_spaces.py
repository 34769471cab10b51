"""The spaces of MiniWoB++, without a browser."""

import gymnasium
from echo import Echo
from miniwob.action import ActionSpaceConfig
from miniwob.observation import get_observation_space

_WIDTH, _HEIGHT = 160, 210


def _make() -> Echo:
    config = ActionSpaceConfig.get_preset("all_supported")
    config.screen_width, config.screen_height = _WIDTH, _HEIGHT
    return Echo(get_observation_space(_WIDTH, _HEIGHT), config.get_action_space())


gymnasium.register("made/MiniWoBSpaces-v0", _make)
