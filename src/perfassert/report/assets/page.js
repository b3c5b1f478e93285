"use strict";
const problems = [];
window.addEventListener("error", (event) => problems.push(event.message));

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// --- elements -----------------------------------------------------------------------------------

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/* What is wider than its place scrolls, and can be reached by keyboard. */
const reach = new ResizeObserver((seen) => seen.forEach(({ target: { scrollWidth, clientWidth, scrollHeight, clientHeight }, target }) =>
  (scrollWidth > clientWidth || scrollHeight > clientHeight ? target.setAttribute("tabindex", "0") : target.removeAttribute("tabindex"))));
const scrolls = (node) => (reach.observe(node), node);
const wide = (node) => node && (node.classList.add("wide"), node);
const section = (title, ...body) => scrolls(el("section", {}, el("h3", {}, title), ...body));

const MOST_SIDE_BY_SIDE = 3; // columns on a narrow screen; the cells of more stand below each other

/* A column that is empty in every row is left out. */
function table(header, rows, numbers, attributes) {
  const kept = header.map((_, i) => i).filter((i) => !i || rows.some((row) => row[i] !== "" && row[i] !== undefined));
  const cells = (tag, row) => kept.map((i) => el(row[i] === "" ? "td" : tag,
    { class: numbers.includes(i) ? "number" : null, "data-name": tag === "td" && i ? header[i] : null }, row[i]));
  return el("table", { class: kept.length > MOST_SIDE_BY_SIDE ? "small stack" : "small", ...attributes },
    el("thead", {}, el("tr", {}, cells("th", header))),
    el("tbody", {}, rows.map((row) => el("tr", {}, cells("td", row)))));
}

// --- numbers ------------------------------------------------------------------------------------

const NARROW = "\u00a0"; // between a number and its unit, where no line ends
const SCALES = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]],
  B: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  "": [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
};
function quantity(value, unit) {
  if (value === undefined || value === null) return "";
  if (unit === "%") return percent(value);
  if (!value) return `0 ${unit}`.trim();
  const rounded = Math.abs(Number(value.toPrecision(4)));
  const scales = SCALES[unit] || [[1, unit]];
  const [scale, shown] = scales.find(([s]) => rounded >= s) || scales.at(-1);
  return `${Number((value / scale).toPrecision(4))}${NARROW}${shown}`.trim();
}
const percent = (share) => `${(100 * share).toFixed(1)}${NARROW}%`;
/* Of errors and shares whose tenths nobody knows. */
const whole = (share) => `${share < 0.1 ? Number((100 * share).toPrecision(2)) : Math.round(100 * share)}${NARROW}%`;
const signed = (share) => (share >= 10 ? `${Number((1 + share).toPrecision(3))} times` : `${share >= 5e-4 ? "+" : ""}${percent(Math.abs(share) < 5e-4 ? 0 : share)}`);
const extent = (of) => of.join("×");

// --- a table that sorts, filters and opens --------------------------------------------------------

/* columns: { name, value, order, text, number, look }; a row is drawn by their text, or value, and sorted
   by their order, or value. `chosen` says whether the filters show a row; a row opens to what `details`
   makes of it, and does so by itself where `opens` says so. */
