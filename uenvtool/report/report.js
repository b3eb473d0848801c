
// A stack: the packages as a list and as a graph, one of them in detail, sizes, and what else is known.

function draw(data) {
  const packages = data.packages.map((one, index) => ({...one, index, neededBy: [], builtFor: []}));
  for (const one of packages) {
    for (const need of one.needs) packages[need].neededBy.push(one.index);
    for (const need of one.builds) packages[need].builtFor.push(one.index);
  }
  const state = {chosen: null, narrow: "all", builds: false, query: ""};
  const named = (index) => `${packages[index].name} ${packages[index].version}`;
  const button = (index) => el("button", {type: "button", class: "link", click: () => choose(index)}, named(index));
  const matches = (one) => !state.query || `${one.name} ${one.version} ${one.licence}`.toLowerCase().includes(state.query);
  const down = (index) => state.builds ? [...packages[index].needs, ...packages[index].builds] : packages[index].needs;
  const up = (index) => state.builds ? [...packages[index].neededBy, ...packages[index].builtFor] : packages[index].neededBy;
  const reached = (from, step) => {
    const seen = new Set([from]);
    for (const index of seen) step(index).forEach((next) => seen.add(next));
    return seen;
  };
  // The shortest way from a package that was asked for.
  function chain(index) {
    const before = new Map([[index, null]]);
    for (const at of before.keys()) {
      if (packages[at].asked) {
        const way = [];
        for (let step = at; step !== null; step = before.get(step)) way.push(step);
        return way;
      }
      for (const next of [...packages[at].neededBy, ...packages[at].builtFor]) if (!before.has(next)) before.set(next, at);
    }
    return [index];
  }
  function shown() {
    if (state.chosen === null || state.narrow === "all") return new Set(packages.map((one) => one.index));
    const above = state.narrow === "needs" ? new Set() : reached(state.chosen, up);
    const below = state.narrow === "why" ? new Set() : reached(state.chosen, down);
    return new Set([state.chosen, ...above, ...below]);
  }

  const measured = packages.some((one) => one.bytes);
  const columns = [
    {head: "package", value: (one) => one.name, cell: (one) => el("button", {type: "button", class: `link${one.cves.length ? " bad" : ""}`, click: () => choose(one.index)}, one.name)},
    {head: "version", value: (one) => one.version},
    ...(measured ? [{head: "size", value: (one) => one.bytes, cell: (one) => one.bytes ? sizeText(one.bytes) : ""}] : []),
    {head: "needed by", value: (one) => one.neededBy.length + one.builtFor.length},
    ...(packages.some((one) => one.licence) ? [{head: "licence", value: (one) => one.licence}] : []),
  ];
  const list = table(columns, packages, {caption: `${packages.length} packages`, chosen: (one) => one.index === state.chosen, searched: true});
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("tbody button")];
    const next = buttons[buttons.indexOf(document.activeElement) + {ArrowDown: 1, ArrowUp: -1}[event.key]];
    if (next) { next.focus(); event.preventDefault(); }
  });
  const count = el("span", {role: "status", class: "dim"});
  const search = el("input", {type: "search", id: "search", input: () => { state.query = search.value.trim().toLowerCase(); refresh(); }});
  const detail = el("section", {id: "detail", "aria-live": "polite", "aria-label": "The chosen package"});
  const graph = drawGraph(packages, state, {down, matches, shown, named, choose});
  const narrow = [["all", "everything"], ["why", "why it is here"], ["needs", "what it needs"], ["both", "both"]].map(([name, words]) =>
    el("button", {type: "button", "data-narrow": name, "aria-pressed": "false", click: () => { state.narrow = name; layOut(); }}, words));
  const builds = el("input", {type: "checkbox", id: "builds", change: () => { state.builds = builds.checked; layOut(); }});

  function showDetail() {
    const one = packages[state.chosen];
    if (!one) {
      detail.replaceChildren(el("h2", {}, "Why is it here?"), el("p", {}, "Choose a package, in the list or in the graph."));
      return;
    }
    const way = chain(one.index);
    const many = (title, found) => found.length ? [el("h3", {}, `${title} (${found.length})`), el("p", {}, found.flatMap((index, at) => at ? [", ", button(index)] : [button(index)]))] : [];
    detail.replaceChildren(...[
      el("h2", {tabindex: "-1"}, named(one.index)),
      facts([["from", one.outside], ["size", one.bytes ? sizeText(one.bytes) : ""], ["licence", one.licence], ["published", one.published],
        ["took to build", one.seconds === null ? "" : `${Math.round(one.seconds)} s, here`], ["known vulnerabilities", one.cves.join(", ")]]),
      el("h3", {}, "Why it is here"),
      el("ul", {id: "why"}, one.why.map((line) => el("li", {}, line)),
        way.length > 1 ? el("li", {}, "needed: ", way.flatMap((index, at) => at ? [" needs ", button(index)] : [button(index)])) : null,
        way.length === 1 && !one.why.length ? el("li", {}, one.asked ? "asked for" : "no reason is on record") : null),
      ...many("Who needs it", one.neededBy), ...many("Who is built with it", one.builtFor),
      ...many("What it needs", one.needs), ...many("What it is built with", one.builds),
    ]);
  }
  function refresh() {
    const found = packages.filter(matches);
    list.fill(found);
    count.textContent = state.query ? `${found.length} of ${packages.length}` : "";
    graph.paint();
  }
  function layOut() {
    narrow.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.narrow === state.narrow)));
    graph.layOut();
  }
  function choose(index) {
    const inside = detail.contains(document.activeElement);
    state.chosen = index;
    history.replaceState(null, "", `#${encodeURIComponent(packages[index].name)}`);
    showDetail();
    if (inside) detail.querySelector("h2").focus();
    list.mark();
    graph.paint();
    if (state.narrow === "all") graph.centre(index); else layOut();
    document.querySelectorAll(".part").forEach((part) => part.classList.toggle("chosen", Number(part.dataset.index) === index));
  }
  redraws.push(graph.paint);
  addEventListener("resize", graph.resize);
  new ResizeObserver(graph.resize).observe(graph.canvas);
  showDetail();
  queueMicrotask(() => {
    layOut();
    const wanted = packages.find((one) => one.name === decodeURIComponent(location.hash.slice(1)));
    if (wanted) choose(wanted.index);
  });
  return [
    facts(Object.entries(data.facts)),
    el("div", {class: "side"},
      section("Packages", el("div", {class: "row"}, el("label", {for: "search"}, "Search", search), count), list),
      el("div", {},
        section("Graph", el("div", {class: "row"}, narrow,
          packages.some((one) => one.builds.length) ? el("label", {for: "builds"}, builds, "build needs") : null,
          ["-", "+", "fit"].map((name) => el("button", {type: "button", "aria-label": {"-": "zoom out", "+": "zoom in", fit: "fit"}[name], click: () => graph.zoom(name)}, name))),
        graph.canvas, el("p", {class: "dim"}, "Left needs right. Drag and scroll, or arrow keys, + - 0. The list beside says the same.")),
        detail)),
    measured ? section("Sizes", drawTreemap(packages, choose), el("p", {class: "dim"}, "Unpacked, by package; the list sorts by size.")) : null,
    data.published.length ? section("Beside the published table",
      el("p", {}, `${data.published.filter((row) => row.same).length} of ${data.published.length} rows are at the published version. ${data.source.replaceAll("`", "")}`),
      table([{head: "package", value: (row) => row.name}, {head: "published", value: (row) => row.published}, {head: "here", value: (row) => row.here ?? "not there"},
        {head: "why", value: (row) => row.same ? "the same" : row.reason || "no reason on record"}],
      [...data.published].sort((one, other) => one.same - other.same), {caption: "published versions"})) : null,
    section("Known vulnerabilities", data.cves.length ? table([{head: "id", value: (row) => row.id}, {head: "packages", value: (row) => row.packages.join(", ")},
      {head: "fixed in", value: (row) => row.fixed || "not said"}, {head: "source", value: (row) => row.source, cell: (row) => link(row.source)}], data.cves, {caption: "on record"})
      : el("p", {}, "None of those on record in recipes. A scanner knows more: uenvtool image sbom.")),
    licenceTable(packages),
    data.variables.length ? section("Variables in a job", table([{head: "variable", value: (row) => row.name, cell: (row) => link(row.page, row.name)},
      {head: "value", value: (row) => row.value ?? (row.computed ? `computed: ${row.computed}` : "removed")}, {head: "why", value: (row) => row.reason},
      {head: "source", value: (row) => row.source, cell: (row) => link(row.url, row.source)}], data.variables, {caption: "set for a job"})) : null,
    data.critical_path.length ? section("Critical path of the build", el("p", {}, pathWords(data, packages)),
      el("p", {}, data.critical_path.join(" > "))) : null,
    data.unseen.length ? section("Not known", el("ul", {}, data.unseen.map((line) => el("li", {}, line)))) : null,
  ];
}

