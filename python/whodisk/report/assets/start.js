// Draws every picture whose place is on the page.

const place = (name) => document.getElementById(name);

startTheme();
startCopying();
if (place("heatmap")) pictures.push(heatmap(place("heatmap"), place("heatmap-controls"), report.heatmap));
if (place("nines")) pictures.push(nines(place("nines"), place("nines-controls"), report.nines));
if (place("waterfall")) pictures.push(waterfall(place("waterfall"), place("worst"), report.waterfalls));
if (report.figures) startFigures(report.figures);
if (report.operations) startStacks();
matchMedia("(max-width: 720px)").addEventListener("change", drawAll);
root.dataset.drawn = "true";
