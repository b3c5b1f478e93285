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
const BEFORE = "baseline";
const before = (row) => baseline(row).base;
/* In short: the change of the time where it has changed, else the first of what has. */
function baselineText(row) {
  const { status, moved, base } = baseline(row);
  if (status === "compared") return "as before";
  const share = base ? row.time / base.time - 1 : 0;
  const first = Math.abs(share) >= 5e-4 ? `time ${signed(share)}`.replaceAll(" ", "\u00a0") : (moved || "").split("; ")[0];
  return first ? `${status}: ${first}` : status;
}
const baselineLook = ({ status }) => ({ regressed: "failed", missing: "failed", incomparable: "failed", improved: "passed" })[status] || "faint";
const threads = (row) => row.block.reduce((a, b) => a * b);

function kernelText(row) {
  const name = row.short ? el("abbr", { title: row.label }, row.short) : row.label;
  return row.note ? el("span", {}, name, ` (${row.note})`) : name;
}

const COLUMNS = [
  { name: "test", value: (r) => test(r).nodeid, text: (r) => shortName(test(r)) },
  { name: "kernel", value: (r) => r.label, text: kernelText },
  { name: "device", value: (r) => test(r).device },
  { name: "block", value: threads, text: (r) => extent(r.block), number: true },
  { name: "time", value: (r) => r.time, text: (r) => quantity(r.time, "s"), number: true },
  { name: "confidence", value: (r) => r.confidence || "", text: confidenceText, look: (r) => (r.confidence === "guessed" ? "doubt" : "faint") },
  { name: "limiter", value: (r) => r.limiter },
  { name: "occupancy", value: (r) => r.occupancy.fraction, text: (r) => whole(r.occupancy.fraction), number: true },
  { name: "DRAM/update", value: dramPerUpdate, text: (r) => quantity(dramPerUpdate(r), "B"), number: true },
  ...(data.rows.some((r) => r.baseline) ? [{
    name: "baseline", value: baselineText, look: (r) => baselineLook(baseline(r)),
    order: (r) => (r.baseline ? BASELINES.indexOf(baseline(r).status) : BASELINES.length),
  }] : []),
  { name: "outcome", value: (r) => test(r).outcome, order: (r) => OUTCOMES.indexOf(test(r).outcome) + (failed(r) ? failures.indexOf(r) / failures.length : 0), look: (r) => test(r).outcome },
];
function confidenceText({ confidence, error_band: e }) {
  return [confidence, e && e.error !== undefined && `±${whole(e.error)}`].filter(Boolean).join(" ");
}
const worsening = (row) => (baseline(row).status === "regressed" && before(row) ? row.time / before(row).time : 0);
const failures = data.rows.filter(failed).sort((a, b) => worsening(b) - worsening(a));

function start() {
  byId("summary").textContent = `${data.summary}. ${data.errors.length ? `Not run: ${data.errors.join(", ")}. ` : ""}perfassert ${data.version}, model version ${data.model}; no GPU was used.`;
  choices("device", data.rows.map((row) => test(row).device), list.draw);
  choices("limiter", data.rows.map((row) => row.limiter), list.draw);
  choices("outcome", data.rows.map((row) => test(row).outcome), list.draw);
  list.sortBy(COLUMNS.length - 1, false); // failures first
  byId("failures").hidden = failures.length < 2;
  byId("failures").append(el("ul", {}, failures.map((row) => el("li", {}, jump(row), `: ${headOf(row)}`))));
  for (const test of data.tests.filter((t) => t.message && !data.rows.some((r) => data.tests[r.test] === t)))
    byId("rankings").before(section(`${test.nodeid}: ${test.outcome}`, message(test.message)));
  byId("rankings").hidden = !data.rankings.length;
  byId("rankings").append(...data.rankings.map(ranking));
}

/* A button that opens the details of a row and shows them. */
function jump(row) {
  const entry = list.entries.find((one) => one.row === row);
  const button = el("button", { type: "button", class: "jump" }, `${shortName(test(row))} on ${test(row).device}`);
  button.addEventListener("click", () => {
    if (entry.button.getAttribute("aria-expanded") !== "true") entry.button.click();
    entry.line.scrollIntoView({ block: "start" });
    entry.button.focus();
  });
  return button;
}
/* Why a row has failed, without the names that stand before it. */
const headOf = (row) => (row.reason ? row.reason.slice(row.reason.indexOf(": ") + 2) : (test(row).message || "").split("\n")[0]);

// --- details of a prediction --------------------------------------------------------------------

