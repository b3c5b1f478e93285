/* What every page draws of a prediction. The page's own: `shared(row, key)`; `before(row)`, the figures of what
   it is compared with, or nothing; `BEFORE`, what that is called; `data.files`, lines of source by file. */
const BYTES = { l2_load: 1, l2_store: 1, dram_load: 1, dram_store: 1 };

const total = (row, name) => (shared(row, "volumes")[name] || [0])[0];

/* [name, value, text, color, value before]; the track is `whole` long. */
function bars(items, whole) {
  const width = (value) => `width:${(100 * Math.min(value, whole)) / whole}%`;
  return el("div", { class: "bars" }, items.map(([name, value, text, color, was]) => [
    el("span", {}, name),
    el("span", { class: was === undefined ? "track" : "track over" }, was ? el("b", { style: width(was) }) : null,
      el("i", { style: `${width(value)}${color ? `;background:${color}` : ""}` })),
    el("span", { class: "number" }, text)]));
}

const swatch = (color, text) => el("span", {}, el("i", { style: `background:${color}` }), text);

function bounds(row) {
  const base = before(row);
  const names = [...new Set([...Object.keys(row.bounds), ...Object.keys(base ? base.bounds : {})])];
  const alone = names.map((name) => [name, row.bounds[name] || 0, base ? base.bounds[name] || 0 : undefined])
    .filter(([, t, was]) => t > 0 || was > 0).sort((a, b) => b[1] - a[1]);
  const values = [["predicted", row.time, base ? base.time : undefined], ...alone];
  const text = (t, was) => [quantity(t, "s"), was === undefined || quantity(was, "s") === quantity(t, "s") ? null : el("span", { class: "faint" }, ` was ${quantity(was, "s")}`)];
  const whole = Math.max(...values.flatMap(([, t, was]) => [t, was || 0]));
  return section(`Time of each limiter alone (limiter: ${row.limiter})`,
    bars(values.map(([name, t, was], i) => [name, t, text(t, was), i ? null : "var(--text)", was]), whole),
    base && el("div", { class: "legend" }, swatch("var(--bar)", "predicted"), swatch("var(--was)", BEFORE)));
}

/* What is known of the error of the time; the spread over start phases is none. */
function errorText({ error_band: e }) {
  if (!e) return "";
  const clock = Math.max(e.above || 0, e.below || 0) >= 0.005 ? `, clock −${whole(e.below)} / +${whole(e.above)}` : "";
  return `±${whole(e.band)}${clock}`;
}

function headline(row) {
  const { occupancy: o, resources: r } = row;
  return el("div", { class: "headline" },
    el("p", { class: "big" }, quantity(row.time, "s"), el("span", { class: "faint" }, ` limited by ${row.limiter}`)),
    el("p", { class: "faint" }, [row.confidence, errorText(row)].filter(Boolean).join(", ")),
    el("p", { class: "faint" }, `grid ${extent(row.grid)}, block ${extent(row.block)}; occupancy ${whole(o.fraction)}: ${o.resident_blocks} blocks, ` +
      `${o.warps_per_unit} warps per SM, limited by ${o.limited_by}; ${r.registers} registers`));
}

function differences(found) {
  const shown = (value, unit) => (value === undefined ? "none" : typeof value === "number" ? quantity(value, unit) : value);
  const share = (a, b) => (typeof a === "number" && typeof b === "number" && a ? signed(b / a - 1) : "");
  return table(["component", BEFORE, "predicted", "difference"],
    found.map((d) => [d.component, shown(d.baseline, d.unit), shown(d.predicted, d.unit), share(d.baseline, d.predicted)]), [1, 2, 3]);
}

/* A part has one colour wherever it stands. */
const PARTS = {
  compulsory: "--c0", loads: "--c0", total: "--c0", written_through: "--c0", capacity: "--c1", stores: "--c1",
  overlap_y: "--c2", overlap_z: "--c3", store_fill: "--c4", atomics: "--c5",
};
const OTHER_PARTS = ["--c5", "--c4", "--c2", "--c3"];
const partColor = (name) => `var(${PARTS[name] || OTHER_PARTS[[...name].reduce((sum, c) => sum + c.codePointAt(0), 0) % OTHER_PARTS.length]})`;

