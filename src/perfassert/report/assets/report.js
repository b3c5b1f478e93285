// --- the table ----------------------------------------------------------------------------------

const shared = (row, key) => (row[key] === undefined ? null : data.shared[row[key]]);
const test = (row) => data.tests[row.test];
const dramPerUpdate = (row) => (total(row, "dram_load") + total(row, "dram_store")) / row.updates;
/* The name of a test without its device, which has a column of its own. */
function shortName({ nodeid, device }) {
  const name = nodeid.slice(nodeid.lastIndexOf("::") + 1).replace(/^:/, "");
  return name.replace(`[${device}]`, "").replace(`[${device}-`, "[");
}
const OUTCOMES = ["failed", "xpassed", "xfailed", "skipped", "passed"];
const failed = (row) => test(row).outcome === "failed";

/* What the baseline says of a prediction: what regressed, else what improved. */
const BASELINES = ["regressed", "missing", "incomparable", "improved", "changed", "new", "compared"];
const baseline = (row) => row.baseline || { status: "" };
const baselineText = ({ status, moved }) => (status === "compared" ? "as before" : `${status}${moved ? `: ${moved.split("; ")[0]}` : ""}`);
const baselineLook = ({ status }) => ({ regressed: "failed", missing: "failed", incomparable: "failed", improved: "passed" })[status] || "faint";
const threads = (row) => row.block.reduce((a, b) => a * b);

const COLUMNS = [
  { name: "test", value: (r) => test(r).nodeid, text: (r) => shortName(test(r)) },
  { name: "kernel", value: (r) => r.label, text: (r) => (r.note ? `${r.label} (${r.note})` : r.label) },
  { name: "device", value: (r) => test(r).device },
  { name: "block", value: threads, text: (r) => extent(r.block), number: true },
  { name: "time", value: (r) => r.time, text: (r) => quantity(r.time, "s"), number: true },
  { name: "limiter", value: (r) => r.limiter },
  { name: "occupancy", value: (r) => r.occupancy.fraction, text: (r) => percent(r.occupancy.fraction), number: true },
  { name: "DRAM/update", value: dramPerUpdate, text: (r) => quantity(dramPerUpdate(r), "B"), number: true },
  ...(data.rows.some((r) => r.baseline) ? [{
    name: "baseline", value: (r) => baselineText(baseline(r)), look: (r) => baselineLook(baseline(r)),
    order: (r) => (r.baseline ? BASELINES.indexOf(baseline(r).status) : BASELINES.length),
  }] : []),
  { name: "outcome", value: (r) => test(r).outcome, order: (r) => OUTCOMES.indexOf(test(r).outcome), look: (r) => test(r).outcome },
];
const OPEN = 3; // failed predictions that are open from the start

function start() {
  byId("summary").textContent = `${data.summary}. ${data.errors.length ? `Not run: ${data.errors.join(", ")}. ` : ""}perfassert ${data.version}, model version ${data.model}; no GPU was used.`;
  choices("device", data.rows.map((row) => test(row).device), list.draw);
  choices("limiter", data.rows.map((row) => row.limiter), list.draw);
  choices("outcome", data.rows.map((row) => test(row).outcome), list.draw);
  list.sortBy(COLUMNS.length - 1, false); // failures first
  for (const test of data.tests.filter((t) => t.message && !data.rows.some((r) => data.tests[r.test] === t)))
    byId("rankings").before(section(`${test.nodeid}: ${test.outcome}`, message(test.message)));
  byId("rankings").hidden = !data.rankings.length;
  byId("rankings").append(...data.rankings.map(ranking));
}

// --- details of a prediction --------------------------------------------------------------------

function details(row) {
  const own = test(row);
  const wide = (node) => node && (node.classList.add("wide"), node);
  const said = own.baselines && own.baselines.filter((b) => b.status !== "compared");
  return el("div", { class: "panels" },
    wide(el("section", {}, facts(row))),
    failed(row) && own.message && wide(section("Why it failed", message(own.message))),
    shared(row, "expectations") && wide(expectations(shared(row, "expectations"))),
    said && said.length ? wide(section("Baselines", el("ul", {}, said.map((b) =>
      el("li", {}, el("b", { class: baselineLook(b) }, b.status), ` ${b.name}${b.moved ? `: ${b.moved}` : ""}`))))) : null,
    bounds(row), roofline(row),
    Object.entries(shared(row, "volumes")).filter(([, [, parts]]) => Object.keys(parts).length).map(([name, v]) => volume(row, name, v)),
    shared(row, "stalls") && stalls(shared(row, "stalls")),
    shared(row, "timeline") && wide(timeline(shared(row, "timeline"))),
    shared(row, "advice") && wide(advice(shared(row, "advice"))),
    Object.entries(shared(row, "sources") || {}).map(([file, lines]) => wide(source(file, lines, shared(row, "advice") || [], shared(row, "waits") || []))),
    shared(row, "assumptions") && wide(section("Assumptions", el("ul", {}, shared(row, "assumptions").map((a) =>
      el("li", {}, a.span ? `${a.text} (${a.span[0]}:${a.span[1]})` : a.text))))),
    !failed(row) && own.message && wide(section("Message", message(own.message))));
}

