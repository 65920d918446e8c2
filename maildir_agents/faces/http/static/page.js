// What the page does beyond being one.  An event of the stream is only a cue: the parts that change are asked for again
// and fitted in, so that what is open, focused or half written stays.  Without this file every form and link works.
"use strict";

const live = document.getElementById("live");
const wire = document.getElementById("wire");
const said = document.getElementById("said");

const say = (text) => { said.textContent = text; said.classList.toggle("empty", !text); };
const state = (name, text) => { wire.dataset.state = name; wire.textContent = text; };
const here = () => { const q = new URLSearchParams(location.search); for (const k of ["open", "mailbox", "did"]) q.delete(k); return q; };

// ---------------------------------------------------------------- keeping it fresh

let asking = false, again = false;

async function refresh() {
  if (asking) { again = true; return; }
  asking = true;
  const text = await asked();
  asking = false;
  if (text !== null) fit(new DOMParser().parseFromString(text, "text/html").body);
  if (again) { again = false; refresh(); }
}

async function asked() {
  try {
    const answer = await fetch("/page/live?" + here(), { cache: "no-store" });
    if (answer.status === 401) location.reload();
    return answer.ok ? await answer.text() : null;
  } catch { return null; }  // the stream says that the connection is lost, and asks again when it is back
}

function fit(fresh) {
  const count = fresh.querySelector("[data-key=all] .count").firstChild.data.trim();
  for (const list of fresh.querySelectorAll("[data-list]")) {
    fitList(live.querySelector(`[data-list=${list.dataset.list}]`), list);
  }
  for (const part of [".waiting", ".nothing", ".more", "table"]) {
    const [is, will] = [live.querySelector(part), fresh.querySelector(part)];
    is.hidden = part === "table" ? !is.querySelector("tbody") : part === ".nothing" ? !!live.querySelector("tbody") : will.hidden;
    if (part === ".more" || part === ".nothing") is.replaceChildren(...will.childNodes);
  }
  document.title = (count === "0" ? "" : `(${count}) `) + "Inbox";
  const known = document.getElementById("agents");
  known.replaceChildren(...[...live.querySelectorAll(".boxes li")].map(li => li.dataset.key).filter(k => k !== "all")
    .map(name => Object.assign(document.createElement("option"), { value: name })));
  ages();
}

// Children are known by data-key and the same while data-print is; a row with an open thread stays until it is closed.
function fitList(list, fresh) {
  const old = new Map([...list.children].filter(c => c.dataset.key).map(c => [c.dataset.key, c]));
  let at = [...list.children].find(c => c.dataset.key) || null;
  const first = !old.size;
  for (const next of [...fresh.children].filter(c => c.dataset.key)) {
    let node = old.get(next.dataset.key);
    old.delete(next.dataset.key);
    if (!node) {
      node = next;
      if (!first || list.tagName === "TABLE") node.classList.add("fresh");
    } else if (node.dataset.print !== next.dataset.print) {
      const was = node;
      node = renew(node, next);
      if (at === was) at = node;
    }
    if (node === at) { at = node.nextElementSibling; continue; }
    list.insertBefore(node, at);
  }
  for (const node of old.values()) {
    if (isOpen(node)) { leave(node); continue; }
    if (node.contains(document.activeElement)) neighbour(node)?.focus();
    node.remove();
  }
}

function renew(node, next) {
  if (isOpen(node)) {
    const row = next.querySelector(".row");
    const link = row.querySelector(".open");
    link.setAttribute("aria-expanded", "true");
    const held = node.querySelector(".row").contains(document.activeElement);
    node.querySelector(".row").replaceWith(row);
    node.dataset.print = next.dataset.print;
    if (held) link.focus();
    return node;
  }
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  const place = focused && [...node.querySelectorAll("a,button,input,textarea")].indexOf(focused);
  if (focused && focused.matches("input,textarea")) { node.dataset.print = next.dataset.print; return node; }
  node.replaceWith(next);
  if (focused) next.querySelectorAll("a,button,input,textarea")[place]?.focus();
  return next;
}

const isOpen = (node) => !!node.querySelector(".thread");
const neighbour = (node) => (node.nextElementSibling || node.previousElementSibling)?.querySelector?.("a.open,a,button") || document.getElementById("list");

function leave(node) {
  node.querySelector(".row").classList.add("gone");
  const todo = node.querySelector(".row .do form");
  if (!todo) return;
  const held = todo.contains(document.activeElement);
  todo.replaceWith(Object.assign(document.createElement("span"), { className: "state", textContent: "read" }));
  if (held) node.querySelector("a.open").focus();
}

function ages() {
  for (const time of document.querySelectorAll("time")) {
    const s = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
    const age = s >= 86400 ? `${Math.floor(s / 86400)} d` : s >= 3600 ? `${Math.floor(s / 3600)} h`
      : s >= 60 ? `${Math.floor(s / 60)} min` : s < 10 ? "now" : `${s} s`;
    time.textContent = !("ago" in time.dataset) ? age : age === "now" ? "just now" : `${age} ago`;
  }
}
setInterval(ages, 20000);