function volume(row, name, [sum, parts, fields]) {
  const unit = BYTES[name] ? "B" : "";
  const keys = Object.keys(parts).sort((a, b) => parts[b] - parts[a]);
  const plain = (key) => key.replaceAll("_", " ");
  const cells = (of) => keys.map((key) => quantity(of[key], unit));
  const add = (of) => Object.values(of).reduce((a, b) => a + b, 0);
  const rows = Object.entries(fields).map(([field, of]) => [field, ...cells(of), ...(keys.length > 1 ? [quantity(add(of), unit)] : [])]);
  const header = ["field", ...keys.map(plain), ...(keys.length > 1 ? ["total"] : [])];
  return section(`${name}: ${quantity(sum, unit)}, ${quantity(sum / row.updates, unit)} per update`,
    el("div", { class: "track" }, keys.map((key) => el("i", { style: `width:${(100 * parts[key]) / sum}%;background:${partColor(key)}` }))),
    el("div", { class: "legend" }, keys.map((key) => el("span", {}, el("i", { style: `background:${partColor(key)}` }), `${plain(key)} ${percent(parts[key] / sum)}`))),
    rows.length ? table(header, rows, header.map((_, i) => i).slice(1)) : null);
}

function roofline(row) {
  const performance = row.updates / row.time, base = before(row);
  const levels = [["DRAM", "dram", "--c0"], ["L2", "l2", "--c1"]].map(([name, key, color]) => {
    const bytes = total(row, `${key}_load`) + total(row, `${key}_store`);
    const was = base && base.updates / ((base[`${key}_load`] || 0) + (base[`${key}_store`] || 0));
    return { name, color, x: row.updates / bytes, was: isFinite(was) ? was : null, bandwidth: bytes / row.bounds[key] };
  }).filter((level) => isFinite(level.x) && isFinite(level.bandwidth) && level.bandwidth > 0);
  if (!levels.length || !(performance > 0)) return null;
  const roofs = ["compute", "issue", "shared", "l1"].map((key) => ({ name: key, y: row.updates / row.bounds[key] })).filter((roof) => isFinite(roof.y));
  const lowest = roofs.reduce((a, b) => (a && a.y < b.y ? a : b), null);
  const ceilings = lowest ? [lowest] : [];
  const slower = base && base.updates / base.time;
  const xs = levels.flatMap((level) => (level.was ? [level.x, level.was] : [level.x]));
  const ys = [performance, ...(slower ? [slower] : []), ...ceilings.map((c) => c.y)];
  const x = logScale(Math.min(...xs) / 4, Math.max(...xs) * 8, LEFT, W - RIGHT);
  const y = logScale(Math.min(...ys) / 6, Math.max(...ys, ...levels.map((l) => l.x * l.bandwidth)) * 2, H - BOTTOM, TOP);
  const right = x.high;
  const steep = (Math.atan2(y(ys[0] * 10) - y(ys[0]), x(xs[0] * 10) - x(xs[0])) * 180) / Math.PI;
  const leftmost = levels.reduce((a, b) => (b.x < a.x ? b : a));
  const lines = levels.map((level) => {
    const color = `var(${level.color})`, beside = level === leftmost && levels.length > 1 ? -9 : 9;
    const end = Math.min(right, y.high / level.bandwidth), begin = Math.max(x.low, y.low / level.bandwidth);
    const near = end / (end / begin) ** 0.04;
    return [svg("line", { x1: x(begin), y1: y(begin * level.bandwidth), x2: x(end), y2: y(end * level.bandwidth), stroke: color, "stroke-width": 2 }),
      svg("text", { class: "label", transform: `translate(${x(near)} ${y(near * level.bandwidth)}) rotate(${steep})`, y: -6, "text-anchor": "end", style: `fill:${color}` },
        `${level.name} ${quantity(level.bandwidth, "B")}/s`),
      svg("line", { x1: x(level.x), y1: y(performance), x2: x(level.x), y2: H - BOTTOM, stroke: color, "stroke-dasharray": "2 4" }),
      level.was && slower ? [
        svg("line", { x1: x(level.was), y1: y(slower), x2: x(level.x), y2: y(performance), stroke: color, "stroke-opacity": 0.6 }),
        svg("circle", { class: "was", cx: x(level.was), cy: y(slower), r: 5, stroke: color },
          svg("title", {}, `${level.name}, ${BEFORE}: ${quantity(1 / level.was, "B")} per update`))] : null,
      svg("circle", { cx: x(level.x), cy: y(performance), r: 5, fill: color }, svg("title", {}, `${level.name}: ${quantity(1 / level.x, "B")} per update`)),
      svg("text", { class: "label", x: x(level.x) + beside, y: y(performance) + 14, "text-anchor": beside < 0 ? "end" : "start", style: `fill:${color}` },
        `${level.name} ${quantity(1 / level.x, "B")}`)];
  });
  const flat = ceilings.map((roof) => [
    svg("line", { x1: LEFT, x2: W - RIGHT, y1: y(roof.y), y2: y(roof.y), stroke: "var(--faint)", "stroke-width": 1.5 }),
    svg("text", { x: W - RIGHT, y: y(roof.y) - 4, "text-anchor": "end", class: "faint" }, `${roof.name}: ${quantity(roof.y, "")}/s`)]);
  const legend = el("div", { class: "legend" }, levels.map((level) => swatch(`var(${level.color})`,
    `${level.name}: ${quantity(1 / level.x, "B")} per update, ceiling ${quantity(level.bandwidth, "B")}/s`)), slower ? `hollow: ${BEFORE}` : null);
  return section(`Roofline: ${quantity(performance, "")} updates/s${slower ? `, was ${quantity(slower, "")}` : ""}`, axes(x, y, "updates per byte", "updates per second", lines, flat), legend);
}

