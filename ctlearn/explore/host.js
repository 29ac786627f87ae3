// Brings every explorable of a static page to life: the part of Jupyter's widget
// manager that a module needs, and no more.

class Model {
  #values;
  #listeners = new Map();

  constructor(values) {
    this.#values = { ...values };
  }

  get(name) {
    return this.#values[name];
  }

  set(name, value) {
    if (this.#values[name] === value) return;
    this.#values[name] = value;
    for (const listener of this.#listeners.get(`change:${name}`) ?? []) listener();
  }

  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  off(event, listener) {
    const kept = (this.#listeners.get(event) ?? []).filter((one) => one !== listener);
    this.#listeners.set(event, kept);
  }

  save_changes() {} // there is no kernel to tell
}

async function mount(el, address) {
  const { module: name, state } = el.dataset;
  const module = await import(new URL(`${name}.js`, import.meta.url));
  el.replaceChildren(); // the figure that stood in
  module.default.render({ model: new Model(JSON.parse(state)), el, address });
}

const seen = {};
for (const el of document.querySelectorAll(".explorable[data-module]")) {
  const name = el.dataset.module;
  seen[name] = (seen[name] ?? 0) + 1;
  // the second of a kind on a page has an address of its own
  mount(el, seen[name] === 1 ? name : `${name}-${seen[name]}`);
}
