// The list of runs: filters, search, and a virtual list over pages of the server.

import { get } from "./api.js";
import { announce, count, duration, fill, h, link, MEDIA_SMALL, moment, money, statusMark, time, visible } from "./dom.js";
import { VirtualList } from "./vlist.js";

const STATUSES = ["running", "queued", "paused", "completed", "failed", "rejected", "timed_out",
  "limit_exceeded", "cancelled", "crashed", "violation", "dead"];
const PERIODS = [["", "any time"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"], ["30d", "last 30 days"]];

export function runsView(main, app) {
  document.title = "Runs · ptc";
  const params = new URLSearchParams(location.search);
  let rows = [];
  let known = new Map();
  let next = null;
  let loading = null;
  let complete = false;
  let alive = true;
  let turn = 0;

  const text = h("input", { type: "search", id: "f-text", placeholder: "Script or run id", value: params.get("text") ?? "", autocomplete: "off" });
  const status = h("select", { id: "f-status" }, h("option", { value: "" }, "any status"),
    STATUSES.map((name) => h("option", { value: name }, name.replace("_", " "))));
  const since = h("select", { id: "f-since" }, PERIODS.map(([value, label]) => h("option", { value }, label)));
  const tool = h("input", { id: "f-tool", placeholder: "Tool", value: params.get("tool") ?? "", autocomplete: "off" });
  const tenant = h("input", { id: "f-tenant", placeholder: "Tenant", value: params.get("tenant") ?? "", autocomplete: "off" });
  status.value = params.get("status") ?? "";
  since.value = params.get("since") ?? "";
  const total = h("span", { class: "quiet total" });
  const fields = { text, status, since, tool, tenant };
  const labelled = (name, field) => h("div", { class: `field f-${field.id.slice(2)}` },
    h("label", { for: field.id, class: "hidden-text" }, name), field);
  const form = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    labelled("Search", text), labelled("Status", status), labelled("Started", since),
    labelled("Tool", tool), labelled("Tenant", tenant), total);

  const head = h("div", { class: "rhead row-grid", role: "row" },
    ["Status", "Script", "Run", "Started", "Duration", "Calls", "Cost", "Tenant"].map((name, index) =>
      h("span", { role: "columnheader", class: `c${index}` }, name)));
  const port = h("div", { class: "port", tabindex: "-1", role: "rowgroup" });
  const table = h("div", { class: "runs", role: "table", "aria-label": "Runs", "aria-rowcount": "-1" },
    h("div", { role: "rowgroup" }, head), port);
  const empty = h("p", { class: "pad quiet", hidden: true });
  main.className = "page-runs";
  fill(main, h("h1", { class: "hidden-text" }, "Runs"), form, table, empty);
  const height = () => (MEDIA_SMALL.matches ? 60 : 34);
  const list = new VirtualList(port, height(), render, () => more());
  const resize = () => list.setRowHeight(height());
  MEDIA_SMALL.addEventListener("change", resize);

  function render(index) {
    const run = rows[index];
    const took = run.end ? run.end - run.start : null;
    const cell = (number, ...content) => h("span", { role: "cell", class: `c${number}` }, ...content);
    return h("div", { class: "row-grid run", role: "row", "aria-rowindex": index + 2 },
      cell(0, statusMark(run.status)),
      cell(1, h("a", { href: `/runs/${run.id}`, "data-index": index }, visible(run.file) || "script")),
      cell(2, h("span", { class: "mono" }, run.id.slice(0, 12))),
      cell(3, moment(run.start)),
      cell(4, took === null ? "" : duration(took)),
      cell(5, count(run.calls)),
      cell(6, money(run.cost)),
      cell(7, visible(run.tenant)));
  }

  function query(after) {
    const found = new URLSearchParams({ limit: after ? "500" : "100" });
    for (const [name, field] of Object.entries(fields)) if (field.value) found.set(name, field.value);
    if (after) found.set("after", after);
    return found;
  }

  async function load(after) {
    const mine = ++turn;
    loading = get(`/api/runs?${query(after)}`);
    let page;
    try {
      page = await loading;
    } catch (error) {
      if (mine === turn) {
        empty.hidden = false;
        empty.textContent = error.message;
        complete = true;
      }
      return;
    } finally {
      if (mine === turn) loading = null;
    }
    if (mine !== turn || !alive) return;
    if (!after) {
      rows = [];
      known = new Map();
      port.scrollTop = 0;
    }
    for (const run of page.runs) {
      if (known.has(run.id)) continue;
      known.set(run.id, run);
      rows.push(run);
    }
    next = page.next;
    complete = !next;
    report();
    if (after) list.extend(rows.length);
    else list.setLength(rows.length);
  }

  function report() {
    total.textContent = `${count(rows.length)}${complete ? "" : "+"} ${rows.length === 1 && complete ? "run" : "runs"}`;
    table.setAttribute("aria-rowcount", complete ? rows.length + 1 : -1);
    empty.hidden = rows.length > 0;
    empty.textContent = filtered() ? "No run matches these filters." : "No run is recorded yet. Run a script with ptc run.";
  }

  const filtered = () => Object.values(fields).some((field) => field.value);

  function more() {
    if (!loading && !complete && next) load(next);
  }

  let timer = 0;
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const shown = query();
      shown.delete("limit");
      history.replaceState(null, "", shown.size ? `/?${shown}` : "/");
      load().then(() => announce(total.textContent));
    }, 200);
  }
  for (const field of Object.values(fields)) field.addEventListener("input", changed);

  function merge(data) {
    if (!rows.length && loading) return;
    let fresh = [];
    let touched = false;
    for (const run of data.runs) {
      const old = known.get(run.id);
      if (old) {
        if (old.status !== run.status || old.calls !== run.calls || old.end !== run.end || old.cost !== run.cost) {
          Object.assign(old, run);
          touched = true;
        }
      } else if (!filtered()) fresh.push(run);
    }
    if (fresh.length && !loading) {
      for (const run of fresh) known.set(run.id, run);
      const top = port.scrollTop;
      rows.unshift(...fresh);
      // The rows that somebody reads stay where they are.
      list.setLength(rows.length);
      if (top > 0) port.scrollTop = top + fresh.length * list.rowHeight;
      report();
    } else if (touched) list.refresh();
    if ((touched || fresh.length) && focusIndex >= 0) focusRow(Math.min(focusIndex + fresh.length, rows.length - 1));
  }
  app.listeners.add(merge);

  let focusIndex = -1;
  function focusRow(index) {
    if (index < 0 || index >= rows.length) return;
    focusIndex = index;
    list.show(index);
    list.rows.get(index)?.querySelector("a").focus({ preventScroll: true });
  }
  port.addEventListener("focusin", (event) => {
    if (event.target.dataset?.index) focusIndex = Number(event.target.dataset.index);
  });
  port.addEventListener("focusout", (event) => {
    if (event.target.isConnected) focusIndex = -1;
  });
  port.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(port.clientHeight / list.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page };
    const from = Math.max(0, focusIndex);
    if (event.key in steps) focusRow(Math.max(0, Math.min(rows.length - 1, from + steps[event.key])));
    else if (event.key === "Home") focusRow(0);
    else if (event.key === "End") focusRow(rows.length - 1);
    else return;
    event.preventDefault();
  });
  function slash(event) {
    if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) {
      event.preventDefault();
      text.focus();
    }
  }
  document.addEventListener("keydown", slash);
  load();
  return () => {
    alive = false;
    turn += 1;
    list.close();
    app.listeners.delete(merge);
    MEDIA_SMALL.removeEventListener("change", resize);
    document.removeEventListener("keydown", slash);
  };
}
