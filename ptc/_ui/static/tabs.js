// Tabs: the arrow keys move between them.

import { h } from "./dom.js";

export function tabSet(label, names) {
  const panels = {};
  const buttons = names.map((name, index) => {
    const id = name.toLowerCase().replaceAll(" ", "-");
    panels[name] = h("div", { role: "tabpanel", id: `p-${id}`, "aria-labelledby": `t-${id}`, tabindex: "0", hidden: index > 0 });
    return h("button", { role: "tab", id: `t-${id}`, "aria-controls": `p-${id}`, "aria-selected": String(index === 0), tabindex: index ? "-1" : "0" }, name);
  });
  const choose = (index) => {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === index));
      button.tabIndex = at === index ? 0 : -1;
      panels[names[at]].hidden = at !== index;
    });
  };
  buttons.forEach((button, index) => {
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (index + step + buttons.length) % buttons.length;
      choose(next);
      buttons[next].focus();
    });
  });
  return { panels, node: h("section", { class: "tabs" }, h("div", { role: "tablist", "aria-label": label }, buttons), Object.values(panels)) };
}
