// --- baselines ----------------------------------------------------------------------------------

const metric = () => data.metrics[Number(byId("metric").value)] || ["time", "s", false];
const points = (row) => row.points[metric()[0]] || [];
const commit = (i) => ({ digest: data.commits[i][0], date: data.commits[i][1], author: data.commits[i][2], subject: data.commits[i][3] });
const shownCommit = (i) => `${commit(i).digest} ${commit(i).date.slice(0, 10)} ${commit(i).author}: ${commit(i).subject}`;

/* The changes of the metric, in order; `worse`: how far for the worse, null where two states cannot be
   compared or nothing can be divided by the first. */
function stepsOf(row) {
  const [, , more] = metric();
  return points(row).slice(1).map(([at, after], k) => {
    const before = points(row)[k][1];
    const broken = row.breaks.includes(at);
    const share = broken || !before ? null : after / before - 1;
    const sign = Math.sign(after - before) * (more ? -1 : 1);
    return { at, before, after, share, broken, kind: broken ? "broken" : sign > 0 ? "worse" : "better" };
  });
}
/* The product of the comparable steps, less 1; what grew from nothing is worse than any share. */
function change(row) {
  const comparable = stepsOf(row).filter((step) => !step.broken);
  if (comparable.some((step) => step.share === null)) return points(row).at(-1)[1] ? Number.MAX_VALUE : 0;
  if (comparable.length === stepsOf(row).length && points(row).length) return points(row).at(-1)[1] / points(row)[0][1] - 1;
  return comparable.reduce((whole, step) => whole * (1 + step.share), 1) - 1;
}
const UNCHANGED = 5e-4; // less is shown as 0.0 %
const loss = (row) => (points(row).length ? (metric()[2] ? -change(row) : change(row)) : -2);
const changeText = (row) => (!points(row).length ? "" : change(row) === Number.MAX_VALUE ? "from 0" : Math.abs(change(row)) >= UNCHANGED ? signed(change(row)) : "");
/* How a step looks: one within the tolerance is no news. */
const lookOf = (step, looks) => looks[step.share !== null && Math.abs(step.share) <= data.tolerance ? "broken" : step.kind];
const worst = (row) => stepsOf(row).filter((s) => s.kind === "worse").sort((a, b) => (b.share ?? 1e9) - (a.share ?? 1e9))[0];
const end = (row, at) => (points(row).length ? points(row).at(at)[1] : -1);
const endText = (row, at) => (points(row).length ? quantity(end(row, at), metric()[1]) : "");

const COLUMNS = [
  { name: "test", value: (r) => r.name },
  { name: "device", value: (r) => r.device },
  { name: "first", value: (r) => end(r, 0), text: (r) => endText(r, 0), number: true },
  { name: "last", value: (r) => end(r, -1), text: (r) => endText(r, -1), number: true },
  { name: "change", value: loss, text: changeText, number: true, look: (r) => (loss(r) > data.tolerance ? "failed" : loss(r) < -data.tolerance && points(r).length ? "passed" : null) },
  { name: "trend", value: (r) => stepsOf(r).length, text: (r) => trend(r) },
  { name: "largest slowdown", value: (r) => (worst(r) ? worst(r).share ?? Number.MAX_VALUE : 0), text: (r) => (worst(r) ? `${worst(r).share === null ? "" : signed(worst(r).share)} ${shownCommit(worst(r).at)}` : "") },
];

function path(row, x, y, from, to) {
  let drawn = "", before = null;
  for (const [at, value] of points(row)) {
    if (at > to) break;
    if (before !== null && at >= from) drawn += `H${x(at).toFixed(1)}V${y(value).toFixed(1)}`;
    else drawn = `M${x(Math.max(at, from)).toFixed(1)} ${y(value).toFixed(1)}`;
    before = value;
  }
  return before === null ? "" : `${drawn}H${x(to).toFixed(1)}`;
}

