/** Families of environments, by what the registry says of them. No DOM. */

/** Of Gymnasium's own packages, and of namespaces. */
const NAMES = {
  ALE: "Atari",
  ale_py: "Atari",
  box2d: "Box2D",
  classic_control: "Classic control",
  minigrid: "MiniGrid",
  mujoco: "MuJoCo",
  pettingzoo: "PettingZoo",
  toy_text: "Toy text",
};

/** Of each family the one that people know, in any version. */
const FACES = ["ALE/Breakout", "Ant", "BipedalWalker", "CartPole", "pettingzoo/classic.connect_four", "Taxi"];

/** The family of an environment of the registry. */
export function familyOf({ env_id, entry_point, external }) {
  if (external) return "External";
  const [space, ...rest] = env_id.split("/");
  if (rest.length) return nameOf(space);
  const parts = (entry_point ?? "").split(":")[0].split(".");
  const own = parts[0] === "gymnasium" && parts[1] === "envs" ? parts[2] : parts[0];
  return nameOf(own) || "Others";
}

/** The environment whose picture stands for a family; undefined if none can be made. */
export function faceOf(envs) {
  const made = envs.filter(({ available, external }) => available && !external);
  return made.findLast(({ env_id }) => FACES.includes(env_id.replace(/[-_]v\d+$/, ""))) ?? made[0];
}

function nameOf(space) {
  // Every object has a "constructor".
  return Object.hasOwn(NAMES, space) ? NAMES[space] : space;
}