/* Cause, source line, advice; then what has been compared, charts, and what else is known. */
function details(row) {
  const own = test(row), found = baseline(row);
  const list = (key) => shared(row, key) || [];
  const changed = found.status && found.status !== "compared";
  return el("div", { class: "panels" },
    row.reason ? wide(section("Cause", el("p", { class: "reason" }, row.reason))) : failed(row) && own.message && wide(section("Cause", el("p", { class: "reason" }, own.message.split("\n")[0]))),
    wide(headline(row)),
    Object.entries(shared(row, "sources") || {}).map(([file, lines]) => wide(source(file, lines, { advice: list("advice"), waits: list("waits"), findings: list("findings"), reason: row.reason || "", limiter: row.limiter }))),
    shared(row, "advice") && wide(advice(shared(row, "advice"))),
    shared(row, "expectations") && expectations(shared(row, "expectations")),
    changed && section(`What differs from the baseline${found.name === "default" ? "" : ` ${found.name}`} (${found.status})`, found.differences && found.differences.length ? differences(found.differences) : el("p", {}, found.moved || "")),
    bounds(row), roofline(row),
    shared(row, "stalls") && stalls(shared(row, "stalls")),
    Object.entries(shared(row, "volumes")).filter(([, [, parts]]) => Object.keys(parts).length).map(([name, v]) => volume(row, name, v)),
    shared(row, "timeline") && wide(timeline(shared(row, "timeline"))),
    wide(section("Facts", facts(row))),
    own.baselines && wide(section("Other baselines", el("ul", {}, own.baselines.map((b) =>
      el("li", {}, el("b", { class: baselineLook(b) }, b.status), ` ${b.name}${b.moved ? `: ${b.moved}` : ""}`))))),
    shared(row, "assumptions") && wide(section("Assumptions", assumptions(shared(row, "assumptions")))),
    own.message && wide(section("Message", message(own.message))));
}

/* Its first line; what follows is folded away: the page shows the same as tables. */
function message(text) {
  const [first, ...rest] = text.split("\n");
  return [el("p", { class: "said" }, first), rest.length ? el("details", {}, el("summary", {}, "the whole message"), scrolls(el("pre", {}, text))) : null];
}

function facts(row) {
  const r = row.resources, own = test(row), [worst] = shared(row, "confidence_reasons") || [];
  const known = [
    ["test", own.nodeid], ["place", `${own.file}:${own.line || ""}`],
    ["confidence", [confidenceText(row), worst && `${percent(worst.share)} rests on: ${worst.text}${worst.span ? `, ${worst.span[0]}:${worst.span[1]}` : ""}`].filter(Boolean).join("; ")],
    ["start-phase spread", `${percent(row.spread || 0)} of the time: between simulations whose blocks start in other cycles; no error bar`],
    ["speed of light", row.headroom && `${quantity(row.speed_of_light, "s")}, headroom ${row.headroom.toPrecision(3)}`],
    ["roofline", row.roofline_time && `${quantity(row.roofline_time, "s")} (${row.roofline_limiter})`],
    ["shared memory", r.shared_bytes && `${quantity(r.shared_bytes, "B")} per block`],
    ["spilled", r.spill_bytes && `${quantity(r.spill_bytes, "B")} per thread`],
    ["warp instructions", r.instructions && quantity(r.instructions, "")],
  ];
  return el("dl", { class: "facts" }, known.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function expectations(found) {
  const rows = found.map((e) => [el("span", { class: e.verdict.split(",")[0] }, e.verdict), e.metric, e.expected, e.predicted,
    e.difference === undefined ? "" : percent(e.difference),
    e.slack === undefined ? "" : `${percent(e.slack)} (${e.known_error})`]);
  return section("Expectations", table(["verdict", "metric", "expected", "predicted", "difference", "margin"], rows, [3, 4]));
}

// --- rankings -----------------------------------------------------------------------------------

function ranking(found) {
  const { nodeid } = data.tests[found.test];
  const [best] = found.candidates;
  const node = el("details", {}, el("summary", {}, `${found.label} in ${nodeid}: best of ${found.candidates.length} is ${best.candidate}, ${quantity(best.time, "s")}`));
  node.addEventListener("toggle", () => node.open && node.children.length === 1 && node.append(el("div", { class: "panels" }, shapes(found), curve(found), places(found))));
  return node;
}

const list = listing({
  node: byId("predictions"), columns: COLUMNS, rows: data.rows, details,
  title: (row) => test(row).nodeid,
  opens: (row) => row === failures[0],
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
    check(all > 0 && bars() > 0 && bars() < all, `timeline of ${row.label}`);
    from.value = 0;
    from.dispatchEvent(new Event("input"));
  }
  for (const node of byId("rankings").querySelectorAll("details")) {
    node.open = true;
    node.dispatchEvent(new Event("toggle"));
    check(node.querySelector("polyline"), "ranking curve");
  }
});