function pathWords(data, packages) {
  const known = new Map(packages.filter((one) => one.seconds !== null).map((one) => [one.name, one.seconds]));
  const timed = data.critical_path.filter((name) => known.has(name));
  const minutes = timed.reduce((sum, name) => sum + known.get(name), 0) / 60;
  return `${data.critical_path.length} packages, each waits for the one before it; `
    + (timed.length ? `${timed.length} were built here before, in ${minutes.toFixed(1)} minutes.` : "none was built here before, so no time is known.");
}

function licenceTable(packages) {
  const byName = new Map();
  for (const one of packages.filter((each) => each.licence)) byName.set(one.licence, [...(byName.get(one.licence) ?? []), one.name]);
  const rows = [...byName].sort((one, other) => other[1].length - one[1].length);
  const silent = packages.filter((one) => !one.licence).length;
  return rows.length ? section("Licences", el("p", {}, silent ? `${silent} packages do not say theirs.` : "Every package says its own."),
    table([{head: "licence", value: (row) => row[0]}, {head: "packages", value: (row) => row[1].length}, {head: "which", value: (row) => row[1].join(", ")}], rows, {caption: "licences"})) : null;
}

// Layers from left to right, as long as the longest way; each layer in the order of those that it hangs on.
function layers(members, down) {
  const above = new Map([...members].map((index) => [index, []]));
  for (const index of members) for (const need of down(index)) if (above.has(need) && need !== index) above.get(need).push(index);
  const open = new Map([...above].map(([index, found]) => [index, found.length]));
  const level = new Map();
  const ready = [...open].filter(([, left]) => !left).map(([index]) => index);
  ready.forEach((index) => level.set(index, 0));
  for (let index; (index = ready.shift()) !== undefined;) {
    for (const need of down(index)) {
      if (!open.has(need) || need === index) continue;
      level.set(need, Math.max(level.get(need) ?? 0, level.get(index) + 1));
      open.set(need, open.get(need) - 1);
      if (open.get(need) === 0) ready.push(need);
    }
  }
  const found = [];
  for (const index of members) (found[level.get(index) ?? 0] ??= []).push(index); // those of a circle too
  const rank = new Map();
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const layer of sweep % 2 ? [...found].reverse() : found) {
      const weight = new Map(layer.map((index) => {
        const beside = (sweep % 2 ? down(index) : above.get(index)).filter((other) => rank.has(other));
        return [index, beside.length ? beside.reduce((sum, other) => sum + rank.get(other), 0) / beside.length : rank.get(index) ?? 0];
      }));
      layer.sort((one, other) => weight.get(one) - weight.get(other)).forEach((index, at) => rank.set(index, at - layer.length / 2));
    }
  }
  return found;
}

