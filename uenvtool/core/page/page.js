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

const SOME = 100; // rows that are drawn at once: the next ones when a reader comes near

// A table whose columns sort. columns: [{head, value: row => text or number, cell: row => node}]. A long one has a search
// of its own, in the text of a row: the browser's own finds what is drawn alone. searched: the page has one for it.
function table(columns, rows, {caption = "", chosen = () => false, searched = false, text = JSON.stringify} = {}) {
  const body = el("tbody");
  const state = {column: -1, down: false, rows};
  let sorted = [], lines = [], texts = null;
  const heads = columns.map((column, at) => el("th", {scope: "col"}, el("button", {type: "button", click: () => sort(at)}, column.head)));
  function sort(at) {
    state.down = state.column === at ? !state.down : typeof columns[at].value(rows[0] ?? {}) === "number";
    state.column = at;
    fill(state.rows);
  }
  function fill(found) {
    state.rows = found;
    const {column, down} = state;
    sorted = column < 0 ? found : [...found].sort((one, other) => {
      const [a, b] = [columns[column].value(one), columns[column].value(other)];
      return (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true})) * (down ? -1 : 1);
    });
    heads.forEach((head, at) => at === column ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    lines = [];
    body.replaceChildren();
    more(SOME);
    mark();
  }
  function more(count) {
    const next = sorted.slice(lines.length, lines.length + count).map((row) => [row, el("tr", {}, columns.map((column) => {
      const value = column.value(row);
      return el("td", {class: typeof value === "number" ? "number" : undefined}, column.cell ? column.cell(row) : String(value ?? ""));
    }))]);
    lines.push(...next);
    body.append(...next.map(([, line]) => line));
    rest.hidden = lines.length === sorted.length;
    rest.textContent = `${lines.length} of ${sorted.length} rows: show more`;
    watch.unobserve(rest); // what is still in view when it is watched anew is told again
    watch.observe(rest);
  }
  function mark() {
    const at = sorted.findIndex(chosen);
    if (at >= lines.length) more(at - lines.length + SOME);
    for (const [row, line] of lines) {
      line.setAttribute("aria-selected", String(chosen(row)));
      if (chosen(row)) line.scrollIntoView({block: "nearest"});
    }
  }
  const rest = el("button", {type: "button", click: () => more(SOME)});
  const whole = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption || columns[0].head},
    el("table", {"aria-rowcount": rows.length + 1}, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body), rest);
  const watch = new IntersectionObserver((seen) => { if (seen[seen.length - 1].isIntersecting) more(SOME); }, {root: whole, rootMargin: "600px"});
  addEventListener("beforeprint", () => more(sorted.length));
  fill(rows);
  if (searched || rows.length <= SOME) return Object.assign(whole, {fill, mark});
  const count = el("span", {role: "status", class: "dim"});
  const search = el("input", {type: "search", "aria-label": `Search: ${caption}`, placeholder: "search", input: () => {
    const query = search.value.trim().toLowerCase();
    texts ??= rows.map((row) => text(row).toLowerCase());
    fill(query ? rows.filter((row, at) => texts[at].includes(query)) : rows);
    count.textContent = query ? `${state.rows.length} of ${rows.length}` : "";
  }});
  return Object.assign(el("div", {}, el("div", {class: "row"}, search, count), whole), {fill, mark});
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