function trend(row) {
  if (!points(row).length) return "";
  const values = points(row).map(([, value]) => value);
  const last = data.commits.length - 0.5; // so that the newest value has a width
  const x = linearScale(0, last, 1, 119), y = linearScale(...span(values, 0), 21, 3);
  return svg("svg", { class: "trend", viewBox: "0 0 120 24", role: "img", "aria-label": `${values.length - 1} steps` },
    svg("path", { d: path(row, x, y, 0, last), fill: "none", stroke: "var(--bar)", "stroke-width": 1.5 }));
}

// --- details ------------------------------------------------------------------------------------

function details(row) {
  const day = (i) => `${commit(i).date.slice(0, 10)} (${commit(i).digest.slice(0, 8)})`;
  return el("div", { class: "panels" },
    el("section", { class: "wide" }, el("h3", {}, `${metric()[0]} of ${row.name} on ${row.device}`),
      zoomed(data.commits.length - 1, "commit", (from, to) => chart(row, from, to), (from, to) => `${day(from)} to ${day(to)}`)),
    el("section", { class: "wide" }, el("h3", {}, "Changes, the worst first"), steps(row)),
    el("p", { class: "faint wide" }, `Kept in ${row.file}.`));
}

function steps(row) {
  const [, unit] = metric();
  const order = { worse: 0, better: 1, broken: 2 };
  const sorted = stepsOf(row).sort((a, b) => order[a.kind] - order[b.kind] || Math.abs(b.share ?? 1e9) - Math.abs(a.share ?? 1e9));
  if (!sorted.length) return "It is what it was at first.";
  const rows = sorted.map((step) => {
    const { digest, date, author, subject } = commit(step.at);
    const look = lookOf(step, { worse: "failed", better: "passed", broken: "faint" });
    return [el("span", { class: look }, step.share === null ? "" : signed(step.share)), `${quantity(step.before, unit)} → ${quantity(step.after, unit)}`,
      el("code", {}, digest), date.slice(0, 10), author, subject, row.causes[step.at] || ""];
  });
  return scrolls(el("div", { class: "scroll" }, table(["change", metric()[0], "commit", "date", "author", "subject", "cause or difference"], rows, [0], { class: "small steps" })));
}

const LEAST = 0.1; // of a value, that an axis spans: noise is not to look like a cliff

/* From where to where the axis of some values goes, with `room` of their range beyond them. */
function span(values, room) {
  const low = Math.min(...values), high = Math.max(...values);
  const wide = Math.max((high - low) * (1 + 2 * room), Math.abs(high) * LEAST) || 1;
  return [(low + high - wide) / 2, (low + high + wide) / 2];
}

function chart(row, from, to) {
  const w = Math.max(300, Math.min(1100, window.innerWidth - 90)), h = 260, left = 70;
  const [name, unit] = metric();
  const before = points(row).filter(([at]) => at <= from).slice(-1);
  const inside = points(row).filter(([at]) => at > from && at <= to);
  const values = [...before, ...inside].map(([, value]) => value);
  if (!values.length) return el("p", {}, "No value in this range.");
  const [bottom, top] = span(values, 0.15);
  const x = linearScale(from, to + 0.5, left, w - 14);
  const y = linearScale(bottom, top, h - 34, 16);
  const grid = roundTicks(bottom, top, 5).map((v) => [
    svg("line", { class: "grid", x1: left, x2: w - 14, y1: y(v), y2: y(v) }),
    svg("text", { class: "faint", x: left - 6, y: y(v) + 4, "text-anchor": "end" }, quantity(v, unit))]);
  const every = Math.max(1, Math.ceil((to - from) / Math.floor(w / 130)));
  const ticks = Array.from({ length: Math.floor((to - from) / every) + 1 }, (_, i) => from + i * every).filter((i) => i < data.commits.length);
  const anchor = (i) => (i === from ? "start" : x(i) > w - 60 ? "end" : "middle");
  const dates = ticks.map((i) => [svg("line", { class: "grid", x1: x(i), x2: x(i), y1: 16, y2: h - 34 }),
    svg("text", { class: "faint", x: x(i), y: h - 20, "text-anchor": anchor(i) }, commit(i).date.slice(0, 10)),
    svg("text", { class: "faint", x: x(i), y: h - 7, "text-anchor": anchor(i) }, commit(i).digest.slice(0, 8))]);
  const marks = stepsOf(row).filter((s) => s.at >= from && s.at <= to).map((s) => mark(row, s, x(s.at), y(s.after), w));
  return svg("svg", { class: "whole", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `${name} over commits ${from} to ${to}` }, grid, dates,
    svg("path", { d: path(row, x, y, from, to + 0.5), fill: "none", stroke: "var(--bar)", "stroke-width": 2 }), marks);
}

