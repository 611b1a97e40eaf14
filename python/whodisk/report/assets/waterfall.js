// One slow operation: its stages, its requests at the times they really happened, and around it what
// the same submitter had in flight, or its silence.

const waterfall = (plot, table, falls) => {
  const view = { xaxis: null };
  let chosen = 0;

  const scale = (ns) => (ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "us"] : ns < 2e9 ? [1e6, "ms"] : [1e9, "s"]);

  // Vertical places: a line takes 1, a lane of neighbours 0.5, and neighbours stand a little apart.
  const places = (fall) => {
    let next = 0, lanes = false;
    return fall.rows.map((row) => {
      if (row.lane && !lanes) { lanes = true; next += 0.25; }
      const height = row.lane ? 0.5 : 1;
      next += height;
      return { ...row, y: next - height / 2, height };
    });
  };

  // In the kernel it has the colour of its kind; the time before its submit and after its completion
  // has the colours of those stages, so that silence below shows as silence.
  const neighbour = (y) => ([start, before, inside, after, op, what, id]) => {
    const text = `${what}: ${duration(before + inside + after)}\nbegins at ${duration(start)}`;
    const part = (from, length, name, more) => ({ y, width: 0.36, start_ns: from, length_ns: length, color: name, text: text + more, id });
    return [
      part(start, before, "stage-app", `\nnot yet submitted: ${duration(before)}`),
      part(start + before, inside, `op-${op}`, `\nin the kernel or below: ${duration(inside)}`),
      part(start + before + inside, after, "stage-reap", `\ncomplete, not yet taken: ${duration(after)}`),
    ].filter((bar) => bar.length_ns > 0);
  };

  const bars = (rows, unit) => {
    const all = rows.flatMap((row) => (row.lane ? row.lane.flatMap(neighbour(row.y))
      : row.bars.map((bar) => ({ ...bar, y: row.y, width: 0.74, id: row.op_id }))));
    const shade = all.map((bar) => color(bar.color));
    return {
      type: "bar", orientation: "h", hoverinfo: "text", textposition: "none", width: all.map((b) => b.width),
      base: all.map((b) => b.start_ns / unit), x: all.map((b) => b.length_ns / unit), y: all.map((b) => b.y),
      hovertext: all.map((b) => plain(b.text).replace(/\n/g, "<br>")),
      customdata: all.map((b) => (b.id ? [[b.id]] : null)), meta: { fields: ["op_id"], fixed: { title: "this operation" } },
      marker: {
        color: shade, line: { color: shade, width: 0.5 },
        opacity: all.map((b) => (b.color.startsWith("op-") ? 0.6 : 1)),
        pattern: { shape: all.map((b) => (b.hatch ? "/" : "")), fgcolor: color("card"), size: 6, solidity: 0.3 },
      },
    };
  };

  const narrow = () => plot.clientWidth < 600;
  const clip = (text) => {
    const room = narrow() ? 17 : 34;
    return text.length > room ? text.slice(0, room - 1) + "\u2026" : text;
  };

  const edges = (fall, unit) => [0, fall.latency_ns].map((ns) => ({
    type: "line", xref: "x", yref: "paper", x0: ns / unit, x1: ns / unit, y0: 0, y1: 1, layer: "below",
    line: { color: color("faint"), width: 1, dash: "dot" },
  }));

  const silences = (fall, unit) => fall.rows.flatMap((row) => (row.bars || []).filter((bar) => bar.hatch).map((bar) => ({
    type: "rect", xref: "x", yref: "paper", x0: bar.start_ns / unit, x1: (bar.start_ns + bar.length_ns) / unit,
    y0: 0, y1: 1, layer: "below", fillcolor: color("gap"), opacity: 0.1, line: { width: 0 },
  })));

  const shape = (fall, rows, unit, name) => {
    const last = rows[rows.length - 1];
    const depth = last ? last.y + last.height / 2 : 1;
    return layout({
      height: 66 + depth * 25, barmode: "overlay", bargap: 0, margin: { l: narrow() ? 118 : 210, r: 22, t: 10, b: 50 },
      xaxis: axis({
        range: view.xaxis || [fall.from_ns / unit, fall.to_ns / unit], ticksuffix: ` ${name}`, nticks: narrow() ? 4 : 9,
        title: axisTitle("time since its start"),
      }),
      yaxis: axis({
        range: [depth + 0.1, -0.1], fixedrange: true, showgrid: false, ticks: "",
        tickvals: rows.map((row) => row.y), ticktext: rows.map((row) => plain(clip(row.label))),
      }),
      shapes: [...silences(fall, unit), ...edges(fall, unit)],
    });
  };

  const redraw = () => {
    const fall = falls[chosen], rows = places(fall);
    const [unit, name] = scale(fall.to_ns - fall.from_ns);
    draw(plot, [bars(rows, unit)], shape(fall, rows, unit, name));
  };

  const lines = [...table.querySelectorAll("tr[data-waterfall]")];
  const select = (index) => {
    chosen = index;
    view.xaxis = null;
    lines.forEach((line, i) => line.setAttribute("aria-selected", String(i === index)));
    redraw();
  };
  lines.forEach((line, i) => line.addEventListener("click", () => select(i)));
  select(0);
  onZoom(plot, view, redraw);
  onPick(plot, behindPoint);
  return redraw;
};
