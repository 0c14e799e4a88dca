// Weights: ω against 1/p, their histogram, and one client's history.
let details = null, clients = {}, scatterBox = null;
const charts = {};

const nameOf = (client) => (details?.nodes?.[client] ? `node ${details.nodes[client].id}` : `client ${client}`);
const learnedLook = () => lookOf(state.run) ?? { colour: "#0072B2", dashes: [], label: "ω" };

function weightsNow() {
  if (clients.weight) return clients.weight;
  const nodes = details?.nodes?.filter((node) => node.weight !== undefined) ?? [];
  return nodes.length ? Float32Array.from(nodes, (node) => node.weight) : null;
}

function showWeights() {
  const weights = weightsNow(), run = state.runs.get(state.run);
  $("weights").hidden = !weights && !raster.clients;
  if ($("weights").hidden) return;
  const p = clients.probability, known = Boolean(weights && p);
  $("scatter-figure").hidden = !known;
  $("histogram").parentNode.hidden = !weights;
  keep($("weights-note"), weights
    ? `A client multiplies its update by ω, which it learns from its own participation; 1/p would make up exactly for how often it comes.${run?.status === "running" && clients.weight ? " As of the last checkpoint." : ""}`
    : "This method learns no weights: all that clients send counts the same, or by what the server knows.");
  if (known) drawScatter();
  if (weights) showHistogram(weights);
  $("client-number").max = Math.max(0, (raster.clients || weights?.length || 1) - 1);
  showClient();
}

const span = (values) => {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return low <= high ? [low, high] : [1, 1];
};

function drawScatter() {
  const canvas = $("scatter"), ratio = fit(canvas), context = canvas.getContext("2d"), weights = weightsNow(), p = clients.probability;
  if (!canvas.width) return;
  const inverse = p.map((value) => 1 / Math.max(value, 1e-6)), [x0, x1] = span(inverse), [w0, w1] = span(weights);
  const low = Math.min(x0, w0) / 1.15, right = x1 * 1.15, top = Math.max(w1, Math.min(x1, w1 * 2)) * 1.15;
  const box = { left: 52 * ratio, right: canvas.width - 12 * ratio, top: 8 * ratio, bottom: canvas.height - 34 * ratio };
  const x = (value) => box.left + (Math.log(value / low) / Math.log(right / low)) * (box.right - box.left);
  const y = (value) => box.bottom - (Math.log(value / low) / Math.log(top / low)) * (box.bottom - box.top);
  scatterBox = { x, y, inverse, weights, ratio };
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = `${11.5 * ratio}px system-ui, sans-serif`;
  context.lineWidth = ratio;
  for (const [axis, end] of [["x", right], ["y", top]]) for (const tick of ticks(low, end, 5, true)) {
    context.strokeStyle = ink("--soft");
    context.fillStyle = ink("--muted");
    context.textAlign = axis === "x" ? "center" : "right";
    context.beginPath();
    if (axis === "x") { context.moveTo(x(tick), box.top); context.lineTo(x(tick), box.bottom); context.fillText(number(tick), x(tick), box.bottom + 15 * ratio); }
    else { context.moveTo(box.left, y(tick)); context.lineTo(box.right, y(tick)); context.fillText(number(tick), box.left - 6 * ratio, y(tick) + 4 * ratio); }
    context.stroke();
  }
  context.textAlign = "center";
  context.fillText("1/p", (box.left + box.right) / 2, canvas.height - 4 * ratio);
  context.strokeStyle = ink("--muted");
  context.setLineDash([6 * ratio, 4 * ratio]);
  context.beginPath();
  context.moveTo(x(low), y(low));
  context.lineTo(x(Math.min(right, top)), y(Math.min(right, top)));
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = shade(learnedLook().colour);
  context.globalAlpha = weights.length > 5000 ? 0.15 : 0.7;
  const size = (weights.length > 5000 ? 2 : 5) * ratio;
  for (let client = 0; client < weights.length; client++) context.fillRect(x(inverse[client]) - size / 2, y(weights[client]) - size / 2, size, size);
  context.globalAlpha = 1;
  if (state.client !== null && weights[state.client] !== undefined) {
    context.strokeStyle = ink("--ink");
    context.lineWidth = 2 * ratio;
    context.beginPath();
    context.arc(x(inverse[state.client]), y(weights[state.client]), 7 * ratio, 0, 7);
    context.stroke();
  }
  canvas.setAttribute("aria-label", `Weights of ${grouped(weights.length)} clients from ${number(w0, 3)} to ${number(w1, 3)}, 1/p from ${number(x0, 3)} to ${number(x1, 3)}; arrow keys choose a client`);
}