function mark(row, step, x, y, w) {
  const text = `${shownCommit(step.at)}\n${quantity(step.before, metric()[1])} → ${quantity(step.after, metric()[1])}\n${row.causes[step.at] || ""}`;
  const color = lookOf(step, { worse: "var(--bad)", better: "var(--good)", broken: "var(--faint)" });
  const shape = step.kind === "broken"
    ? svg("line", { x1: x, x2: x, y1: 16, y2: 226, stroke: color, "stroke-dasharray": "3 3" })
    : svg("circle", { cx: x, cy: y, r: 5, fill: color });
  const says = step.share === null || Math.abs(step.share) < 0.001 ? null
    : svg("text", { x: x > w - 80 ? x - 8 : x + 8, y: y - 8, "text-anchor": x > w - 80 ? "end" : "start", style: `fill:${color}` }, signed(step.share));
  return svg("g", {}, svg("title", {}, text), shape, says);
}

// --- start --------------------------------------------------------------------------------------

const CHOICES = {
  "": () => true,
  moved: (row) => stepsOf(row).length > 0,
  worse: (row) => loss(row) > data.tolerance,
};
data.metrics.forEach(([name], i) => byId("metric").append(el("option", { value: i }, name)));
const list = listing({
  node: byId("baselines"), columns: COLUMNS, rows: data.lines, details,
  title: (row) => row.file,
  words: (row) => [row.name, row.device, row.file, ...Object.keys(row.causes).map(shownCommit)],
  chosen: (row) => isChosen("device", row.device) && CHOICES[byId("which").value](row),
});
choices("device", data.lines.map((row) => row.device), list.draw);
byId("which").addEventListener("change", list.draw);
byId("metric").addEventListener("change", list.refresh);
byId("summary").textContent = data.summary;
byId("unreadable").hidden = !data.unreadable.length;
byId("unreadable").append(el("ul", {}, data.unreadable.map((text) => el("li", {}, text))));
const BY_CHANGE = COLUMNS.findIndex((column) => column.name === "change");
list.sortBy(BY_CHANGE, true);

finish(() => {
  testListing(list, ["device"]);
  for (const { value } of byId("metric").options) {
    byId("metric").value = value;
    byId("metric").dispatchEvent(new Event("change"));
    check(list.entries.every((entry) => entry.line.cells.length === COLUMNS.length), `metric ${value}`);
  }
  byId("metric").value = "0";
  byId("metric").dispatchEvent(new Event("change"));
  for (const entry of list.entries.slice(0, 20)) {
    const [from] = entry.detail.querySelectorAll("input");
    const drawn = entry.detail.querySelector("svg.whole");
    check(drawn && drawn.querySelectorAll("title").length === stepsOf(entry.row).length, `marks of ${entry.row.name}`);
    if (!from) continue;
    from.value = from.max - 1;
    from.dispatchEvent(new Event("input"));
    check(entry.detail.querySelector("svg.whole") !== drawn, `zoom of ${entry.row.name}`);
    from.value = 0;
    from.dispatchEvent(new Event("input"));
  }
  list.sortBy(BY_CHANGE, true);
});
