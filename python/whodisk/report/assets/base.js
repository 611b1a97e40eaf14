"use strict";
// What every picture shares: the data, units, colours, controls, theme. Each picture registers a
// function in `pictures`; `drawAll` calls them at the start and whenever the theme changes.

const report = JSON.parse(document.getElementById("report-data").textContent);
const pictures = [];
const root = document.documentElement;

const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

// Plotly reads a little HTML inside labels; names from the case must stay text.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const significant = (value) => {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const text = value.toFixed(digits);
  return digits ? text.replace(/\.?0+$/, "") : text;
};

const duration = (ns) => {
  if (ns < 0) return "\u2212" + duration(-ns);
  for (const [limit, unit, name] of [[999.5, 1, "ns"], [999.5e3, 1e3, "us"], [999.5e6, 1e6, "ms"]]) {
    if (ns < limit) return `${significant(ns / unit)} ${name}`;
  }
  return `${significant(ns / 1e9)} s`;
};

const count = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");

// A moment in the case, with as many digits as the step between moments needs.
const moment = (ns, step) => (ns / 1e9).toFixed(Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(step)))))
  + " s";

// Share of operations at or below a latency, with as many nines as there are and `more` digits.
const percent = (above, more = 0) => {
  if (above <= 0) return "100 %";
  const digits = Math.max(0, Math.ceil(-Math.log10(above) - 1e-9) - 2) + more;
  return (100 - above * 100).toFixed(digits) + " %";
};

// Ticks of a logarithmic time axis: decades, and 2 and 5 between where there is room.
const timeTicks = (low, high) => {
  const wide = Math.log10(high / low) > 3.2;
  const values = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k += 1) {
    for (const m of wide ? [1] : [1, 2, 5]) values.push(m * 10 ** k);
  }
  return { tickvals: values, ticktext: values.map(duration) };
};

// A finger scrolls the page, so it must not zoom the picture.
const touch = matchMedia("(pointer: coarse)").matches;

const axis = (more) => ({
  gridcolor: color("rule"), linecolor: color("rule"), zeroline: false, ticks: "outside", ticklen: 4,
  tickcolor: color("rule"), tickfont: { color: color("muted"), size: 11.5 }, automargin: false, ...more,
});

const axisTitle = (text) => ({ text, standoff: 8, font: { size: 12, color: color("muted") } });

const layout = (more) => ({
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
  font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("ink") },
  hoverlabel: {
    bgcolor: color("card"), bordercolor: color("faint"), align: "left", namelength: 0,
    font: { color: color("ink"), size: 12.5 },
  },
  dragmode: touch ? false : "zoom", ...more,
});

const config = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false, showAxisDragHandles: false };

const draw = (plot, traces, shape) => Plotly.react(plot, traces, shape, config);

// Zoom that the picture itself keeps, so that it may draw finer bins for a smaller range.
const onZoom = (plot, view, redraw) => {
  plot.on("plotly_relayout", (change) => {
    let changed = false;
    for (const name of Object.keys(view)) {
      if (`${name}.range[0]` in change) {
        view[name] = [change[`${name}.range[0]`], change[`${name}.range[1]`]];
        changed = true;
      }
    }
    if (changed) redraw();
  });
  plot.on("plotly_doubleclick", () => {
    for (const name of Object.keys(view)) view[name] = null;
    redraw();
  });
};

const element = (name, attributes, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

const buttons = (options, value, pick) => {
  const set = element("span", { class: "set", role: "group" });
  for (const [key, label] of options) {
    const button = element("button", { type: "button", "aria-pressed": String(key === value), "data-key": key }, label);
    button.addEventListener("click", () => {
      for (const other of set.children) other.setAttribute("aria-pressed", String(other === button));
      pick(key);
    });
    set.append(button);
  }
  return set;
};

const menu = (options, value, pick) => {
  const select = element("select", {}, ...options.map(([key, label]) => element("option", { value: key }, label)));
  select.value = value;
  select.addEventListener("change", () => pick(select.value));
  return select;
};

// One labelled choice; nothing where there is nothing to choose.
const choice = (label, options, value, pick) => {
  if (options.length < 2) return "";
  const control = options.length <= 5 ? buttons(options, value, pick) : menu(options, value, pick);
  control.setAttribute("aria-label", label);
  return element("span", { class: "choice" }, label, control);
};

const hint = () => element("span", { class: "hint" }, touch ? "tap for numbers" : "drag to zoom, double-click to reset");

const distinct = (rows, key) => [...new Set(rows.map((row) => row[key]))];
const named = (names) => names.map((name) => [name, name === "" ? "(none)" : name]);

const setTheme = (name) => {
  root.dataset.theme = name;
  const button = document.getElementById("theme");
  if (button) button.textContent = name === "dark" ? "Light" : "Dark";
};

const drawAll = () => pictures.forEach((picture) => picture());

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const startTheme = () => {
  setTheme(prefersDark.matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  prefersDark.addEventListener("change", () => { setTheme(prefersDark.matches ? "dark" : "light"); drawAll(); });
  let before = "light";
  addEventListener("beforeprint", () => { before = root.dataset.theme; setTheme("light"); drawAll(); });
  addEventListener("afterprint", () => { setTheme(before); drawAll(); });
};

const copyButton = (button) => button.addEventListener("click", async () => {
  const text = button.parentElement.querySelector("pre");
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(text);
    button.textContent = "Selected";
  }
});

const startCopying = () => document.querySelectorAll("button[data-copy]").forEach(copyButton);
