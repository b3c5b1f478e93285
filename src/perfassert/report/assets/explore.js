const shared = (row, key) => row[key] ?? null;
const BEFORE = "last launch";
const before = (row) => row.before;
const FIELD = { name: "", dtype: "float64", shape: "", halo: "0" };
const MOST_TRIED = 12, PAUSE = 200, COMPILING = 700, DETAILS = 300; // milliseconds without a change before it is asked
/* id → [name, factor or extent along each axis, largest power of two of each] */
const SLIDERS = [["block", "Threads of a block", [32, 4, 2], [10, 10, 6]], ["fold", "Updates of a thread", [1, 1, 1], [3, 3, 3]]];
const START = {
  fields: [{ ...FIELD, name: "src", shape: "256, 512, 512", halo: "1" }, { ...FIELD, name: "dst", shape: "256, 512, 512" }],
  loads: ["src[z, y, x]", ...["x", "y", "z"].flatMap((axis) => [-1, 1].map((step) =>
    `src[${["z", "y", "x"].map((a) => (a === axis ? `${a} ${step < 0 ? "-" : "+"} 1` : a)).join(", ")}]`))].join("\n"),
  stores: "dst[z, y, x]", flops: "8", registers: "32", domain: "512, 512, 256",
};
const FLAT = [256, 1, 1], THREADS = "1048576";
const EXAMPLE = `__global__ void axpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
`;
let sent = null, asked = 0, predictions = 0, last = null, detailing = 0;
const tried = [];

// --- the question -------------------------------------------------------------------------------

const axes3 = ["x", "y", "z"];
const slider = (id, axis) => byId(`${id}-${axis}`);
const sizes = (id) => axes3.map((axis) => 2 ** Number(slider(id, axis).value));

function fieldRow(field) {
  const input = (key, text, size) => el("label", {}, text, el("input", { "data-key": key, value: field[key], size, spellcheck: "false" }));
  const dtype = el("select", { "data-key": "dtype" }, data.dtypes.map((name) => el("option", { selected: name === field.dtype }, name)));
  const drop = el("button", { type: "button", title: "remove this field", "aria-label": "remove this field" }, "×");
  const row = el("div", { class: "row field" }, input("name", "Field", 5), el("label", {}, "of", dtype), input("shape", "shape z, y, x", 12), input("halo", "halo", 3), drop);
  drop.addEventListener("click", () => { row.remove(); later(); });
  return row;
}

function addSlider(id, text, values, most) {
  const controls = axes3.map((axis, i) => {
    const shown = el("output", { for: `${id}-${axis}` });
    const input = el("input", { type: "range", id: `${id}-${axis}`, min: 0, max: most[i], step: 1, value: Math.log2(values[i]) });
    input.addEventListener("input", () => showSizes());
    return el("label", {}, `${axis} `, input, shown);
  });
  byId("sliders").append(el("div", { role: "group", "aria-label": text, id }, el("p", { class: "name" }, text), controls));
}

function showSizes() {
  for (const [id] of SLIDERS)
    axes3.forEach((axis, i) => { slider(id, axis).nextSibling.textContent = sizes(id)[i]; });
}

function setSizes(id, values) {
  axes3.forEach((axis, i) => { slider(id, axis).value = Math.log2(values[i]); });
  showSizes();
}

const lines = (id) => byId(id).value.split("\n").map((line) => line.trim()).filter(Boolean);
const list = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

function accesses() {
  const fields = [...byId("fields").children].map((row) => {
    const of = Object.fromEntries([...row.querySelectorAll("[data-key]")].map((node) => [node.dataset.key, node.value.trim()]));
    const halo = list(of.halo || "0");
    return { ...of, shape: list(of.shape), halo: halo.length === 1 ? halo[0] : halo };
  });
  const flops = Number(byId("flops").value);
  return { fields, loads: lines("loads"), stores: lines("stores"), dtype: byId("dtype").value,
    flops: Number.isInteger(flops) ? byId("flops").value.trim() || "0" : flops, registers: byId("registers").value.trim() };
}

function question() {
  const launch = { device: byId("device").value, domain: byId("domain").value, block: sizes("block").join(",") };
  if (byId("way").value === "accesses") return { ...launch, fold: sizes("fold").join(","), accesses: accesses() };
  return { ...launch, args: byId("args").value, kernel: byId("kernel").value, ...(sent === null ? {} : { cuda: sent }) };
}

async function ask(what, about) {
  const response = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(about) });
  const found = await response.json();
  if (found.error) throw new Error(found.error);
  return found;
}

