// The one script of the pages: it keeps them live, and gives them keys. Without it everything works
// but for that. It makes no markup of its own: a page that changed is loaded again, and what differs
// is moved over.

"use strict";

const EVERY_MS = 800; // The least time between two loads of a page that keeps changing.
const SHARE = 4; // How many times as long as a load takes it waits before the next one.
const ANYWAY_MS = 60000; // After this time it is loaded again: sessions end without a word.
const AGES = [["d", 86400], ["h", 3600], ["m", 60]];

// Live pages

const watch = document.body.dataset.watch;
const live = document.getElementById("live");
const outdated = document.getElementById("outdated");
let loadedAt = 0;
let tookMs = 0;
let waiting = null;

function showLive(isOn) {
  live.classList.toggle("is-on", isOn);
  live.lastElementChild.textContent = isOn ? "live" : "not live";
}

function connect() {
  const source = new EventSource("/live");
  source.addEventListener("ready", () => {
    showLive(true);
    // What happened before the connection, or while it was broken, was not told.
    if (loadedAt) reloadSoon();
    loadedAt = loadedAt || Date.now();
  });
  source.addEventListener("changed", (event) => {
    const { repositories } = JSON.parse(event.data);
    if (watch === "*" || repositories.includes(watch)) reloadSoon();
  });
  source.addEventListener("error", () => showLive(false));
  addEventListener("pagehide", () => source.close());
}

function reloadSoon() {
  if (waiting) return;
  const wait = Math.max(0, loadedAt + Math.max(EVERY_MS, SHARE * tookMs) - Date.now());
  waiting = setTimeout(reload, wait);
}

function reload() {
  const begun = Date.now();
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  request.responseType = "document";
  request.timeout = 20000;
  request.onload = () => {
    const fresh = request.response;
    const focused = document.activeElement;
    showOutdated(request.status === 200 ? "" : reasonOf(fresh));
    if (request.status === 200 && fresh && fresh.body.dataset.page === document.body.dataset.page) {
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other) update(part, other);
      }
      document.title = fresh.title;
      // An element that was moved has lost the focus.
      if (focused.isConnected && document.activeElement !== focused) {
        focused.focus({ preventScroll: true });
      }
    }
  };
  request.onloadend = () => {
    waiting = null;
    loadedAt = Date.now();
    tookMs = loadedAt - begun;
  };
  request.send();
}

// A page that cannot be made again stays, and says that it is no longer true, and why.
function showOutdated(reason) {
  outdated.hidden = !reason;
  if (outdated.textContent !== reason) outdated.textContent = reason;
}

function reasonOf(fresh) {
  const paragraph = fresh && fresh.querySelector("main p");
  return `This is how it was before. ${paragraph ? paragraph.textContent : ""}`.trim();
}

// Make `old` like `fresh`, and touch nothing that is the same: what is typed, opened or focused stays.
function update(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    if (!hasDraft(old)) old.replaceWith(document.adoptNode(fresh));
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" || name === "tabindex")) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const byId = new Map();
  for (const child of old.children) if (child.id) byId.set(child.id, child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const known = next.id ? byId.get(next.id) : null;
    if (known) {
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      update(known, next);
    } else if (!next.id && at && !at.id && at.nodeName === next.nodeName) {
      const following = at.nextSibling;
      update(at, next);
      at = following;
    } else {
      const added = document.adoptNode(next);
      old.insertBefore(added, at);
      if (added.dataset && "item" in added.dataset) added.classList.add("is-new");
    }
  }
  while (at) {
    const following = at.nextSibling;
    if (!hasDraft(at)) at.remove();
    at = following;
  }
}

// What somebody has begun to write stays, also if what it was about has gone.
function hasDraft(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return false;
  return [...node.querySelectorAll("form[method=post] input:not([type=hidden])"), node].some(
    (field) => field.nodeName === "INPUT" && field.value !== field.defaultValue,
  );
}

function renewAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (/^\d\d:\d\d$/.test(time.textContent)) continue;
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const unit = AGES.find(([, size]) => seconds >= size);
    const text = unit ? `${Math.floor(seconds / unit[1])}${unit[0]}` : "now";
    if (!Number.isNaN(seconds) && time.textContent !== text) time.textContent = text;
  }
}

// Keys

function items() {
  return [...document.querySelectorAll("[data-item]")].filter((item) => item.offsetParent);
}

function current() {
  return document.activeElement.closest("[data-item]");
}

function focus(item) {
  if (!item) return;
  item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function step(by) {
  const all = items();
  const at = all.indexOf(current());
  focus(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by]);
}

function stepGroup(by) {
  const all = items();
  const now = current();
  const groups = [...new Set(all.map((item) => item.dataset.group))];
  const at = now ? groups.indexOf(now.dataset.group) : by > 0 ? -1 : groups.length;
  focus(all.find((item) => item.dataset.group === groups[at + by]));
}

function open() {
  const item = document.activeElement;
  if (!("item" in item.dataset)) return false;
  const link = item.querySelector("a[href]");
  const more = item.querySelector("details");
  if (link) link.click();
  else if (more) more.open = !more.open;
  return true;
}

function decide() {
  const item = current();
  const place = item && item.querySelector("form, details, a.needs-pair")
    ? item
    : document.querySelector(".waits li");
  if (!place) return;
  const more = place.querySelector("details.more");
  const target = place.querySelector(".acts button, .acts a, form button");
  if (more && !place.querySelector(".acts > form")) {
    more.open = true;
    more.querySelector("input:not([type=hidden]), button").focus();
  } else if (target) target.focus();
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (link) link.click();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  l: () => stepGroup(1),
  h: () => stepGroup(-1),
  a: decide,
  b: () => follow(".brand"),
  "/": () => document.getElementById("find").select(),
  "?": () => document.getElementById("keys").showModal(),
  "[": () => follow(".steps a[rel=prev]"),
  "]": () => follow(".steps a[rel=next]"),
};

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const isField = target.matches("input:not([type=range]), textarea, select");
  if (key === "Escape" && isField) {
    target.blur();
    return;
  }
  if (isField || target.closest("dialog")) return;
  if (key === "Enter") {
    if (open()) event.preventDefault();
  } else if (/^[1-9]$/.test(key)) {
    follow(`.tabs a:nth-child(${key})`);
  } else if (Object.hasOwn(KEYS, key)) {
    event.preventDefault();
    KEYS[key]();
  }
});

// A form is sent once.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button");
  if (event.target.method === "post" && button) setTimeout(() => (button.disabled = true));
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[disabled]")) button.disabled = false;
});

// The slider of a workflow's events goes there when it is let go.
const travel = document.getElementById("travel");
if (travel) {
  travel.addEventListener("change", () => travel.form.requestSubmit());
  // Who came here with its arrow keys goes on with them.
  if (new URLSearchParams(location.search).has("n")) travel.focus({ preventScroll: true });
}

if (watch) connect();
else live.hidden = true;
setInterval(renewAges, 20000);
if (watch) setInterval(() => document.hidden || reloadSoon(), ANYWAY_MS);
