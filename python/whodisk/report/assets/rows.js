// The operations behind a picture. A picture says which ones it means (`behind`: column -> value, [from, to) or
// a list of ids); shown are the slowest of those that the report carries, and the query that lists all of them.

const ROWS_SHOWN = 12;
const STAGES = ["app", "fs", "throttle", "queue", "device", "interrupt", "reap", "runqueue", "unknown"];

const keptRows = (() => {
  let rows = null;
  return () => {
    if (rows) return rows;
    const { op_id: ids, numbers, texts } = report.operations;
    rows = ids.map((id, i) => {
      const row = { op_id: id };
      for (const [name, values] of Object.entries(numbers)) row[name] = values[i];
      for (const [name, { names, at }] of Object.entries(texts)) row[name] = at[i] < 0 ? null : names[at[i]];
      return row;
    });
    return rows;
  };
})();

// What is not a column: how many there are, what to call them, what to sort by, a latency that the shown ones should be near, and
// what else to show where none of them is carried.
const NOTES = ["n", "title", "order", "near_ns", "like"];
const conditions = (behind) => Object.entries(behind).filter(([name]) => !NOTES.includes(name));

const matches = (row, behind) => conditions(behind).every(([name, wanted]) => {
  if (name === "op_id") return wanted.includes(row.op_id);
  if (Array.isArray(wanted)) return row[name] !== null && row[name] >= wanted[0] && (wanted[1] === null || row[name] < wanted[1]);
  return row[name] === wanted;
});

const sqlValue = (value) => (typeof value === "string" ? `'${value.replace(/'/g, "''")}'` : String(value));

const sqlFor = (behind) => {
  const tests = conditions(behind).filter(([name]) => name !== "layer").map(([name, wanted]) => {
    if (name === "op_id") return `op_id IN (${wanted.join(", ")})`;
    if (!Array.isArray(wanted)) return wanted === null ? `${name} IS NULL` : `${name} = ${sqlValue(wanted)}`;
    return `${name} >= ${Math.ceil(wanted[0])}` + (wanted[1] === null ? "" : ` AND ${name} < ${Math.ceil(wanted[1])}`);
  });
  const layer = behind.layer === undefined ? "*" : `layer=${behind.layer}`;
  return `SELECT * FROM read_parquet('ops/${layer}/*.parquet', hive_partitioning = true)`
    + (tests.length ? `\nWHERE ${tests.join("\n  AND ")}` : "") + `\nORDER BY ${behind.order || "latency_ns"} DESC LIMIT 1000;`;
};

const sizeText = (bytes) => {
  for (const [power, unit] of ["B", "KiB", "MiB", "GiB"].entries()) {
    if (bytes < 1024 ** (power + 1) || unit === "GiB") return `${significant(bytes / 1024 ** power)} ${unit}`;
  }
  return "";
};

const stageNames = (row) => report.operations.stages[row.layer] || STAGES;

const stageBar = (row) => {
  const bar = element("div", { class: "stack" });
  const names = stageNames(row);
  STAGES.forEach((stage, i) => {
    const ns = row[`${stage}_ns`];
    if (!ns) return;
    bar.append(element("i", {
      class: stage, style: `width:${((100 * ns) / Math.max(1, row.latency_ns)).toFixed(2)}%`, title: `${names[i]}: ${duration(ns)}`,
    }));
  });
  return bar;
};

const stageText = (row) => {
  const names = stageNames(row);
  const parts = STAGES.map((stage, i) => [names[i], row[`${stage}_ns`]]).filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]);
  return parts.length ? parts.slice(0, 3).map(([name, ns]) => `${name} ${duration(ns)}`).join(", ") : "stages not observed";
};

const COLUMNS = [
  ["latency", (row) => (row.open ? "\u2265 " : "") + duration(row.latency_ns), "num"],
  ["stages", (row) => [stageBar(row), element("small", {}, stageText(row))], "parts"],
  ["what", (row) => (row.op || "") + (row.size_bytes ? ` ${sizeText(row.size_bytes)}` : "") + (row.error ? `, errno ${row.error}` : "")],
  ["layer", (row) => row.layer],
  ["began at", (row) => (row.start_ns / 1e9).toFixed(6) + " s", "num"],
  ["place", (row) => [row.device || row.file || "", row.offset_bytes === null ? "" : ` at byte ${count(row.offset_bytes)}`].join("")],
  ["thread", (row) => [row.comm || "", row.tid === null ? "" : ` (${row.tid})`].join("")],
  ["in flight", (row) => (row.queue_depth === null ? "" : String(row.queue_depth)), "num"],
  ["operation", (row) => row.op_id, "num mono"],
];