function places(found) {
  const best = found.candidates[0].time;
  const rows = found.candidates.map((c, i) => [String(i + 1), c.candidate, quantity(c.time, "s"), i ? `+${percent(c.time / best - 1)}` : "", c.limiter, i && c.tied_with_best ? "tied" : ""]);
  return section("Places", scrolls(el("div", { class: "listing" }, table(["place", "candidate", "time", "to the best", "limiter", ""], rows, [0, 2, 3]))));
}

function curve(found) {
  const best = found.candidates[0].time;
  const times = found.candidates.map((c) => c.time / best);
  const most = Math.max(times.at(-1), 1.05), n = times.length;
  const step = (span, count) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((s) => s * span).find((s) => count / (s / span) <= 8) || span;
  const range = (from, to, by) => Array.from({ length: Math.floor((to - from) / by + 1e-9) + 1 }, (_, i) => from + i * by);
  const every = step(1, n), tall = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].find((s) => (most - 1) / s <= 7) || 100;
  const x = linearScale(1, Math.max(n, 2), LEFT + 8, W - RIGHT - 8, n > 1 ? range(every > 1 ? every : 1, n, every) : [1]);
  const y = linearScale(1, most * 1.02, H - BOTTOM, TOP, range(1, most, tall).map((v) => Number(v.toPrecision(4))));
  const limit = y(Math.max(...found.candidates.map((c) => (c.tied_with_best ? c.time / best : 1))));
  return section("Ranking curve: time over place, relative to the best", axes(x, y, "place", "time / best",
    svg("rect", { x: LEFT, width: W - LEFT - RIGHT, y: limit, height: H - BOTTOM - limit, fill: "var(--band)" }, svg("title", {}, "the model cannot tell these from the best")),
    svg("polyline", { points: times.map((t, i) => `${x(i + 1)},${y(t)}`).join(" "), fill: "none", stroke: "var(--bar)", "stroke-width": 1.5 }),
    times.map((t, i) => svg("circle", { cx: x(i + 1), cy: y(t), r: 3, fill: "var(--bar)" }, svg("title", {}, `${found.candidates[i].candidate}: ${quantity(found.candidates[i].time, "s")}`)))));
}

/* One cell for each shape: x across, y down; a triangle, as a block has at most so many threads. Planes are
   apart where z does not follow from x and y. */
