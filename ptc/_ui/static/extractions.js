// The extractions that the journal knows, with their progress.

import { stream } from "./api.js";
import { count, fill, h, link, money, moment, statusMark, visible } from "./dom.js";

export function baseName(path) {
  return path.replace(/^.*[/\\](?=[^/\\])/, "");
}

export function outcomeBar(head) {
  const known = head.done + head.failed + head.dead;
  const total = head.total ?? known;
  const part = (kind, value) => {
    const node = h("i", { class: kind });
    node.style.width = `${total ? (value / total) * 100 : 0}%`;
    return node;
  };
  const left = head.total === null ? "" : `, ${count(head.total - known)} left`;
  return h("span", {
    class: "outcome-bar", role: "progressbar", "aria-label": "Documents", "aria-valuemin": "0", "aria-valuemax": Math.max(total, 1),
    "aria-valuenow": known, "aria-valuetext": `${count(head.done)} done, ${count(head.failed + head.dead)} failed${left}`,
  }, part("bar-done", head.done), part("bar-failed", head.failed + head.dead));
}

export function extractionsView(main) {
  document.title = "Extractions · ptc";
  main.className = "page-extractions";
  const body = h("tbody");
  const state = h("p", { class: "quiet" }, "Loading…");
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Extractions", hidden: true }, h("table", {},
    h("thead", {}, h("tr", {}, [["Status"], ["Output"], ["Progress"], ["Done", "n"], ["Failed", "n"], ["Left", "n"], ["Cost", "n"], ["Started"], ["Model"]].map(([name, kind]) =>
      h("th", { scope: "col", class: kind }, name)))),
    body));
  fill(main, h("h1", {}, "Extractions"), state, table);
  const stop = stream("/api/extractions-live", {
    extractions(extractions) {
      state.textContent = extractions.length ? "" : "No extraction is recorded yet. Run ptc extract with --output.";
      state.hidden = extractions.length > 0;
      table.hidden = !extractions.length;
      const focused = body.querySelector("a:focus")?.getAttribute("href");
      fill(body, extractions.map((head) => h("tr", {},
        h("td", {}, statusMark(head.status)),
        h("td", { class: "name" }, link(`/extractions/${head.id}`, visible(baseName(head.output)) || "rows", { title: visible(head.output) })),
        h("td", {}, outcomeBar(head)),
        h("td", { class: "n" }, count(head.done)),
        h("td", { class: "n" }, head.failed + head.dead ? count(head.failed + head.dead) : ""),
        h("td", { class: "n" }, head.total === null ? "" : count(Math.max(0, head.total - head.done - head.failed - head.dead))),
        h("td", { class: "n" }, money(head.cost)),
        h("td", { class: "num" }, moment(head.start)),
        h("td", { class: "name" }, visible(head.model)))));
      if (focused) body.querySelector(`a[href="${focused}"]`)?.focus();
    },
    failed(data) {
      state.hidden = false;
      state.textContent = data.error;
    },
  });
  return stop;
}