/* What `then` shows of the answer; of several questions the last one counts. */
async function answered(what, about, then) {
  const number = (asked += 1);
  document.body.setAttribute("aria-busy", "true");
  try {
    const found = await ask(what, about);
    if (number === asked) { byId("error").textContent = ""; then(found); }
  } catch (error) {
    if (number === asked) byId("error").textContent = error.message;
  }
  if (number === asked) document.body.removeAttribute("aria-busy");
}

let pending = 0;
function later(then = now, pause = PAUSE) {
  clearTimeout(pending);
  clearTimeout(detailing);
  pending = setTimeout(then, pause);
}
function now() {
  const about = question();
  if (about.kernel !== "") answered("predict", about, (found) => show(found, about));
}

// --- the answer ---------------------------------------------------------------------------------

const FIGURES = [
  ["time", "s", (row) => row.time],
  ...["dram_load", "dram_store", "l2_load", "l2_store", "l1_wavefronts"].map((name) =>
    [`${name.replaceAll("_", " ")} per update`, BYTES[name] ? "B" : "", (row) => total(row, name) / row.updates]),
  ["occupancy", "%", (row) => row.occupancy.fraction],
];

function show(row, about) {
  const moved = last && last.time !== row.time ? `, ${signed(row.time / last.time - 1)} to the ${BEFORE}` : "";
  byId("ranked").replaceChildren();
  byId("headline").replaceChildren(
    el("p", { class: "big" }, quantity(row.time, "s"), el("span", { class: "faint" }, ` limited by ${row.limiter}${moved}`)),
    el("p", { class: "faint" }, [row.confidence, errorText(row), `${quantity(row.updates / row.time, "")} updates/s`].filter(Boolean).join(", ")));
  if (last) row.before = { time: last.time, updates: last.updates, bounds: last.bounds, ...Object.fromEntries(Object.keys(BYTES).map((name) => [name, total(last, name)])) };
  byId("answer").replaceChildren(...[
    section("In numbers", figures(row)), bounds(row), layers(row), roofline(row),
  ].filter(Boolean));
  byId("moved").replaceChildren(...[
    ...Object.entries(row.volumes).filter(([, [, parts]]) => Object.keys(parts).length).map(([name, v]) => volume(row, name, v)),
    row.assumptions && section("Assumptions", assumptions(row.assumptions)),
  ].filter(Boolean));
  byId("test").textContent = row.test;
  byId("keep").hidden = false;
  remember(row, about);
  last = row;
  byId("more").classList.add("stale");
  const number = (predictions += 1);
  detailing = setTimeout(() => detail(about, number), DETAILS);
}

/* What takes further simulations: shown once nothing has changed for a moment. */
async function detail(about, number) {
  try {
    const found = await ask("details", about);
    if (number !== predictions) return;
    data.files = found.files;
    const list = (key) => found[key] || [];
    byId("more").replaceChildren(...[
      found.advice && wide(advice(found.advice)),
      ...Object.entries(found.sources || {}).map(([file, lines]) => wide(source(file, lines, { advice: list("advice"), waits: list("waits"), findings: list("findings"), reason: "", limiter: last.limiter }))),
      found.stalls && stalls(found.stalls), wide(machine(found.code, found.files)), found.timeline && wide(timeline(found.timeline)),
    ].filter(Boolean));
  } catch (error) {
    if (number !== predictions) return;
    byId("more").replaceChildren(el("p", { class: "faint" }, error.message));
  }
  byId("more").classList.remove("stale");
}

function figures(row) {
  const rows = FIGURES.map(([name, unit, value]) => {
    const [now, before] = [value(row), last && value(last)];
    const moved = before && now !== before ? signed(now / before - 1) : "";
    return [name, quantity(now, unit), moved];
  });
  return table(["", "value", "change"], rows, [1, 2]);
}

function layers(row) {
  if (!row.layers.length) return null;
  const held = row.layers[0].held;
  const items = row.layers.map((one) => [`${one.axis}: ${one.missed < 0.5 ? "holds" : "broken"}`, Math.min(one.needed, 2 * held),
    `${quantity(one.needed, "B")}, ${percent(one.missed)} again`, one.missed < 0.5 ? "var(--good)" : "var(--bad)"]);
  return section(`Layer conditions: what the next row (y) or plane (z) of blocks shares, to ${quantity(held, "B")} of L2`,
    bars([...items, ["L2", held, quantity(held, "B"), "var(--faint)"]], 2 * held),
    el("p", { class: "faint" }, row.layers.map((one) => `${one.axis}: ${quantity(Number((one.again / row.updates).toFixed(3)), "B")} per update loaded again`).join("; ")));
}

