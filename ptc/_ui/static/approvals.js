// The inbox: calls of all runs that await a decision.

import { get } from "./api.js";
import { announce, fill, h, link, visible } from "./dom.js";
import { decisionForm, noteBlock } from "./decide.js";
import { stream } from "./api.js";

export function approvalsView(main, app) {
  document.title = "Approvals · ptc";
  main.className = "page-approvals";
  const list = h("div", { class: "inbox" });
  const state = h("p", { class: "quiet" }, "Loading…");
  fill(main, h("h1", {}, "Approvals"), state, list);
  const shown = new Map();
  const stops = [];
  let alive = true;

  async function load() {
    let found;
    try {
      found = await get("/api/approvals");
    } catch (error) {
      state.textContent = error.message;
      return;
    }
    if (!alive) return;
    const keys = new Set();
    for (const call of found.calls) {
      const key = `${call.run_id}/${call.call}/${call.kind}`;
      keys.add(key);
      if (shown.has(key)) continue;
      const card = h("div", { class: "card" });
      fill(card, decisionForm(app, call, (action) => decided(card, key, call, action), { showRun: true }));
      shown.set(key, card);
      list.append(card);
    }
    for (const [key, card] of shown) {
      if (keys.has(key) || card.dataset.decided) continue;
      // Somebody else decided.
      card.remove();
      shown.delete(key);
    }
    const open = [...shown.values()].filter((card) => !card.dataset.decided).length;
    state.textContent = open ? `${open} ${open === 1 ? "call awaits" : "calls await"} a decision.` : "No call awaits a decision.";
  }

  function decided(card, key, call, action) {
    card.dataset.decided = "true";
    const note = h("div", {});
    const status = h("p", {}, `${visible(call.tool)}: ${action}, recorded as ${visible(app.me.identity)}. `,
      link(`/runs/${call.run_id}`, "Show the run"));
    const live = h("p", { class: "quiet", role: "status" });
    fill(card, status, note, live);
    stops.push(stream(`/api/runs/${call.run_id}/live`, {
      run({ head }) {
        if (!head) return;
        note.replaceChildren();
        const block = noteBlock(head.note, call.run_id);
        if (block) note.append(block);
        live.textContent = `Run: ${head.run.status.replace("_", " ")}`;
        announce(live.textContent);
      },
    }));
    load();
  }

  app.listeners.add(load);
  load();
  return () => {
    alive = false;
    app.listeners.delete(load);
    stops.forEach((stop) => stop());
  };
}
