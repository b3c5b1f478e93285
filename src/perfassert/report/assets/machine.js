/* Machine code beside its source. A line shows its instructions and an instruction its line, and for which
   instruction it waits, under the pointer and on keyboard focus. */

const COLORS = 6;

function machine(code, files) {
  if (!code.length) return null;
  const key = (i) => (i.line ? `${i.file}:${i.line}` : "");
  const sums = new Map();
  for (const i of code) if (i.line) sums.set(key(i), (sums.get(key(i)) || 0) + i.share);
  const order = [...sums.keys()], color = (name) => (sums.has(name) ? `var(--c${order.indexOf(name) % COLORS})` : "transparent");
  const heat = (share) => `background:color-mix(in srgb, var(--c1) ${Math.round(60 * share)}%, transparent)`;
  const shareCell = (share) => el("td", { class: "number", style: share ? heat(share) : null }, share ? percent(share) : "");
  const strip = (name) => el("td", { class: "strip", style: `background:${color(name)}` });
  const shown = [...new Set(code.filter((i) => i.line && files[i.file]).map((i) => i.file))];
  const left = shown.flatMap((file) => [
    shown.length > 1 ? el("tr", {}, el("th", { colspan: 4 }, file)) : null,
    ...Object.entries(files[file]).map(([line, text]) => el("tr", sums.has(`${file}:${line}`) ? { "data-key": `${file}:${line}` } : {},
      strip(`${file}:${line}`), el("td", { class: "number faint" }, line), shareCell(sums.get(`${file}:${line}`) || 0), el("td", {}, text))),
  ]);
  const right = code.map((i) => el("tr", { "data-key": key(i), "data-number": i.number },
    strip(key(i)), el("td", { class: "number faint" }, String(i.number)), shareCell(i.share), el("td", { class: "number faint" }, String(i.stall)), el("td", {}, i.text)));
  const status = el("p", { class: "faint", "aria-live": "polite" }, "Point at a line or an instruction, or move through them with the arrow keys.");
  const pane = (title, header, rows) => scrolls(el("div", { class: "listing" }, el("table", { class: "source", "aria-label": title },
    el("thead", {}, el("tr", {}, header.map((h) => el(h ? "th" : "td", {}, h)))), el("tbody", {}, rows))));
  const panes = [pane("source", ["", "line", "stalls", ""], left), pane("machine code", ["", "", "stalls", "cycles", ""], right)];
  panes.forEach((one) => marking(one, panes, new Map(code.map((i) => [String(i.number), i])), status));
  return section("Source and machine code: share of the samples that stall, cycles that the compiler makes wait", el("div", { class: "beside" }, panes), status);
}

function marking(pane, panes, byNumber, status) {
  const rows = [...pane.querySelectorAll("tr[data-key]")];
  const mark = (row, follow) => {
    const all = panes.flatMap((one) => [...one.querySelectorAll("tr[data-key]")]);
    const own = byNumber.get(row.dataset.number), waits = own ? own.waits : [];
    const blamed = new Set(waits.map(([number]) => String(number)));
    for (const one of all) {
      one.classList.toggle("same", row.dataset.key !== "" && one.dataset.key === row.dataset.key);
      one.classList.toggle("culprit", blamed.has(one.dataset.number));
    }
    status.textContent = own ? explained(own, byNumber) : `${row.dataset.key}: ${all.filter((one) => one.dataset.number && one.classList.contains("same")).length} instructions`;
    const other = panes.find((one) => one !== pane), partner = other.querySelector("tr.culprit, tr.same");
    if (follow && partner) other.scrollTop = partner.offsetTop - other.clientHeight / 2;
  };
  rows.forEach((row, i) => row.setAttribute("tabindex", i ? "-1" : "0"));
  pane.addEventListener("mouseover", (event) => { const row = event.target.closest("tr[data-key]"); if (row) mark(row, false); });
  pane.addEventListener("focusin", (event) => { const row = event.target.closest("tr[data-key]"); if (row) mark(row, true); });
  pane.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -rows.length, End: rows.length }[event.key];
    const at = rows.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const to = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
    rows[at].setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  });
}

function explained(own, byNumber) {
  const waits = own.waits.map(([number, reason, share]) => {
    const { text, file, line } = byNumber.get(String(number)) || { text: "" };
    return `waits for ${number}, ${text}${line ? ` (${file}:${line})` : ""}: ${reason.replaceAll("_", " ")}, ${percent(share)} of the samples`;
  });
  return `${own.number}, ${own.text}${own.line ? ` (${own.file}:${own.line})` : ""}: ${waits.length ? waits.join("; ") : own.share ? `stalls in ${percent(own.share)} of the samples, for no other instruction` : "does not wait"}`;
}