function remember(row, about) {
  const key = JSON.stringify(about);
  if (tried.some((one) => one.key === key)) return;
  tried.unshift({ key, row, about, block: extent(sizes("block")), fold: about.fold ? extent(sizes("fold")) : "" });
  tried.length = Math.min(tried.length, MOST_TRIED);
  const best = Math.min(...tried.map((one) => one.row.time));
  const rows = tried.map((one) => [one.about.device, one.block, one.fold, one.about.domain, quantity(one.row.time, "s"),
    one.row.time === best ? "best" : `+${percent(one.row.time / best - 1)}`, one.row.limiter]);
  byId("tried").hidden = tried.length < 2;
  byId("tried").replaceChildren(el("h2", {}, "Tried so far"), scrolls(el("div", { class: "scroll" },
    table(["device", "block", "folding", "domain", "time", "to the best", "limiter"], rows, [4, 5]))));
}

function showRanking(found) {
  const title = `Every shape of ${found.threads} threads: best of ${found.candidates.length} is ${found.candidates[0].candidate}`;
  const map = shapes(found);
  byId("ranked").replaceChildren(el("h2", { class: "wide" }, title), wide(map), curve(found));
}

// --- start --------------------------------------------------------------------------------------

async function choose(file) {
  sent = file ? await file.text() : null;
  byId("code").value = file ? sent : data.source;
  setSizes("block", FLAT); // code says itself in which directions it counts, most often in x
  if (byId("domain").value === START.domain) byId("domain").value = THREADS;
  await compile(file ? file.name : data.file);
}

/* What is typed is compiled; a kernel that is still there stays chosen, with its arguments. */
function edited() {
  sent = byId("code").value;
  later(() => compile("edited"), COMPILING);
}

async function compile(name) {
  const kept = byId("kernel").value, args = byId("args").value;
  await answered("kernels", { device: byId("device").value, ...(sent === null ? {} : { cuda: sent }) }, ({ kernels }) => {
    byId("kernel").replaceChildren(...kernels.map(([name, args]) => el("option", { value: name, "data-args": args }, name)));
    byId("said").textContent = `${name}: ${kernels.length} kernel${kernels.length === 1 ? "" : "s"}`;
    if (kept && kernels.some(([name]) => name === kept)) {
      byId("kernel").value = kept;
      byId("args").value = args;
      later();
    } else chosen();
  });
}

function chosen() {
  const [option] = byId("kernel").selectedOptions;
  last = null; // another kernel has nothing to be compared with
  byId("args").value = option ? option.dataset.args : "";
  later();
}

function changeWay() {
  const cuda = byId("way").value === "cuda";
  last = null;
  byId("cuda").hidden = !cuda;
  byId("accesses").hidden = cuda;
  byId("fold").hidden = cuda;
  byId("counted").textContent = cuda ? "Threads in x, y, z" : "Updates in x, y, z";
  if (cuda && !byId("kernel").value && !byId("code").value && !data.file) {
    byId("code").value = EXAMPLE;
    byId("domain").value = THREADS;
    setSizes("block", FLAT);
    edited();
  } else later();
}

byId("summary").textContent = `perfassert ${data.version}; predicted on this machine, no GPU is used.`;
byId("fields").append(...START.fields.map(fieldRow));
for (const id of ["loads", "stores", "flops", "registers", "domain"]) byId(id).value = START[id];
byId("dtype").append(...data.dtypes.map((name) => el("option", { selected: name === "float64" }, name)));
byId("device").append(...data.devices.map((name) => el("option", {}, name)));
SLIDERS.forEach((one) => addSlider(...one));
showSizes();
byId("another").addEventListener("click", () => byId("fields").append(fieldRow(FIELD)));
byId("way").addEventListener("change", changeWay);
byId("source").addEventListener("change", () => choose(byId("source").files[0]));
byId("kernel").addEventListener("change", chosen);
byId("question").addEventListener("input", (event) => { if (event.target.id === "code") edited(); else if (!["source", "kernel", "way"].includes(event.target.id)) later(); });
byId("question").addEventListener("submit", (event) => event.preventDefault());
byId("rank").addEventListener("click", () => answered("rank", question(), showRanking));
if (data.file) {
  byId("way").value = "cuda";
  changeWay();
  choose(null);
}
now();
