// The audit: who changed what from this page.

import { get } from "./api.js";
import { fill, h, link, moment, visible } from "./dom.js";

export function auditView(main) {
  document.title = "Audit · ptc";
  main.className = "page-audit";
  const body = h("tbody");
  const state = h("p", { class: "quiet" }, "Loading…");
  fill(main, h("h1", {}, "Audit"), state,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Audit" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Time", "Person", "Action", "Run", "Call", "Outcome"].map((name) => h("th", { scope: "col" }, name)))),
      body)));
  get("/api/audit").then(({ rows }) => {
    state.textContent = rows.length ? "" : "Nothing was decided or started from a page yet.";
    fill(body, rows.map((row) => h("tr", {},
      h("td", { class: "num" }, moment(row.at_ms)),
      h("td", {}, visible(row.identity)),
      h("td", {}, visible(row.action) + (row.edited ? " with edits" : "")),
      h("td", { class: "mono" }, row.run ? link(`/runs/${row.run}`, row.run.slice(0, 12)) : visible(row.file ?? "")),
      h("td", {}, visible(row.call ?? "")),
      h("td", {}, visible(row.outcome ?? "requested")))));
  }, (error) => { state.textContent = error.message; });
  return () => {};
}
