
// What doctor found: the findings, tests of the network, what is there.

function draw(data) {
  return [
    section("Findings", data.findings.length ? findings(data.findings) : el("p", {class: "good"}, "No problems were found.")),
    ...data.drawings.map((drawing) => bandwidth(drawing, data.runs.filter((run) => run.test === drawing.test))),
    data.facts.length ? section("What is there", facts(data.facts)) : null,
    data.unseen.length ? section("Skipped", el("ul", {}, data.unseen.map((line) => el("li", {}, line)))) : null,
  ];
}

function findings(found) {
  const order = ["broken", "slow", "risk", "note"];
  return table([
    {head: "Severity", value: (one) => `${order.indexOf(one.severity)}`, cell: (one) => el("b", {class: one.severity}, one.severity)},
    {head: "What", value: (one) => one.what, cell: (one) => el("details", {}, el("summary", {}, one.detail ? `${one.what}: ${one.detail}` : one.what), facts([
      ["finding", one.id], ["line", one.text], ["seen", one.count > 1 ? `${one.count} times` : ""], ["why", one.why],
      ["fix", one.fix], ["paste", one.commands.join("; ")], ["source", one.source],
    ]))},
    {head: "Where", value: (one) => [one.nodes ? `on ${one.nodes}` : "", one.ranks ? `rank ${one.ranks}` : "", one.place].filter(Boolean).join(", ")},
  ], found, {caption: `${found.length} findings`});
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
