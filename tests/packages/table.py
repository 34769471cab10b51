"""The published packages that ``make packages`` compares, and what each one needs."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One environment of a package.

    Attributes:
        env_id: Its ID in Gymnasium's registry.
        kwargs: Its arguments, for both sides.
        render_mode: The mode in which it is rendered; "" for no rendering.
        steps: The number of steps from each seed.
        actions: Actions to take in turn; otherwise the space is sampled.
        random_infos: Members of infos that are random whatever the seed.
        vectorized_by: The ``vectorization_mode`` of vectors.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    render_mode: str = "rgb_array"
    steps: int = 200
    actions: tuple[Any, ...] = ()
    random_infos: tuple[str, ...] = ()
    vectorized_by: str = "sync"

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.kwargs.items())
        return f"{self.env_id}({given})" if given else self.env_id


@dataclass(frozen=True)
class Package:
    """A package of PyPI, and environments that use it.

    Attributes:
        requirements: What pip installs; the first one names the package.
        module: The module that registers the environments, a name or, for environments
            of ours that use what a package offers, a file beside this one.
        cases: The environments.
        variables: Environment variables that the package documents, for both sides;
            ``{packages}`` is the folder that packages are installed in.
        loose: Whether to install it without its own requirements where pip refuses
            them beside the server; those that it then needs are the others.
        note: What a reader has to know, as Markdown.
    """

    requirements: tuple[str, ...]
    module: str
    cases: tuple[Case, ...]
    variables: dict[str, str] = field(default_factory=dict)
    loose: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """The name of the package."""
        return self.requirements[0].partition("==")[0]

    @property
    def version(self) -> str:
        """The version that is compared."""
        return self.requirements[0].partition("==")[2]


PACKAGES = (
    Package(
        ("minigrid==3.2.0",),
        "minigrid",
        (
            Case("MiniGrid-Fetch-8x8-N3-v0"),
            Case("BabyAI-GoToLocal-v0"),
        ),
    ),
    Package(
        ("mo-gymnasium==1.3.2",),
        "made/mo_vectors.py",
        (
            Case("deep-sea-treasure-v0"),
            Case("made/MOMountainCar-v0", vectorized_by="vector_entry_point"),
        ),
        note="Of Gymnasium's vectors, `async` ones take rewards of several components, "
        "and `sync` ones do not.",
    ),
    Package(
        ("metaworld==3.1.1",),
        "metaworld",
        (Case("Meta-World/MT1", {"env_name": "reach-v3", "seed": 1}),),
    ),
    Package(
        ("gymnasium-robotics==1.4.2", "mujoco==3.8.1"),
        "gymnasium_robotics",
        (
            Case("FetchReach-v4"),
            Case("PointMaze_UMaze-v3"),
        ),
        note="With MuJoCo 4.0, the Fetch environments fail, locally as well.",
    ),
    Package(
        ("highway-env==1.12.1",),
        "highway_env",
        (
            Case(
                "highway-fast-v0",
                {"config": {"vehicles_count": 5}},
                random_infos=("action",),
            ),
            Case("parking-v0", random_infos=("action",)),
        ),
        note="Without `action` in infos, which is random after a reset.",
    ),
    Package(
        ("panda-gym==3.0.7",),
        "panda_gym",
        (Case("PandaPush-v3", steps=49),),
        note="A reset without a seed is random, so one episode of 49 steps was played.",
    ),
    Package(
        ("miniworld==2.1.0",),
        "miniworld",
        (
            Case("MiniWorld-Hallway-v0"),
            Case("MiniWorld-FourRooms-v0"),
        ),
        variables={"PYGLET_HEADLESS": "true"},
        note="With `PYGLET_HEADLESS=true`, without which it needs a display.",
    ),
    Package(
        ("flappy-bird-gymnasium==0.4.0",),
        "flappy_bird_gymnasium",
        (
            Case("FlappyBird-v0", {"use_lidar": False}),
            Case("FlappyBird-v0", {"use_lidar": True}),
        ),
    ),
    Package(
        ("gym-pusht==0.1.8",),
        "gym_pusht",
        (Case("gym_pusht/PushT-v0", {"obs_type": "pixels_agent_pos"}),),
    ),
    Package(
        ("gym-aloha==0.1.5",),
        "gym_aloha",
        (
            Case(
                "gym_aloha/AlohaTransferCube-v0",
                {"obs_type": "pixels_agent_pos"},
                steps=20,
            ),
        ),
        note="20 steps, since software renders a picture for each.",
    ),
    Package(
        ("miniwob==1.1.0",),
        "made/miniwob_spaces.py",
        (Case("made/MiniWoBSpaces-v0", render_mode=""),),
        note="Its spaces, without a browser.",
    ),
    Package(
        ("stable-retro==1.0.1",),
        "made/retro_game.py",
        (Case("made/Airstriker-v0", vectorized_by="async"),),
        note="Airstriker, which comes with it. Its vector is `async`: locally, too, it "
        "refuses two emulators in one process.",
    ),
    Package(
        ("crafter==1.8.3",),
        "made/crafter_game.py",
        (Case("made/Crafter-v0"),),
        note="Its environment has Gym's old interface, which a class of ours adapts.",
    ),
    Package(
        ("sumo-rl==1.4.5", "eclipse-sumo==1.28.0"),
        "made/sumo_crossing.py",
        (Case("made/SumoCrossing-v0", render_mode=""),),
        variables={"SUMO_HOME": "{packages}/sumo"},
        note="With SUMO of the package eclipse-sumo, to which `SUMO_HOME` leads.",
    ),
    Package(
        # It imports PettingZoo, which it does not require.
        (
            "supersuit==3.11.0",
            "pettingzoo==1.27.0",
            "gymnasium[box2d,classic-control]",
        ),
        "made/supersuit_wrappers.py",
        (
            Case("made/SuperSuitImages-v0", steps=100),
            Case("made/SuperSuitVectors-v0"),
        ),
        note="Its wrappers for single agents. Around CarRacing, 100 steps were played.",
    ),
    Package(
        ("pybullet-envs-gymnasium==0.6.0",),
        "pybullet_envs_gymnasium",
        (
            Case("HopperBulletEnv-v0"),
            Case("InvertedPendulumBulletEnv-v0"),
        ),
    ),
    Package(
        (
            "browsergym-core==0.14.3",
            *("playwright==1.65.2", "beautifulsoup4", "lxml<6", "pillow", "pyparsing"),
        ),
        "made/browsergym_spaces.py",
        (
            Case(
                "made/BrowserGymSpaces-v0",
                render_mode="",
                # Its space of actions cannot be sampled.
                actions=("noop()", "click('a51')", "fill('7', 'ä€𝄞')", ""),
            ),
        ),
        loose=True,
        note="Its spaces, without a browser, and with another Playwright.",
    ),
    Package(
        ("jumanji==1.1.2",),
        "made/jumanji_games.py",
        (
            Case("made/JumanjiSnake-v1", render_mode=""),
            Case("made/JumanjiGame2048-v1", render_mode=""),
        ),
        note="A class of ours has its wrapper, which `gymnasium.make` refuses.",
    ),
    Package(
        ("gymnax==1.0.1",),
        "made/gymnax_games.py",
        (Case("made/GymnaxCatch-v0", render_mode=""),),
    ),
)