function shapes(found) {
  const cells = new Map(), best = found.candidates[0];
  for (const c of found.candidates) if (!cells.has(extent(c.block))) cells.set(extent(c.block), c);
  if (cells.size < 2) return null;
  const shown = [...cells.values()], sorted = (values) => [...new Set(values)].sort((a, b) => a - b);
  const flat = new Set(shown.map((c) => `${c.block[0]}×${c.block[1]}`)).size === shown.length;
  const planes = flat ? [shown] : sorted(shown.map((c) => c.block[2])).map((z) => shown.filter((c) => c.block[2] === z));
  const worst = Math.max(found.candidates.at(-1).time / best.time, 1.01);
  const text = (c, ratio) => (c === best ? el("b", {}, "best") : `${c.tied_with_best ? "≈" : ""}${ratio < 9.995 ? ratio.toFixed(2) : Number(ratio.toPrecision(3))}`);
  const cell = (c) => {
    if (!c) return el("td", { class: "none" }, "");
    const ratio = c.time / best.time, far = Math.log(ratio) / Math.log(worst);
    return el("td", { title: `${c.candidate}: ${quantity(c.time, "s")}, ${c.limiter}`, style: `background:color-mix(in oklab, var(--far) ${Math.round(100 * far)}%, var(--near))` }, text(c, ratio));
  };
  const plane = (own) => {
    const [xs, ys] = [0, 1].map((axis) => sorted(own.map((c) => c.block[axis])));
    return el("table", { class: "map" },
      flat ? null : el("caption", {}, `z = ${own[0].block[2]}`),
      el("thead", {}, el("tr", {}, el("td", {}, "y \\ x"), xs.map((x) => el("th", {}, String(x))))),
      el("tbody", {}, ys.map((y) => el("tr", {}, el("th", {}, String(y)), xs.map((x) => cell(own.find((c) => c.block[0] === x && c.block[1] === y)))))));
  };
  const legend = el("div", { class: "legend" }, el("span", { class: "ramp" }), `time over that of the best, to ${Number(worst.toPrecision(3))}, logarithmic`,
    found.candidates.some((c) => c !== best && c.tied_with_best) ? el("span", {}, "≈ tied with the best: nearer than the model can tell") : null);
  return section(`Block shapes: x across, y down${flat && shown.some((c) => c.block[2] > 1) ? ", z follows" : ""}`, el("div", { class: "maps" }, planes.map(plane)), legend);
}

// --- stalls, advice, source ------------------------------------------------------------------------

const LEAST_SHARE = 5e-4; // of the samples: less is shown as 0.0 %

function stalls(shares) {
  const rows = Object.entries(shares).filter(([, share]) => share >= LEAST_SHARE).sort((a, b) => b[1] - a[1]);
  return section("Where warps wait: shares of all samples, full width is 100 %",
    bars(rows.map(([name, share]) => [name.replaceAll("_", " "), share, percent(share), stallColor(name)]), 1));
}

const STALLS = {
  selected: "var(--good)", not_selected: "var(--was)", memory_dependency: "var(--c1)", memory_throttle: "var(--c8)",
  synchronization: "var(--c3)", execution_dependency: "var(--c0)", shared_dependency: "var(--c4)",
  pipe_busy: "var(--c6)", constant_dependency: "var(--c7)", launch: "var(--faint)", drain: "none",
};

const assumptions = (found) => el("ul", {}, found.map((a) => el("li", {}, a.span ? `${a.text} (${a.span[0]}:${a.span[1]})` : a.text)));

function advice(found) {
  if (!found.length) return section("Advice", "no suggestion");
  return section("Advice", el("ol", {}, found.map((a) => el("li", {},
    el("b", {}, `${a.optimizer}, ${a.speedup.toFixed(2)}×`), `: ${a.suggestion} `,
    el("span", { class: "faint", title: `by the formula of the GPA paper: ${a.formula_speedup.toFixed(2)}×` }, `(${a.category}, ${percent(a.importance)} of the samples, ${a.context.estimate === "formula" ? "by the paper's formula" : "simulated"})`), hotspots(a)))));
}

const WORTH_A_LINE = 0.01; // of the samples

function hotspots({ hotspots: all }) {
  const shown = (all || []).filter((h) => h.importance >= WORTH_A_LINE && h.def !== h.use).slice(0, 3);
  return shown.length ? el("ul", { class: "faint" }, shown.map((h) => el("li", {}, `${h.use} waits for ${h.def}: ${percent(h.importance)} of the samples, ${h.speedup.toFixed(2)}×`))) : null;
}

const COSTS = ["instructions", "wavefronts", "sectors"];

/* What a line costs by itself, and, in brackets, what was inlined into it. */
function costCell(cost, key, look) {
  const own = cost && cost[key], below = cost && cost.called && cost.called[COSTS.indexOf(key)];
  return el("td", { class: look }, own ? quantity(own, "") : "", below ? el("span", { class: "faint", title: "of what is inlined here" }, ` (+${quantity(below, "")})`) : null);
}

/* The cost of a line that a limiter is about; sectors where none is. */
const MEASURE = { shared: "wavefronts", l1: "wavefronts", compute: "instructions", issue: "instructions" };

