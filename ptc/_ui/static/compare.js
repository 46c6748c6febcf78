// Two runs beside each other, their calls aligned by logical key.

import { ARGS, END, PATH, START, STATUS, TOOL } from "./calls.js";
import { get } from "./api.js";
import { count, duration, fill, h, link, moment, statusMark, visible } from "./dom.js";
import { VirtualList } from "./vlist.js";

const STATES = {
  same: "same", arguments: "other arguments", result: "other result", left: "only in A", right: "only in B",
};

export function compareView(main, app) {
  document.title = "Compare · ptc";
  main.className = "page-compare";
  const params = new URLSearchParams(location.search);
  const known = h("datalist", { id: "known-runs" }, (app.list?.runs ?? []).map((run) =>
    h("option", { value: run.id }, `${visible(run.file)} ${moment(run.start)}`)));
  const left = h("input", { id: "run-a", list: "known-runs", value: params.get("a") ?? "", autocomplete: "off" });
  const right = h("input", { id: "run-b", list: "known-runs", value: params.get("b") ?? "", autocomplete: "off" });
  const only = h("input", { id: "only", type: "checkbox" });
  const out = h("div", { class: "compared" });
  let list = null;
  fill(main, h("h1", {}, "Compare two runs"), known,
    h("form", { class: "filters", onsubmit: (event) => {
      event.preventDefault();
      history.replaceState(null, "", `/compare?${new URLSearchParams({ a: left.value.trim(), b: right.value.trim() })}`);
      load();
    } },
      h("div", { class: "field" }, h("label", { for: "run-a" }, "Run A"), left),
      h("div", { class: "field" }, h("label", { for: "run-b" }, "Run B"), right),
      h("button", { class: "primary" }, "Compare"),
      h("div", { class: "check" }, only, h("label", { for: "only" }, "Only differences"))),
    out);

  async function load() {
    list?.close();
    list = null;
    fill(out, h("p", { class: "quiet" }, "Loading…"));
    try {
      show(await get(`/api/compare?${new URLSearchParams({ a: left.value.trim(), b: right.value.trim() })}`));
    } catch (error) {
      fill(out, h("p", { class: "problem" }, error.message));
    }
  }

  function side(name, run) {
    return h("div", { class: "side" }, h("h2", {}, `${name}: `, link(`/runs/${run.id}`, visible(run.file))),
      h("p", {}, statusMark(run.status), " ", moment(run.start), " ", run.end ? duration(run.end - run.start) : ""));
  }

  function show(data) {
    const counts = Object.entries(STATES).map(([state, label]) => h("li", {}, h("b", {}, count(data.counts[state] ?? 0)), ` ${label}`));
    const port = h("div", { class: "port pairs", tabindex: "0", role: "region", "aria-label": "Aligned calls" });
    let rows = [];
    const cell = (row) => h("span", { class: "half" }, row ? [
      h("span", { class: "path" }, row[PATH]), h("b", { class: `glyph s-${row[STATUS]}` }), h("span", { class: "tool" }, visible(row[TOOL])),
      h("span", { class: "args" }, visible(row[ARGS])), h("span", { class: "took" }, row[END] === null ? "" : duration(row[END] - row[START]))] : h("span", { class: "quiet" }, "no such call"));
    list = new VirtualList(port, 28, (index) => {
      const row = rows[index];
      return h("div", { class: `pair x-${row.state}` }, cell(row.left), h("span", { class: "kind" }, STATES[row.state]), cell(row.right));
    });
    const choose = () => {
      rows = only.checked ? data.rows.filter((row) => row.state !== "same") : data.rows;
      list.setLength(rows.length);
    };
    only.onchange = choose;
    fill(out, h("div", { class: "sides" }, side("A", data.left), side("B", data.right)),
      h("p", { class: "quiet" }, `${data.same_source ? "Same script" : "The scripts differ"}, ${data.same_inputs ? "same inputs" : "other inputs"}.`),
      h("ul", { class: "counts" }, counts), port);
    choose();
  }
  if (left.value && right.value) load();
  return () => list?.close();
}
