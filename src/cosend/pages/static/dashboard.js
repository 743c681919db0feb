"use strict";
const find = (selector, inside = document) => inside.querySelector(selector);
let stream = null;  // what ends the stream of this page
let axes = "";  // that somebody has chosen
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
      const reply = await fetch(`live?axes=${axes}`, { headers: withToken(tokenOfTab()), signal: mine.signal });
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
  if (mode === "observe") return confirmed("Clients get what the policy decides.", "Apply", "mode", { mode: "apply" });
  const models = [...document.querySelectorAll("tr[data-kind=local]")].map((row) => new Option(row.dataset.arm));
  find("#mode select").replaceChildren(...models);
  if ((await ask(find("#mode"))) !== "observe") return;
  const classifier = find("#mode select").value;
  await confirmed(`Clients get what ${classifier} predicts, whatever the policy decides.`, "Shadow mode", "mode", { mode: "observe", classifier });
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
  if (!target.dataset.choose) return;
  axes = target.value;
  watch();
});
// A browser has few connections to a site, so that tabs which nobody sees leave theirs to others.
document.addEventListener("visibilitychange", () => {
  if (find(".login").hidden) document.hidden ? stream?.abort() : watch();
});

if (document.body.dataset.needsToken === "yes" && !tokenOfTab()) askForToken();
else watch();
