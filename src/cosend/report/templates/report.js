// A click on a heading of a table sorts each of its groups by that column; a second click turns the order around.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    if (heading.matches(".range")) return;
    const button = document.createElement("button");
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const rises = heading.ariaSort ? heading.ariaSort === "descending" : column === 0;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
      for (const group of table.tBodies) sort(group, column, rises);
    });
  });
}

function sort(group, column, rises) {
  const value = (row) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replaceAll(",", ""));
    return column === 0 ? text : Number.isNaN(number) ? -Infinity : number;
  };
  const order = (a, b) => (column === 0 ? value(a).localeCompare(value(b)) : value(a) - value(b) || 0);
  const rows = [...group.rows].filter((row) => row.cells.length > column && row.cells[0].tagName === "TD");
  rows.sort((a, b) => (rises ? order(a, b) : order(b, a)));
  group.append(...rows);
}
