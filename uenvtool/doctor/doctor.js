
// What doctor found: the findings, tests of the network, what is there.

const SEVERITIES = ["broken", "slow", "risk", "note"];

function draw({known, ...data}) {
  data.findings = data.findings.map((one, at) => ({...one, ...known[one.known], at}));
  const ranks = data.ranks.length ? rankGrid(data) : null;
  return [
    section("Findings", data.findings.length ? findings(data, ranks) : el("p", {class: "good"}, "No problems were found.")),
    data.quotes.length ? section("What the log says of it", facts(data.quotes)) : null,
    ranks && section(`${data.ranks.length} ranks on ${new Set(data.ranks.map(([, node]) => node)).size} nodes`, ranks.node),
    data.differs.length ? section("What differs between ranks", differs(data.differs)) : null,
    ...data.drawings.map((drawing) => bandwidth(drawing, data.runs.filter((run) => run.test === drawing.test))),
    data.facts.length ? section("What is there", facts(data.facts)) : null,
    data.same.length ? section("What all ranks have", facts(data.same)) : null,
    data.unseen.length ? section("Skipped", el("ul", {}, data.unseen.map((line) => el("li", {}, line)))) : null,
  ];
}

function findings(data, ranks) {
  const found = data.findings;
  const where = (one) => [one.nodes ? `on ${one.nodes}` : "", one.ranks ? `rank ${one.ranks}` : "", one.place].filter(Boolean).join(", ");
  const touched = new Set(data.ranks.flatMap(([, , , places]) => places));
  const whole = (one) => facts([
    ["finding", one.id], ["line", one.text], ["seen", one.count > 1 ? `${one.count} times` : ""], ["why", one.why],
    ["fix", one.fix], ["paste", one.commands.join("; ")], ["source", one.source], ["page", link(one.page)],
  ]);
  return table([
    {head: "Severity", value: (one) => `${SEVERITIES.indexOf(one.severity)}`, cell: (one) => el("b", {class: one.severity}, one.severity)},
    {head: "What", value: (one) => one.what, cell: (one) => el("details", {toggle: ({target}) => { if (target.children.length === 1) target.append(whole(one)); }},
      el("summary", {}, one.detail ? `${one.what}: ${one.detail}` : one.what))},
    {head: "Where", value: where, cell: (one) => touched.has(one.at)
      ? el("button", {type: "button", class: "link", click: () => ranks.only(one.at)}, where(one)) : where(one)},
  ], found, {caption: `${found.length} finding${found.length === 1 ? "" : "s"}`, text: (one) => [one.severity, one.id, one.what, one.detail, one.text, where(one)].join(" ")});
}

function bandwidth(drawing, runs) {
  const [width, height] = drawing.size;
  const last = runs[runs.length - 1];
  const figure = (size) => last.figures.find((one) => one.bytes === size)?.busbw;
  const number = (value) => (value === undefined ? "" : value.toFixed(2));
  return section(`Bandwidth${drawing.test ? `: ${drawing.test}` : ""}`,
    el("svg:svg", {class: "wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Bandwidth over the size of the messages; the table below has its numbers"},
      drawing.shapes.map(([tag, attributes, text]) => el(`svg:${tag}`, attributes, text))),
    table([
      {head: "Bytes", value: (row) => row.bytes},
      ...runs.map((run, at) => ({head: [run.name, run.date.slice(0, 10)].filter(Boolean).join(" ") || `GB/s, ${at + 1}`, value: (row) => run.rows.find((one) => one.bytes === row.bytes)?.busbw ?? -1,
        cell: (row) => number(run.rows.find((one) => one.bytes === row.bytes)?.busbw)})),
      {head: "Has been", value: (row) => figure(row.bytes) ?? -1, cell: (row) => number(figure(row.bytes))},
      {head: "Verdict", value: (row) => row.verdict, cell: (row) => el("span", {class: row.verdict === "good" ? "good" : row.verdict ? "bad" : ""}, row.verdict)},
    ], last.rows, {caption: `${last.rows.length} sizes, GB/s`}));
}

