"use strict";
// What the pages share. A text of the data becomes text of the page, never markup.

function el(tag, properties = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function section(title, ...children) {
  return el("section", {"aria-label": title}, el("h2", {}, title), ...children);
}

function facts(entries) {
  return el("dl", {}, entries.filter(([, text]) => text !== "" && text !== null && text !== undefined)
    .map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

function sizeText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = bytes > 0 ? Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3)) : 0;
  return `${(bytes / 1000 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}

// A table whose columns sort. columns: [{head, value: row => text or number, cell: row => node}]
function table(columns, rows, {caption = "", chosen = () => false} = {}) {
  const body = el("tbody");
  const state = {column: -1, down: false, rows};
  let lines = [];
  const heads = columns.map((column, at) => el("th", {scope: "col"}, el("button", {type: "button", click: () => sort(at)}, column.head)));
  function sort(at) {
    state.down = state.column === at ? !state.down : typeof columns[at].value(rows[0] ?? {}) === "number";
    state.column = at;
    fill(state.rows);
  }
  function fill(found) {
    state.rows = found;
    const {column, down} = state;
    const sorted = column < 0 ? found : [...found].sort((one, other) => {
      const [a, b] = [columns[column].value(one), columns[column].value(other)];
      return (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true})) * (down ? -1 : 1);
    });
    heads.forEach((head, at) => at === column ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    lines = sorted.map((row) => [row, el("tr", {}, columns.map((column) => {
      const value = column.value(row);
      return el("td", {class: typeof value === "number" ? "number" : undefined}, column.cell ? column.cell(row) : String(value ?? ""));
    }))]);
    body.replaceChildren(...lines.map(([, line]) => line));
    mark();
  }
  function mark() {
    for (const [row, line] of lines) {
      line.setAttribute("aria-selected", String(chosen(row)));
      if (chosen(row)) line.scrollIntoView({block: "nearest"});
    }
  }
  fill(rows);
  const whole = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption || columns[0].head},
    el("table", {}, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body));
  return Object.assign(whole, {fill, mark});
}

// Only an address of the web is a link.
function link(url, text) {
  return /^https?:\/\//.test(url) ? el("a", {href: url, rel: "noreferrer"}, text || url) : text || url;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const redraws = [];
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const theme = document.getElementById("theme");
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
}
function showTheme() {
  theme.setAttribute("aria-pressed", String(isDark()));
  redraws.forEach((redraw) => redraw());
}
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
prefersDark.addEventListener("change", showTheme);
document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.getElementById("main").replaceChildren(...draw(data).filter(Boolean));
  showTheme();
});
