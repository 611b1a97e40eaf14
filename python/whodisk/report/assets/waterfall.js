// One slow operation: its stages, its requests at the times they really happened, and around it what
// the same submitter had in flight, or its silence.

const waterfall = (plot, table, falls) => {
  const view = { xaxis: null };
  let chosen = 0;

  const scale = (ns) => (ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "\u00b5s"] : ns < 2e9 ? [1e6, "ms"] : [1e9, "s"]);

  const bars = (fall, unit) => {
    const all = fall.rows.flatMap((row, y) => row.bars.map((bar) => ({ ...bar, y })));
    const shade = (bar) => color(bar.color);
    return {
      type: "bar", orientation: "h", hoverinfo: "text", textposition: "none", width: all.map((b) => (b.thin ? 0.4 : 0.74)),
      base: all.map((b) => b.start_ns / unit), x: all.map((b) => b.length_ns / unit), y: all.map((b) => b.y),
      hovertext: all.map((b) => plain(b.text).replace(/\n/g, "<br>")),
      marker: {
        color: all.map(shade), line: { color: all.map(shade), width: all.map((b) => (b.length_ns ? 0.5 : 1.5)) },
        opacity: all.map((b) => (b.thin ? 0.55 : 1)),
        pattern: { shape: all.map((b) => (b.hatch ? "/" : "")), fgcolor: color("card"), size: 6, solidity: 0.3 },
      },
    };
  };

  const narrow = () => plot.clientWidth < 600;
  const clip = (text) => (narrow() && text.length > 16 ? text.slice(0, 15) + "\u2026" : text);

  const shape = (fall, unit, name) => layout({
    height: 74 + fall.rows.length * 23, barmode: "overlay", bargap: 0,
    margin: { l: narrow() ? 112 : 210, r: 16, t: 8, b: 44 },
    xaxis: axis({
      range: view.xaxis || [fall.from_ns / unit, fall.to_ns / unit], ticksuffix: ` ${name}`, nticks: narrow() ? 4 : 9,
      title: axisTitle("time since the start of the operation"),
    }),
    yaxis: axis({
      range: [fall.rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, ticks: "",
      tickvals: fall.rows.map((_, y) => y), ticktext: fall.rows.map((row) => plain(clip(row.label))),
    }),
    shapes: [0, fall.latency_ns].map((ns) => ({
      type: "line", xref: "x", yref: "paper", x0: ns / unit, x1: ns / unit, y0: 0, y1: 1, layer: "below",
      line: { color: color("faint"), width: 1, dash: "dot" },
    })),
  });

  const redraw = () => {
    const fall = falls[chosen];
    const [unit, name] = scale(fall.to_ns - fall.from_ns);
    draw(plot, [bars(fall, unit)], shape(fall, unit, name));
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
  return redraw;
};