// The ranks by nodes: one stop for Tab, the arrows go on from there. What is chosen stands below.
function rankGrid(data) {
  const state = {query: "", finding: -1, odd: false, current: null};
  const worst = (places) => places.reduce((least, place) => Math.min(least, SEVERITIES.indexOf(data.findings[place].severity)), 9);
  const detail = el("div", {id: "rank", "aria-live": "polite"});
  const count = el("span", {role: "status", class: "dim"});
  const byNode = new Map();
  for (const [rank, node, doing, places] of data.ranks) {
    const severity = SEVERITIES[worst(places)] ?? "";
    const lines = places.map((place) => data.findings[place]).map((one) => `${one.severity}: ${one.what}${one.detail ? `: ${one.detail}` : ""}`);
    const cell = el("button", {type: "button", role: "gridcell", class: `rank ${severity}`, tabindex: "-1", "aria-label": `rank ${rank} on ${node || "an unknown node"}${severity ? `, ${severity}` : ""}`}, `${rank}${severity ? "!" : ""}`);
    if (!byNode.has(node)) byNode.set(node, {line: el("div", {role: "row"}, el("span", {role: "rowheader", class: "node"}, node || "node not known")), cells: []});
    const row = byNode.get(node);
    const one = {rank, node, doing, places, lines, cell, row, text: `${rank} ${node} ${doing} ${lines.join(" ")}`.toLowerCase()};
    row.cells.push(one);
    row.line.append(cell);
    cell.addEventListener("focus", () => choose(one));
    cell.addEventListener("click", () => choose(one));
  }
  const rows = [...byNode.values()];
  const cells = rows.flatMap((row) => row.cells);
  const grid = el("div", {class: "scroll ranks", role: "grid", "aria-label": "Ranks by nodes", keydown: move}, rows.map((row) => row.line));
  function choose(one) {
    if (state.current) state.current.cell.setAttribute("tabindex", "-1");
    state.current?.cell.setAttribute("aria-selected", "false");
    state.current = one;
    one.cell.setAttribute("tabindex", "0");
    one.cell.setAttribute("aria-selected", "true");
    detail.replaceChildren(el("h3", {}, `Rank ${one.rank}${one.node ? ` on ${one.node}` : ""}`), el("p", {}, one.doing || "Nothing is known of its state."),
      el("ul", {}, one.lines.slice(0, SOME).map((line) => el("li", {}, line)), one.lines.length > SOME ? el("li", {}, `${one.lines.length - SOME} more`) : null));
  }
  function move(event) {
    const seen = cells.filter((one) => !one.cell.hidden);
    const at = seen.indexOf(state.current);
    const rowsSeen = rows.filter((row) => !row.line.hidden);
    const across = state.current ? state.current.row.cells.indexOf(state.current) : 0;
    const other = (step) => rowsSeen[rowsSeen.indexOf(state.current?.row) + step]?.cells.filter((one) => !one.cell.hidden);
    const beside = (step) => { const found = other(step); return found && (found[across] ?? found[found.length - 1]); };
    const next = {ArrowRight: () => seen[at + 1], ArrowLeft: () => seen[at - 1], ArrowDown: () => beside(1), ArrowUp: () => beside(-1), Home: () => seen[0], End: () => seen[seen.length - 1]}[event.key]?.();
    if (next) { event.preventDefault(); next.cell.focus(); }
  }
  function filter() {
    let shown = 0;
    for (const row of rows) {
      for (const one of row.cells) {
        one.cell.hidden = !(one.text.includes(state.query) && (!state.odd || one.places.length) && (state.finding < 0 || one.places.includes(state.finding)));
        shown += !one.cell.hidden;
      }
      row.line.hidden = row.cells.every((one) => one.cell.hidden);
    }
    count.textContent = `${shown} of ${cells.length}`;
    all.hidden = state.finding < 0;
    const first = cells.find((one) => !one.cell.hidden);
    if (first && (!state.current || state.current.cell.hidden)) choose(first);
  }
  const search = el("input", {type: "search", id: "search", "aria-label": "Rank, node or text", placeholder: "rank, node or text", input: () => { state.query = search.value.toLowerCase(); filter(); }});
  const odd = el("button", {type: "button", "aria-pressed": "false", click: () => { state.odd = !state.odd; odd.setAttribute("aria-pressed", String(state.odd)); filter(); }}, "Only ranks with findings");
  const all = el("button", {type: "button", hidden: true, click: () => only(-1)}, "All findings");
  function only(finding) {
    state.finding = finding;
    filter();
    (state.current ?? cells[0]).cell.focus();
  }
  filter();
  return {node: [el("div", {class: "row"}, search, odd, all, count), grid, detail], only};
}

function differs(rows) {
  return table([
    {head: "Variable", value: ([name]) => name},
    {head: "Values", value: ([, values]) => `${values.length}`, cell: ([, values]) => el("ul", {}, values.map(([value, ranks]) => el("li", {}, el("b", {}, value), ` on rank ${ranks}`)))},
  ], rows, {caption: `${rows.length} differ`});
}