/* Its first line; what follows is folded away: the page shows the same as tables. */
function message(text) {
  const [first, ...rest] = text.split("\n");
  return [el("p", { class: "said" }, first), rest.length ? el("details", {}, el("summary", {}, "the whole message"), scrolls(el("pre", {}, text))) : null];
}

function facts(row) {
  const { occupancy: o, resources: r } = row;
  const roof = row.roofline_time ? [`roofline ${quantity(row.roofline_time, "s")} (${row.roofline_limiter})`] : [];
  const light = row.headroom ? [`speed of light ${quantity(row.speed_of_light, "s")}, headroom ${row.headroom.toPrecision(3)}`] : [];
  const optional = (value, text) => (value ? [text] : []);
  return el("p", { class: "said" }, [
    test(row).nodeid, `${test(row).file}:${test(row).line || ""}`,
    `grid ${extent(row.grid)}, block ${extent(row.block)}`,
    `time ${quantity(row.time, "s")} ± ${percent((row.spread || 0) / 2)}`, ...light, ...roof,
    ...optional(row.confidence, `confidence: ${row.confidence}${guess(row)}`),
    `occupancy ${percent(o.fraction)}: ${o.resident_blocks} blocks, ${o.warps_per_unit} warps per unit, limited by ${o.limited_by}`,
    `${r.registers} registers`, ...optional(r.shared_bytes, `${quantity(r.shared_bytes, "B")} shared`),
    ...optional(r.spill_bytes, `${quantity(r.spill_bytes, "B")} spilled`),
    ...optional(r.instructions, `${quantity(r.instructions, "")} warp instructions`),
  ].join(" · "));
}

function guess(row) {
  const [worst] = shared(row, "confidence_reasons") || [];
  return worst ? ` (${percent(worst.share)} rests on: ${worst.text}${worst.span ? `, ${worst.span[0]}:${worst.span[1]}` : ""})` : "";
}

function expectations(found) {
  const rows = found.map((e) => [el("span", { class: e.verdict.split(",")[0] }, e.verdict), e.metric, e.expected, e.predicted,
    e.difference === undefined ? "" : percent(e.difference),
    e.slack === undefined ? "" : `${percent(e.slack)} (${e.known_error})`]);
  return section("Expectations", table(["verdict", "metric", "expected", "predicted", "difference", "headroom"], rows, [3, 4, 5]));
}

function stalls(shares) {
  const rows = Object.entries(shares).sort((a, b) => b[1] - a[1]);
  return section("Where warps wait: shares of all samples, full width is 100 %",
    bars(rows.map(([name, share]) => [name.replaceAll("_", " "), share, percent(share), STALLS[name]]), 1));
}

const STALLS = {
  selected: "var(--good)", not_selected: "var(--c5)", memory_dependency: "var(--c1)", memory_throttle: "var(--bad)",
  synchronization: "var(--c3)", execution_dependency: "var(--c0)", shared_dependency: "var(--c4)",
  pipe_busy: "var(--c2)", launch: "var(--line)", drain: "none",
};

function advice(found) {
  if (!found.length) return section("Advice", "no suggestion");
  return section("Advice", el("ol", {}, found.map((a) => el("li", {},
    el("b", {}, a.optimizer), ` (${a.category}): ${a.speedup.toFixed(2)}×`,
    a.context.estimate === "formula" ? " by the paper's formula" : ` simulated (formula ${a.formula_speedup.toFixed(2)}×)`, `, importance ${percent(a.importance)}. `, a.suggestion,
    a.hotspots && a.hotspots.length ? table(["definition", "use", "importance", "speedup"], a.hotspots.slice(0, 5).map((h) =>
      [h.def, h.use, percent(h.importance), `${h.speedup.toFixed(2)}×`]), [2, 3]) : null))));
}

const COSTS = ["instructions", "wavefronts", "sectors"];

