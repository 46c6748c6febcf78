// The frame of the page: sign-in, navigation, alarms, and one view for each address.

import { get, signIn, signOut, stream } from "./api.js";
import { announce, fill, h, link, moment, visible } from "./dom.js";
import { runsView } from "./runs.js";

const bar = document.getElementById("bar");
const main = document.getElementById("main");
const alarm = document.getElementById("alarm");

export const app = { me: null, list: null, listeners: new Set(), go };
let close = null;
let links = [];
let badge = null;
let dot = null;

const VIEWS = [
  [/^\/$/, async () => runsView],
  [/^\/runs\/([A-Za-z0-9_.-]+)$/, async () => (await import("./run.js")).runView],
  [/^\/approvals$/, async () => (await import("./approvals.js")).approvalsView],
  [/^\/new$/, async () => (await import("./script.js")).scriptView],
  [/^\/compare$/, async () => (await import("./compare.js")).compareView],
  [/^\/extractions$/, async () => (await import("./extractions.js")).extractionsView],
  [/^\/extractions\/([0-9a-f]{24})$/, async () => (await import("./extraction.js")).extractionView],
  [/^\/audit$/, async () => (await import("./audit.js")).auditView],
];

function frame() {
  badge = h("span", { class: "badge", hidden: true });
  dot = h("span", { class: "dot", title: "connecting" }, h("span", { class: "hidden-text" }, "connecting"));
  links = [
    link("/", "Runs"),
    link("/approvals", ["Approvals", badge]),
    app.me.read_only ? null : link("/new", "Run a script"),
    link("/extractions", "Extractions"),
    link("/compare", "Compare"),
    link("/audit", "Audit"),
  ].filter(Boolean);
  fill(bar,
    h("span", { class: "mark" }, "ptc"),
    h("nav", { "aria-label": "Pages" }, links),
    h("div", { class: "who" },
      dot,
      h("span", { class: "store", title: visible(app.me.store) }, visible(app.me.store.replace(/^\/.*\/(?=[^/]+$)/, "…/"))),
      h("span", {}, visible(app.me.identity) + (app.me.read_only ? ", read-only" : "")),
      h("button", { class: "plain", onclick: leave }, "Sign out")));
}

async function leave() {
  await signOut().catch(() => {});
  location.reload();
}

function notice(message) {
  fill(main, h("div", { class: "notice" },
    h("h1", {}, "Sign in"),
    h("p", {}, message),
    h("p", { class: "quiet" }, "Each link signs in one browser, once. The terminal prints a new one after each use.")));
}

async function show() {
  close?.();
  close = null;
  for (const item of links) {
    if (item.pathname === location.pathname) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  for (const [pattern, load] of VIEWS) {
    const match = pattern.exec(location.pathname);
    if (!match) continue;
    const path = location.href;
    const view = await load();
    if (path !== location.href) return;
    main.replaceChildren();
    main.className = "";
    close = view(main, app, match[1]);
    return;
  }
  fill(main, h("p", { class: "pad" }, "There is no such page. ", link("/", "Show the runs")));
}

export function go(path, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", path);
  return show().then(() => {
    announce(document.title);
    main.focus({ preventScroll: true });
  });
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (anchor.origin !== location.origin || anchor.hasAttribute("download")) return;
  if (anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search);
});
window.addEventListener("popstate", show);

const SEEN = "ptc-seen-alarms";

function showAlarms(runs) {
  const seen = new Set(JSON.parse(localStorage.getItem(SEEN) ?? "[]"));
  const fresh = runs.filter((run) => !seen.has(run.id));
  if (!fresh.length) {
    alarm.replaceChildren();
    return;
  }
  const newest = fresh[0];
  const more = fresh.length > 1 ? ` and ${fresh.length - 1} more in 24 hours` : "";
  fill(alarm, h("div", { class: "alarm" },
    h("strong", {}, "Violation"),
    h("span", {}, "The kernel stopped ", link(`/runs/${newest.id}`, visible(newest.file)),
      ` at ${moment(newest.start)}${more}.`),
    h("button", { class: "plain", onclick: () => {
      localStorage.setItem(SEEN, JSON.stringify(runs.map((run) => run.id)));
      showAlarms(runs);
    } }, "Dismiss")));
}

function follow() {
  stream("/api/live", {
    runs(data) {
      app.list = data;
      badge.hidden = !data.pending;
      fill(badge, data.pending, h("span", { class: "hidden-text" }, " waiting"));
      showAlarms(data.alarms);
      for (const listener of app.listeners) listener(data);
    },
    failed(data) {
      if (data.status === 401) notice("Your session ended. Open the link that ptc ui printed last.");
    },
  }, (state) => {
    dot.className = `dot ${state}`;
    dot.title = state === "live" ? "live" : "not connected; trying again";
    dot.firstChild.textContent = dot.title;
  });
}

async function begin() {
  // The modules of the view arrive while the session is checked.
  for (const [pattern, load] of VIEWS) if (pattern.test(location.pathname)) load().catch(() => {});
  try {
    await signIn();
    app.me = await get("/api/me");
  } catch (error) {
    notice(error.status === 401 ? `To use this page, ${error.message}.` : error.message);
    return;
  }
  frame();
  follow();
  await show();
}

begin();
