// One extraction: its progress, its documents, and the fields whose values disagree.

import { get, stream } from "./api.js";
import { announce, count, duration, fill, h, link, MEDIA_SMALL, money, moment, statusMark, valueBlock, visible } from "./dom.js";
import { baseName, outcomeBar } from "./extractions.js";
import { tabSet } from "./tabs.js";
import { VirtualList } from "./vlist.js";

const NUMBER = 0, ID = 1, STATUS = 2, REASON = 3, MESSAGE = 4, ATTEMPTS = 5, REPAIRS = 6, TOKENS = 7, COST = 8,
  CONFLICTS = 9, UNSUPPORTED = 10;
const SHOWN = {
  all: "all", failed: "failed", conflicts: "different values", unsupported: "unsupported values", repaired: "repaired",
};
const STATES = { done: "completed", failed: "failed", dead: "dead" };

export function extractionView(main, app, id) {
  document.title = "Extraction · ptc";
  main.className = "page-run page-extraction";
  let head = null;
  let rows = [];
  let next = 0;
  let more = false;
  let turn = 0;
  let loading = false;
  let active = -1;
  let selected = null;
  let alive = true;
  const title = h("div", { class: "run-head" });
  const notes = h("div", { class: "run-notes" });
  const show = h("select", { id: "e-show" });
  const text = h("input", { type: "search", id: "e-text", placeholder: "Document or reason", autocomplete: "off" });
  const chosen = h("button", { class: "chip", hidden: true, onclick: () => choose({ field: "" }) });
  const total = h("span", { class: "quiet total" });
  let field = "";
  const port = h("div", { class: "port docs", role: "listbox", tabindex: "0", "aria-label": "Documents", "aria-describedby": "docs-help" });
  const empty = h("p", { class: "quiet pad", hidden: true });
  const details = h("div", { class: "details doc-details", role: "region", "aria-label": "Document", tabindex: "0" },
    h("p", { class: "quiet" }, "Select a document to see its object and its disagreements."));
  const tabs = tabSet("Details of the extraction", ["Fields", "Compare"]);
  const height = () => (MEDIA_SMALL.matches ? 52 : 30);
  const list = new VirtualList(port, height(), render, () => { if (more && !loading) load(); });
  const resize = () => list.setRowHeight(height());
  MEDIA_SMALL.addEventListener("change", resize);
  const grid = h("div", { class: "run-grid ext-grid" },
    h("div", { class: "pane" }, h("h2", {}, "Documents"),
      h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field" }, h("label", { for: "e-show", class: "hidden-text" }, "Show"), show),
        h("div", { class: "field f-text" }, h("label", { for: "e-text", class: "hidden-text" }, "Search"), text),
        chosen, total),
      h("p", { id: "docs-help", class: "hidden-text" }, "Arrow keys move, Enter shows a document."), port, empty),
    h("div", { class: "pane" }, h("h2", {}, "Document"), details));
  fill(main, title);
  title.append(h("p", { class: "quiet" }, "Loading…"));

  const stop = stream(`/api/extractions/${id}/live`, {
    head: update,
    failed(data) {
      fill(title, h("h1", {}, "Extraction"), h("p", { class: "problem" }, data.error));
    },
  });

  function update(data) {
    const before = head;
    head = data;
    if (!before) fill(main, title, notes, grid, tabs.node);
    showHead();
    showFields();
    if (!before) {
      showCompare();
      load(true);
    } else if (head.generation !== before.generation) load(true, true);
    else if (head.rows !== before.rows && !more) load();
    if (before && before.status !== head.status) announce(`Extraction ${head.status.replace("_", " ")}`);
  }

  function fact(name, ...value) {
    return h("div", {}, h("dt", {}, name), h("dd", {}, value));
  }

  function showHead() {
    const name = visible(baseName(head.output)) || "rows";
    document.title = `${name} ${head.status.replace("_", " ")} · ptc`;
    const left = head.total === null ? null : Math.max(0, head.total - head.done - head.failed - head.dead);
    const [input, output] = head.row_tokens ?? head.tokens;
    const models = head.models ?? [[head.model, 0]];
    fill(title,
      h("div", { class: "titles" }, h("h1", {}, name), statusMark(head.status)),
      h("dl", { class: "facts" },
        fact("Done", count(head.done)),
        fact("Failed", count(head.failed + head.dead)),
        left === null ? null : fact("Left", count(left)),
        head.in_flight && head.status === "running" ? fact("In flight", count(head.in_flight)) : null,
        fact("Tokens", `${count(input)} in, ${count(output)} out`),
        head.row_cost === null ? null : fact("Cost", money(head.row_cost ?? head.cost)),
        fact("Started", moment(head.start)),
        head.end ? fact("Duration", duration(head.end - head.start)) : null,
        fact(models.length > 1 ? "Models" : "Model", models.map(([model, number]) => h("span", { class: "each" }, visible(model), models.length > 1 ? ` (${count(number)})` : "")))),
      outcomeBar(head),
      h("p", { class: "quiet path-line mono" }, visible(head.output)));
    const reasons = (head.reasons ?? []).map(([reason, number]) =>
      h("button", { class: "chip", onclick: () => choose({ show: "failed", text: "", reason }) }, `${count(number)} ${visible(reason || "without a reason").replaceAll("_", " ")}`));
    fill(notes,
      head.problem ? h("p", { class: "note bad" }, visible(head.problem)) : null,
      head.reason && head.status !== "completed" ? h("p", { class: "note bad" }, visible(head.reason)) : null,
      head.status === "crashed" ? h("p", { class: "note bad" }, "The process that extracts has not reported for 15 seconds. Run the same command again to continue; no row is lost.") : null,
      head.whole ? null : h("p", { class: "quiet" }, `Only the first ${count(head.rows)} rows are shown.`),
      reasons.length ? h("div", { class: "reasons" }, h("span", { class: "quiet" }, "Failed: "), reasons) : null);
    const kept = show.value || "all";
    fill(show, Object.entries(SHOWN).map(([value, label]) =>
      h("option", { value }, `${label} (${count(head.shown?.[value] ?? 0)})`)));
    show.value = kept;
  }

  function choose(wanted) {
    if (wanted.show) show.value = wanted.show;
    if (wanted.text !== undefined) text.value = wanted.reason ?? wanted.text;
    if (wanted.field !== undefined) field = wanted.field;
    chosen.hidden = !field;
    fill(chosen, `field ${visible(field)} ×`);
    load(true).then(() => announce(total.textContent));
  }

  async function load(fresh = false, stays = false) {
    const mine = ++turn;
    loading = true;
    const query = new URLSearchParams({ show: show.value || "all", text: text.value, field, after: fresh ? "0" : String(next) });
    let page;
    try {
      page = await get(`/api/extractions/${id}/rows?${query}`);
    } catch (error) {
      if (mine === turn) {
        rows = [];
        list.setLength(0);
        empty.hidden = false;
        port.hidden = true;
        empty.textContent = head?.problem ? "" : error.message;
      }
      return;
    } finally {
      if (mine === turn) loading = false;
    }
    if (mine !== turn || !alive) return;
    if (fresh) {
      rows = [];
      active = -1;
      if (!stays) port.scrollTop = 0;
    }
    rows.push(...page.rows);
    next = page.next;
    more = page.more;
    total.textContent = `${count(rows.length)}${more ? "+" : ""} shown`;
    empty.hidden = rows.length > 0;
    port.hidden = !rows.length;
    empty.textContent = more ? "Loading…" : "No document matches.";
    if (fresh) list.setLength(rows.length);
    else list.extend(rows.length);
    // A page without a match may be followed by one with some.
    if (more && !page.rows.length) await load();
  }

  function note(row) {
    if (row[REASON]) return [h("span", { class: "tag bad" }, visible(row[REASON]).replaceAll("_", " ")), visible(row[MESSAGE])];
    return [
      row[CONFLICTS].length ? h("span", { class: "tag wait" }, `differ: ${visible(row[CONFLICTS].join(", "))}`) : null,
      row[UNSUPPORTED].length ? h("span", { class: "tag wait" }, `unsupported: ${visible(row[UNSUPPORTED].join(", "))}`) : null,
      row[REPAIRS] ? h("span", { class: "tag" }, `${row[REPAIRS]} ${row[REPAIRS] === 1 ? "repair" : "repairs"}`) : null,
      row[ATTEMPTS] > 1 ? h("span", { class: "tag" }, `${row[ATTEMPTS]} answers`) : null,
    ];
  }

  function render(index) {
    const row = rows[index];
    const node = h("div", {
      class: "doc", role: "option", id: `doc-${index}`, "aria-selected": String(row[NUMBER] === selected),
      "aria-posinset": index + 1, "aria-setsize": more ? -1 : rows.length, "data-index": index,
    },
      h("span", { class: "doc-id" }, h("b", { class: `glyph s-${STATES[row[STATUS]] ?? "unknown"}` }), visible(row[ID]), h("span", { class: "hidden-text" }, `, ${row[STATUS]}`)),
      h("span", { class: "doc-note" }, note(row)),
      h("span", { class: "took" }, money(row[COST]) || (row[TOKENS] ? `${count(row[TOKENS])} tokens` : "")));
    node.classList.toggle("on", index === active);
    return node;
  }

  function activate(index, opens) {
    if (index < 0 || index >= rows.length) return;
    list.rows.get(active)?.classList.remove("on");
    active = index;
    list.show(index);
    list.rows.get(index)?.classList.add("on");
    port.setAttribute("aria-activedescendant", `doc-${index}`);
    if (opens) showRow(rows[index]);
  }
  port.addEventListener("click", (event) => {
    const node = event.target.closest?.(".doc");
    if (node) activate(Number(node.dataset.index), true);
  });
  port.addEventListener("focus", () => {
    if (active < 0 && port.matches(":focus-visible")) activate(0, false);
  });
  port.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(port.clientHeight / list.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page };
    const last = rows.length - 1;
    if (event.key in steps) activate(Math.max(0, Math.min(last, active + steps[event.key])), false);
    else if (event.key === "Home") activate(0, false);
    else if (event.key === "End") activate(last, false);
    else if (event.key === "Enter" || event.key === " ") activate(active, true);
    else return;
    event.preventDefault();
  });

  let asked = 0;
  async function showRow(row) {
    const mine = ++asked;
    selected = row[NUMBER];
    for (const [index, node] of list.rows) node.setAttribute("aria-selected", String(rows[index][NUMBER] === selected));
    let data;
    try {
      data = await get(`/api/extractions/${id}/rows/${row[NUMBER]}`);
    } catch (error) {
      if (mine === asked) fill(details, h("p", { class: "problem" }, error.message));
      return;
    }
    if (mine !== asked) return;
    fill(details,
      h("h3", {}, visible(data.id)),
      h("dl", { class: "facts" },
        fact("Status", data.status),
        fact("Answers", data.attempts),
        data.parts > 1 ? fact("Parts", data.parts) : null,
        data.cost === null ? null : fact("Cost", money(data.cost)),
        fact("Model", visible(data.model)),
        data.repairs.length ? fact("Repairs", visible(data.repairs.join(", ").replaceAll("_", " "))) : null,
        data.source ? fact("Source", h("span", { class: "mono" }, visible(data.source))) : null),
      data.error.reason ? h("p", { class: "problem" }, visible(`${data.error.reason.replaceAll("_", " ")}: ${data.error.message ?? ""}`)) : null,
      data.conflicts.length ? [h("h4", {}, "Different values in the parts of the document; the first one is in the object"),
        h("table", { class: "differ" }, h("tbody", {}, data.conflicts.map(([path, values]) => h("tr", {},
          h("th", { scope: "row", class: "mono" }, visible(path)),
          h("td", {}, values.map((value, index) => h("div", { class: index ? "other mono" : "mono" }, visible(value) || h("span", { class: "quiet" }, "none"))))))))] : null,
      data.unsupported.length ? [h("h4", {}, "Values whose quote is not in the document"),
        h("table", { class: "differ" }, h("tbody", {}, data.unsupported.map(([path, quote]) => h("tr", {},
          h("th", { scope: "row", class: "mono" }, visible(path)), h("td", { class: "mono" }, quote ? `“${visible(quote)}”` : h("span", { class: "quiet" }, "no quote"))))))] : null,
      data.object ? [h("h4", {}, "Object"), valueBlock(data.object, "Object")] : null);
    details.scrollTop = 0;
    announce(`Document ${data.id}`);
  }

  let fieldsShown = "";
  function showFields() {
    const text = JSON.stringify(head.fields ?? []);
    if (text === fieldsShown) return;
    fieldsShown = text;
    const fields = head.fields ?? [];
    fill(tabs.panels.Fields, fields.length
      ? h("div", { class: "scroll" }, h("table", { class: "fields" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Field"),
          h("th", { scope: "col", class: "n" }, "Different values"), h("th", { scope: "col", class: "n" }, "Unsupported"))),
        h("tbody", {}, fields.map(([name, conflicts, unsupported]) => {
          const number = (value, wanted) => (value
            ? h("button", { class: "plain", "aria-label": `${count(value)} documents, ${SHOWN[wanted]}, field ${visible(name)}`, onclick: () => choose({ show: wanted, field: name, text: "" }) }, `${count(value)} ${value === 1 ? "document" : "documents"}`) : "");
          return h("tr", {}, h("th", { scope: "row", class: "mono" }, visible(name) || "(root)"),
            h("td", { class: "n" }, number(conflicts, "conflicts")), h("td", { class: "n" }, number(unsupported, "unsupported")));
        }))))
      : h("p", { class: "quiet" }, "No field disagrees: the parts of long documents state the same values, and no requested quote is missing."));
  }

  let pairs = null;
  async function showCompare() {
    const panel = tabs.panels.Compare;
    let found;
    try {
      found = (await get("/api/extractions")).extractions.filter((other) => other.id !== id);
    } catch (error) {
      fill(panel, h("p", { class: "problem" }, error.message));
      return;
    }
    if (!found.length) {
      fill(panel, h("p", { class: "quiet" }, "Extract the same documents into another output, for example with another model, to compare the two field by field."));
      return;
    }
    const other = h("select", { id: "e-other" }, found.map((item) =>
      h("option", { value: item.id }, `${visible(baseName(item.output))}, ${visible(item.model)}, ${moment(item.start)}`)));
    const out = h("div", { class: "compared" });
    fill(panel,
      h("form", { class: "filters", onsubmit: (event) => {
        event.preventDefault();
        compare(other.value, out);
      } }, h("div", { class: "field f-text" }, h("label", { for: "e-other", class: "hidden-text" }, "Other extraction"), other),
      h("button", { class: "primary" }, "Compare")), out);
  }

  async function compare(other, out) {
    pairs?.close();
    pairs = null;
    fill(out, h("p", { class: "quiet" }, "Comparing…"));
    let data;
    try {
      data = await get(`/api/extractions/${id}/compare/${other}`);
    } catch (error) {
      fill(out, h("p", { class: "problem" }, error.message));
      return;
    }
    const number = (value) => h("td", { class: "n" }, value ? count(value) : "");
    const box = h("div", { class: "port differences", tabindex: "0", role: "region", "aria-label": "Different values" });
    fill(out,
      h("p", {}, `${count(data.same)} of ${count(data.documents)} documents agree. A: `, visible(baseName(data.left.output)), ` (${visible(data.left.model)}). B: `,
        link(`/extractions/${other}`, visible(baseName(data.right.output))), ` (${visible(data.right.model)}).`,
        data.whole ? "" : " Only the first documents were compared."),
      h("div", { class: "scroll" }, h("table", { class: "fields" },
        h("thead", {}, h("tr", {}, [["Field"], ["Same", "n"], ["Differ", "n"], ["Only A", "n"], ["Only B", "n"]].map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
        h("tbody", {}, data.fields.map(([name, same, differ, onlyA, onlyB]) => h("tr", {},
          h("th", { scope: "row", class: "mono" }, visible(name) || "(root)"), number(same), number(differ), number(onlyA), number(onlyB)))))),
      data.rows.length ? [h("h4", {}, data.all > data.rows.length ? `The first ${count(data.rows.length)} of ${count(data.all)} differences` : "Differences"),
        h("div", { class: "difference-head" }, ["Document", "Field", "A", "B"].map((name) => h("span", { class: name === "Field" ? "quiet" : "" }, name))), box] : null);
    if (!data.rows.length) return;
    const cell = (value, kind) => h("span", { class: `mono ${kind}`, title: visible(value) }, visible(value) || h("span", { class: "quiet" }, "none"));
    pairs = new VirtualList(box, 30, (index) => {
      const [name, path, left, right] = data.rows[index];
      return h("div", { class: "difference" }, h("span", { title: visible(name) }, visible(name)), h("span", { class: "mono quiet", title: visible(path) }, visible(path)), cell(left, "left"), cell(right, "right"));
    });
    pairs.setLength(data.rows.length);
  }

  let timer = 0;
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(() => load(true).then(() => announce(total.textContent)), 200);
  }
  show.addEventListener("input", changed);
  text.addEventListener("input", changed);

  return () => {
    alive = false;
    turn += 1;
    stop();
    list.close();
    pairs?.close();
    clearTimeout(timer);
    MEDIA_SMALL.removeEventListener("change", resize);
  };
}