/* What a line costs by itself, and, in brackets, what was inlined into it. */
function costCell(cost, key, look) {
  const own = cost && cost[key], below = cost && cost.called && cost.called[COSTS.indexOf(key)];
  return el("td", { class: look }, own ? quantity(own, "") : "", below ? el("span", { class: "faint", title: "of what is inlined here" }, ` (+${quantity(below, "")})`) : null);
}

function source(file, lines, advice, waits) {
  const name = file.slice(file.lastIndexOf("/") + 1);
  const hot = new Set(advice.flatMap((a) => (a.hotspots || []).flatMap((h) => [h.def, h.use])));
  const costs = new Map(lines.map((line) => [line.line, line]));
  const text = data.files[file] || {};
  const numbers = [...new Set([...Object.keys(text).map(Number), ...costs.keys()])].sort((a, b) => a - b);
  const measure = ["sectors", "wavefronts", "instructions"].find((key) => lines.some((line) => line[key])) || "instructions";
  const weight = (cost) => cost[measure] + (cost.called ? cost.called[COSTS.indexOf(measure)] : 0);
  const look = (key) => (key === measure || key === "line" ? "number" : "number extra");
  const near = numbers.filter((n) => lines.some((line) => Math.abs(line.line - n) <= 2));
  const most = Math.max(...lines.map(weight));
  const rows = [], at = new Map(); // line → row
  near.forEach((n, i) => {
    if (i && near[i - 1] < n - 1) rows.push(el("tr", {}, el("td", { colspan: 5, class: "faint" }, "⋯")));
    const cost = costs.get(n), heat = cost ? Math.round((35 * weight(cost)) / most) : 0;
    at.set(n, rows.length);
    rows.push(el("tr", { class: hot.has(`${name}:${n}`) ? "hot" : null, title: (cost && cost.executed) || null, style: heat ? `background:color-mix(in srgb, var(--c1) ${heat}%, transparent)` : null },
      el("td", { class: "number faint at" }, String(n)), ...COSTS.map((key) => costCell(cost, key, look(key))), el("td", {}, text[n] || "")));
  });
  const own = waits.filter((w) => w.file === file);
  const arrows = own.filter((w) => w.for_file === file && at.has(w.line) && at.has(w.for_line));
  if (arrows.length) rows[0].prepend(el("td", { rowspan: rows.length, class: "blame" }, blame(arrows, at, rows.length)));
  return section(`${file}: what one warp issues, and moves (shaded by ${measure})`, el("table", { class: "source" },
    el("thead", {}, el("tr", {}, arrows.length ? el("td", { class: "blame" }) : null, ["line", ...COSTS, ""].map((h) => el(h ? "th" : "td", { class: h ? look(h) : null }, h)))),
    el("tbody", {}, rows)), waiting(own));
}

/* Arcs from the line that is waited for to the one that waits, as wide as the share of the samples. */
function blame(arrows, at, count) {
  const tall = 10, wide = 44, end = wide - 4, y = (line) => (at.get(line) + 0.5) * tall;
  const widest = Math.max(...arrows.map((w) => w.share));
  const drawn = arrows.map((w) => {
    const [from, to] = [y(w.for_line), y(w.line)], color = stallColor(w.stall), away = Math.abs(to - from);
    const reach = Math.max(2, end - 14 - away / 3); // how far the arc goes to the left
    const path = away ? `M${end} ${from}C${reach} ${from} ${reach} ${to} ${end - 4} ${to}` : `M${end} ${to - 3}C${end - 16} ${to - 6} ${end - 16} ${to + 4} ${end - 4} ${to}`;
    return svg("g", {}, svg("title", {}, waitText(w)),
      svg("path", { d: path, fill: "none", stroke: color, "stroke-width": 1 + (3 * w.share) / widest, "vector-effect": "non-scaling-stroke" }),
      svg("path", { d: `M${end - 5} ${to - 2.5}L${end} ${to}L${end - 5} ${to + 2.5}Z`, fill: color }));
  });
  return svg("svg", { viewBox: `0 0 ${wide} ${count * tall}`, preserveAspectRatio: "none", style: `height:calc(${count} * 1.4em)`, role: "img", "aria-label": "arrows from lines to those that wait for them; the list below says the same" }, drawn);
}

const waitText = (w) => `${w.line} waits for ${w.for_file === w.file ? "" : `${w.for_file}:`}${w.for_line}: ${w.stall.replaceAll("_", " ")}, ${percent(w.share)} of the samples`;
const MOST_WAITS = 5;

function waiting(waits) {
  if (!waits.length) return null;
  return el("p", { class: "faint" }, `Longest waits: ${waits.slice(0, MOST_WAITS).map((w) => `line ${waitText(w)}`).join("; ")}.`);
}

