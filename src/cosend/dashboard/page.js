// Puts new HTML in the place of old so that what has not changed stays: focus, selections, and what a pointer shows.
function cosendMorph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName) {
    old.replaceWith(made);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== made.nodeValue) old.nodeValue = made.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const chosen = made.value;
  const before = [...old.childNodes];
  const after = [...made.childNodes];
  after.forEach((node, n) => (n < before.length ? cosendMorph(before[n], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
  if (old.nodeName === "SELECT" && old.value !== chosen) old.value = chosen;  // options may have moved
}
function cosendShow(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (!place || (place.dataset.holds && place.matches(":hover, :focus-within"))) continue;
    const made = place.cloneNode(false);
    made.innerHTML = html;
    cosendMorph(place, made);
  }
}