function drawGraph(packages, state, {down, matches, shown, named, choose}) {
  const WIDE = 176, TALL = 24, BOX = 150;
  const canvas = el("canvas", {id: "graph", tabindex: "0", role: "img", "aria-label": "Graph of the packages and what they need; the list beside it says the same"});
  const place = new Map();
  const view = {x: 0, y: 0, scale: 1};
  let edges = [], waiting = false;
  const size = () => [canvas.clientWidth, canvas.clientHeight];

  function layOut() {
    place.clear();
    layers(shown(), down).forEach((layer, column) => layer.forEach((index, row) => place.set(index, [column * WIDE, (row - layer.length / 2) * TALL])));
    edges = [...place.keys()].flatMap((index) => down(index).filter((need) => place.has(need)).map((need) => [index, need]));
    fit();
  }
  function fit() {
    const spots = [...place.values()];
    if (!spots.length) return paint();
    const [wide, tall] = size();
    const [left, right] = [Math.min(...spots.map(([x]) => x)), Math.max(...spots.map(([x]) => x)) + BOX];
    const [top, bottom] = [Math.min(...spots.map(([, y]) => y)), Math.max(...spots.map(([, y]) => y)) + TALL];
    view.scale = Math.min(1.2, (wide - 20) / (right - left), (tall - 20) / (bottom - top));
    if (state.narrow !== "all" && view.scale < 0.6) return centre(state.chosen);
    view.x = wide / 2 - view.scale * (left + right) / 2;
    view.y = tall / 2 - view.scale * (top + bottom) / 2;
    paint();
  }
  function centre(index) {
    const [wide, tall] = size();
    const [x, y] = place.get(index) ?? [0, 0];
    const [left, top] = [x * view.scale + view.x, y * view.scale + view.y];
    if (view.scale > 0.5 && left > 0 && top > 0 && left + BOX * view.scale < wide && top + TALL * view.scale < tall) return paint();
    view.scale = Math.max(view.scale, 0.7);
    view.x = wide / 2 - view.scale * (x + BOX / 2);
    view.y = tall / 2 - view.scale * (y + TALL / 2);
    paint();
  }
  function zoomAt(factor, x, y) {
    const scale = Math.min(4, Math.max(0.02, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    paint();
  }
  const zoom = (name) => name === "fit" ? fit() : zoomAt(name === "+" ? 1.3 : 1 / 1.3, size()[0] / 2, size()[1] / 2);
  function paint() {
    if (!waiting) requestAnimationFrame(() => { waiting = false; render(); });
    waiting = true;
  }
  function lines(context, found, name, width) {
    context.beginPath();
    for (const [from, to] of found) {
      const [x1, y1] = place.get(from), [x2, y2] = place.get(to);
      context.moveTo(x1 + BOX, y1 + 9);
      context.lineTo(x2, y2 + 9);
    }
    context.strokeStyle = colour(name);
    context.lineWidth = width / view.scale;
    context.stroke();
  }
  function render() {
    const [wide, tall] = size(), ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(tall * ratio)) [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(tall * ratio)];
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    lines(context, edges, "edge", 1);
    const own = edges.filter(([from, to]) => from === state.chosen || to === state.chosen);
    if (own.length) lines(context, own, "accent", 1.5);
    const near = new Set(own.flat());
    const [text, ground] = [colour("text"), {plain: colour("plain"), outside: colour("outside"), accent: colour("accent"), mark: colour("mark"), bad: colour("bad")}];
    context.font = "12px system-ui, sans-serif";
    for (const [index, [x, y]] of place) {
      const [screenX, screenY] = [x * view.scale + view.x, y * view.scale + view.y];
      if (screenX > wide || screenY > tall || screenX < -BOX * view.scale || screenY < -TALL * view.scale) continue;
      const one = packages[index];
      const loud = state.query ? matches(one) : state.chosen === null || near.has(index) || index === state.chosen;
      context.globalAlpha = loud ? 1 : 0.35;
      context.fillStyle = index === state.chosen || (state.query && loud) ? ground.mark : one.outside ? ground.outside : ground.plain;
      context.fillRect(x, y, BOX, 18);
      if (one.asked || one.cves.length) { context.fillStyle = one.cves.length ? ground.bad : ground.accent; context.fillRect(x, y, 4, 18); }
      if (view.scale > 0.45) { context.fillStyle = text; context.fillText(named(index), x + 8, y + 13, BOX - 12); }
    }
    context.globalAlpha = 1;
  }
  const spot = (event) => [event.offsetX, event.offsetY];
  let drag = null;
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomAt(Math.exp(-event.deltaY / 500), ...spot(event)); }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => { drag = {at: spot(event), moved: 0}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = spot(event);
    view.x += x - drag.at[0];
    view.y += y - drag.at[1];
    drag = {at: [x, y], moved: drag.moved + Math.abs(x - drag.at[0]) + Math.abs(y - drag.at[1])};
    paint();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved < 4) {
      const [x, y] = [(spot(event)[0] - view.x) / view.scale, (spot(event)[1] - view.y) / view.scale];
      const hit = [...place].find(([, [left, top]]) => x >= left && x <= left + BOX && y >= top && y <= top + TALL);
      if (hit) choose(hit[0]);
    }
    drag = null;
  });
  canvas.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
    if (step) { view.x += step[0]; view.y += step[1]; paint(); }
    else if (event.key === "+" || event.key === "=" || event.key === "-") zoom(event.key === "-" ? "-" : "+");
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  return {canvas, layOut, centre, zoom, paint, render, resize: paint};
}