// --- plots --------------------------------------------------------------------------------------

/* Warps of one scheduler over cycles; what they wait for by colour, the line in the tool tip. */
function timeline({ reasons, places, warps }) {
  const lanes = warps.map(({ start, spans }) => {
    let at = start;
    return Array.from({ length: spans.length / 3 }, (_, i) => {
      const [reason, cycles, place] = spans.slice(3 * i, 3 * i + 3);
      at += cycles;
      return { reason: reasons[reason], place: places[place], from: at - cycles, to: at };
    });
  });
  const last = Math.max(...lanes.map((lane) => lane.at(-1).to));
  const plain = (name) => name.replaceAll("_", " ");
  return section("Time line of one scheduler: its warps over the first cycles of a compute unit", el("div", { class: "legend" }, reasons.filter((name) => name !== "drain").map((name) =>
    el("span", {}, el("i", { style: `background:${stallColor(name)}` }), name === "selected" ? "issues" : plain(name)))),
    zoomed(last, "cycle", (from, to) => timelinePlot(lanes, from, to), (from, to) => `${from} to ${to} of ${last} cycles`));
}

const stallColor = (name) => STALLS[name] || "var(--bar)";

function timelinePlot(lanes, from, to) {
  const w = Math.max(300, Math.min(1150, window.innerWidth - 90)), left = 34, tall = 14, h = lanes.length * tall + 26;
  const x = linearScale(from, to, left, w - 6);
  const spans = lanes.flatMap((lane, i) => lane.filter((s) => s.to > from && s.from < to).map((s) => {
    const begin = x(Math.max(s.from, from)), end = x(Math.min(s.to, to));
    return svg("rect", { x: begin.toFixed(1), y: i * tall + 2, width: Math.max(0.4, end - begin).toFixed(1), height: tall - 3, style: `fill:${stallColor(s.reason)}` },
      svg("title", {}, `${s.reason.replaceAll("_", " ")}, ${s.to - s.from} cycles from ${s.from}${s.place ? `, before ${s.place}` : ""}`));
  }));
  const ticks = roundTicks(from, to, Math.floor(w / 110)).map((v) => [svg("line", { class: "grid", x1: x(v), x2: x(v), y1: 0, y2: h - 20 }),
    svg("text", { class: "faint", x: x(v), y: h - 6, "text-anchor": "middle" }, String(v))]);
  const names = lanes.map((_, i) => svg("text", { class: "faint", x: left - 5, y: i * tall + 11, "text-anchor": "end" }, String(i)));
  return svg("svg", { class: "whole", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `warps over cycles ${from} to ${to}` }, ticks, names, spans);
}

// --- rankings -----------------------------------------------------------------------------------

function ranking(found) {
  const { nodeid } = data.tests[found.test];
  const [best] = found.candidates;
  const node = el("details", {}, el("summary", {}, `${found.label} in ${nodeid}: best of ${found.candidates.length} is ${best.candidate}, ${quantity(best.time, "s")}`));
  node.addEventListener("toggle", () => node.open && node.children.length === 1 && node.append(el("div", { class: "panels" }, curve(found), shapes(found), places(found))));
  return node;
}

const list = listing({
  node: byId("predictions"), columns: COLUMNS, rows: data.rows, details,
  title: (row) => test(row).nodeid,
  opens: (row) => failed(row) && data.rows.filter(failed).indexOf(row) < OPEN,
  words: (row) => [test(row).nodeid, row.label, row.note, test(row).device, extent(row.block), row.limiter],
  chosen: (row) => isChosen("device", test(row).device) && isChosen("limiter", row.limiter) && isChosen("outcome", test(row).outcome),
});

start();
finish(() => {
  testListing(list, ["device", "limiter", "outcome"]);
  list.sortBy(COLUMNS.length - 1, false);
  check(list.entries.slice(0, 100).every((entry) => entry.detail.querySelector(".bars")), "bars");
  for (const { row, detail } of list.entries.slice(0, 100).filter((entry) => shared(entry.row, "timeline"))) {
    const [from] = detail.querySelectorAll(".zoom input"), bars = () => detail.querySelectorAll("svg.whole rect").length;
    const all = bars();
    from.value = from.max;
    from.dispatchEvent(new Event("input"));
    check(all > 0 && bars() > 0 && bars() < all, `time line of ${row.label}`);
    from.value = 0;
    from.dispatchEvent(new Event("input"));
  }
  for (const node of byId("rankings").querySelectorAll("details")) {
    node.open = true;
    node.dispatchEvent(new Event("toggle"));
    check(node.querySelector("polyline"), "ranking curve");
  }
});
