"use strict";
const find = (selector, inside = document) => inside.querySelector(selector);
let stream = null;  // what ends the stream of this page
const wanted = { axes: "", range: "", only: "" };  // what somebody has chosen
let mayChange = false;  // whether the token of this tab is one of an operator
let held = {};  // parts that arrived while somebody pointed at them

// Requests

function withToken(token, headers = {}) {
  return token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
}
const tokenOfTab = () => sessionStorage.getItem("token") || "";

async function whyNot(reply) {
  try {
    return (await reply.json()).detail;
  } catch {
    return `${reply.status} ${reply.statusText}`;
  }
}

function notify(words, isBad = false) {
  const notice = find(".notice");
  notice.textContent = words;
  notice.classList.toggle("bad", isBad);
  notice.hidden = false;
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => (notice.hidden = true), 6000);
}

// The parts, kept live

async function watch() {
  stream?.abort();
  const mine = (stream = new AbortController());
  for (let wait = 1; !mine.signal.aborted; wait = Math.min(2 * wait, 30)) {
    try {
      const chosen = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
      const reply = await fetch(`live?${chosen}`, { headers: withToken(tokenOfTab()), signal: mine.signal });
      if (reply.status === 401 || reply.status === 403) return askForToken(await whyNot(reply));
      if (reply.ok) {
        [wait, mayChange] = [0.5, reply.headers.get("cosend-may-change") === "yes"];
        await readEvents(reply.body.pipeThrough(new TextDecoderStream()).getReader());
      } else notify(await whyNot(reply), true);
    } catch {}  // the site is gone, or somebody has left the page
    if (mine.signal.aborted) return;
    if (!find(".notice.bad:not([hidden])")) notify("The connection to the site is lost; retrying.", true);
    await new Promise((done) => setTimeout(done, 1000 * wait));
  }
}

async function readEvents(reader) {
  find("main").hidden = false;
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) show(JSON.parse(event.slice("data: ".length)));
  }
}

function show(parts) {
  for (const [name, html] of Object.entries({ ...held, ...parts })) {
    const place = find(`[data-part="${name}"]`);
    delete held[name];
    if (place.dataset.holds && place.matches(":hover, :focus-within") && place.hasChildNodes()) {
      held[name] = html;
      continue;
    }
    const made = place.cloneNode(false);
    made.innerHTML = html;
    morph(place, made);
  }
  if (reading?.isConnected) read(reading, readingAt);
}

// Puts new HTML in the place of old so that whatever has not changed stays: focus, selections, and what a pointer shows.
function morph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName) return old.replaceWith(made);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== made.nodeValue) old.nodeValue = made.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const chosen = made.value;
  const before = [...old.childNodes];
  const after = [...made.childNodes];
  after.forEach((node, n) => (n < before.length ? morph(before[n], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
  if (old.nodeName === "SELECT" && old.value !== chosen) old.value = chosen;  // options may have moved
}

// Charts and cells, value by value: a pointer, a finger or the arrow keys walk along them

let [reading, readingAt] = [null, 0];  // the chart or the cells whose values are shown, and which of these
const tip = find(".tip");
const cross = find(".cross");

function stopReading() {
  [tip.hidden, cross.hidden, reading] = [true, true, null];
}

function placeTip(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(innerWidth - wide - 4, x + 12 + wide > innerWidth ? x - wide - 12 : x + 12))}px`;
  tip.style.top = `${Math.max(4, Math.min(innerHeight - high - 4, y - high / 2))}px`;
}

const clock = (seconds) => new Date(1000 * seconds).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });

function readChart(chart, wantedPlace) {
  const told = JSON.parse(chart.dataset.readings);
  const place = Math.max(0, Math.min(told.x.length - 1, wantedPlace));
  const svg = find("svg", chart);
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  const near = told.marks.filter(([x]) => Math.abs(x - told.x[place]) < 5).map(([, words]) => words);
  const lines = told.lines.filter(([, said]) => said[place]).map(([name, said]) => `${name} ${said[place]}`);
  const x = box.left + scale * told.x[place];
  placeTip([...lines, ...near, clock(told.at[place])].join("\n"), x, box.top + box.height / 2);
  Object.assign(cross.style, { left: `${x}px`, top: `${box.top + 18 * scale}px`, height: `${box.height - 38 * scale}px` });
  cross.hidden = false;
  return place;
}

function readCells(place, wantedCell) {
  const cells = [...place.querySelectorAll("rect > title")];
  const number = Math.max(0, Math.min(cells.length - 1, wantedCell));
  if (!cells.length) return 0;
  const box = cells[number].parentNode.getBoundingClientRect();
  placeTip(cells[number].textContent, box.left + box.width / 2, box.top + box.height / 2);
  return number;
}

function read(place, number) {
  reading = place;
  readingAt = place.matches(".chart") ? readChart(place, number) : readCells(place, number);
}

function readAt(chart, clientX) {
  const told = JSON.parse(chart.dataset.readings);
  const svg = find("svg", chart);
  const box = svg.getBoundingClientRect();
  const x = ((clientX - box.left) * svg.viewBox.baseVal.width) / box.width;
  const far = told.x.map((each) => Math.abs(each - x));
  read(chart, far.indexOf(Math.min(...far)));
}

function pointed({ target, clientX, clientY, pointerType, type }) {
  const chart = target.closest?.(".chart");
  if (chart) return readAt(chart, clientX);
  if (pointerType !== "mouse" && type === "pointerdown") {  // a mouse shows titles by itself
    const words = find(":scope > title", target)?.textContent || target.closest?.("[title]")?.title;
    if (words) return placeTip(words, clientX, clientY);
  }
  if (pointerType === "mouse" ? reading?.matches(".chart") : type === "pointerdown") stopReading();
}
document.addEventListener("pointermove", pointed);
document.addEventListener("pointerdown", pointed);
document.addEventListener("scroll", stopReading, { passive: true });
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches(":focus-visible")) return;
  if (target.matches(".chart")) read(target, JSON.parse(target.dataset.readings).x.length - 1);
  else if (target.title) placeTip(target.title, target.getBoundingClientRect().right, target.getBoundingClientRect().top);
});
document.addEventListener("focusout", stopReading);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return stopReading();
  const place = event.target.closest?.(".chart, .reads");
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -1e9, End: 1e9 }[event.key];
  if (!place || !step) return;
  event.preventDefault();
  read(place, reading === place ? readingAt + step : 0);
});

// Who may look

function askForToken(words = "") {
  const said = find(".login [role=alert]");
  [said.textContent, said.hidden] = [words, !words];
  [find(".login").hidden, find("main").hidden] = [false, true];
  find(".login input").focus();
}

find(".login form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find(".login input").value);
  find(".login").hidden = true;
  watch();
});

// What an operator does: each dialog resolves to the button that was pressed, or to "" if it was closed

function ask(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue), { once: true }));
}

async function confirmed(sentence, verb, path, body) {
  const dialog = find("#confirm");
  const given = find("input", dialog);
  [find("h2", dialog).textContent, find("p", dialog).textContent] = [`${verb}?`, sentence];
  find("[data-answer]", dialog).textContent = `Yes, ${verb[0].toLowerCase()}${verb.slice(1)}`;
  [find("label", dialog).hidden, given.value] = [mayChange, ""];
  if ((await ask(dialog)) !== "yes") return;
  const headers = withToken(mayChange ? tokenOfTab() : given.value, { "Content-Type": "application/json" });
  const reply = await fetch(`../v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (reply.ok) notify(`Done: ${sentence} It is in the event log.`);
  else notify(await whyNot(reply), true);
}

