// Sorting and filtering of the ledger. The table is whole without this script.
"use strict";

function text(row, column) {
  return row.cells[column].textContent.trim();
}

function compare(column, sign) {
  return (a, b) =>
    sign * text(a, column).localeCompare(text(b, column), "en", { numeric: true });
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...body.rows].sort(compare(column, descending ? -1 : 1));
      body.append(...rows);
    });
  });
}

function choice(name, options) {
  const label = document.createElement("label");
  const select = document.createElement("select");
  select.append(new Option("all", ""));
  for (const [value, shown] of options) select.append(new Option(shown, value));
  label.append(name, select);
  return [label, select];
}

function chapterName(row) {
  const link = row.cells[row.cells.length - 1].querySelector("a");
  return link && row.dataset.chapter ? link.textContent.trim() : row.dataset.chapter;
}

function mechanismsOf(row) {
  return JSON.parse(row.dataset.mechanisms);
}

function makeFilters(table) {
  const rows = [...table.tBodies[0].rows];
  const titles = Object.assign({}, ...rows.map(mechanismsOf));
  const kinds = new Map(rows.map((row) => [row.dataset.kind, row.dataset.kind]));
  const chapters = new Map(
    rows
      .filter((row) => row.dataset.chapter)
      .map((row) => [row.dataset.chapter, chapterName(row)]),
  );
  const controls = document.createElement("div");
  controls.className = "ledger-controls";
  const [chapterLabel, chapter] = choice("Chapter", [...chapters].sort());
  const [kindLabel, kind] = choice("Kind", [...kinds].sort());
  const byTitle = (a, b) => a[1].localeCompare(b[1], "en");
  const [mechanismLabel, mechanism] = choice(
    "Mechanism",
    Object.entries(titles).sort(byTitle),
  );
  const count = document.createElement("output");
  const apply = () => {
    let shown = 0;
    for (const row of rows) {
      const fits =
        (!chapter.value || row.dataset.chapter === chapter.value) &&
        (!kind.value || row.dataset.kind === kind.value) &&
        (!mechanism.value || mechanism.value in mechanismsOf(row));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} entries`;
  };
  chapter.addEventListener("change", apply);
  kind.addEventListener("change", apply);
  mechanism.addEventListener("change", apply);
  apply();
  controls.append(chapterLabel, kindLabel, mechanismLabel, count);
  table.parentElement.before(controls);
}

addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.ledger")) {
    makeFilters(table);
    makeSortable(table);
  }
});
