// Whom the model serves: accuracy by class and over clients, one line per method of the comparison.
const meanOf = (lists) => lists[0].map((_, place) => {
  const values = lists.map((list) => list[place]).filter((value) => value !== null);
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
});

function showServed() {
  const lines = (panelNow()?.lines ?? []).map((line, mark) => ({ ...line, mark, having: runsOf(line).filter((run) => run.classes) })).filter((line) => line.having.length);
  $("served").hidden = !lines.length;
  if (!lines.length) return;
  const all = lines.flatMap((line) => line.having), several = new Set(all.map((run) => run.seed)).size > 1;
  const presence = meanOf(all.map((run) => run.classes.presence)), places = presence.map((_, place) => place + 1);
  // Which classes come often depends on the seed: over several seeds a name is a place.
  const names = presence.map((_, place) => (several ? `no. ${place + 1}` : all[0].classes.names[place]));
  const shown = lines.filter((line) => !state.hidden.has(line.label)), times = (values) => values.map((value) => (value === null ? null : 100 * value));
  charts.classes ??= new Chart($("classes"), "Test accuracy by class in %");
  charts.classes.show(shown.map((line) => ({ ...line, x: places, y: times(meanOf(line.having.map((run) => run.classes.accuracy))) })), {
    height: 260, xName: "class", xFormat: (place) => `${names[place - 1]}, there with ${percent(presence[place - 1])}`, xRange: [0.5, places.length + 0.5],
    xTicks: places.map((value) => ({ value, lines: [names[value - 1], percent(presence[value - 1])] })),
  });
  charts.spread ??= new Chart($("spread"), "Share of clients with at most this test accuracy");
  const spread = shown.map((line) => ({ ...line, mark: undefined, having: line.having.filter((run) => run.spread) })).filter((line) => line.having.length);
  charts.spread.show(spread.map((line) => {
    const values = times(meanOf(line.having.map((run) => run.spread)));
    return { ...line, x: values, y: values.map((_, place) => (100 * place) / (values.length - 1)) };
  }), { height: 260, xName: "test accuracy of a client in %", xFormat: (value) => number(value, 3), format: (value) => `${number(value, 3)} %`, yRange: [0, 102] });
}
