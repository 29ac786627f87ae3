// What the theme leaves undone: boxes that scroll can be reached by keyboard, controls
// have names, and what is folded is printed.
"use strict";

const SCROLLS = ".equation div.math, .bd-article pre, .pst-scrollable-table-container";

function label(box) {
  const number = box.parentElement.querySelector(".eqno");
  if (box.matches("div.math")) {
    return number ? `Equation ${number.firstChild.textContent}` : "Equation";
  }
  return box.matches("pre") ? "Code or output" : "Table";
}

// Only a box that really overflows becomes a stop for the Tab key.
function reach(box) {
  const overflows = box.scrollWidth > box.clientWidth + 1;
  // the theme has measured some while they were folded, and set -1
  if (overflows && (box.getAttribute("tabindex") ?? "-1") === "-1") {
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `${label(box)}, scrolls sideways`);
  } else if (!overflows && box.getAttribute("role") === "group") {
    for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
  }
}

function watchScrolling() {
  const sizes = new ResizeObserver((entries) => entries.forEach((e) => reach(e.target)));
  for (const box of document.querySelectorAll(SCROLLS)) {
    sizes.observe(box);
    // an inner size changes when fonts and formulas arrive, without the box changing
    if (box.firstElementChild) {
      new ResizeObserver(() => reach(box)).observe(box.firstElementChild);
    }
  }
}

// Names and roles that the theme gets wrong.
function mend() {
  // these have words of their own, which their label does not contain
  for (const control of document.querySelectorAll(".search-button-field, summary")) {
    control.removeAttribute("aria-label");
  }
  // the icons' titles, drawn later by a script, are no part of the button's name
  for (const button of document.querySelectorAll(".theme-switch-button")) {
    button.setAttribute("aria-label", "Colour mode");
    const untitle = () => {
      for (const icon of button.querySelectorAll("[title]")) icon.removeAttribute("title");
      for (const drawn of button.querySelectorAll("svg")) {
        drawn.querySelector("title")?.remove();
        drawn.setAttribute("aria-hidden", "true");
        for (const name of ["role", "aria-labelledby"]) drawn.removeAttribute(name);
      }
    };
    untitle();
    new MutationObserver(untitle).observe(button, { childList: true, subtree: true });
  }
  // a list whose entries are not list items is read better as plain text
  for (const part of document.querySelectorAll(".citation-list, .citation-list [role]")) {
    part.removeAttribute("role");
  }
}

function openForPrint() {
  const opened = [];
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
  });
  addEventListener("afterprint", () => {
    for (const fold of opened.splice(0)) fold.open = false;
  });
}

// A link to something folded opens it.
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const fold = target && target.closest("details");
  if (fold) fold.open = true;
}

addEventListener("DOMContentLoaded", () => {
  watchScrolling();
  mend();
  openForPrint();
  openTarget();
});
addEventListener("hashchange", openTarget);