function showHistogram(weights) {
  const [low, high] = span(weights), bins = 24, step = (Math.log(high * 1.0001) - Math.log(low)) / bins || 1, counts = new Array(bins).fill(0);
  for (const weight of weights) counts[Math.min(bins - 1, Math.floor((Math.log(weight) - Math.log(low)) / step))]++;
  const edges = counts.flatMap((_, nth) => [Math.exp(Math.log(low) + nth * step), Math.exp(Math.log(low) + (nth + 1) * step)]);
  charts.histogram ??= new Chart($("histogram"), "How many clients have which weight");
  charts.histogram.show([{ ...learnedLook(), dashes: [], label: "clients", x: edges, y: counts.flatMap((count) => [count, count]) }],
    { xLog: high > low, xName: "ω", xFormat: (value) => number(value, 3), yRange: [0, Math.max(...counts) * 1.08], xRange: high > low ? null : [low - 1, high + 1] });
}

// Algorithm 2 for one client: ω is the mean length of its intervals, closed by taking part or after K rounds.
function weightPath(client, cutoff) {
  const found = [];
  let closed = 0, elapsed = 0, weight = 1;
  for (let round = 0; round < raster.rounds; round++) {
    found.push(weight);
    elapsed++;
    if (raster.cells[round * raster.clients + client] === COUNTED || elapsed === cutoff) {
      closed++;
      elapsed = 0;
      weight = (round + 1) / closed;
    }
  }
  return found.concat(weight);
}

function chooseClient(client) {
  state.client = client;
  $("client-number").value = client;
  showWeights();
}

function showClient() {
  const client = state.client, place = $("client-path");
  place.hidden = client === null;
  if (client === null) return keep($("client-read"), "Choose one by its number, or click it in the raster or among the weights.");
  const p = clients.probability?.[client], weight = weightsNow()?.[client], accuracy = clients.accuracy?.[client], parts = [nameOf(client)];
  if (p !== undefined) parts.push(`p = ${number(p, 3)}, 1/p = ${number(1 / p, 3)}`);
  if (weight !== undefined) parts.push(`ω = ${number(weight, 4)}`);
  let counted = 0;
  for (let at = client; at < raster.cells.length; at += raster.clients) if (raster.cells[at] === COUNTED) counted++;
  if (raster.clients > client) parts.push(`counted in ${grouped(counted)} of ${grouped(raster.rounds - raster.first + 1)} rounds`);
  if (accuracy !== undefined && !Number.isNaN(accuracy)) parts.push(`test accuracy ${percent(accuracy)}`);
  if (client >= (raster.clients || Infinity)) return keep($("client-read"), `There is no client ${client}.`);
  keep($("client-read"), parts.join(" · "));
  const whole = raster.first === 1 && raster.rounds && details.cutoff !== null && details.cutoff !== undefined;
  place.hidden = !whole;
  if (!whole) return;
  const path = weightPath(client, details.cutoff), step = Math.ceil(path.length / 1500), kept = path.map((_, round) => round).filter((round) => round % step === 0 || round === path.length - 1);
  charts.client ??= new Chart(place, "Weight of one client over rounds");
  const lines = [{ ...learnedLook(), label: "ω", dashes: [], x: kept, y: kept.map((round) => path[round]) }];
  if (p !== undefined) lines.push({ colour: "#000000", dashes: [4, 3], label: "1/p", x: [0, path.length - 1], y: [1 / p, 1 / p] });
  charts.client.show(lines, { height: 190, xName: "after round" });
}

function startClients() {
  const canvas = $("scatter");
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect(), { x, y, inverse, weights, ratio } = scatterBox;
    const [px, py] = [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    let best = 0, nearest = Infinity;
    weights.forEach((weight, client) => {
      const distance = Math.hypot(x(inverse[client]) - px, y(weight) - py);
      if (distance < nearest) [best, nearest] = [client, distance];
    });
    chooseClient(best);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !raster.order) return;
    event.preventDefault();
    const row = state.client === null ? -1 : raster.order.indexOf(state.client);
    chooseClient(raster.order[Math.max(0, Math.min(raster.clients - 1, row + step))]);
  });
  $("client-number").addEventListener("input", () => { if ($("client-number").value !== "") { state.client = Math.max(0, Math.floor(Number($("client-number").value))); showWeights(); } });
  new ResizeObserver(() => !$("scatter-figure").hidden && !$("weights").hidden && drawScatter()).observe(canvas);
  redraws.push(() => details && showWeights());
}