async function changeArm({ arm: name, cost, paused }) {
  const dialog = find("#arm");
  const other = paused === "yes" ? "Resume" : "Pause";
  [find("h2", dialog).textContent, find("input", dialog).value] = [name, cost];
  find("[data-answer=pause]", dialog).textContent = other;
  const answer = await ask(dialog);
  const path = `arms/${encodeURIComponent(name)}`;
  const wanted = find("input", dialog).valueAsNumber;
  if (answer === "cost" && Number.isFinite(wanted))
    await confirmed(`${name} costs ${Number(cost)} now. From now on it costs ${wanted}.`, "Set cost", path, { cost: wanted });
  else if (answer === "pause" && other === "Pause")
    await confirmed(`${name} is not used until somebody resumes it. What is known about it is kept.`, other, path, { paused: true });
  else if (answer === "pause") await confirmed(`${name} may be used again.`, other, path, { paused: false });
}

async function changeMode({ mode }) {
  if (mode === "observe") return confirmed("Clients get what the policy decides.", "Switch to live mode", "mode", { mode: "apply" });
  const models = [...document.querySelectorAll("tr[data-kind=local]")].map((row) => new Option(row.dataset.arm));
  find("#mode select").replaceChildren(...models);
  if ((await ask(find("#mode"))) !== "observe") return;
  const classifier = find("#mode select").value;
  await confirmed(`Clients get what ${classifier} predicts, whatever the policy decides.`, "Switch to shadow mode", "mode", { mode: "observe", classifier });
}

async function showWhy({ of: id }) {
  const reply = await fetch(`why/${id}`, { headers: withToken(tokenOfTab()) });
  if (!reply.ok) return notify(await whyNot(reply), true);
  find("#why div").innerHTML = await reply.text();
  await ask(find("#why"));
}

document.addEventListener("click", ({ target }) => {
  const from = target.closest("[data-do], [data-answer], [data-close]");
  if (!from) return;
  if (!from.dataset.do) return from.closest("dialog").close(from.dataset.answer || "");
  const { do: what, ...more } = { ...from.closest("tr")?.dataset, ...from.dataset };
  ({ why: showWhy, arm: changeArm, mode: changeMode })[what](more).catch((error) => notify(String(error), true));
});
document.addEventListener("change", ({ target }) => {
  if (target.dataset.choose) want("axes", target.value);
});
document.addEventListener("click", ({ target }) => {
  if (target.dataset.want) want(target.dataset.want, target.dataset.to);
  const link = target.closest("a[data-site]");
  if (link && isLoopback(link.hostname) && isLoopback(location.hostname)) link.hostname = location.hostname;
});
const isLoopback = (name) => name === "localhost" || name.startsWith("127.");

function want(what, value) {
  wanted[what] = value;
  for (const button of document.querySelectorAll(`[data-want="${what}"]`))
    button.setAttribute("aria-pressed", button.dataset.to === value);
  watch();
}
// A browser has few connections to a site, so that tabs which nobody sees leave theirs to others.
document.addEventListener("visibilitychange", () => {
  if (find(".login").hidden) document.hidden ? stream?.abort() : watch();
});

if (document.body.dataset.needsToken === "yes" && !tokenOfTab()) askForToken();
else watch();