let soon = 0, last = 0;

function cue() {  // many cues are one look, and there are at most two looks a second
  if (soon) return;
  soon = setTimeout(() => { soon = 0; last = Date.now(); refresh(); }, Math.max(40, 500 - (Date.now() - last)));
}

let stream = null, hiding = 0;

function listen() {
  stream = new EventSource("/events");
  stream.onopen = () => { state("on", "Live"); refresh(); };
  stream.onerror = () => {
    state("lost", "Connection lost, trying again");
    if (stream?.readyState === EventSource.CLOSED) setTimeout(listen, 2000);  // refused, say by a server that is starting
  };
  for (const kind of ["message", "state", "conversation", "resync"]) stream.addEventListener(kind, cue);
}
listen();

// A browser has six connections for all tabs of a server: one that nobody looks at gives its own back.
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { stream.close(); stream = null; }, 30000);
  else if (!stream) listen();
});
setInterval(refresh, 60000);  // who watches changes without an event

// ---------------------------------------------------------------- threads, inline

async function toggle(link) {
  const group = link.closest("tbody");
  const shown = group.querySelector(".thread");
  if (shown) {
    shown.remove();
    link.removeAttribute("aria-expanded");
    if (group.querySelector(".gone")) { neighbour(group)?.focus(); group.remove(); refresh(); }
    return;
  }
  const text = await fetch(`${link.dataset.thread}&${here()}`, { cache: "no-store" })
    .then(answer => answer.ok ? answer.text() : null).catch(() => null);
  if (text === null) { say("This thread cannot be shown just now."); return; }
  say("");
  const row = document.createElement("tr");
  row.className = "thread";
  row.setAttribute("role", "row");
  const cell = Object.assign(document.createElement("td"), { colSpan: 5 });
  cell.setAttribute("role", "cell");
  cell.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
  row.append(cell);
  if (!group.querySelector(".thread")) group.append(row);
  link.setAttribute("aria-expanded", "true");
}

live.addEventListener("click", (event) => {
  const link = event.target.closest("a.open");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  toggle(link);
});

// ---------------------------------------------------------------- forms

const sending = new WeakSet();

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-form]");
  if (!form) return;
  event.preventDefault();
  if (sending.has(form)) return;
  const data = new URLSearchParams(new FormData(form));
  if (event.submitter?.name) data.set(event.submitter.name, event.submitter.value);
  const group = form.closest("tbody");
  sending.add(form);  // a button that is disabled meanwhile would lose the focus
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { accept: "application/json" } });
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) { problem(form, told); return; }
    problem(form, null);
    say(form.dataset.form === "read" ? "" : told.said);
    after(form, group);
  } catch { problem(form, { error: "the server was not reached; nothing is known to be done" }); }
  finally { sending.delete(form); }
});

function problem(form, told) {
  const place = form.querySelector(".problem");
  if (!place) { if (told) say(`Not done: ${told.error}.`); return; }
  place.replaceChildren();
  if (!told) return;
  const line = Object.assign(document.createElement("p"), { className: "wrong", textContent: `${told.error}. ${told.hint || ""}` });
  line.setAttribute("role", "alert");
  place.append(line);
}

function after(form, group) {
  const kind = form.dataset.form;
  if (kind === "send") {
    try { localStorage.setItem("from", form.elements.from_agent.value); } catch { /* then not */ }
    form.elements.subject.value = form.elements.body.value = "";
    form.elements.dedup_key.value = crypto.randomUUID();
    const box = document.getElementById("compose");
    box.open = false;
    box.querySelector("summary").focus();
  }
  if (kind === "reply") {
    const link = group?.querySelector("a.open");
    group?.querySelector(".thread")?.remove();
    link?.removeAttribute("aria-expanded");
    link?.focus();
    if (!group) document.getElementById("opened")?.remove();
  }
  refresh();
}

try {
  const from = document.getElementById("c-from");
  from.value ||= localStorage.getItem("from") || "";
} catch { /* a browser that keeps nothing */ }

// ---------------------------------------------------------------- keys, while a message is focused

live.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const group = event.target.closest("tbody");
  if (!group) return;
  if (event.key === "Escape" && isOpen(group)) {
    const link = group.querySelector("a.open");
    link.focus();
    toggle(link);
    return;
  }
  if (event.target.matches("input,textarea")) return;
  const step = { j: "nextElementSibling", k: "previousElementSibling" }[event.key];
  if (step) { const to = group[step]?.querySelector?.("a.open"); to?.focus(); to?.scrollIntoView({ block: "nearest" }); event.preventDefault(); }
  if (event.key === "e") group.querySelector("form[data-form=read] button")?.click();
});

for (const link of live.querySelectorAll("tbody:has(.thread) a.open")) link.setAttribute("aria-expanded", "true");
