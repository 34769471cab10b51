/** What a person has chosen on the page, and keeps in the browser. */

/** A choice; the default where none was made, or the browser keeps nothing. */
export function kept(name, initial) {
  try {
    const found = localStorage.getItem(`gym.${name}`);
    return found === null ? initial : JSON.parse(found);
  } catch {
    return initial;
  }
}

/** Keep a choice for further visits. */
export function keep(name, value) {
  try {
    localStorage.setItem(`gym.${name}`, JSON.stringify(value));
  } catch {
    // The browser keeps nothing, so the choice ends with the view.
  }
}
