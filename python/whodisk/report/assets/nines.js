// Distribution by nines: how many operations were slower than a latency, both axes logarithmic, so
// the worst one of a million has as much room as the median.

const DASHES = ["solid", "dash", "dot", "dashdot"];

const nines = (plot, controls, rows) => {
  const view = { xaxis: null, yaxis: null };
  const chosen = { layer: rows[0].layer, op: "*" };

  const shown = () => rows.filter((row) => row.layer === chosen.layer
    && (chosen.op === "*" ? row.device === null : row.op === chosen.op && row.device !== null));

  const shade = (row, index) => (chosen.op === "*" ? color(`op-${row.op}`)
    : color(["stage-device", "stage-queue", "stage-fs", "stage-app", "stage-interrupt", "stage-runqueue", "stage-reap", "stage-throttle"][index % 8]));

  const trace = (row, index) => ({
    type: "scatter", mode: "lines+markers", hoverinfo: "text", name: plain(label(row)),
    x: row.latency_ns.map((ns) => Math.max(ns, 1)), y: row.above.map((n) => Math.max(n, 1) / row.ops),
    customdata: row.latency_ns.map((ns, i) => [[i === row.above.length - 1 ? ns : ns + 1, null], Math.max(row.above[i], 1)]),
    meta: behindOf(row),
    line: { color: shade(row, index), width: 2, shape: "hv", dash: DASHES[Math.floor(index / 8) % 4] },
    marker: { size: row.above.map((_, i) => (i === row.above.length - 1 ? 7 : 0.1)), color: shade(row, index), line: { width: 0 } },
    text: row.latency_ns.map((ns, i) => point(row, ns, row.above[i], i === row.above.length - 1)),
  });

  // The devices that are drawn as one are no value of a column.
  const behindOf = (row) => ({
    fields: ["latency_ns", "n"],
    fixed: {
      layer: row.layer, op: row.op, ...(row.device === null || row.others ? {} : { device: row.device || null }), title: "operations slower than this",
    },
  });

  const label = (row) => (chosen.op === "*" ? row.op : row.device === "" ? "(no device)" : row.device);

  const point = (row, ns, above, last) => (last
    ? `<b>${duration(ns)}</b>: the slowest of ${count(row.ops)}<br>${plain(label(row))}`
    : `<b>${percent(above / row.ops, 1)}</b> within <b>${duration(ns)}</b><br>${count(above)} of ${count(row.ops)} slower<br>${plain(label(row))}`);

  const shape = (series) => {
    const low = Math.max(1, Math.min(...series.map((row) => row.latency_ns[0])));
    const high = Math.max(low, ...series.map((row) => row.latency_ns[row.latency_ns.length - 1]));
    const most = Math.max(...series.map((row) => row.ops));
    const depth = Math.max(1, Math.ceil(Math.log10(most)));
    const x = view.xaxis || [Math.log10(low) - 0.08, Math.log10(high) + 0.12];
    const levels = [1, 0.5, ...Array.from({ length: depth }, (_, k) => 10 ** -(k + 1))];
    return layout({
      height: 380, margin: { l: 78, r: 18, t: series.length > 1 ? 34 : 14, b: 46 }, showlegend: series.length > 1,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
      xaxis: axis({ type: "log", range: x, ...timeTicks(10 ** x[0], 10 ** x[1]), title: axisTitle("latency") }),
      yaxis: axis({
        type: "log", range: view.yaxis || [0.06, -depth - 0.1], tickvals: levels, ticktext: levels.map((level) => percent(level)),
        title: axisTitle("operations at most this slow"),
      }),
    });
  };

  const redraw = () => { const series = shown(); draw(plot, series.map(trace), shape(series)); };

  const offer = () => {
    const ops = distinct(rows.filter((row) => row.layer === chosen.layer), "op");
    const devices = rows.some((row) => row.layer === chosen.layer && row.device !== null);
    controls.replaceChildren(
      choice("layer", named(distinct(rows, "layer")), chosen.layer, (value) => {
        Object.assign(chosen, { layer: value, op: "*" }); view.xaxis = view.yaxis = null; offer(); redraw();
      }),
      devices ? choice("lines", [["*", "by operation"], ...ops.map((op) => [op, `${op} by device`])], chosen.op, (value) => {
        chosen.op = value; view.xaxis = view.yaxis = null; redraw();
      }) : "",
      hint(),
    );
  };

  offer();
  redraw();
  onZoom(plot, view, redraw);
  onPick(plot, behindPoint);
  return redraw;
};
