"""A drone that inherits from rtgym's interface, as its users write them."""

from rtgym import RealTimeGymInterface

from tests.support.envs.worlds import Drone


class RealDrone(Drone, RealTimeGymInterface):
    """The drone, with all methods of rtgym's interface."""
