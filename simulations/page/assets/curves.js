// Loss and accuracy of a comparison: one line per method, seeds as a band, a legend that switches.
const MEASURES = [["train_loss", "Training loss"], ["test_loss", "Test loss"], ["train_score", "Training"], ["test_score", "Test"]];
const curveCharts = new Map();

const panelNow = () => state.panels[state.panel];
const shownLines = () => (panelNow()?.lines ?? []).filter((line) => !state.hidden.has(line.label));
const runsOf = (line) => line.runs.map((id) => state.runs.get(id)).filter(Boolean);

// The mean where all seeds have a value, and beyond that each seed by itself, thin.
function seriesOf(line, key) {
  const seeds = runsOf(line).map((run) => ({ x: run.curves.round ?? [], y: run.curves[key] })).filter((seed) => seed.y);
  if (!seeds.length) return [];
  if (seeds.length === 1) return [{ ...line, ...seeds[0] }];
  const tables = seeds.map((seed) => new Map(seed.x.map((round, place) => [round, seed.y[place]])));
  const common = seeds[0].x.filter((round) => tables.every((table) => table.has(round)));
  const mean = { ...line, x: common, y: [], low: [], high: [] };
  for (const round of common) {
    const values = tables.map((table) => table.get(round)).filter((value) => value !== null);
    const middle = values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
    const std = values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1)) : null;
    mean.y.push(middle);
    mean.low.push(std === null ? null : middle - std);
    mean.high.push(std === null ? null : middle + std);
  }
  const end = common.at(-1) ?? 0;
  const rest = seeds.map((seed, nth) => {
    const from = seed.x.findIndex((round) => round > end);
    return from < 0 ? null : { ...line, label: `${line.label}, seed ${runsOf(line)[nth].seed}`, thin: true, x: seed.x.slice(from), y: seed.y.slice(from) };
  });
  return [mean, ...rest.filter(Boolean)];
}

// The moving average of the plots: over 3 % of the rounds, half of them to either side.
function smoothed(line) {
  const rounds = Math.max(...runsOf(line).map((run) => run.rounds ?? 0)), half = (0.03 * rounds) / 2;
  const near = (values, round) => {
    const some = values.filter((value, place) => value !== null && Math.abs(line.x[place] - round) <= half);
    return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
  };
  const over = (values) => values && line.x.map((round) => near(values, round));
  return { ...line, y: over(line.y), low: over(line.low), high: over(line.high) };
}

function showCurves() {
  const panel = panelNow();
  $("curves").hidden = !panel;
  if (!panel) return;
  keyed($("panel"), state.panels, (one) => one.title, (one) => el("option", {}, one.title), (option, one) => { option.value = one.title; });
  $("panel").value = panel.title;
  $("panel-label").hidden = state.panels.length < 2;
  showLegend(panel);
  const scored = panel.metric.replace(/^./, (first) => first.toUpperCase());
  const measures = MEASURES.map(([key, name]) => [key, key.endsWith("score") ? `${name} ${panel.metric}${panel.percent ? " in %" : ""}` : name, key.endsWith("score")]);
  const there = measures.filter(([key]) => panel.lines.some((line) => runsOf(line).some((run) => run.curves[key])));
  const host = $("curves").querySelector(".charts");
  keyed(host, there, ([key]) => key, ([key, name]) => {
    const place = el("div"), figure = el("figure", { "data-measure": key }, el("figcaption", {}, name), place);
    curveCharts.set(key, new Chart(place, name));
    return figure;
  }, (figure, [key, name, score]) => {
    keep(figure.firstChild, name);
    const chart = curveCharts.get(key);
    chart.label = name;
    const scale = score && panel.percent ? 100 : 1, times = (values) => values?.map((value) => (value === null ? null : scale * value));
    const series = shownLines().flatMap((line) => seriesOf(line, key)).map((one) => ({ ...one, y: times(one.y), low: times(one.low), high: times(one.high) }));
    chart.show(state.smooth ? series.map(smoothed) : series, { log: state.log, focus: score && panel.percent ? "rises" : "falls" });
  });
  if (!there.length) host.replaceChildren(el("p", { class: "hint" }, `No evaluation yet: ${scored} and loss appear with the first one.`));
  if ($("numbers").parentNode.open) showNumbers();
}

function showLegend(panel) {
  keyed($("curves").querySelector(".legend"), panel.lines, (line) => `${line.label} ${line.colour}`, (line) =>
    el("button", { type: "button", onclick: () => { state.hidden.has(line.label) ? state.hidden.delete(line.label) : state.hidden.add(line.label); showComparison(); } }),
  (button, line) => {
    const seeds = line.runs.length > 1 ? ` (${line.runs.length} seeds)` : "";
    const diverged = runsOf(line).filter((run) => run.status === "diverged").length;
    button.replaceChildren(swatch(line), `${line.label}${seeds}${diverged ? `, ${diverged} diverged` : ""}`);
    button.setAttribute("aria-pressed", String(!state.hidden.has(line.label)));
    button.dataset.label = line.label;
  });
}

function showNumbers() {
  const keys = MEASURES.map(([key]) => key), head = ["run", "round", ...keys.map((key) => key.replace("_", " ").replace("score", panelNow().metric))];
  const rows = shownLines().flatMap((line) => runsOf(line)).flatMap((run) => (run.curves.round ?? []).map((round, place) =>
    el("tr", { "data-run": run.id }, el("td", {}, run.id), el("td", { class: "number" }, String(round)),
      ...keys.map((key) => el("td", { class: "number" }, number(run.curves[key]?.[place] ?? null, 8))))));
  $("numbers").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...head.map((name, place) => el("th", { scope: "col", class: place ? "number" : null }, name)))), el("tbody", {}, ...rows)));
}

function startCurves() {
  $("panel").addEventListener("change", () => { state.panel = $("panel").selectedIndex; showComparison(); });
  $("log").addEventListener("change", () => { state.log = $("log").checked; showCurves(); });
  $("smooth").addEventListener("change", () => { state.smooth = $("smooth").checked; showCurves(); });
  $("numbers").parentNode.addEventListener("toggle", () => panelNow() && showNumbers());
  redraws.push(() => panelNow() && showLegend(panelNow()));
}
