/* What every page draws of a prediction; `shared(row, key)` is the page's own. */
const BYTES = { l2_load: 1, l2_store: 1, dram_load: 1, dram_store: 1 };

const total = (row, name) => (shared(row, "volumes")[name] || [0])[0];

/* [name, value, text, color]; the track is `whole` long. */
function bars(items, whole) {
  return el("div", { class: "bars" }, items.map(([name, value, text, color]) => [
    el("span", {}, name),
    el("span", { class: "track" }, el("i", { style: `width:${(100 * value) / whole}%${color ? `;background:${color}` : ""}` })),
    el("span", { class: "number" }, text)]));
}

function bounds(row) {
  const alone = Object.entries(row.bounds).filter(([, t]) => t > 0).sort((a, b) => b[1] - a[1]);
  const items = [["predicted", row.time, quantity(row.time, "s"), "var(--text)"], ...alone.map(([name, t]) => [name, t, quantity(t, "s")])];
  return section(`Time of each limiter alone (limiter: ${row.limiter})`, bars(items, Math.max(...items.map(([, t]) => t))));
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
  const performance = row.updates / row.time;
  const levels = [["DRAM", "dram", "--c0"], ["L2", "l2", "--c1"]].map(([name, key, color]) => {
    const bytes = total(row, `${key}_load`) + total(row, `${key}_store`);
    return { name, color, x: row.updates / bytes, bandwidth: bytes / row.bounds[key] };
  }).filter((level) => isFinite(level.x) && isFinite(level.bandwidth) && level.bandwidth > 0);
  if (!levels.length || !(performance > 0)) return null;
  const roofs = ["compute", "issue", "shared", "l1"].map((key) => ({ name: key, y: row.updates / row.bounds[key] })).filter((roof) => isFinite(roof.y));
  const lowest = roofs.reduce((a, b) => (a && a.y < b.y ? a : b), null);
  const ceilings = lowest ? [lowest] : [];
  const xs = levels.map((level) => level.x), ys = [performance, ...ceilings.map((c) => c.y)];
  const x = logScale(Math.min(...xs) / 4, Math.max(...xs) * 8, LEFT, W - RIGHT);
  const y = logScale(Math.min(...ys) / 6, Math.max(...ys, ...levels.map((l) => l.x * l.bandwidth)) * 2, H - BOTTOM, TOP);
  const right = x.high;
  const steep = (Math.atan2(y(ys[0] * 10) - y(ys[0]), x(xs[0] * 10) - x(xs[0])) * 180) / Math.PI;
  const leftmost = Math.min(...xs);
  const lines = levels.map((level) => {
    const color = `var(${level.color})`, beside = level.x === leftmost && levels.length > 1 ? -9 : 9;
    const end = Math.min(right, y.high / level.bandwidth), begin = Math.max(x.low, y.low / level.bandwidth);
    const near = end / (end / begin) ** 0.04;
    return [svg("line", { x1: x(begin), y1: y(begin * level.bandwidth), x2: x(end), y2: y(end * level.bandwidth), stroke: color, "stroke-width": 2 }),
      svg("text", { class: "label", transform: `translate(${x(near)} ${y(near * level.bandwidth)}) rotate(${steep})`, y: -6, "text-anchor": "end", style: `fill:${color}` },
        `${level.name} ${quantity(level.bandwidth, "B")}/s`),
      svg("line", { x1: x(level.x), y1: y(performance), x2: x(level.x), y2: H - BOTTOM, stroke: color, "stroke-dasharray": "2 4" }),
      svg("circle", { cx: x(level.x), cy: y(performance), r: 5, fill: color }, svg("title", {}, `${level.name}: ${quantity(1 / level.x, "B")} per update`)),
      svg("text", { class: "label", x: x(level.x) + beside, y: y(performance) + 14, "text-anchor": beside < 0 ? "end" : "start", style: `fill:${color}` },
        `${level.name} ${quantity(1 / level.x, "B")}`)];
  });
  const flat = ceilings.map((roof) => [
    svg("line", { x1: LEFT, x2: W - RIGHT, y1: y(roof.y), y2: y(roof.y), stroke: "var(--faint)", "stroke-width": 1.5 }),
    svg("text", { x: W - RIGHT, y: y(roof.y) - 4, "text-anchor": "end", class: "faint" }, `${roof.name}: ${quantity(roof.y, "")}/s`)]);
  const legend = el("div", { class: "legend" }, levels.map((level) => el("span", {}, el("i", { style: `background:var(${level.color})` }),
    `${level.name}: ${quantity(1 / level.x, "B")} per update, ceiling ${quantity(level.bandwidth, "B")}/s`)));
  return section(`Roofline: ${quantity(performance, "")} updates/s`, axes(x, y, "updates per byte", "updates per second", lines, flat), legend);
}

function places(found) {
  const best = found.candidates[0].time;
  const rows = found.candidates.map((c, i) => [String(i + 1), c.candidate, quantity(c.time, "s"), i ? `+${percent(c.time / best - 1)}` : "", c.limiter, i && c.tied_with_best ? "tied" : ""]);
  return section("Places", table(["place", "candidate", "time", "to the best", "limiter", ""], rows, [0, 2, 3]));
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

function shapes(found) {
  const cells = new Map(), best = found.candidates[0].time;
  for (const c of found.candidates) {
    const key = `${c.block[0]}/${c.block[1]}×${c.block[2]}`;
    if (!cells.has(key)) cells.set(key, c);
  }
  const columns = [...new Set(found.candidates.map((c) => c.block[0]))].sort((a, b) => a - b);
  const lines = [...new Map(found.candidates.map((c) => [`${c.block[1]}×${c.block[2]}`, c.block])).entries()]
    .sort((a, b) => a[1][1] * a[1][2] - b[1][1] * b[1][2] || a[1][1] - b[1][1]).map(([name]) => name);
  if (cells.size < 2) return null;
  const worst = Math.max(found.candidates.at(-1).time / best, 1.01);
  const cell = (c) => {
    if (!c) return el("td", { class: "none" }, "");
    const share = c.time / best - 1, far = Math.log(1 + share) / Math.log(worst);
    return el("td", { title: `${c.candidate}: ${quantity(c.time, "s")}, ${c.limiter}`, style: `background:color-mix(in oklab, var(--far) ${Math.round(100 * far)}%, var(--near))` },
      share < 5e-4 ? el("b", {}, "best") : share < 1 ? `+${percent(share)}` : `${Number((1 + share).toPrecision(2))}×`);
  };
  const scale = el("div", { class: "legend" }, el("span", { class: "ramp" }), `best to ${Number(worst.toPrecision(3))} times the best, logarithmic`);
  return section("Block shapes: x across, y×z down", el("table", { class: "small map" },
    el("thead", {}, el("tr", {}, el("td", {}, ""), columns.map((x) => el("th", {}, String(x))))),
    el("tbody", {}, lines.map((name) => el("tr", {}, el("th", {}, name), columns.map((x) => cell(cells.get(`${x}/${name}`))))))), scale);
}
