// Latency over time. The case's cells are fine; what is drawn has at most a column for every
// `COLUMN_PIXELS`, so a zoom shows finer bins. Every drawn column also shows its slowest operation as a point of its own: one
// outlier in a million is as visible as the million.

const COLUMN_PIXELS = 4.5;

const heatmap = (plot, controls, heat) => {
  const view = { xaxis: null, yaxis: null };
  const chosen = { layer: heat.series[0].layer, op: "*", device: "*" };
  const of = (key, value) => value === "*" || value === key;
  const shown = () => heat.series.filter((s) => s.layer === chosen.layer && of(s.op, chosen.op) && of(s.device, chosen.device));
  const edge = (bin) => 2 ** (bin / heat.bins_per_octave);
  const seconds = (bin) => (bin * heat.bin_ns) / 1e9;

  // Nothing is drawn before the first operation of any layer: a workload may prepare for long.
  const begin = Math.min(...heat.series.map((s) => s.runs[0][0]));
  const everything = [seconds(begin > heat.bins / 50 ? begin - heat.bins / 100 : 0), seconds(heat.bins)];

  const window_ = () => {
    const [from, to] = view.xaxis || everything;
    const first = Math.max(0, Math.min(heat.bins - 1, Math.floor((from * 1e9) / heat.bin_ns)));
    const last = Math.max(first, Math.min(heat.bins, Math.ceil((to * 1e9) / heat.bin_ns)) - 1);
    const most = Math.max(40, Math.floor(plot.clientWidth / COLUMN_PIXELS));
    const per = Math.ceil((last - first + 1) / most);
    return { first, last, per, columns: Math.ceil((last - first + 1) / per) };
  };

  const latencyRange = (series) => {
    let low = Infinity, high = -Infinity;
    for (const { runs } of series) {
      for (const run of runs) { low = Math.min(low, run[1]); high = Math.max(high, run[1] + run.length - 3); }
    }
    return { low, high };
  };

  const grid = (series, w, { low, high }) => {
    const z = Array.from({ length: high - low + 1 }, () => new Array(w.columns).fill(0));
    const totals = new Array(w.columns).fill(0);
    const worst = new Array(w.columns).fill(0);
    const column = (t) => Math.floor((t - w.first) / w.per);
    for (const s of series) {
      for (const [t, row, ...counts] of s.runs) {
        if (t < w.first || t > w.last) continue;
        counts.forEach((n, i) => { z[row + i - low][column(t)] += n; totals[column(t)] += n; });
      }
      for (let i = 0; i < s.worst.length; i += 2) {
        if (s.worst[i] < w.first || s.worst[i] > w.last) continue;
        worst[column(s.worst[i])] = Math.max(worst[column(s.worst[i])], s.worst[i + 1]);
      }
    }
    return { z, totals, worst };
  };

  const when = (w, column) => {
    const from = (w.first + column * w.per) * heat.bin_ns, step = w.per * heat.bin_ns;
    return `${moment(from, step)} to ${moment(from + step, step)}`;
  };

  const cells = (w, { low }, { z }) => {
    const most = Math.max(1, ...z.map((row) => Math.max(...row)));
    const top = Math.max(1, Math.log10(most));
    const ticks = Array.from({ length: Math.floor(top) + 1 }, (_, k) => k);
    return {
      type: "heatmap", hoverongaps: false, hoverinfo: "text", zmin: 0, zmax: top,
      x: Array.from({ length: w.columns + 1 }, (_, c) => seconds(Math.min(w.first + c * w.per, heat.bins))),
      y: Array.from({ length: z.length + 1 }, (_, r) => edge(low + r)),
      z: z.map((row) => row.map((n) => (n ? Math.log10(n) : null))),
      text: z.map((row, r) => row.map((n, c) => (n
        ? `<b>${count(n)}</b> ${n === 1 ? "operation" : "operations"}<br>${duration(edge(low + r))} to ${duration(edge(low + r + 1))}<br>${when(w, c)}`
        : ""))),
      colorscale: [0, 1, 2, 3, 4].map((k) => [k / 4, color(`heat-${k}`)]),
      colorbar: {
        orientation: "h", x: 1, xanchor: "right", y: 1.01, yanchor: "bottom", thickness: 8, lenmode: "pixels", len: 190,
        outlinewidth: 0, tickvals: ticks, ticktext: ticks.map((k) => count(10 ** k)), ticks: "", ypad: 0, xpad: 0,
        tickfont: { size: 11, color: color("muted") },
        title: { text: "operations per cell", side: "top", font: { size: 11, color: color("muted") } },
      },
    };
  };

  const slowest = (w, { worst, totals }) => {
    const points = worst.map((ns, c) => [seconds(w.first + (c + 0.5) * w.per), ns, c]).filter(([, , c]) => totals[c] > 0);
    return {
      type: "scatter", mode: "markers", hoverinfo: "text", marker: { size: 4, color: color("mark"), line: { width: 0 } },
      x: points.map(([x]) => x), y: points.map(([, ns]) => Math.max(ns, 1)), customdata: points.map(([, ns, c]) => [c, ns]),
      text: points.map(([, ns, c]) => `<b>${duration(ns)}</b>: the slowest of ${count(totals[c])}<br>${when(w, c)}`),
    };
  };

  // A mark of no layer belongs to every layer.
  const strip = (row) => {
    const marks = row.marks.filter(([, , , layer]) => layer === "" || layer === chosen.layer);
    return {
      type: "bar", orientation: "h", yaxis: "y2", hoverinfo: "text", textposition: "none", width: 0.56,
      base: marks.map(([start]) => start / 1e9), x: marks.map(([, length]) => length / 1e9),
      y: marks.map(() => row.name), hovertext: marks.map(([, , text]) => plain(text)), customdata: marks,
      marker: { color: color(row.color), line: { color: color(row.color), width: 1 } },
    };
  };

  // As dark as the part of a column's time in which a slow operation was in flight; never so faint that one is not seen.
  const slowStrip = (w) => {
    const of = Array.from({ length: w.columns }, () => ({ covered: 0, n: 0, worst: 0 }));
    for (const [t, covered, n, worst] of heat.slow[chosen.layer] || []) {
      if (t < w.first || t > w.last) continue;
      const one = of[Math.floor((t - w.first) / w.per)];
      one.covered += covered; one.n = Math.max(one.n, n); one.worst = Math.max(one.worst, worst);
    }
    const step = w.per * heat.bin_ns;
    const marks = of.map((one, c) => ({ ...one, c, part: Math.min(1, one.covered / step) })).filter((one) => one.covered > 0);
    return {
      type: "bar", orientation: "h", yaxis: "y2", hoverinfo: "text", textposition: "none", width: 0.7,
      base: marks.map(({ c }) => seconds(w.first + c * w.per)), x: marks.map(() => step / 1e9), y: marks.map(() => "slow"),
      hovertext: marks.map(({ c, n, worst, part }) => `a slow operation was in flight for <b>${significant(100 * part)} %</b> of the time`
        + `<br>${when(w, c)}<br>at most ${count(n)} that overlap, the worst ${duration(worst)}`),
      customdata: marks.map(({ c, worst }) => [(w.first + c * w.per) * heat.bin_ns - worst, step + worst]),
      marker: { color: color("mark"), opacity: marks.map(({ part }) => 0.12 + 0.88 * part), line: { width: 0 } },
    };
  };

  const strips = [...(Object.keys(heat.slow).length ? ["slow"] : []), ...heat.strips.map((row) => row.name)];

  const phases = () => heat.phases.flatMap(([name, start, end]) => [{
    type: "rect", xref: "x", yref: "y domain", x0: start / 1e9, x1: end / 1e9, y0: 0, y1: 1, layer: "below",
    fillcolor: color("track"), line: { width: 0 }, label: { text: plain(name), textposition: "top left", font: { size: 11, color: color("faint") } },
  }]);

  const shape = (range) => {
    const low = Math.log10(edge(range.low)), high = Math.log10(edge(range.high + 1));
    const y = [...(view.yaxis || [low - 0.06, high + 0.12])]; // a copy: Plotly writes into it
    const height = 400 + strips.length * 24;
    const floor = (strips.length * 24) / (height - 94);
    return layout({
      height, margin: { l: strips.length ? 96 : 62, r: 14, t: 40, b: 54 }, barmode: "overlay", shapes: phases(),
      annotations: [{
        text: "time since the start of the recording", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0, yanchor: "top", yshift: -26,
        font: { size: 12, color: color("muted") },
      }],
      xaxis: axis({
        range: [...(view.xaxis || everything)], ticksuffix: " s",
        anchor: strips.length ? "y2" : "y", nticks: plot.clientWidth < 600 ? 5 : 10, showgrid: false,
      }),
      yaxis: axis({
        type: "log", range: y, domain: [floor + (strips.length ? 0.03 : 0), 1], ...timeTicks(10 ** y[0], 10 ** y[1]),
      }),
      yaxis2: axis({
        domain: [0, Math.max(floor, 0.01)], fixedrange: true, showgrid: false, ticks: "", visible: strips.length > 0,
        type: "category", categoryorder: "array", categoryarray: [...strips].reverse(),
        range: [-0.5, strips.length - 0.5],
      }),
    });
  };

  // What a click means: a cell, the slowest operation of a column, or a mark below.
  const behind = ({ data, pointNumber, pointIndex, customdata }) => {
    const device = chosen.device === "*" || chosen.device === heat.other ? {} : { device: chosen.device || null };
    const base = { layer: chosen.layer, ...(chosen.op === "*" ? {} : { op: chosen.op }), ...device };
    const w = window_();
    const span = (c) => {
      const from = (w.first + c * w.per) * heat.bin_ns, last = w.first + (c + 1) * w.per >= heat.bins;
      return [from, last ? null : from + w.per * heat.bin_ns];
    };
    if (data.type === "heatmap") {
      const [r, c] = pointNumber || pointIndex, row = latencyRange(shown()).low + r;
      if (!data.z[r][c] && data.z[r][c] !== 0) return null;
      const n = Math.round(10 ** data.z[r][c]);
      const latency_ns = [row <= 0 ? 0 : edge(row), edge(row + 1)];
      return { ...base, start_ns: span(c), latency_ns, n, title: "operations in this cell", like: { ...base, latency_ns: [edge(row - 1), edge(row + 2)] } };
    }
    if (data.type === "scatter") return { ...base, start_ns: span(customdata[0]), latency_ns: [customdata[1], null], title: "the slowest of this moment" };
    const [start, length] = customdata;
    return { layer: chosen.layer, start_ns: [start, start + length + 1], title: "operations that began in this mark" };
  };

  const redraw = () => {
    const series = shown(), w = window_(), range = latencyRange(series);
    if (!series.length) return draw(plot, [], layout({ height: 160, annotations: [{ text: "no such operations", showarrow: false }], xaxis: { visible: false }, yaxis: { visible: false } }));
    const content = grid(series, w, range);
    return draw(plot, [cells(w, range, content), slowest(w, content), slowStrip(w), ...heat.strips.map(strip)], shape(range));
  };

  const offer = () => {
    const rows = heat.series.filter((s) => s.layer === chosen.layer);
    const pick = (key) => (value) => { chosen[key] = value; redraw(); };
    controls.replaceChildren(
      choice("layer", named(distinct(heat.series, "layer")), chosen.layer, (value) => {
        Object.assign(chosen, { layer: value, op: "*", device: "*" }); view.yaxis = null; offer(); redraw();
      }),
      choice("operation", withAll(distinct(rows, "op")), chosen.op, pick("op")),
      choice("device", withAll(distinct(rows, "device")), chosen.device, pick("device")),
      hint(),
    );
  };

  const withAll = (names) => (names.length > 1 ? [["*", "all"], ...named(names)] : named(names));

  offer();
  redraw();
  onZoom(plot, view, redraw);
  onPick(plot, behind);
  return redraw;
};
