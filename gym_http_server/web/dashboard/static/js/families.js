/** Families of environments, by what the registry says of them. No DOM. */

/** Of Gymnasium's own packages, and of namespaces. */
const NAMES = {
  ALE: "Atari",
  ale_py: "Atari",
  box2d: "Box2D",
  classic_control: "Classic control",
  minigrid: "MiniGrid",
  mujoco: "MuJoCo",
  toy_text: "Toy text",
};

/** The family of an environment of the registry. */
export function familyOf({ env_id, entry_point, external }) {
  if (external) return "External";
  const [space, ...rest] = env_id.split("/");
  if (rest.length) return nameOf(space);
  const parts = (entry_point ?? "").split(":")[0].split(".");
  const own = parts[0] === "gymnasium" && parts[1] === "envs" ? parts[2] : parts[0];
  return nameOf(own) || "Others";
}

function nameOf(space) {
  // Every object has a "constructor".
  return Object.hasOwn(NAMES, space) ? NAMES[space] : space;
}
