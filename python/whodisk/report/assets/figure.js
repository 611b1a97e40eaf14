// A picture of a finding, as Python describes it (`report/pictures`): traces, axes and layout for Plotly, colours as
// `var(--name)` of the style sheet. Drawn when it comes to be seen: inside a closed finding it has no width yet.

const NARROW = 600;
const VARIABLE = /^var\(--([a-z0-9-]+)\)$/;

const coloured = (value) => {
  if (typeof value === "string") {
    const found = VARIABLE.exec(value);
    return found ? color(found[1]) : value;
  }
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one)]));
  return value;
};

const clipped = (text, room) => (text.length > room ? text.slice(0, room - 1) + "\u2026" : text);

// `labels` are ticks as plain text: as long as there is room.
const figureAxis = ({ labels, title, ...given }, room, small) => axis({
  fixedrange: true,
  ...given,
  ...(small && labels && labels.length > 12 ? { tickfont: { color: color("muted"), size: 9 } } : {}),
  ...(labels ? { ticktext: labels.map((text) => plain(clipped(text, room))) } : {}),
  ...(title ? { title: axisTitle(title) } : {}),
});

// Panels of equal size, as many in a row as the page allows; axes are named xaxis, xaxis2, ...
const placedPanels = (axes, { panels, wide, narrow, panel_px: high }, small, margin) => {
  const columns = small ? narrow : wide, rows = Math.ceil(panels / columns);
  const between = { x: small ? 0.11 : 0.03, y: 58 };
  const inner = rows * high + (rows - 1) * between.y;
  const width = (1 - between.x * (columns - 1)) / columns;
  for (let i = 0; i < panels; i += 1) {
    const name = i === 0 ? "" : String(i + 1), left = (i % columns) * (width + between.x);
    const top = Math.floor(i / columns) * (high + between.y);
    axes[`xaxis${name}`] = { ...axes[`xaxis${name}`], domain: [left, Math.min(1, left + width)] };
    // All have the same axes: the first of each row tells for the others.
    axes[`yaxis${name}`] = { ...axes[`yaxis${name}`], showticklabels: i % columns === 0, domain: [Math.max(0, 1 - (top + high) / inner), 1 - top / inner] };
  }
  return inner + margin.t + margin.b;
};

const figure = (plot, described) => {
  const redraw = () => {
    const small = plot.clientWidth < NARROW;
    const { traces, axes, height, grid, narrow, ...rest } = described;
    const given = { ...rest, ...(small ? narrow : {}) };
    const placed = { ...axes };
    const high = grid ? placedPanels(placed, grid, small, given.margin) : height;
    const room = Math.max(8, Math.floor(given.margin.l / 6.9));
    const shaped = Object.fromEntries(Object.entries(placed).map(([name, one]) => [
      name, figureAxis({ ...one, ...(small && one.nticks ? { nticks: Math.min(one.nticks, 4) } : {}) }, name.startsWith("y") ? room : 26, small),
    ]));
    const shape = layout({ ...given, ...shaped, height: high, dragmode: false });
    draw(plot, coloured(traces), coloured(shape));
  };
  redraw();
  onPick(plot, behindPoint);
  return redraw;
};

const startFigures = (figures) => {
  for (const place of document.querySelectorAll("figure[data-figure]")) {
    const plot = place.querySelector(".plot"), described = figures[Number(place.dataset.figure)];
    const around = place.closest("details");
    const first = () => {
      if (plot.dataset.drawn) return;
      plot.dataset.drawn = "true";
      pictures.push(figure(plot, described));
    };
    if (!around || around.open) first();
    else around.addEventListener("toggle", () => { if (around.open) first(); });
  }
};