const rowsTable = (rows) => {
  const head = COLUMNS.map(([name, , style]) => element("th", style ? { class: style } : {}, name));
  const body = rows.map((row) => element("tr", {}, ...COLUMNS.map(([, cell, style]) => {
    const content = cell(row);
    return element("td", style ? { class: style } : {}, ...(Array.isArray(content) ? content : [content === null ? "" : content]));
  })));
  return element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
};

const rowsNote = (shown, found, behind, alike) => {
  const all = behind.n === undefined ? null : behind.n;
  if (alike) return `The report carries none of these ${count(all)}. Here are ${count(shown)} that took about as long, at the nearest moments:`;
  if (!found) return `None of ${all === null ? "them" : count(all)} is among the operations that this report carries; the query below lists them.`;
  if (all !== null && all <= shown) return "All of them.";
  const which = behind.near_ns === undefined ? "the slowest" : "those nearest to the median";
  return `${count(shown)}${all === null ? "" : ` of ${count(all)}`}: ${which} of those that this report carries.`;
};

const orderOf = ({ order = "latency_ns", near_ns: near }) => (near === undefined
  ? (a, b) => (b[order] || 0) - (a[order] || 0)
  : (a, b) => Math.abs(Math.log(Math.max(1, a.latency_ns) / near)) - Math.abs(Math.log(Math.max(1, b.latency_ns) / near)));

// Of the carried rows that took about as long, those that began nearest to the moment that was asked for; in order of time.
const nearest = ({ like, start_ns: [from, to] }) => {
  const middle = to === null ? from : (from + to) / 2;
  return keptRows().filter((row) => matches(row, like)).sort((a, b) => Math.abs(a.start_ns - middle) - Math.abs(b.start_ns - middle))
    .slice(0, ROWS_SHOWN).sort((a, b) => a.start_ns - b.start_ns);
};

// Shows the rows below a picture, in place of those of the click before.
const showRows = (plot, behind) => {
  const chart = plot.closest(".chart") || plot.closest(".episodes") || plot.closest(".stages .group") || plot;
  if (chart.nextElementSibling && chart.nextElementSibling.classList.contains("rows")) chart.nextElementSibling.remove();
  const found = keptRows().filter((row) => matches(row, behind)).sort(orderOf(behind));
  const alike = found.length || !behind.like ? [] : nearest(behind);
  const shown = [...found, ...alike].slice(0, ROWS_SHOWN);
  const close = element("button", { type: "button", class: "close" }, "Close");
  const title = behind.title || "operations";
  const copy = element("button", { type: "button" }, "Copy");
  const query = element("details", { class: "evidence" }, element("summary", {}, "query for all of them, in DuckDB inside the case"),
    element("div", { class: "query" }, element("pre", {}, sqlFor(behind)), copy));
  if (!shown.length) query.setAttribute("open", "");
  const panel = element("div", { class: "rows", role: "region", "aria-label": `operations: ${title}` },
    element("div", { class: "rows-head" }, element("strong", {}, title.charAt(0).toUpperCase() + title.slice(1)),
      element("span", { class: "muted" }, rowsNote(shown.length, found.length, behind, alike.length > 0)), close));
  if (shown.length) panel.append(rowsTable(shown));
  panel.append(query);
  copyButton(copy);
  close.addEventListener("click", () => panel.remove());
  chart.after(panel);
};

// A trace's `meta` holds what all its points share and the names of what each point's `customdata` gives.
const behindPoint = (point) => {
  const { meta } = point.data;
  if (!meta || !meta.fields || !point.customdata) return null;
  return { ...meta.fixed, ...Object.fromEntries(meta.fields.map((name, i) => [name, point.customdata[i]])) };
};

const onPick = (plot, behindOf) => plot.on("plotly_click", ({ points }) => {
  const behind = points.map(behindOf).find((found) => found);
  if (behind) showRows(plot, behind);
});

const startStacks = () => {
  for (const stack of document.querySelectorAll(".stack[data-behind]")) {
    const show = () => showRows(stack, JSON.parse(stack.dataset.behind));
    stack.addEventListener("click", show);
    stack.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(); }
    });
  }
};