// Squarified: Bruls, Huizing, van Wijk, 2000.
function drawTreemap(packages, choose) {
  const [WIDE, TALL] = [1200, 420];
  const sized = packages.filter((one) => one.bytes > 0).sort((one, other) => other.bytes - one.bytes);
  const total = sized.reduce((sum, one) => sum + one.bytes, 0);
  const picture = el("svg:svg", {class: "wide", id: "sizes", viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": `Sizes of ${sized.length} packages, ${sizeText(total)} together; the list sorts by size`});
  const area = (one) => one.bytes / total * WIDE * TALL;
  const worst = (row, side) => {
    const sum = row.reduce((all, one) => all + area(one), 0), thick = sum / side;
    return Math.max(...row.map((one) => { const long = area(one) / thick; return Math.max(long / thick, thick / long); }));
  };
  let [x, y, wide, tall, waiting] = [0, 0, WIDE, TALL, [...sized]];
  while (waiting.length) {
    const side = Math.min(wide, tall), row = [waiting.shift()];
    while (waiting.length && worst([...row, waiting[0]], side) <= worst(row, side)) row.push(waiting.shift());
    const thick = row.reduce((all, one) => all + area(one), 0) / side;
    let along = 0;
    for (const one of row) {
      const long = area(one) / thick;
      const [left, top, w, h] = wide >= tall ? [x, y + along, thick, long] : [x + along, y, long, thick];
      picture.append(el("svg:rect", {class: "part", "data-index": one.index, x: left, y: top, width: w, height: h, click: () => choose(one.index)},
        el("svg:title", {}, `${one.name} ${one.version}: ${sizeText(one.bytes)}`)));
      if (w > 7 * Math.max(one.name.length, 8) && h > 34) picture.append(el("svg:text", {x: left + 5, y: top + 15}, one.name), el("svg:text", {x: left + 5, y: top + 28, class: "dim"}, sizeText(one.bytes)));
      along += long;
    }
    if (wide >= tall) [x, wide] = [x + thick, wide - thick]; else [y, tall] = [y + thick, tall - thick];
  }
  return picture;
}
