/** Elements of the page, of text nodes only: nothing is ever parsed as HTML. */

/**
 * Make an element.
 *
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children Strings become text nodes.
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Make an element of SVG. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Make a button that calls a function. */
export function action(text, onClick, attributes = {}) {
  const button = h("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", onClick);
  return button;
}

/**
 * Make a table that scrolls where it is too wide, and is hidden while it has no rows.
 *
 * @param {string} caption
 * @param {string[]} heads
 * @returns {{ element: HTMLElement, fill(rows: (Node | string)[][]): void }} The table, which
 *   keeps the focus while its rows are replaced.
 */
export function table(caption, heads) {
  const head = h("tr", {}, ...heads.map((each) => h("th", { scope: "col" }, each)));
  const body = h("tbody", {});
  const whole = h("table", {}, h("caption", {}, caption), h("thead", {}, head), body);
  const attributes = { class: "table cards panel", tabindex: "0", role: "region", "aria-label": caption, hidden: "" };
  const element = h("div", attributes, whole);
  const fill = (rows) => {
    element.hidden = !rows.length;
    const focused = document.activeElement?.getAttribute("href");
    const cell = (each, index) => h("td", { "data-label": heads[index] }, each);
    body.replaceChildren(...rows.map((cells) => h("tr", {}, ...cells.map(cell))));
    if (focused) body.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  };
  return { element, fill };
}

/** Make a block of code with a button that copies it. */
export function copyable(text) {
  const code = h("pre", { tabindex: "0" }, text);
  const copy = action("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      // Browsers let pages of other machines copy over HTTPS only.
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => (copy.textContent = "Copy"), 3000);
  });
  return h("div", { class: "copyable" }, code, copy);
}

/** Show a text for some seconds. */
export function toast(text) {
  const shown = h("p", { class: "toast" }, String(text));
  document.querySelector(".toasts").append(shown);
  setTimeout(() => shown.remove(), 6000);
}

/** Ask a question that is answered by one of two buttons; Escape is the second one. */
export function ask(question, yes = "Yes", no = "No") {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": question });
    const end = (answer) => () => dialog.close(answer);
    const buttons = h("div", { class: "row" }, action(yes, end("yes"), { class: "danger" }), action(no, end("")));
    dialog.append(h("p", {}, question), buttons);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
