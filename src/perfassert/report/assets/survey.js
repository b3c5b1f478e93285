// --- kernels ------------------------------------------------------------------------------------

const cost = (row) => row.findings.reduce((sum, finding) => sum + finding.cost, 0);
const kinds = (row) => [...new Set(row.findings.map((finding) => finding.kind))];
const LONGEST = 60;
const shortened = (name) => {
  const short = name.length > LONGEST && name.includes("<") ? `${name.slice(0, name.indexOf("<"))}<…>` : name;
  return short.length > LONGEST ? `…${short.slice(1 - LONGEST)}` : short;
};

const COLUMNS = [
  { name: "kernel", value: (r) => shortened(r.name) },
  { name: "file", value: (r) => r.file },
  { name: "arch", value: (r) => r.arch },
  { name: "registers", value: (r) => r.registers, number: true },
  { name: "spills", value: (r) => r.spill_bytes, text: (r) => quantity(r.spill_bytes, "B"), number: true },
  { name: "cost", value: cost, text: (r) => (cost(r) ? cost(r).toPrecision(2) : ""), number: true },
  { name: "findings", value: (r) => kinds(r).join(", ") },
];

const FACTS = [["name", "name"], ["mangled", "mangled"], ["stack_bytes", "stack"], ["shared_bytes", "shared memory"],
  ["code_bytes", "code"], ["barriers", "barriers"], ["max_threads", "launch bounds"], ["register_limit", "limit of registers"]];
const details = (row) => [
  table(["finding", "what", "cost"], row.findings.map((f) => [f.kind, f.message, f.cost ? f.cost.toPrecision(2) : ""]), [2]),
  table(["fact", "value"], FACTS.map(([key, name]) => [name, key.endsWith("_bytes") ? quantity(row[key], "B") : `${row[key]}`]), []),
];

const list = listing({
  node: byId("kernels"), columns: COLUMNS, rows: data.kernels, details,
  title: (row) => row.name,
  words: (row) => [row.name, row.file, ...row.findings.flatMap((f) => [f.kind, f.message])],
  chosen: (row) => isChosen("arch", row.arch) && (!byId("kind").value || kinds(row).includes(byId("kind").value)),
});
choices("arch", data.kernels.map((row) => row.arch), list.draw);
choices("kind", data.kernels.flatMap(kinds), list.draw);
byId("summary").textContent = data.headline;
const broken = Object.entries(data.broken);
byId("unreadable").hidden = !broken.length;
byId("unreadable").append(el("ul", {}, broken.map(([file, why]) => el("li", {}, `${file}: ${why}`))));
const BY_COST = COLUMNS.findIndex((column) => column.name === "cost");
list.sortBy(BY_COST, true);

finish(() => {
  testListing(list, ["arch"]);
  list.sortBy(BY_COST, true);
});