function listing({ node, columns, rows, words, title, chosen, details, opens }) {
  const state = { column: 0, down: false };

  function cells(entry) {
    return columns.map((column, i) => {
      const shown = (column.text || column.value)(entry.row);
      if (!i) entry.button.replaceChildren(shown);
      const look = [column.number && "number", column.look && column.look(entry.row)].filter(Boolean).join(" ");
      return el("td", { "data-name": column.name, class: look || null }, i ? shown : entry.button);
    });
  }

  function makeEntry(row) {
    const button = el("button", { type: "button", class: "open", "aria-expanded": "false" });
    const entry = { row, button, detail: null, words: words(row).join(" ").toLowerCase() };
    entry.line = el("tr", { title: title(row) }, cells(entry));
    button.addEventListener("click", () => toggle(entry));
    return entry;
  }

  const isOpen = (entry) => entry.button.getAttribute("aria-expanded") === "true";

  function toggle(entry) {
    entry.button.setAttribute("aria-expanded", String(!isOpen(entry)));
    if (!isOpen(entry)) return entry.detail.remove();
    if (!entry.detail)
      entry.detail = el("tr", { class: "detail" }, el("td", { colspan: columns.length }, details(entry.row)));
    return entry.line.after(entry.detail);
  }

  const entries = rows.map(makeEntry);
  entries.filter((entry) => opens && opens(entry.row)).forEach(toggle);

  function draw() {
    const value = columns[state.column].order || columns[state.column].value;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const order = entries.map((entry, i) => [value(entry.row), i, entry]);
    order.sort((a, b) => (state.down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
    const searched = byId("search").value.toLowerCase().split(/\s+/);
    const shown = order.map(([, , entry]) => entry)
      .filter((entry) => searched.every((word) => entry.words.includes(word)) && chosen(entry.row));
    node.tBodies[0].replaceChildren(...shown.flatMap((entry) => (isOpen(entry) ? [entry.line, entry.detail] : [entry.line])));
    byId("count").textContent = `${shown.length} of ${entries.length}`;
    byId("sort").value = `${state.column}${state.down ? "-" : ""}`;
    [...node.tHead.rows[0].cells].forEach((cell, i) =>
      cell.setAttribute("aria-sort", i === state.column ? (state.down ? "descending" : "ascending") : "none"));
  }

  function sortBy(column, down) {
    Object.assign(state, { column, down });
    draw();
  }

  /* What cells and details show has changed. */
  function refresh() {
    for (const entry of entries) {
      entry.line.replaceChildren(...cells(entry));
      entry.detail = isOpen(entry) ? el("tr", { class: "detail" }, el("td", { colspan: columns.length }, details(entry.row))) : null;
    }
    draw();
  }

  node.tHead.append(el("tr", {}, columns.map((column, i) => {
    const button = el("button", { type: "button" }, column.name);
    button.addEventListener("click", () => sortBy(i, state.column === i && !state.down));
    return el("th", { scope: "col", "data-name": column.name, class: column.number ? "number" : null }, button);
  })));
  columns.forEach((column, i) => byId("sort").append(
    el("option", { value: `${i}` }, `${column.name} ▲`), el("option", { value: `${i}-` }, `${column.name} ▼`)));
  byId("sort").addEventListener("change", () => sortBy(parseInt(byId("sort").value, 10), byId("sort").value.endsWith("-")));
  byId("search").addEventListener("input", draw);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  return { entries, state, columns, node, draw, sortBy, refresh };
}

function choices(id, values, then) {
  const names = [...new Set(values)].sort();
  byId(id).append(el("option", { value: "" }, "all"), ...names.map((name) => el("option", { value: name }, name)));
  byId(id).addEventListener("change", then);
}
const isChosen = (id, value) => !byId(id).value || byId(id).value === value;

// --- plots --------------------------------------------------------------------------------------

const W = window.innerWidth < 760 ? 360 : 520, H = 300, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 38;

function logScale(low, high, from, to) {
  const scale = (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  const ticks = [];
  const steps = high / low < 300 ? [1, 2, 5] : [1];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p += 1)
    ticks.push(...steps.map((s) => s * 10 ** p).filter((v) => v >= low && v <= high));
  return Object.assign(scale, { low, high, ticks });
}

function linearScale(low, high, from, to, ticks) {
  return Object.assign((v) => from + ((to - from) * (v - low)) / (high - low || 1), { ticks });
}

/* About `count` round numbers from low to high. */
function roundTicks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}

function axes(x, y, xName, yName, ...body) {
  const small = (v) => (v >= 1 ? quantity(v, "") : String(Number(v.toPrecision(2))));
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${yName} over ${xName}` },
    x.ticks.map((v) => [svg("line", { class: "grid", x1: x(v), x2: x(v), y1: TOP, y2: H - BOTTOM }),
      svg("text", { class: "faint", x: x(v), y: H - BOTTOM + 14, "text-anchor": "middle" }, small(v))]),
    y.ticks.map((v) => [svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }),
      svg("text", { class: "faint", x: LEFT - 5, y: y(v) + 4, "text-anchor": "end" }, small(v))]),
    ...body,
    svg("text", { x: (LEFT + W) / 2, y: H - 6, "text-anchor": "middle" }, xName),
    svg("text", { transform: `translate(12 ${(H - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, yName));
}

/* What `draw(from, to)` makes of a range up to `last`, with sliders that choose it; `shown` says it. */
function zoomed(last, what, draw, shown) {
  const plot = el("div", {}), said = el("span", { class: "faint" }), range = [0, last];
  const redraw = () => {
    plot.replaceChildren(draw(range[0], Math.max(range[1], range[0] + 1)));
    said.textContent = shown(range[0], Math.min(range[1], last));
  };
  const slider = (text, i) => {
    const input = el("input", { type: "range", min: 0, max: last, value: range[i], step: 1 });
    input.addEventListener("input", () => {
      range[i] = i ? Math.max(Number(input.value), range[0] + 1) : Math.min(Number(input.value), Math.max(0, range[1] - 1));
      redraw();
    });
    return el("label", {}, text, input);
  };
  redraw();
  return [plot, last > 1 ? el("div", { class: "zoom" }, slider(`from ${what}`, 0), slider(`to ${what}`, 1), said) : null];
}

// --- self-test: a page opened with #selftest ------------------------------------------------------

const check = (holds, what) => holds || problems.push(what);

function testListing(list, filters) {
  const visible = () => [...list.node.tBodies[0].rows].filter((line) => !line.classList.contains("detail"));
  const rowOf = new Map(list.entries.map((entry) => [entry.line, entry.row]));
  list.columns.forEach((column, i) => {
    const button = list.node.tHead.rows[0].cells[i].firstChild;
    for (let times = 0; times < 2; times += 1) {
      button.click();
      const values = visible().map((line) => (column.order || column.value)(rowOf.get(line)));
      const ordered = values.every((v, k) => !k || (list.state.down ? values[k - 1] >= v : values[k - 1] <= v));
      check(ordered && values.length === list.entries.length, `sorting by ${column.name}`);
    }
  });
  for (const id of filters) {
    let sum = 0;
    for (const { value } of [...byId(id).options].slice(1)) {
      byId(id).value = value;
      byId(id).dispatchEvent(new Event("change"));
      sum += visible().length;
    }
    byId(id).value = "";
    byId(id).dispatchEvent(new Event("change"));
    check(sum === list.entries.length, `filter of ${id}`);
  }
  byId("search").value = "no such test at all";
  byId("search").dispatchEvent(new Event("input"));
  check(visible().length === 0, "search for nothing");
  if (list.entries.length) {
    byId("search").value = list.entries[0].words.split(" ")[0].toUpperCase();
    byId("search").dispatchEvent(new Event("input"));
    check(visible().length > 0 && visible().length <= list.entries.length, "search");
  }
  byId("search").value = "";
  list.sortBy(0, false);
  for (const entry of list.entries.slice(0, 100)) {
    if (entry.button.getAttribute("aria-expanded") !== "true") entry.button.click();
    check(entry.detail.isConnected, `details of ${entry.words}`);
  }
}

function finish(selfTest) {
  document.documentElement.dataset.ready = Math.round(performance.now());
  if (location.hash !== "#selftest") return;
  selfTest();
  check(document.documentElement.scrollWidth <= window.innerWidth, "wider than the window");
  check(!document.querySelector("main").textContent.match(/NaN|undefined|Infinity/), "a number that is none");
  document.documentElement.dataset.selftest = problems.length ? problems.join("; ") : "passed";
}