function source(file, lines, { advice, waits, findings, reason, limiter }) {
  const name = file.slice(file.lastIndexOf("/") + 1);
  const hot = new Set(advice.flatMap((a) => (a.hotspots || []).flatMap((h) => [h.def, h.use])));
  const costs = new Map(lines.map((line) => [line.line, line]));
  const text = data.files[file] || {};
  const numbers = [...new Set([...Object.keys(text).map(Number), ...costs.keys()])].sort((a, b) => a - b);
  const measure = [MEASURE[limiter] || "sectors", "sectors", "wavefronts", "instructions"].find((key) => lines.some((line) => line[key])) || "instructions";
  const weight = (cost) => cost[measure] + (cost.called ? cost.called[COSTS.indexOf(measure)] : 0);
  const look = (key) => (key === measure || key === "line" ? "number" : "number extra");
  const near = numbers.filter((n) => lines.some((line) => Math.abs(line.line - n) <= 2));
  const most = Math.max(...lines.map(weight));
  const rows = [], at = new Map(); // line → row
  const named = reason.split(/[\s,;()]+/);
  const blamed = (n) => named.some((word) => word === `${name}:${n}` || word.endsWith(`/${name}:${n}`));
  near.forEach((n, i) => {
    if (i && near[i - 1] < n - 1) rows.push(el("tr", {}, el("td", { colspan: 5, class: "faint" }, "⋯")));
    const cost = costs.get(n), heat = cost ? Math.round((35 * weight(cost)) / most) : 0;
    at.set(n, rows.length);
    const marks = [hot.has(`${name}:${n}`) && "hot", blamed(n) && "blamed"].filter(Boolean).join(" ");
    rows.push(el("tr", { class: marks || null, title: (cost && cost.executed) || null, style: heat ? `background:color-mix(in srgb, var(--c1) ${heat}%, transparent)` : null },
      el("td", { class: "number faint at" }, String(n)), ...COSTS.map((key) => costCell(cost, key, look(key))), el("td", {}, text[n] || "")));
    for (const f of findings.filter((one) => one.file === file && one.line === n))
      rows.push(el("tr", { class: "note" }, ["line", ...COSTS].map((key) => el("td", { class: look(key) })), el("td", {}, `↑ ${f.message}`)));
  });
  showInBox(rows.find((row) => row.classList.contains("blamed")));
  const own = waits.filter((w) => w.file === file);
  const arrows = own.filter((w) => w.for_file === file && at.has(w.line) && at.has(w.for_line));
  if (arrows.length) rows[0].prepend(el("td", { rowspan: rows.length, class: "blame" }, blame(arrows, at, rows.length)));
  return section(`${file}: what one warp issues, and moves (shaded by ${measure})`, scrolls(el("div", { class: "listing" }, el("table", { class: "source" },
    el("thead", {}, el("tr", {}, arrows.length ? el("td", { class: "blame" }) : null, ["line", ...COSTS, ""].map((h) => el(h ? "th" : "td", { class: h ? look(h) : null }, h)))),
    el("tbody", {}, rows)))), waiting(own));
}

/* Scrolls the box of a row to it, once both are on the page. */
function showInBox(row) {
  if (row) requestAnimationFrame(() => {
    const box = row.closest(".listing");
    if (box) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  });
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
  return el("p", { class: "faint" }, `Longest waits for other instructions: ${waits.slice(0, MOST_WAITS).map((w) => `line ${waitText(w)}`).join("; ")}.`);
}

/* The width of what stands in the widest panel. */
const plotRoom = () => (byId("result") || document.querySelector("main")).clientWidth - 60;

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
  return section("Timeline of one scheduler: its warps over the first cycles of a compute unit", el("div", { class: "legend" }, reasons.filter((name) => name !== "drain").map((name) =>
    el("span", {}, el("i", { style: `background:${stallColor(name)}` }), name === "selected" ? "issues" : plain(name)))),
    zoomed(last, "cycle", (from, to) => timelinePlot(lanes, from, to), (from, to) => `${from} to ${to} of ${last} cycles`));
}

const stallColor = (name) => STALLS[name] || "var(--c5)";

function timelinePlot(lanes, from, to) {
  const w = Math.max(300, Math.min(1150, plotRoom())), left = 34, tall = 14, h = lanes.length * tall + 26;
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
